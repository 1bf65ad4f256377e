"""The table of attributes: what can be written after a dot. One row adds one.

A row says of what kind of thing it is an attribute, its type, how it is read, and what it is. Reading gives a value or
`Unknown`, never raises and adds no guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import torch
from attrs import frozen

from apportion.engine.compile.types import (
    BOOL,
    DEVICE,
    DTYPE,
    GRAPH,
    INT,
    OP,
    STR,
    VALUE,
    Type,
    list_of,
    set_of,
)
from apportion.engine.facts import Value
from apportion.engine.values import Dim, Unknown

__all__ = ["ATTRIBUTES", "Attribute", "Reach", "attributes_of", "read_argument"]


class Reach(Enum):
    """How far reading an attribute looks: at the value itself, at the call that makes it, or anywhere in the graph."""

    VALUE = "value"
    CALL = "call"
    GRAPH = "graph"


@frozen
class Attribute:
    """One row: attribute `name` of a thing of type `of`, its type, how to read it, and a sentence about it.

    `tensor` marks what only a single tensor has: reading it of an op with several outputs is an error. `reach` tells
    how far it looks.
    """

    name: str
    of: str
    type: Type
    read: Callable[[Any], Any]
    doc: str
    tensor: bool = False
    reach: Reach = Reach.VALUE


def _absent(thing: Any) -> Unknown:
    if isinstance(thing, Unknown):
        return thing
    if thing is None:
        return Unknown("there is no such value in this match")
    return Unknown(f"{thing} is a literal, not a value of the graph")


def _fact(name: str) -> Callable[[Any], Any]:
    def read(thing: Any) -> Any:
        return getattr(thing, name) if isinstance(thing, Value) else _absent(thing)

    return read


def _values(name: str) -> Callable[[Any], Any]:
    def read(thing: Any) -> Any:
        if not isinstance(thing, Value):
            return _absent(thing)
        found = getattr(thing, name)
        return found if isinstance(found, Unknown) else tuple(found)

    return read


def _op(thing: Any) -> Any:
    if isinstance(thing, Value):
        return thing.op
    return _absent(thing) if thing is None or isinstance(thing, Unknown) else None


def _graph(name: str) -> Callable[[Any], Any]:
    def read(thing: Any) -> Any:
        if isinstance(thing, Unknown):
            return thing
        found = getattr(thing, name, None)
        return Unknown("this is no sub-graph, or it is not partitioned yet") if found is None else tuple(found)

    return read


def _of_op(name: str) -> Callable[[Any], Any]:
    def read(thing: Any) -> Any:
        if isinstance(thing, Unknown):
            return thing
        if isinstance(thing, frozenset) and len(thing) == 1 and name == "name":
            return next(iter(thing))
        found = getattr(thing, name, None)
        return Unknown("this is not the output of an op") if found is None else found

    return read


def _of_dtype(read: Callable[[torch.dtype], Any]) -> Callable[[Any], Any]:
    def checked(thing: Any) -> Any:
        return read(thing) if isinstance(thing, torch.dtype) else _absent(thing)

    return checked


def _is_signed(dtype: torch.dtype) -> Any:
    try:
        return dtype.is_signed
    except RuntimeError:
        return Unknown(f"PyTorch does not say whether {dtype} is signed")


_ROWS: tuple[Attribute, ...] = (
    Attribute("dtype", "value", DTYPE, _fact("dtype"), "the dtype of a tensor", tensor=True),
    Attribute("rank", "value", INT, _fact("rank"), "how many dims a tensor has", tensor=True),
    Attribute("shape", "value", list_of(INT), _values("shape"), "the sizes of a tensor, outermost first", tensor=True),
    Attribute("numel", "value", INT, _fact("numel"), "how many elements a tensor has", tensor=True),
    Attribute("nbytes", "value", INT, _fact("nbytes"), "how many bytes the elements of a tensor take", tensor=True),
    Attribute("strides", "value", list_of(INT), _values("strides"), "the strides of a tensor in elements", tensor=True),
    Attribute("storage_offset", "value", INT, _fact("storage_offset"), "where a tensor starts in its storage",
              tensor=True),
    Attribute("dim_order", "value", list_of(INT), _values("dim_order"), "the dims from the outermost in memory to the "
              "innermost", tensor=True),
    Attribute("device", "value", DEVICE, _fact("device"), "the device of a tensor; compares with a string such as "
              '"cpu"', tensor=True),
    Attribute("op", "value", OP, _op, "the op that makes the value; none for placeholders, constants and literals"),
    Attribute("name", "value", STR, _fact("name"), "the name of the node in its graph",
              reach=Reach.GRAPH),
    Attribute("inputs", "value", list_of(VALUE), _values("inputs"), "all value arguments in the order of the schema, "
              "lists flattened, as often as they occur", reach=Reach.CALL),
    Attribute("outputs", "value", list_of(VALUE), _values("outputs"), "the values that a node makes"),
    Attribute("users", "value", list_of(VALUE), _values("users"), "the nodes that use it, each once, in graph order",
              reach=Reach.GRAPH),
    Attribute("module", "value", STR, _fact("module"), "the path of the nn.Module that it comes from",
              reach=Reach.GRAPH),
    Attribute("source", "value", STR, _fact("source"), "the torch function or module class that the exporter recorded",
              reach=Reach.GRAPH),
    Attribute("subgraphs", "value", list_of(GRAPH), _values("subgraphs"), "the branches of a control-flow op",
              reach=Reach.GRAPH),
    Attribute("name", "op", STR, _of_op("name"), "the full name, such as `aten.relu.default`"),
    Attribute("namespace", "op", STR, _of_op("namespace"), "the namespace, such as `aten`"),
    Attribute("is_view", "op", BOOL, _of_op("is_view"), "whether the result shares memory with an argument"),
    Attribute("tags", "op", set_of(STR), _of_op("tags"), "the names of PyTorch's tags"),
    Attribute("itemsize", "dtype", INT, _of_dtype(lambda dtype: dtype.itemsize), "the bytes of one element"),
    Attribute("is_floating_point", "dtype", BOOL, _of_dtype(lambda dtype: dtype.is_floating_point),
              "whether it is a floating point type"),
    Attribute("is_signed", "dtype", BOOL, _of_dtype(_is_signed), "whether it has negative values"),
    Attribute("nodes", "graph", list_of(VALUE), _graph("calls"), "the op nodes of a sub-graph in graph order"),
    Attribute("partitions", "graph", list_of(list_of(VALUE)), _graph("partitions"), "the nodes of each partition in a "
              "sub-graph"),
)

ATTRIBUTES: Mapping[tuple[str, str], Attribute] = {(row.of, row.name): row for row in _ROWS}
"""Every row, by what it is of (value, op, dtype, graph) and its name."""

GROUPS: Mapping[str, str] = {
    "args": "the arguments of the call by the names of the schema, where an attribute hides one",
    "meta": "the marks that the file declares with `meta`",
}
"""What may stand between a value and a further name: `n.args.dtype`, `n.meta.NAME`."""


def attributes_of(kind: str) -> list[str]:
    """The names of all attributes of things of `kind`, in the order of the table."""
    return [row.name for row in _ROWS if row.of == kind]


def read_argument(thing: Any, name: str) -> Any:
    """The argument `name` of the call that makes `thing`; layouts and memory formats are given as their names."""
    if not isinstance(thing, Value):
        return _absent(thing)
    node = thing.node
    if node.op is None:
        return Unknown(f"{thing.name} is not the output of an op")
    arguments = node.arguments
    if name not in arguments:
        return Unknown(f"{node.op.name} has no argument `{name}`")
    return _plain(arguments[name])


def _plain(argument: Any) -> Any:
    if isinstance(argument, (int, float, str, tuple, Dim, Value)) or argument is None:
        return argument
    if isinstance(argument, (torch.layout, torch.memory_format)):
        return str(argument).removeprefix("torch.")
    return argument
