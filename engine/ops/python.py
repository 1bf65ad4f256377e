"""Ops without a schema: functions, methods, leaf modules, higher-order ops."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.fx.node import _get_qualified_name, _side_effectful_functions

from apportion.engine.ops.op import ASSERTIONS, Op, OpArgument
from apportion.engine.ops.schemas import schema_op, schemas_of

__all__ = [
    "class_name",
    "function_name",
    "function_op",
    "higher_order_name",
    "higher_order_op",
    "method_op",
    "module_op",
    "python_name",
]


_PUBLIC_MODULES: Final = {
    "_operator.": "operator.",
    "torch._C._nn.": "torch.nn.functional.",
    "torch.functional.": "torch.",
}


def function_name(target: Any) -> str:
    """The public dotted name of a function: `torch.relu`, `operator.add`, `torch.nn.functional.gelu`."""
    try:
        name = _get_qualified_name(target)
    except Exception:  # an object that was called, without a name of its own
        name = f"{type(target).__module__}.{type(target).__qualname__}"
    for private, public in _PUBLIC_MODULES.items():
        if name.startswith(private):
            name = public + name.removeprefix(private)
    return name if "." in name else f"builtins.{name}"


def _split(name: str) -> tuple[str, str]:
    namespace, _, base = name.rpartition(".")
    return namespace, base


# Operators of Python that change their first operand.
_IN_PLACE_OPERATORS: Final = frozenset(name for name in dir(operator) if name.startswith("i")) - {
    "index",
    "indexOf",
    "inv",
    "invert",
    "is_",
    "is_not",
    "itemgetter",
}


def function_op(target: Any) -> Op:
    """The op that a call of a plain function is."""
    name = function_name(target)
    namespace, base = _split(name)
    mutable = namespace == "operator" and (base in _IN_PLACE_OPERATORS or base in ("setitem", "delitem"))
    mutable = mutable or (namespace.startswith("torch") and _is_in_place_name(base))
    arguments = _signature_of(target, base)
    twin = _aten_op(base)
    returns = twin.returns if twin is not None and namespace.startswith("torch") else ()
    random = _is_random_base(base)
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload="",
        style="function",
        arguments=arguments,
        returns=returns,
        is_mutable=mutable,
        is_random=random,
        has_effects=mutable or random or target in _side_effectful_functions or base in ASSERTIONS,
        writes=(arguments[0].name,) if mutable and arguments else (),
        aliases=_aliases(twin, arguments, mutable),
    )


def _is_in_place_name(base: str) -> bool:
    return base.endswith("_") and not base.startswith("_")


_RANDOM_WORDS: Final = ("dropout", "rand", "bernoulli", "multinomial", "normal_", "uniform_", "rrelu")


def _is_random_base(base: str) -> bool:
    return base.startswith(_RANDOM_WORDS) or base.endswith("dropout")


def _signature_of(target: Any, base: str) -> tuple[OpArgument, ...]:
    """Arguments by Python's signature where there is one, else those of the aten op of the same name."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return _arguments_of(_aten_op(base))
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values()):
        return _arguments_of(_aten_op(base))
    return tuple(_parameter(p) for p in signature.parameters.values() if p.name != "self")


def _aten_op(base: str) -> Op | None:
    """The aten op of the same name, the plainest overload of it."""
    overloads = schemas_of("aten", base)
    preferred = next((overloads[o] for o in ("default", "Tensor", *overloads) if o in overloads), None)
    return None if preferred is None else schema_op(preferred, (), False)


def _arguments_of(op: Op | None) -> tuple[OpArgument, ...]:
    return () if op is None else op.arguments


def _aliases(twin: Op | None, arguments: tuple[OpArgument, ...], mutable: bool) -> tuple[str, ...]:
    """The arguments that a result may share memory with: what the aten op says; without one, the first."""
    first = (arguments[0].name,) if arguments else ("arg0",)
    return first if mutable or twin is None or twin.aliases else ()


def _parameter(parameter: inspect.Parameter) -> OpArgument:
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if has_default else None
    return OpArgument(
        parameter.name,
        "Any",
        parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        has_default,
        tuple(default) if isinstance(default, list) else default,
    )


def method_op(method: str) -> Op:
    """The op that a call of a method of `Tensor` is."""
    twin = _aten_op(method)
    arguments = _arguments_of(twin)
    mutable = _is_in_place_name(method) or method == "__setitem__"
    random = _is_random_base(method)
    return Op(
        name=f"Tensor.{method}",
        namespace="Tensor",
        base=method,
        overload="",
        style="method",
        arguments=arguments,
        returns=() if twin is None else twin.returns,
        is_mutable=mutable,
        is_random=random,
        has_effects=mutable or random,
        writes=(arguments[0].name if arguments else "arg0",) if mutable else (),
        aliases=_aliases(twin, arguments, mutable),
    )


def class_name(kind: type) -> str:
    """The name of a module class: `nn.Linear` for PyTorch's own, else its dotted path."""
    if kind.__module__.startswith("torch.nn."):
        return f"nn.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


# Modules that may give back their input itself, or a view of it.
_HANDING_ON: Final = frozenset({"Identity", "Flatten", "Unflatten"})


def module_op(kind: type[torch.nn.Module]) -> Op:
    """The op that a call of a leaf module of that class is."""
    name = class_name(kind)
    namespace, base = _split(name)
    try:
        parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    random = "Dropout" in base or base == "RReLU"
    # Batch norms and the like keep running statistics; what a module of someone else's does is not known here.
    effects = random or namespace != "nn" or "BatchNorm" in base or "InstanceNorm" in base
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload="",
        style="module",
        arguments=tuple(_parameter(p) for p in named),
        is_random=random,
        has_effects=effects,
        aliases=(named[0].name,) if named and (namespace != "nn" or base in _HANDING_ON or random) else (),
    )


# Argument names of the higher-order ops that graphs contain, where their Python signature hides them.
_HIGHER_ORDER_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "switch": ("index", "branches", "operands"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "while_loop_stack_output": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    "map_impl": ("f", "xs", "pos_args"),
    "invoke_subgraph": ("subgraph", "identifier"),
    "wrap_with_set_grad_enabled": ("enable_grad", "wrapped_func"),
    "wrap_with_autocast": ("device_type", "dtype", "enabled", "cache_enabled", "wrapped_func"),
    "wrap": ("wrapped_func",),
    "tag_activation_checkpoint": ("function",),
    "wrap_activation_checkpoint": ("function",),
    "hints_wrapper": ("body_fn", "operands"),
    "with_effects": ("token", "op"),
    "executorch_call_delegate": ("lowered_module",),
    "call_torchbind": ("obj", "method"),
}
_EFFECTFUL_HIGHER_ORDER: Final = frozenset(
    {"with_effects", "print", "call_torchbind", "run_and_save_rng_state", "run_with_rng_state", "_export_tracepoint"}
)


def higher_order_name(target: Any) -> str:
    """A higher-order op's own name: `cond`."""
    return str(target.name())


def higher_order_op(target: Any) -> Op:
    """The op of a higher-order operator."""
    base = higher_order_name(target)
    names = _HIGHER_ORDER_ARGUMENTS.get(base)
    if names is None:
        try:
            parameters = list(inspect.signature(type(target).__call__).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        names = tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return Op(
        name=f"higher_order.{base}",
        namespace="higher_order",
        base=base,
        overload="",
        style="higher_order",
        arguments=tuple(OpArgument(n, "Any") for n in names),
        is_random=base in ("run_and_save_rng_state", "run_with_rng_state"),
        has_effects=base in _EFFECTFUL_HIGHER_ORDER,
    )


def python_name(target: Any) -> str:
    """The name that a graph's call of `target` has: `torch.nn.Linear` is `nn.Linear`."""
    return class_name(target) if isinstance(target, type) else function_name(target)
