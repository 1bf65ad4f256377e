"""What is true of every call of an op, beyond its schema: ranks and dtypes that its kernel insists on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.lint.domains import Choice, Numbers
from apportion.engine.lint.formulas import TRUE, Compare, Formula, In, Or, Poly, both, compared, equal, same
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.ops import Op

if TYPE_CHECKING:
    from apportion.engine.lint.evaluate import Reader

__all__ = ["KEPT", "facts_of", "is_mixed", "kept_from"]

Fact = "tuple[frozenset[str], Callable[[Reader], Formula]]"

_SAME_TENSOR = frozenset(
    "relu relu6 neg clone alias contiguous detach floor ceil round trunc sign hardtanh hardswish "
    "hardsigmoid leaky_relu elu gelu silu mish square positive flip roll tril triu dropout lift_fresh_copy "
    "celu selu softplus softshrink hardshrink".split()
)
_QUANTIZE = frozenset(
    f"quantize_{kind}" for kind in ("per_tensor", "per_channel", "per_channel_group", "per_token", "affine"))
_DEQUANTIZE = frozenset(f"de{name}" for name in _QUANTIZE)
_SAME_SHAPE = _SAME_TENSOR | _QUANTIZE | _DEQUANTIZE | frozenset(
    "abs clamp "
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf erfc logical_not bitwise_not isnan isinf _softmax _log_softmax softmax log_softmax _to_copy "
    "cumsum cumprod".split()
)
_SAME_RANK = _SAME_SHAPE | frozenset(
    "permute transpose t slice narrow pad constant_pad_nd reflection_pad2d replication_pad2d max_pool2d avg_pool2d "
    "avg_pool1d max_pool1d avg_pool3d max_pool3d _adaptive_avg_pool2d adaptive_avg_pool2d upsample_nearest2d "
    "upsample_bilinear2d pixel_shuffle convolution index_select".split()
)
_SAME_DTYPE = _SAME_TENSOR | frozenset(
    "view reshape _unsafe_view permute transpose t unsqueeze squeeze expand slice select narrow flatten "
    "constant_pad_nd max_pool2d avg_pool2d max_pool1d avg_pool1d upsample_nearest2d upsample_bilinear2d convolution "
    "repeat unfold index_select gather pixel_shuffle linear mm bmm split chunk unbind diagonal".split()
)
KEPT: Mapping[str, frozenset[str]] = {
    "dtype": _SAME_DTYPE,
    "rank": _SAME_RANK,
    "shape": _SAME_SHAPE,
    "numel": _SAME_SHAPE,
}
"""Attributes of a result that are those of the op's first tensor, and the ops (all overloads) of which that is true."""


def kept_from(skeleton: Skeleton, place: str, attribute: str) -> str:
    """The place whose attribute it is: the first argument's, where the op keeps it."""
    bases = KEPT[attribute]
    for _ in range(64):
        names = skeleton.ops.get(place)
        if not names or not all(_base(name) in bases for name in names):
            return place
        firsts = {op.arguments[0].name for name in names if (op := skeleton.schema(name)) and op.arguments}
        if len(firsts) != 1:
            return place
        place = skeleton.find(f"{place}.{next(iter(firsts))}")
    return place


def _base(name: str) -> str:
    parts = name.split(".")
    return parts[1].removesuffix("_copy") if len(parts) == 3 and parts[0] in _NAMESPACES else ""


_NAMESPACES = frozenset({"aten", "quantized_decomposed", "torchao"})


def facts_of(skeleton: Skeleton, place: str, names: frozenset[str] | None = None) -> Iterator[Any]:
    """(triggers, condition) pairs about the node at a place, one of `names` or else of all ops that it can be; those
    without triggers hold from the start."""
    names = names or skeleton.ops.get(place)
    family = _family(names) if names else None
    if names and family is not None:
        yield from family(_Node(skeleton, place, skeleton.schema(min(names))))


def is_mixed(names: frozenset[str] | None) -> bool:
    """Do more facts hold of some of the ops than of all of them?"""
    return names is not None and len(names) > 1 and _family(names) is None and any(
        _base(name) in _FAMILIES for name in names)


def _family(names: frozenset[str]) -> Callable[[_Node], Iterator[Any]] | None:
    families = {_FAMILIES.get(_base(name)) for name in names}
    return families.pop() if len(families) == 1 else None


class _Node:
    """Paths of a node and of its arguments."""

    def __init__(self, skeleton: Skeleton, place: str, op: Op | None) -> None:
        self.skeleton, self.place, self.op = skeleton, place, op

    def of(self, argument: str, attribute: str) -> str:
        """The path of an attribute of a tensor argument ("" is the result)."""
        place = self.skeleton.find(f"{self.place}.{argument}" if argument else self.place)
        if attribute in KEPT:
            place = kept_from(self.skeleton, place, attribute)
        elif attribute.startswith("shape["):
            place = kept_from(self.skeleton, place, "shape")
        return f"{place}/{attribute}"

    def number(self, argument: str) -> str:
        """The path of a number argument."""
        return f"{self.skeleton.find(f'{self.place}.{argument}')}/value:int"

    def dtype(self, argument: str) -> str:
        """The path of a dtype argument."""
        return f"{self.skeleton.find(f'{self.place}.{argument}')}/value:dtype"

    def item(self, argument: str, index: int) -> str:
        """The path of an item of a list of numbers."""
        return f"{self.skeleton.find(f'{self.place}.{argument}')}[{index}]/value:int"

    def length(self, argument: str) -> str:
        """The path of the length of a list argument."""
        return f"{self.skeleton.find(f'{self.place}.{argument}')}/len:len"


def _always(formula: Formula) -> Any:
    return frozenset(), lambda reader: formula


def _once(path: str, formula: Formula) -> Any:
    """A fact that is worth reading once something is said of a path."""
    return frozenset({path}), lambda reader: formula


def _path(var: str) -> Poly:
    return Poly.path(var)


def _dtypes(node: _Node, *arguments: str) -> Iterator[Any]:
    first = node.of(arguments[0], "dtype")
    for other in arguments[1:]:
        second = node.of(other, "dtype")
        if second != first:
            yield _always(same(first, second))


def _rank(node: _Node, argument: str, low: int, high: int) -> Any:
    return _always(In(node.of(argument, "rank"), Numbers.of(low, high)))


def _convolution(node: _Node) -> Iterator[Any]:
    yield _rank(node, "input", 3, 5)
    yield _rank(node, "weight", 3, 5)
    yield _always(compared(_path(node.of("input", "rank")), "==", _path(node.of("weight", "rank"))))
    yield from _dtypes(node, "input", "weight")
    yield _always(In(node.number("groups"), Numbers.of(1, math.inf)))
    lists = ("stride", "padding", "dilation", "output_padding")
    for name in lists:
        yield _always(compared(_path(node.length(name)), "==", _path(node.of("weight", "rank")).plus(Poly((), -2))))
    for i in range(3):
        yield _always(In(node.item("stride", i), Numbers.of(1, math.inf)))
        yield _always(In(node.item("dilation", i), Numbers.of(1, math.inf)))
        yield _always(In(node.item("padding", i), Numbers.of(0, math.inf)))
    bias = f"{node.skeleton.find(f'{node.place}.bias')}/present"
    yield _always(Or((equal(bias, [False]), both(equal(bias, [True]), In(node.of("bias", "rank"), Numbers.point(1))))))
    shapes = [node.of(a, f"shape[{i}]") for a in ("input", "weight") for i in range(5)]
    triggers = frozenset([*shapes, node.number("groups"), *(node.item(n, i) for n in lists[:3] for i in range(3))])
    yield triggers, lambda reader: _channels(node, reader)
    yield triggers, lambda reader: _windows(node, reader)


def _channels(node: _Node, reader: Reader) -> Formula:
    """Channels and groups of a convolution; the first dims do not depend on the rank."""
    groups = _path(node.number("groups"))
    given, of = node.of("input", "shape[1]"), [node.of("weight", f"shape[{i}]") for i in range(2)]
    transposed = f"{node.skeleton.find(f'{node.place}.transposed')}/value:bool"
    multiples = _path(f"{of[0]} per group/value:int")
    reader.note(In(f"{of[0]} per group/value:int", Numbers.of(1, math.inf)))
    forward = both(
        equal(transposed, [False]), compared(_path(given), "==", _path(of[1]).times(groups)),
        compared(_path(of[0]), "==", multiples.times(groups)),
    )
    backward = both(
        equal(transposed, [True]), compared(_path(given), "==", _path(of[0])),
        compared(_path(of[0]), "==", multiples.times(groups)),
    )
    return Or((forward, backward))


def _windows(node: _Node, reader: Reader) -> Formula:
    """A window fits into the padded input (of a convolution that is not transposed)."""
    rank = reader.box.get(node.of("weight", "rank"))
    if not isinstance(rank, Numbers) or not rank.single:
        return Or(tuple(In(node.of("weight", "rank"), Numbers.point(r)) for r in (3, 4, 5) if rank.has(r)))
    transposed = f"{node.skeleton.find(f'{node.place}.transposed')}/value:bool"
    parts: list[Formula] = []
    for i in range(int(rank.low) - 2):
        size, kernel = _path(node.of("input", f"shape[{i + 2}]")), _path(node.of("weight", f"shape[{i + 2}]"))
        dilation, padding = _path(node.item("dilation", i)), _path(node.item("padding", i))
        span = dilation.times(kernel.plus(Poly((), -1))).plus(Poly((), 1))
        parts.append(compared(span, "<=", size.plus(padding, 2)))
        parts.append(compared(kernel, ">=", Poly((), 1)))
    if reader.box.get(transposed).single == (True,):
        return TRUE
    return Or((both(equal(transposed, [False]), *parts), equal(transposed, [True])))


def _pool(count: int) -> Callable[[_Node], Iterator[Any]]:
    def facts(node: _Node) -> Iterator[Any]:
        yield _rank(node, "self", count + 1, count + 2)
        names = [a.name for a in node.op.arguments] if node.op is not None else []
        for name in ("kernel_size", "stride", "padding", "dilation"):
            if name not in names:
                continue
            yield _always(In(node.length(name), Numbers.point(count)))
            low = 0 if name == "padding" else 1
            for i in range(count):
                yield _always(In(node.item(name, i), Numbers.of(low, math.inf)))
        for i in range(count):
            yield _always(Compare(_path(node.item("padding", i)).times(Poly((), 2)).plus(
                _path(node.item("kernel_size", i)), -1), "<="))

    return facts


def _matrices(first: str, second: str, rank: int, bias: str = "") -> Callable[[_Node], Iterator[Any]]:
    def facts(node: _Node) -> Iterator[Any]:
        yield _rank(node, first, rank, rank)
        yield _rank(node, second, rank, rank)
        yield from _dtypes(node, first, second, "", *([bias] if bias else []))
        yield _rank(node, "", rank, rank)
        inner = compared(_path(node.of(first, f"shape[{rank - 1}]")), "==",
                         _path(node.of(second, f"shape[{rank - 2}]")))
        triggers = {node.of(first, f"shape[{rank - 1}]"), node.of(second, f"shape[{rank - 2}]")}
        yield frozenset(triggers), lambda reader: inner

    return facts


def _linear(node: _Node) -> Iterator[Any]:
    yield _rank(node, "weight", 1, 2)
    yield _rank(node, "input", 1, 64)
    yield from _dtypes(node, "input", "weight", "")
    sizes = [node.of(name, f"shape[{i}]") for name in ("input", "weight") for i in range(_HIGHEST_RANK)]
    yield frozenset(sizes), lambda reader: _features(node, reader)


_HIGHEST_RANK = 6
"""Tensors of more dims are not told apart."""


def _features(node: _Node, reader: Reader) -> Formula:
    """The last dim of the input is that of the weight."""
    last: list[Poly] = []
    for name in ("input", "weight"):
        var = node.of(name, "rank")
        rank = reader.box.get(var)
        if not isinstance(rank, Numbers) or not rank.single:
            few = tuple(In(var, Numbers.point(r)) for r in range(1, _HIGHEST_RANK + 1) if rank.has(r))
            return Or((*few, In(var, Numbers.of(_HIGHEST_RANK + 1, math.inf))))
        if rank.low > _HIGHEST_RANK:
            return TRUE
        last.append(_path(node.of(name, f"shape[{int(rank.low) - 1}]")))
    return compared(last[0], "==", last[1])


def _embedding(node: _Node) -> Iterator[Any]:
    """A row of the table for each index."""
    yield _rank(node, "weight", 2, 2)
    yield from _dtypes(node, "weight", "")
    ranks = node.of("", "rank"), node.of("indices", "rank")
    longer = compared(_path(ranks[0]), "==", _path(ranks[1]).plus(Poly((), 1)))
    yield frozenset(ranks), lambda reader: longer


def _softmax(node: _Node) -> Iterator[Any]:
    yield _always(In(node.number("dim"), Numbers.of(0, 63)))
    rank = node.of("self", "rank")
    inside = compared(_path(node.number("dim")), "<", _path(rank))
    scalar = both(In(rank, Numbers.point(0)), In(node.number("dim"), Numbers.point(0)))
    yield frozenset({node.number("dim")}), lambda reader: Or((inside, scalar))


def _binary(node: _Node) -> Iterator[Any]:
    one, two = node.of("self", "dtype"), node.of("other", "dtype")
    result = node.of("", "dtype")
    number = f"{node.skeleton.find(f'{node.place}.other')}/number"
    if one != two and _base_of(node) in _ARITHMETIC:
        kept = Or((same(one, two, False), same(one, result), equal(number, [True])))
        yield frozenset({result}), lambda reader: kept
    ranks = [node.of(name, "rank") for name in ("self", "other", "")]
    for rank in ranks[:2]:
        formula = Or((compared(_path(rank), "<=", _path(ranks[2])), equal(number, [True])))
        yield _once(ranks[2], formula)
    either = Or(tuple(compared(_path(rank), "==", _path(ranks[2])) for rank in ranks[:2]))
    yield frozenset({ranks[2]}), lambda reader: either


def _base_of(node: _Node) -> str:
    return "" if node.op is None else node.op.base


_ARITHMETIC = frozenset({"add", "sub", "mul", "maximum", "minimum"})
_BOOLEAN = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"})


def _comparison(node: _Node) -> Iterator[Any]:
    yield _always(In(node.of("", "dtype"), Choice(frozenset({torch.bool}))))


def _resized(argument: str) -> Callable[[_Node], Iterator[Any]]:
    """The sizes of the result are written in the call, or -1 for one that follows from the others."""

    def facts(node: _Node) -> Iterator[Any]:
        rank = node.of("", "rank")
        length = compared(_path(rank), "==", _path(node.length(argument)))
        yield frozenset({rank, node.length(argument)}), lambda reader: length
        for i in range(5):
            size, written = node.of("", f"shape[{i}]"), node.item(argument, i)
            open_ = In(written, Numbers.of(-math.inf, -1))
            kept = Or((open_, compared(_path(size), "==", _path(written))))
            yield _once(size, kept)

    return facts


def _quantize(node: _Node) -> Iterator[Any]:
    """The dtype of the result is written in the call."""
    result = node.of("", "dtype")
    for name in ("dtype", "output_dtype"):
        if node.op is not None and node.op.argument(name) is not None:
            yield _once(result, same(result, node.dtype(name)))
            return


def _dequantize(node: _Node) -> Iterator[Any]:
    """The dtype of the quantized values is written in the call; the result is float32, or what the call says."""
    given, result = node.of("input", "dtype"), node.of("", "dtype")
    for name in ("dtype", "input_dtype"):
        if node.op is not None and node.op.argument(name) is not None:
            yield _once(given, same(given, node.dtype(name)))
    if node.op is not None and node.op.argument("out_dtype") is not None:
        asked = f"{node.skeleton.find(f'{node.place}.out_dtype')}/value:dtype?"
        usual = both(equal(asked, [None]), equal(result, [torch.float32]))
        yield _once(result, Or((usual, same(asked, result))))
    elif node.op is not None and node.op.argument("output_dtype") is not None:
        yield _once(result, same(result, node.dtype("output_dtype")))


_FLOATING = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf erfc abs".split()
)


def _floating(node: _Node) -> Iterator[Any]:
    """Functions of real numbers keep the dtype of floats."""
    one, result = node.of("self", "dtype"), node.of("", "dtype")
    kept = Or((In(one, Choice(_FLOATS, True)), same(one, result)))
    yield frozenset({one, result}), lambda reader: kept


_FLOATS = frozenset(d for d in DTYPES.values() if d.is_floating_point)

_FAMILIES: Mapping[str, Callable[[_Node], Iterator[Any]]] = {
    "convolution": _convolution,
    "max_pool1d": _pool(1),
    "max_pool2d": _pool(2),
    "max_pool3d": _pool(3),
    "max_pool2d_with_indices": _pool(2),
    "avg_pool1d": _pool(1),
    "avg_pool2d": _pool(2),
    "avg_pool3d": _pool(3),
    "mm": _matrices("self", "mat2", 2),
    "bmm": _matrices("self", "mat2", 3),
    "addmm": _matrices("mat1", "mat2", 2, ""),
    "linear": _linear,
    "embedding": _embedding,
    **dict.fromkeys(_QUANTIZE, _quantize),
    **dict.fromkeys(_DEQUANTIZE, _dequantize),
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    **dict.fromkeys(("view", "_unsafe_view", "expand"), _resized("size")),
    "reshape": _resized("shape"),
    **dict.fromkeys(_ARITHMETIC, _binary),
    **dict.fromkeys(_BOOLEAN, _comparison),
    **dict.fromkeys(_FLOATING, _floating),
}
