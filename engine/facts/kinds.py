"""The kinds of values: what `x is K` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch
from attrs import frozen

from apportion.engine.facts.layout import channels_last, contiguous
from apportion.engine.facts.value import Value
from apportion.engine.values import Dim, Kleene, Unknown, k_all, k_not

if TYPE_CHECKING:
    from apportion.engine.facts.graph import GraphFacts

__all__ = ["KINDS", "LOCAL_KINDS", "Kind", "constant_values", "frozen_values", "is_kind", "origin_kinds"]


@frozen
class Kind:
    """A kind: its name, what it means, and the test."""

    name: str
    doc: str
    test: Callable[[Any], Kleene]


def is_kind(argument: Any, kind: str) -> Kleene:
    """Whether an argument of a call (a value, a literal, a dim, a list, none) is of a kind. KeyError for no kind."""
    if isinstance(argument, Unknown):
        return argument
    return KINDS[kind].test(argument)


# --- literals --------------------------------------------------------------------------------------------------


def _is_tensor(x: Any) -> Kleene:
    return x.is_tensor if isinstance(x, Value) else False


def _is_literal(x: Any) -> Kleene:
    if isinstance(x, tuple):
        return k_all(_is_literal(item) for item in x)
    return not isinstance(x, (Value, Dim)) and x is not None


def _is_int(x: Any) -> Kleene:
    if isinstance(x, Value):
        return _val_is(x, (int, torch.SymInt), but=bool)
    return isinstance(x, (int, Dim)) and not isinstance(x, bool)


def _is_float(x: Any) -> Kleene:
    return _val_is(x, (float, torch.SymFloat)) if isinstance(x, Value) else isinstance(x, float)


def _is_bool(x: Any) -> Kleene:
    return _val_is(x, (bool, torch.SymBool)) if isinstance(x, Value) else isinstance(x, bool)


def _val_is(x: Value, types: tuple[type, ...], but: type | None = None) -> Kleene:
    val = x.val
    if isinstance(val, Unknown):
        return val
    return isinstance(val, types) and not (but is not None and isinstance(val, but))


# --- where it comes from ---------------------------------------------------------------------------------------


def origin_kinds(x: Any) -> tuple[tuple[str, bool], ...]:
    """For each place a value comes from: what it is to the program, and whether the program writes to it."""
    if not isinstance(x, Value) or x.is_call:
        return ()
    known: tuple[tuple[str, bool], ...] | None = x.__dict__.get(_ORIGINS)
    if known is None:
        known = x.__dict__[_ORIGINS] = tuple(_origins(x))
    return known


_ORIGINS: Final = "origin_kinds"


def _origins(x: Value) -> list[tuple[str, bool]]:
    program = x.graph.program
    if not x.graph.owners:
        return [(program.input_kind(x), program.is_written(x))]
    written_here = x in x.graph.written
    return [
        ("branch input" if o.graph.owners and o.fx.op == "placeholder" else program.input_kind(o),
         written_here or program.is_written(o))
        for o in x.graph.origins(x)
    ]  # fmt: skip


def _comes_from(*kinds: str) -> Callable[[Any], Kleene]:
    def test(x: Any) -> Kleene:
        origins = origin_kinds(x)
        return bool(origins) and all(kind in kinds for kind, _ in origins)

    return test


def _is_constant(x: Any) -> Kleene:
    if isinstance(x, tuple):
        return bool(x) and k_all(_is_constant(item) for item in x)
    return _are_constant(origin_kinds(x))


@lru_cache(maxsize=1024)
def _are_constant(origins: tuple[tuple[str, bool], ...]) -> bool:
    return bool(origins) and all(k in ("parameter", "buffer", "constant") and not w for k, w in origins)


def constant_values(graph: GraphFacts) -> frozenset[Value]:
    """The placeholders and `get_attr` of a graph that are constants."""
    return frozenset([x for x in graph.by_node.values() if x.position < 0 and _is_constant(x) is True])


def _is_mutable_buffer(x: Any) -> Kleene:
    origins = origin_kinds(x)
    return bool(origins) and all(kind == "buffer" and written for kind, written in origins)


def _is_frozen(x: Any) -> Kleene:
    return isinstance(x, Value) and x.node in x.graph.frozen


# Contents of these are whatever the memory held.
_UNINITIALISED: Final = ("empty", "new_empty", "_empty")


def frozen_values(graph: GraphFacts) -> frozenset[Value]:
    """The nodes of a graph that are computed from constants alone."""
    found: set[Value] = set()
    for value in graph.order:
        op = value.op
        if op is None:
            outside = [v for v in graph.operands(value) if v.node not in v.graph.frozen]
            inside = _is_constant(value) is True
            if inside or (graph.operands(value) and not outside and value not in graph.written):
                found.add(value)
        elif not (value.has_effects or op.is_mutable or value in graph.written or op.base.startswith(_UNINITIALISED)):
            if all(v.node in found for v in value.inputs):
                found.add(value)
    return frozenset(found)


def _is_graph_input(x: Any) -> Kleene:
    return isinstance(x, Value) and x.fx.op == "placeholder"


# --- sizes and layouts -----------------------------------------------------------------------------------------


def _symbols(x: Any) -> list[Dim] | Unknown:
    """The symbolic sizes in a tensor, a list or a dim."""
    if isinstance(x, Dim):
        return [x]
    if isinstance(x, Value):
        if x.size is not None:
            return _symbols(x.size)
        if isinstance(x.val, (torch.SymBool, torch.SymFloat)):
            return [Dim(x.val.node.expr)]
        if x.is_tensor is False and not x.is_multi_output:
            return []
        return x.shape if isinstance(x.shape, Unknown) else _symbols(x.shape)
    if isinstance(x, tuple):
        parts = [_symbols(item) for item in x if isinstance(item, (Dim, Value, tuple))]
        unknown = next((p for p in parts if isinstance(p, Unknown)), None)
        return unknown if unknown is not None else [d for p in parts for d in p]  # type: ignore[union-attr]
    return []


def _is_symbolic(x: Any) -> Kleene:
    symbols = _symbols(x)
    return symbols if isinstance(symbols, Unknown) else bool(symbols)


def _is_static(x: Any) -> Kleene:
    return False if x is None else k_not(_is_symbolic(x))


def _is_unbacked(x: Any) -> Kleene:
    symbols = _symbols(x)
    return symbols if isinstance(symbols, Unknown) else any(d.is_unbacked for d in symbols)


def _layout(x: Any, test: Callable[[Any, Any], Kleene]) -> Kleene:
    if not isinstance(x, Value):
        return False
    shape, strides = x.shape, x.strides
    if isinstance(shape, Unknown) or isinstance(strides, Unknown):
        if x.is_tensor is False:
            return False
        return shape if isinstance(shape, Unknown) else strides  # type: ignore[return-value]
    return test(shape, strides)


def _is_contiguous(x: Any) -> Kleene:
    return _layout(x, contiguous)


def _is_channels_last(x: Any) -> Kleene:
    return _layout(x, channels_last)


def _is_claimed(x: Any) -> Kleene:
    return isinstance(x, Value) and x.node in x.graph.claimed


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("tensor", "one tensor (no number, no list, no node with several outputs)", _is_tensor),
        Kind("node", "the result of an op in the graph", lambda x: isinstance(x, Value) and x.is_call),
        Kind("none", "an optional argument that is absent", lambda x: x is None),
        Kind("literal", "written in the call itself: a number, a truth value, a string, a dtype, a list", _is_literal),
        Kind("int", "an integer, symbolic sizes included", _is_int),
        Kind("float", "a floating point number (2.0, not 2)", _is_float),
        Kind("bool", "a truth value", _is_bool),
        Kind("str", "a string", lambda x: isinstance(x, str)),
        Kind("constant", "a parameter, lifted tensor, get_attr, or a buffer that nothing writes", _is_constant),
        Kind("parameter", "a parameter of the module", _comes_from("parameter")),
        Kind("buffer", "a buffer of the module, written or not", _comes_from("buffer")),
        Kind("mutable_buffer", "a buffer that the program writes, directly or through a view", _is_mutable_buffer),
        Kind("frozen", "computed from constants alone", _is_frozen),
        Kind("user_input", "an input that the program's caller gives", _comes_from("user")),
        Kind("graph_input", "a placeholder of the graph it is in", _is_graph_input),
        Kind("returned", "an output of the graph it is in", lambda x: isinstance(x, Value) and x.returned),
        Kind("static", "a tensor, list or dim without symbols", _is_static),
        Kind("symbolic", "a tensor, list or dim with symbols", _is_symbolic),
        Kind("unbacked", "with a size that depends on data", _is_unbacked),
        Kind("contiguous", "dense in memory, the last dim innermost", _is_contiguous),
        Kind("channels_last", "dense in memory, the channels innermost (rank 4 and 5)", _is_channels_last),
        Kind("claimed", "a node of a sub-graph that a rule has claimed", _is_claimed),
    )
}
"""Every kind by name."""

LOCAL_KINDS: Final = frozenset(KINDS) - {"frozen", "returned", "claimed"}
"""The kinds that a value has by its type and by what made it, wherever it is used."""
