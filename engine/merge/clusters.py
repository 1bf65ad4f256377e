"""Clusters that grow by contraction while their graph stays acyclic.

Each cluster keeps a position in a topological order (after Pearce and Kelly): whether two clusters may become
one is decided by a search between their positions only, and only those positions change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apportion.engine.merge.quotient import Quotient

__all__ = ["Budget", "Clusters"]


class Budget:
    """Edges that searches may still look at; on dense graphs exactness ends where it is used up."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Clusters:
    """The clusters of a quotient, at first one for each of its nodes. A cluster is named by one of its nodes."""

    __slots__ = ("after", "before", "budget", "colours", "members", "names", "positions")

    def __init__(self, quotient: Quotient, colours: Sequence[int], budget: Budget) -> None:
        size = len(quotient)
        self.before: list[set[int]] = [set(before) for before in quotient.predecessors]
        self.after: list[set[int]] = [set(after) for after in quotient.reversed()]
        self.positions = list(range(size))
        self.names = list(range(size))
        self.members: list[list[int]] = [[node] for node in range(size)]
        self.colours = list(colours)
        self.budget = budget

    def name(self, node: int) -> int:
        """The cluster that a node (or a former cluster) belongs to now."""
        names = self.names
        while names[node] != node:
            names[node] = names[names[node]]
            node = names[node]
        return node

    def groups(self) -> list[list[int]]:
        """The nodes of each cluster that is claimed (has a colour of 0 or more)."""
        return [sorted(self.members[node]) for node, colour in enumerate(self.colours)
                if colour >= 0 and self.names[node] == node]

    def try_merge(self, one: int, other: int) -> bool:
        """Make two clusters one where nothing outside of both lies on a path between them; tells whether it did.

        Says no, too, when the budget is used up.
        """
        if self.positions[one] > self.positions[other]:
            one, other = other, one
        low, high = self.positions[one], self.positions[other]
        ancestors = self._search(self.before, [other], one, low, high)
        if ancestors is None:
            return False
        if not ancestors:
            self._join(one, other, low)
            return True
        descendants = self._search(self.after, [one], other, low, high)
        if descendants is None:
            return False
        self._join(one, other, self._reorder(ancestors, [one, other], descendants))
        return True

    def try_contract(self, clusters: Iterable[int]) -> bool:
        """Make any number of clusters one where that leaves the graph acyclic; tells whether it did."""
        chosen = sorted(set(clusters), key=self.positions.__getitem__)
        if len(chosen) < 2:
            return True
        low, high = self.positions[chosen[0]], self.positions[chosen[-1]]
        inside = set(chosen)
        ancestors = self._outside(self.before, inside, low, high)
        descendants = self._outside(self.after, inside, low, high)
        if ancestors is None or descendants is None or not ancestors.isdisjoint(descendants):
            return False
        position = self._reorder(ancestors, chosen, descendants)
        kept = chosen[0]
        for other in chosen[1:]:
            kept = self._join(kept, other, position)
        return True

    def _search(
        self, edges: list[set[int]], start: list[int], forbidden: int, low: int, high: int
    ) -> set[int] | None:
        """What is reached from `start` between two positions; None if `forbidden` is, by more than one edge."""
        positions = self.positions
        found: set[int] = set()
        stack = list(start)
        direct = start[0]
        left = self.budget.left
        while stack:
            node = stack.pop()
            left -= len(edges[node])
            if left < 0:
                self.budget.left = 0
                return None
            for other in edges[node]:
                if other == forbidden:
                    if node != direct:
                        self.budget.left = left
                        return None
                elif low < positions[other] < high and other not in found:
                    found.add(other)
                    stack.append(other)
        self.budget.left = left
        return found

    def _outside(self, edges: list[set[int]], inside: set[int], low: int, high: int) -> set[int] | None:
        """What is reached from any of `inside` without being in it; None when the budget is used up."""
        positions = self.positions
        found: set[int] = set()
        stack = list(inside)
        while stack:
            node = stack.pop()
            self.budget.left -= len(edges[node])
            if self.budget.left < 0:
                return None
            for other in edges[node]:
                if other not in found and other not in inside and low < positions[other] < high:
                    found.add(other)
                    stack.append(other)
        return found

    def _reorder(self, ancestors: set[int], chosen: Sequence[int], descendants: set[int]) -> int:
        """Put ancestors before, descendants behind, on the positions that all of them held; the one for `chosen`."""
        positions = self.positions
        place = positions.__getitem__
        order = sorted(ancestors, key=place) + list(chosen) + sorted(descendants, key=place)
        pool = sorted([positions[node] for node in order])
        for node, position in zip(order, pool, strict=True):
            positions[node] = position
        return pool[len(ancestors)]

    def _join(self, one: int, other: int, position: int) -> int:
        """Make two clusters one at a position; the name it goes by."""
        before, after = self.before, self.after
        if len(before[one]) + len(after[one]) < len(before[other]) + len(after[other]):
            one, other = other, one
        for forth, back in ((before, after), (after, before)):
            mine = forth[one]
            for neighbour in forth[other]:
                links = back[neighbour]
                links.discard(other)
                links.add(one)
                mine.add(neighbour)
            mine.discard(one)
            mine.discard(other)
            forth[other] = set()
        before[one].discard(one)
        after[one].discard(one)
        self.members[one].extend(self.members[other])
        self.members[other] = []
        self.names[other] = one
        self.positions[one] = position
        return one
