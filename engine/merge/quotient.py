"""Contracting groups of nodes, so that what follows sees one node for each."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from attrs import frozen

from apportion.engine.merge.flow import reversed_edges

__all__ = ["Cyclic", "Quotient", "contract", "group_edges", "topological_order"]


class Cyclic(ValueError):
    """Contracting these groups would make a cycle: they are interleaved, or one of them is not convex."""


@frozen
class Quotient:
    """A contracted graph, its nodes numbered in topological order again.

    `predecessors[q]` has no duplicates; `node_of[v]` is the node that `v` of the graph before went into.
    """

    predecessors: Sequence[Sequence[int]]
    node_of: Sequence[int]

    def __len__(self) -> int:
        return len(self.predecessors)

    def reversed(self) -> list[list[int]]:
        """The successors of each node, ascending."""
        return reversed_edges(self.predecessors)


def contract(predecessors: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> Quotient:
    """Contract each group (disjoint, of any size) of a graph in topological order to one node.

    Raises Cyclic where that leaves a cycle.
    """
    size = len(predecessors)
    if all(len(group) < 2 for group in groups):
        plain = [list(dict.fromkeys(before)) if len(before) > 1 else before for before in predecessors]
        return Quotient(plain, range(size))
    group_of, edges = group_edges(predecessors, groups)
    order = topological_order(edges)
    if order is None:
        raise Cyclic("the groups cannot be contracted without a cycle")
    rank = [0] * len(order)
    for position, node in enumerate(order):
        rank[node] = position
    renumbered = [[rank[other] for other in edges[node]] for node in order]
    return Quotient(renumbered, [rank[group] for group in group_of])


def group_edges(
    predecessors: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Number groups and the nodes outside of them by their first nodes; the predecessors between those numbers.

    Returns (number of each node, predecessors of each number, without duplicates and loops).
    """
    size = len(predecessors)
    leader = list(range(size))
    for group in groups:
        first = min(group, default=0)
        for node in group:
            leader[node] = first
    number = [-1] * size
    edges: list[list[int]] = []
    group_of = [0] * size
    for node in range(size):
        first = leader[node]
        own = number[first]
        if own < 0:  # a leader is the smallest of its group, so it is met first
            own = number[first] = len(edges)
            edges.append([])
        group_of[node] = own
    grouped = {number[min(group)] for group in groups if len(group) > 1}
    for node, before in enumerate(predecessors):
        edges[group_of[node]].extend([group_of[other] for other in before])
    for own, before in enumerate(edges):
        if own in grouped or len(before) > 1:
            edges[own] = [other for other in dict.fromkeys(before) if other != own]
    return group_of, edges


def topological_order(edges: Sequence[Sequence[int]]) -> list[int] | None:
    """An order in which each node follows its predecessors, as near to the numbering as can be; None on a cycle."""
    for node, before in enumerate(edges):
        if before and max(before) > node:
            break
    else:
        return list(range(len(edges)))
    waiting = [len(before) for before in edges]
    after: list[list[int]] = [[] for _ in edges]
    for node, before in enumerate(edges):
        for other in before:
            after[other].append(node)
    ready = [node for node, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for user in after[node]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, user)
    return order if len(order) == len(edges) else None
