"""What is merged: a graph as plain integers, and the units that backends claimed in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property

from attrs import frozen

__all__ = ["Flow", "Unit"]


@frozen
class Flow:
    """Who must run before whom.

    `predecessors[v]` are the nodes that node `v` waits for, by data or by order (effects); nodes are numbered in
    topological order, so each is smaller than `v`. Duplicates are harmless. `reads[v]` are the identities of the
    non-constant values that `v` reads; left out, each predecessor counts as one value.

    Raises ValueError where a predecessor is not smaller than its node or `reads` has another length.
    """

    predecessors: Sequence[Sequence[int]]
    reads: Sequence[Sequence[Hashable]] | None = None

    def __attrs_post_init__(self) -> None:
        for node, before in enumerate(self.predecessors):
            if before and not (0 <= before[0] < node if len(before) == 1 else 0 <= min(before) <= max(before) < node):
                raise ValueError(f"node {node} waits for {list(before)}: the nodes are not in topological order")
        if self.reads is not None and len(self.reads) != len(self.predecessors):
            raise ValueError(f"{len(self.predecessors)} nodes, but reads of {len(self.reads)}")

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def successors(self) -> list[list[int]]:
        """For each node the nodes that wait for it, ascending, without duplicates."""
        return reversed_edges(self.predecessors)


class Unit:
    """Nodes that must stay together: a match, or matches that share nodes.

    Only units of equal `colour` may share a partition (their delegation specs differ otherwise). Raises ValueError for
    a unit without nodes.
    """

    __slots__ = ("colour", "first", "nodes")

    def __init__(self, nodes: Iterable[int], colour: Hashable = None) -> None:
        self.nodes: tuple[int, ...] = tuple(nodes)
        if not self.nodes:
            raise ValueError("a unit without nodes")
        self.colour = colour
        self.first = self.nodes[0] if len(self.nodes) == 1 else min(self.nodes)
        """The earliest node of the unit."""

    def __repr__(self) -> str:
        return f"Unit({self.nodes}, {self.colour!r})"


def reversed_edges(predecessors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The edges of `predecessors` the other way round; each list ascending, without duplicates."""
    after: list[list[int]] = [[] for _ in predecessors]
    for node, before in enumerate(predecessors):
        for other in before:
            users = after[other]
            if not users or users[-1] != node:
                users.append(node)
    return after
