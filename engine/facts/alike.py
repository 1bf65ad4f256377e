"""Which calls of a graph are alike: one op, the same literals, operands and results of the same types and origins.

What a rule comes to at a call depends, for most rules, on nothing else. Networks repeat themselves, so such rules are
looked at once for each likeness, and not once for each call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import torch
from attrs import frozen
from torch import fx

from apportion.engine.facts.kinds import origin_kinds
from apportion.engine.facts.value import Value
from apportion.engine.values import Dim, Unknown

if TYPE_CHECKING:
    from apportion.engine.facts.graph import GraphFacts

__all__ = ["Survey", "counterparts", "moved", "stays", "survey"]


@frozen(eq=False)
class Survey:
    """What one look over a graph gives: for each op node its likeness, and the positions of the op nodes it reads."""

    likenesses: list[int]
    edges: list[list[int]]


def survey(graph: GraphFacts) -> Survey:
    """A number for each op node of a graph, equal where two calls are alike, and the data edges between op nodes.

    Alike are calls of one op with equal literals, whose operands agree in place, type, layout, device and in what
    made them (an op, or what the program has there), whose results agree in type and layout, and in which equal
    operands stand at the same places. A call with branches is like no other.
    """
    numbers: dict[Any, int] = defaultdict(count().__next__)
    made: dict[Value, int] = {}
    found: list[int] = []
    edges: list[list[int]] = []
    values, branches = graph.by_node, graph.branches
    for node, value in values.items():
        if value.element is not None:
            whole = made[value.node]
            made[value] = numbers[_ELEMENT, whole, value.element, _type(value.val)]
            continue
        val = node.meta.get("val")
        result = _type(value.val if val is None else val)
        if value.position < 0:
            made[value] = numbers[node.op, origin_kinds(value), result]
            continue
        made[value] = number = numbers[value.op, result]
        key: list[Any] = [number]
        operands: list[Value] = []
        for argument in node.args:
            kind = type(argument)
            if kind is fx.Node:
                operand = values[argument]  # type: ignore[index] # a node: comparing types is quicker than isinstance
                operands.append(operand)
                key.append(made[operand])
            elif kind in _PLAIN:
                key += (kind, argument)
            else:
                _write(argument, values, made, key, operands)
        if node.kwargs:
            _write(node.kwargs, values, made, key, operands)
        elif not graph.modules:  # in the order of the schema already
            value.__dict__["inputs"] = tuple(operands)
        if len(operands) > 1:
            parts = [operand.node for operand in operands]
            if len(set(parts)) < len(parts):
                key.append(_REPEATED)
                key.extend(map(parts.index, parts))
            edges.append(sorted({p.position for p in parts if p.position >= 0}))
        else:
            edges.append([p.position for p in operands if p.position >= 0])
        if branches and any(operand.fx in branches for operand in operands):
            key.append(value)
        try:
            found.append(numbers[tuple(key)])
        except TypeError:  # something that can't be hashed among the literals
            found.append(numbers[value])
    return Survey(found, edges)


_PLAIN: Final = frozenset({int, float, bool, str, type(None), torch.dtype})
_ELEMENT: Final = object()
_REPEATED: Final = object()
_LIST: Final = object()


def _write(
    argument: Any, values: Mapping[fx.Node, Value], made: Mapping[Value, int], key: list[Any], operands: list[Value]
) -> None:
    """Writes an argument to `key`: a number for a value, type and value of a literal, lists item by item."""
    kind = type(argument)
    if kind is fx.Node:
        value = values[argument]
        operands.append(value)
        key.append(made[value])
    elif issubclass(kind, (tuple, list)):
        key += (_LIST, len(argument))
        for item in argument:
            _write(item, values, made, key, operands)
    elif issubclass(kind, Mapping):
        key += (_LIST, *argument)
        for item in argument.values():
            _write(item, values, made, key, operands)
    elif kind in _SYMBOLIC:
        key += (kind, argument.node.expr)
    else:
        key += (kind, argument)


_SYMBOLIC: Final = frozenset({torch.SymInt, torch.SymFloat, torch.SymBool})


def _type(val: Any) -> Any:
    """What is equal for values that no rule can tell apart by themselves."""
    if isinstance(val, torch.Tensor):
        try:
            sizes: Any = val.shape
            strides: Any = val.stride()
            offset: Any = val.storage_offset()
            if val._has_symbolic_sizes_strides:
                sizes, strides, offset = (tuple(map(_size, part)) for part in (sizes, strides, (offset,)))
            return val.dtype, sizes, strides, offset, val.device
        except RuntimeError:  # sparse tensors and their like have no strides
            return object()
    if isinstance(val, (tuple, list)):
        return tuple(map(_type, val))
    if type(val) in _SYMBOLIC:
        return type(val), val.node.expr
    return (type(val), val) if isinstance(val, (int, float, str, type(None))) else object()


def _size(size: Any) -> Any:
    return size if type(size) is int else size.node.expr


def counterparts(ones: Sequence[Value], others: Sequence[Value]) -> dict[Value, Value]:
    """For the values around some calls those at the same places around others that are like them."""
    found: dict[Value, Value] = {}
    for one, other in zip(ones, others, strict=True):
        found.update(zip((one, *one.outputs), (other, *other.outputs), strict=True))
        found.update(zip(one.inputs, other.inputs, strict=True))
    return found


def moved(thing: Any, places: Mapping[Value, Value]) -> Any:
    """What was found around some calls, as it is around others: `places` are their `counterparts`."""
    if isinstance(thing, Value):
        return places.get(thing, thing)
    return tuple([moved(item, places) for item in thing]) if isinstance(thing, tuple) else thing


def stays(thing: Any) -> bool:
    """Is it bound to one node in a way that `moved` does not see: a size that some node computes, a reason in words?"""
    if isinstance(thing, tuple):
        return any(map(stays, thing))
    return isinstance(thing, (Dim, Unknown))
