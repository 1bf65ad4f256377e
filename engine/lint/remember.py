"""Conditions whose readings are kept: the same paths read with the same domains give the same formula.

A reading looks at one path after the other, and which one comes next depends on what the ones before were. So all
readings of a condition form a tree: a path at each step, a branch for each domain that it had, the outcome at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from typing import Any, Union

from attrs import define, field, frozen

from apportion.engine.lint.domains import Domain
from apportion.engine.lint.evaluate import Reader
from apportion.engine.lint.formulas import Formula
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.lint.terms import Box, Fork

__all__ = ["Condition", "Forked", "Outcome", "Reading", "Remembered", "remembered"]

Condition = Callable[[Reader], Formula]

_MOST_KEPT = 4_000


@frozen
class Reading:
    """What a condition came to, and the facts about paths that reading it has introduced."""

    formula: Formula
    facts: tuple[Formula, ...]


@frozen
class Forked:
    """It can't be read before one of `alternatives` is chosen."""

    alternatives: tuple[Formula, ...]


Outcome = Union[Reading, Forked]


@define(eq=False)
class _Step:
    """What is looked at next: a path (by name) or whether a formula was asserted."""

    looks_at: Any
    branches: dict[Hashable, _Step | Outcome] = field(factory=dict)


class _WatchedBox(Box):
    """A box that notes which paths are looked at; copies note into the same list, as the box was before them."""

    __slots__ = ("original", "seen")

    def __init__(self, original: Box, seen: dict[Any, Hashable], domains: dict[str, Domain] | None = None) -> None:
        super().__init__(original.domains if domains is None else domains)
        self.original, self.seen = original, seen

    def get(self, var: str) -> Domain:
        """The domain of a path, noted."""
        if var not in self.seen:
            self.seen[var] = self.original.get(var)
        return super().get(var)

    def copy(self) -> Box:
        """A copy that is watched, too."""
        return _WatchedBox(self.original, self.seen, dict(self.domains))


@frozen(eq=False)
class _WatchedFormulas(Container[Formula]):
    """Asserted formulas that note which are asked for."""

    formulas: Container[Formula]
    seen: dict[Any, Hashable]

    def __contains__(self, formula: object) -> bool:
        found = self.seen[formula] = formula in self.formulas
        return found


@define(eq=False)
class Remembered:
    """A condition with its readings so far, apart for skeletons that differ."""

    condition: Condition
    _known: dict[Hashable, _Step | Outcome] = field(factory=dict)
    _count: int = 0

    def __call__(self, reader: Reader) -> Formula:
        """Read it as a condition within another one."""
        return self.condition(reader)

    def read(self, skeleton: Skeleton, signature: Hashable, box: Box, asserted: Container[Formula]) -> Outcome:
        """The outcome in a box. `signature` is equal for skeletons in which readings are the same."""
        found = self._known.get(signature)
        while isinstance(found, _Step):
            key = found.looks_at
            found = found.branches.get(box.get(key) if isinstance(key, str) else key in asserted)
        return found if found is not None else self._fresh(skeleton, signature, box, asserted)

    def _fresh(self, skeleton: Skeleton, signature: Hashable, box: Box, asserted: Container[Formula]) -> Outcome:
        seen: dict[Any, Hashable] = {}
        reader = Reader(skeleton, _WatchedBox(box, seen), asserted=_WatchedFormulas(asserted, seen))
        outcome: Outcome
        try:
            formula = self.condition(reader)
            outcome = Reading(formula, tuple(reader.facts))
        except Fork as fork:
            outcome = Forked(tuple(fork.alternatives))
        self._count += 1
        if self._count > _MOST_KEPT:
            self._known.clear()
            self._count = 0
        self._keep(signature, seen, outcome)
        return outcome

    def _keep(self, signature: Hashable, seen: dict[Any, Hashable], outcome: Outcome) -> None:
        branches, branch = self._known, signature
        for looks_at, answer in seen.items():
            step = branches.get(branch)
            if step is None:
                step = branches[branch] = _Step(looks_at)
            if not isinstance(step, _Step):
                return
            branches, branch = step.branches, answer
        branches[branch] = outcome


def remembered(condition: Condition) -> Remembered:
    """The condition with a memory; one that has one stays."""
    return condition if isinstance(condition, Remembered) else Remembered(condition)
