"""A call's arguments by schema name: positional and keyword arguments are one thing, defaults are filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from apportion.engine.facts.normalise import normalise_arguments
from apportion.engine.ops import Op
from apportion.engine.values import Dim, Unknown, make_dim

if TYPE_CHECKING:
    from apportion.engine.facts.graph import GraphFacts
    from apportion.engine.facts.value import Value

__all__ = ["Argument", "call_arguments", "nodes_in", "raw_arguments"]

Argument = Union[
    "Value",
    int,
    float,
    bool,
    str,
    None,
    Dim,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    tuple["Argument", ...],
]
"""What an argument of a call can be. Symbolic sizes are dims, whose `origin` is the value that computes them."""


def raw_arguments(node: fx.Node, op: Op) -> dict[str, Any]:
    """The arguments as the graph has them, by schema name and in schema order; without the defaults."""
    if op.style == "aten" and isinstance(node.target, HigherOrderOperator):
        return _wrapped_arguments(node, op)
    names, args, kwargs = op.names, node.args, node.kwargs
    if len(args) > len(names) and op.style == "higher_order":
        rest = len(names)
        return {**dict(zip(names, args, strict=False)), "operands": list(args[rest:]), **kwargs}
    given = _positional(op, names, args)
    if not kwargs:
        return given
    given.update(kwargs)
    ordered = {name: given.pop(name) for name in names if name in given}
    return {**ordered, **given}


def _positional(op: Op, names: Sequence[str], args: Sequence[Any]) -> dict[str, Any]:
    """Names for positional arguments. `x.view(2, 3)` gives its list argument item by item."""
    if len(args) < len(names):
        return dict(zip(names, args, strict=False))
    if len(names) > 1 and op.style == "method" and _spreads(op, args, len(names) - 1):
        last = len(names) - 1
        return {**dict(zip(names[:last], args, strict=False)), names[last]: list(args[last:])}
    given = dict(zip(names, args, strict=False))
    given.update((f"arg{i}", args[i]) for i in range(len(names), len(args)))
    return given


def _spreads(op: Op, args: Sequence[Any], last: int) -> bool:
    return op.arguments[last].is_list and not isinstance(args[last], (tuple, list))


def _wrapped_arguments(node: fx.Node, op: Op) -> dict[str, Any]:
    """The arguments of the op that an `auto_functionalized` call wraps.

    The second form of it keeps written tensors aside (`_all_bases`) and their index in `_NAME_base_index`.
    """
    kwargs = dict(node.kwargs)
    bases: Any = kwargs.get("_all_bases", ())
    given: dict[str, Any] = {}
    for argument in op.arguments:
        name = argument.name
        length = kwargs.get(f"_{name}_length")
        if name in kwargs:
            given[name] = kwargs[name]
        elif isinstance(length, int):
            given[name] = [_base(kwargs, bases, f"{name}_{i}") for i in range(length)]
        elif f"_{name}_base_index" in kwargs:
            given[name] = _base(kwargs, bases, name)
    # Symbolic sizes that say which part of a base is written are inputs too.
    named = {*given, "_all_bases", "_mutable_op"}
    return given | {k: v for k, v in kwargs.items() if k not in named and any(nodes_in(v))}


def _base(kwargs: Mapping[str, Any], bases: Any, name: str) -> Any:
    index = kwargs.get(f"_{name}_base_index")
    return bases[index] if isinstance(index, int) and index < len(bases) else None


def nodes_in(argument: Any) -> Iterator[fx.Node]:
    """The nodes of an argument of the graph, lists and mappings flattened, in order and with multiplicity."""
    if isinstance(argument, fx.Node):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            if type(item) is fx.Node:
                yield item
            elif type(item) not in _PLAIN:
                yield from nodes_in(item)
    elif isinstance(argument, dict):
        for item in argument.values():
            yield from nodes_in(item)
    elif isinstance(argument, slice):
        yield from nodes_in((argument.start, argument.stop, argument.step))


def call_arguments(value: Value, op: Op) -> dict[str, Argument]:
    """The normalised arguments of the call that `value` is, defaults included."""
    raw = value.raw_arguments
    graph = value.graph
    arguments: dict[str, Any] = {}
    for argument in op.arguments:
        name = argument.name
        if name in raw:
            item = raw[name]
            arguments[name] = item if type(item) in _PLAIN else _seen(graph, item)
        elif argument.has_default:
            arguments[name] = argument.default
    for name, item in raw.items():
        if name not in arguments:
            arguments[name] = _seen(graph, item)
    normalise_arguments(op, arguments)
    return arguments


_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype})


def _seen(graph: GraphFacts, item: Any) -> Any:
    """An argument of the graph in our own terms."""
    if isinstance(item, fx.Node):
        return _seen_node(graph.value(item))
    if isinstance(item, (tuple, list)):
        return tuple([i if type(i) in _PLAIN else _seen(graph, i) for i in item])
    if isinstance(item, torch.SymInt):
        return _seen_size(item, graph)
    if isinstance(item, slice):
        return tuple([_seen(graph, i) for i in (item.start, item.stop, item.step)])
    return item


def _seen_size(size: torch.SymInt, graph: GraphFacts) -> Any:
    try:
        return make_dim(size, graph.ranges)
    except TypeError as error:
        return Unknown(str(error))


def _seen_node(argument: Value) -> Any:
    """A value, or the size that it is."""
    size = argument.size
    if isinstance(size, Dim):
        return Dim(size.expr, size.ranges, argument)
    return argument if size is None else size
