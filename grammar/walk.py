"""Walking over trees without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from apportion.grammar import tree
from apportion.grammar.tree import Node

__all__ = ["children", "walk"]

_PLAIN = (str, int, float, bytes, bool, type(None))

_NOT_BELOW = frozenset(("span", "name_span", "comments"))

_FIELDS: dict[type, tuple[str, ...]] = {
    cls: tuple(a.name for a in attrs.fields(cls) if a.name not in _NOT_BELOW)
    for cls in vars(tree).values()
    if isinstance(cls, type) and issubclass(cls, Node)
}
"""The attributes of each class of nodes that may hold nodes, in the order of the text."""


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside a node, in the order of the text."""
    for name in _FIELDS[type(node)]:
        yield from _inside(getattr(node, name))


def _inside(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            if not isinstance(item, _PLAIN):
                yield from _inside(item)


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Every node from `root` down with its depth (0 for the root): parents first, in the order of the text."""
    pending: list[tuple[Node, int]] = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        below = list(children(node))
        pending.extend((child, depth + 1) for child in reversed(below))
