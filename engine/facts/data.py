"""Facts about data: the contents of constants, relations between values, the cost of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import flop_registry

from apportion.engine.facts.value import Value
from apportion.engine.values import Dim, Kleene, Unknown, k_all, k_any, k_compare

__all__ = [
    "FOLDED_ELEMENTS",
    "all_zero",
    "broadcastable",
    "constant_data",
    "depends_on",
    "flops",
    "max_value",
    "min_value",
    "same_qparams",
]

FOLDED_ELEMENTS: Final = 65536
"""Creation ops are computed up to so many elements."""

# --- contents --------------------------------------------------------------------------------------------------


def constant_data(value: Any) -> torch.Tensor | Unknown:
    """The real data of a constant, or of an op that creates a tensor from literals; unknown for fake weights."""
    if not isinstance(value, Value):
        return Unknown("no tensor of the graph")
    found = value.__dict__.get("constant_data")
    if found is None:
        found = value.__dict__["constant_data"] = _constant_data(value)
    return cast("torch.Tensor | Unknown", found)


def _constant_data(value: Value) -> torch.Tensor | Unknown:
    from apportion.engine.facts.kinds import is_kind

    if value.is_call:
        return _created(value)
    if is_kind(value, "constant") is not True:
        return Unknown(f"{value.name} is no constant")
    program = value.graph.program
    tensors = [program.tensor_of(origin) for origin in value.graph.origins(value)]
    first = tensors[0]
    if first is None or any(t is not first for t in tensors):
        return Unknown(
            f"{value.name} has no data in the program" if first is None else f"{value.name} is several constants"
        )
    return _real(first, value.name)


def _real(tensor: torch.Tensor, name: str) -> torch.Tensor | Unknown:
    if isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
        return Unknown(f"{name} has no data: its values are fake")
    return tensor.detach()


_CREATORS: Final = frozenset(
    {"full", "zeros", "ones", "arange", "linspace", "logspace", "eye", "scalar_tensor", "tril_indices", "triu_indices"}
)
_FILLS: Final[Mapping[str, int | str]] = {
    "full_like": "fill_value",
    "new_full": "fill_value",
    "zeros_like": 0,
    "new_zeros": 0,
    "ones_like": 1,
    "new_ones": 1,
}
_COPIES: Final = frozenset({"lift_fresh", "lift_fresh_copy", "detach", "detach_copy", "detach_", "alias", "alias_copy"})


def _created(value: Value) -> torch.Tensor | Unknown:
    """The result of a creation op, or of a plain copy of a constant."""
    op = value.op
    if op is None or op.namespace != "aten" or value.node in value.graph.written:
        return Unknown(f"{value.name} is no constant")
    if op.base in _COPIES:
        return constant_data(value.inputs[0]) if value.inputs else Unknown(f"{value.name} copies nothing")
    if op.base not in _CREATORS and op.base not in _FILLS:
        return Unknown(f"{value.name} is no constant")
    numel = value.numel
    if not isinstance(numel, int) or numel > FOLDED_ELEMENTS:
        return Unknown(f"{value.name} is too large to compute here ({numel} elements, at most {FOLDED_ELEMENTS})")
    fill: Any = _FILLS.get(op.base)
    if isinstance(fill, str):
        fill = value.arguments.get(fill)
    try:
        with _disable_current_modes(), torch.no_grad():
            return _run(value) if fill is None else torch.full(value.shape, fill, dtype=value.dtype)  # type: ignore[arg-type]
    except Exception as error:  # whatever an op's kernel says
        return Unknown(f"{value.name} can't be computed: {error}")


def _run(value: Value) -> torch.Tensor | Unknown:
    """Runs a creation op on the CPU."""
    if value.inputs:
        return Unknown(f"{value.name} depends on {value.inputs[0].name}")
    target: Any = value.fx.target
    overload = target if isinstance(target, OpOverload) else target._op
    kwargs = {k: torch.device("cpu") if k == "device" else v for k, v in value.fx.kwargs.items()}
    result = overload(*value.fx.args, **kwargs)
    return result if isinstance(result, torch.Tensor) else Unknown(f"{value.name} makes no tensor")


def _summary(name: str, compute: Callable[[torch.Tensor], Any]) -> Callable[[Any], Any]:
    """A number computed once from a constant's data."""

    def summary(w: Any) -> Any:
        data = constant_data(w)
        if isinstance(data, Unknown):
            return data
        cache = w.__dict__
        if name not in cache:
            try:
                with _disable_current_modes(), torch.no_grad():
                    cache[name] = compute(data)
            except Exception as error:  # dtypes without an order, tensor subclasses
                cache[name] = Unknown(f"{w.name}: {error}")
        return cache[name]

    return summary


def _number(value: torch.Tensor) -> int | float:
    number = value.item()
    return int(number) if isinstance(number, bool) else number


def _extreme(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    def compute(data: torch.Tensor) -> Any:
        return _number(function(data)) if data.numel() else Unknown("an empty tensor has no values")

    return compute


_MIN = _summary("min_value", _extreme(torch.min))
_MAX = _summary("max_value", _extreme(torch.max))
_ALL_ZERO = _summary("all_zero", lambda data: bool((data == 0).all().item()))


def min_value(w: Any) -> int | float | Unknown:
    """The smallest value of a constant."""
    return cast("int | float | Unknown", _MIN(w))


def max_value(w: Any) -> int | float | Unknown:
    """The largest value of a constant."""
    return cast("int | float | Unknown", _MAX(w))


def all_zero(w: Any) -> Kleene:
    """Whether every value of a constant is 0 (also where it has none)."""
    return cast(Kleene, _ALL_ZERO(w))


# --- relations -------------------------------------------------------------------------------------------------


def broadcastable(a: Any, b: Any) -> Kleene:
    """Whether two tensors (or lists of sizes) broadcast: aligned at the last dim, sizes are equal or one is 1."""
    first, second = _shape_of(a), _shape_of(b)
    if isinstance(first, Unknown):
        return first
    if isinstance(second, Unknown):
        return second
    return k_all(
        k_any((k_compare("==", x, y), k_compare("==", x, 1), k_compare("==", y, 1)))
        for x, y in zip(reversed(first), reversed(second), strict=False)
    )


def _shape_of(x: Any) -> tuple[int | Dim, ...] | Unknown:
    if isinstance(x, Value):
        return x.shape
    if isinstance(x, tuple):
        return x
    return () if isinstance(x, (int, float, Dim)) else Unknown("no tensor and no list of sizes")


def depends_on(a: Any, b: Any) -> Kleene:
    """Whether `a` is computed from `b` through at least one op."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return a if isinstance(a, Unknown) else cast(Unknown, b)
    if not isinstance(a, Value) or not isinstance(b, Value) or a.graph is not b.graph:
        return False
    order = a.graph.order
    goal, limit = b, order[b.node]
    seen: set[Value] = set()
    pending = list(a.inputs)
    while pending:
        value = pending.pop()
        if value is goal or (goal.element is None and value.node is goal):
            return True
        if value.node not in seen and order[value.node] > limit:
            seen.add(value.node)
            pending.extend(value.inputs)
    return False


_QUANTIZATION: Final = (
    ("scale", "scales"),
    ("zero_point", "zero_points"),
    ("axis",),
    ("group_size",),
    ("block_size",),
    ("quant_min",),
    ("quant_max",),
    ("dtype", "input_dtype", "output_dtype"),
)


def same_qparams(a: Any, b: Any) -> Kleene:
    """Whether two quantize or dequantize calls have the same scale, zero point, axis, range and integer type."""
    if not isinstance(a, Value) or not isinstance(b, Value):
        return Unknown("no quantize or dequantize op")
    verdicts = []
    for names in _QUANTIZATION:
        first, second = _first_of(a, names), _first_of(b, names)
        if names[0] == "scale" and (first is None or second is None):
            return Unknown(f"{(a if first is None else b).name} has no scale")
        verdicts.append(_same(first, second))
    return k_all(verdicts)


def _first_of(call: Value, names: tuple[str, ...]) -> Any:
    return next((call.arguments[n] for n in names if n in call.arguments), None)


def _same(a: Any, b: Any) -> Kleene:
    if isinstance(a, Value) and isinstance(b, Value):
        if a is b:
            return True
        first, second = constant_data(a), constant_data(b)
        if isinstance(first, Unknown) or isinstance(second, Unknown):
            return Unknown(f"whether {a.name} and {b.name} hold the same is not known")
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(a, Value) or isinstance(b, Value):
        return _same_as_literal(*((a, b) if isinstance(a, Value) else (b, a)))
    return k_compare("==", a, b)


def _same_as_literal(value: Value, literal: Any) -> Kleene:
    data = constant_data(value)
    if literal is None or not isinstance(literal, (int, float)):
        return False
    if isinstance(data, Unknown):
        return data
    return data.numel() == 1 and k_compare("==", data.item(), literal)


# --- cost ------------------------------------------------------------------------------------------------------


def flops(n: Any) -> int | Dim | Unknown:
    """Floating point operations of a call, as `torch.utils.flop_counter` counts them (0 for what it doesn't count)."""
    if not isinstance(n, Value):
        return 0
    op = n.op
    if op is None or op.style != "aten":
        return 0
    own = _OWN_FLOPS.get(op.base)
    if own is not None:
        return own(n)
    packet = getattr(getattr(torch.ops, op.namespace), op.base.removesuffix("_copy"), None)
    formula = flop_registry.get(packet)
    if formula is None:
        return 0
    missing = next((v.shape for v in n.inputs if isinstance(v.shape, Unknown) and v.is_tensor is not False), None)
    if missing is not None:
        return missing
    positional = {a.name for a in op.arguments if not a.kwarg_only}
    shapes = {name: _shapes(argument) for name, argument in n.arguments.items()}
    args = [value for name, value in shapes.items() if name in positional]
    kwargs = {name: value for name, value in shapes.items() if name not in positional}
    outs = tuple(_shapes(o) for o in n.outputs)
    try:
        count = formula(*args, **kwargs, out_val=outs[0] if len(outs) == 1 else outs)
    except Exception as error:  # formulas check their shapes with assertions
        return Unknown(f"the operations of {n.name} can't be counted: {error}")
    return count if isinstance(count, (int, Dim)) else Unknown(f"the operations of {n.name} have no number")


def _shapes(argument: Any) -> Any:
    """Shapes in place of tensors: that is all that the formulas look at."""
    if isinstance(argument, Value):
        return argument.shape if argument.is_tensor is True else None
    return tuple(_shapes(a) for a in argument) if isinstance(argument, tuple) else argument


def _product(sizes: Any) -> Any:
    return math.prod(sizes)


def _contraction(of: str) -> Callable[[Value], int | Dim | Unknown]:
    """Two for each element of the output and each item summed up: the last dim of argument `of`."""

    def count(n: Value) -> int | Dim | Unknown:
        operand = n.arguments.get(of)
        if not isinstance(operand, Value) or isinstance(operand.shape, Unknown) or isinstance(n.numel, Unknown):
            return Unknown(f"no metadata: the shapes of {n.name}")
        return cast("int | Dim", 2 * n.numel * (operand.shape[-1] if operand.shape else 1))

    return count


def _convolution(n: Value) -> int | Dim | Unknown:
    """Two for each weight at each place: of the output, or of the input where the convolution is transposed."""
    weight, source = n.arguments.get("weight"), n.arguments.get("input")
    if not isinstance(weight, Value) or not isinstance(source, Value) or isinstance(weight.shape, Unknown):
        return Unknown(f"no metadata: the shapes of {n.name}")
    op = n.op
    transposed = (op is not None and "transpose" in op.base) or n.arguments.get("transposed") is True
    places = source.shape if transposed else n.shape
    if isinstance(places, Unknown):
        return places
    batch_and_space = (places[0], *places[2:]) if len(places) == len(weight.shape) else places[1:]
    return cast("int | Dim", 2 * _product(batch_and_space) * _product(weight.shape))


def _attention(n: Value) -> int | Dim | Unknown:
    """The two products: queries with keys, and the scores with the values."""
    query, key, value = (n.arguments.get(name) for name in ("query", "key", "value"))
    if not isinstance(query, Value) or not isinstance(key, Value) or not isinstance(value, Value):
        return Unknown(f"the operands of {n.name} are no tensors")
    q, k, v = query.shape, key.shape, value.shape
    if isinstance(q, Unknown) or isinstance(k, Unknown) or isinstance(v, Unknown):
        return Unknown(f"no metadata: the shapes of {n.name}")
    return cast("int | Dim", 2 * _product(q[:-1]) * k[-2] * (q[-1] + v[-1]))


# Ops that are taken apart before torch counts, and convolutions, whose formula reads a literal `transposed`.
_OWN_FLOPS: Final[Mapping[str, Callable[[Value], int | Dim | Unknown]]] = {
    "linear": _contraction("input"),
    "matmul": _contraction("self"),
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "convolution": _convolution,
    "_convolution": _convolution,
} | {f"{name}{n}d": _convolution for name in ("conv", "conv_transpose") for n in (1, 2, 3)}
