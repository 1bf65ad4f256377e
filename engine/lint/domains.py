"""Sets of values that one path can have: choices of a finite or open universe, and numbers.

`Choice` is a finite set or the complement of one; `Numbers` an interval with a congruence and excluded points. Both
meet exactly; `Numbers.complement` may be a union, so it comes as a list of sets.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any, Union

from attrs import frozen

__all__ = ["ANY_CHOICE", "BOOLS", "FALSE_ONLY", "TRUE_ONLY", "Choice", "Domain", "Numbers", "shown"]

_MOST_LISTED = 6


@frozen(cache_hash=True)
class Choice:
    """The values in `values`, or with `but` all others."""

    values: frozenset[Hashable]
    but: bool = False

    @property
    def empty(self) -> bool:
        """Is there no value?"""
        return not self.but and not self.values

    @property
    def single(self) -> tuple[Hashable, ...]:
        """The only value, in a tuple; an empty tuple if there are more."""
        return tuple(self.values) if not self.but and len(self.values) == 1 else ()

    def has(self, value: Hashable) -> bool:
        """Is `value` in the set?"""
        return (value in self.values) != self.but

    def meet(self, other: Choice) -> Choice:
        """What both allow."""
        if self.but:
            if other.but:
                return Choice(self.values | other.values, True)
            return Choice(other.values - self.values)
        if other.but:
            return Choice(self.values - other.values)
        return Choice(self.values & other.values)

    def hull(self, other: Choice) -> Choice:
        """What one of them allows."""
        return self.complement()[0].meet(other.complement()[0]).complement()[0]

    def complement(self) -> list[Choice]:
        """The rest, as a list of one set."""
        return [Choice(self.values, not self.but)]

    def within(self, other: Choice) -> bool:
        """Is every value also in `other`?"""
        if self.but:
            return other.but and other.values <= self.values
        return all(other.has(value) for value in self.values)

    def __str__(self) -> str:
        if self.but and not self.values:
            return "anything"
        names = sorted(map(shown, self.values))
        more = f", … {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        text = ", ".join(names[:_MOST_LISTED]) + more
        return f"anything but {text}" if self.but else "{" + text + "}"


@frozen(cache_hash=True)
class Numbers:
    """The numbers from `low` to `high` that leave `residue` when divided by `modulus`, without `excluded`.

    With `whole` they are integers; otherwise modulus is 1 and means nothing, and the ends belong to the set unless
    they are excluded.
    """

    low: float = -math.inf
    high: float = math.inf
    modulus: int = 1
    residue: int = 0
    excluded: frozenset[float] = frozenset()
    whole: bool = True

    @classmethod
    def of(
        cls, low: float, high: float, *, whole: bool = True, modulus: int = 1, residue: int = 0,
        excluded: frozenset[float] = frozenset(),
    ) -> Numbers:
        """The set in its one normal form: ends moved inwards to members, exclusions outside of it dropped."""
        if whole and (low == math.inf or high == -math.inf):
            return _NOTHING_WHOLE
        if whole:
            low, high = _first(low, modulus, residue), _last(high, modulus, residue)
            while low in excluded and low <= high:
                low += modulus
            while high in excluded and low <= high:
                high -= modulus
            if low == high:
                modulus, residue = 1, 0
        if low > high or (low == high and low in excluded):
            return _NOTHING_WHOLE if whole else _NOTHING
        kept = frozenset(e for e in excluded if low <= e <= high and (not whole or (e - residue) % modulus == 0))
        return cls(low, high, modulus, residue % modulus, kept, whole)

    @classmethod
    def point(cls, value: float, *, whole: bool = True) -> Numbers:
        """The set of one number; nothing where it must be whole and is not."""
        if whole and value != math.floor(value):
            return _NOTHING_WHOLE
        return cls(value, value, 1, 0, frozenset(), whole)

    @property
    def empty(self) -> bool:
        """Is there no number?"""
        return self.low > self.high

    @property
    def single(self) -> tuple[float, ...]:
        """The only number, in a tuple; an empty tuple if there are more."""
        return (self.low,) if self.low == self.high else ()

    def has(self, value: Any) -> bool:
        """Is `value` in the set?"""
        if not isinstance(value, (int, float)) or not self.low <= value <= self.high or value in self.excluded:
            return False
        return not self.whole or (value == math.floor(value) and (value - self.residue) % self.modulus == 0)

    def meet(self, other: Numbers) -> Numbers:
        """What both allow."""
        whole = self.whole or other.whole
        modulus, residue = _congruent(self, other)
        if modulus == 0:
            return _NOTHING_WHOLE
        return Numbers.of(
            max(self.low, other.low), min(self.high, other.high), whole=whole, modulus=modulus, residue=residue,
            excluded=self.excluded | other.excluded,
        )

    def hull(self, other: Numbers) -> Numbers:
        """An interval around both."""
        if self == other:
            return self
        return Numbers.of(min(self.low, other.low), max(self.high, other.high), whole=self.whole and other.whole)

    def complement(self) -> list[Numbers]:
        """The rest, as a list of disjoint sets."""
        if self.empty:
            return [Numbers(whole=self.whole)]
        found: list[Numbers] = []
        if self.low > -math.inf:
            found.append(_below(self.low, self.whole))
        if self.high < math.inf:
            found.append(_above(self.high, self.whole))
        found.extend(Numbers.point(e, whole=self.whole) for e in sorted(self.excluded))
        if self.modulus > 1:
            inside = (r for r in range(self.modulus) if r != self.residue)
            found.extend(Numbers.of(self.low, self.high, modulus=self.modulus, residue=r) for r in inside)
        return [part for part in found if not part.empty]

    def within(self, other: Numbers) -> bool:
        """Is every number also in `other`?"""
        return self.empty or all(self.meet(part).empty for part in other.complement())

    def count(self) -> float:
        """How many numbers there are."""
        if self.empty:
            return 0
        if not self.whole:
            return 1 if self.low == self.high else math.inf
        if self.low == -math.inf or self.high == math.inf:
            return math.inf
        return (self.high - self.low) // self.modulus + 1 - len(self.excluded)

    def members(self) -> Iterator[int]:
        """The integers in the set, from the least; it must have one."""
        value = self.low
        while value <= self.high:
            if value not in self.excluded:
                yield int(value)
            value += self.modulus

    def __str__(self) -> str:
        if self.empty:
            return "nothing"
        if self.low == self.high:
            return f"{self.low:g}" if not self.whole else str(int(self.low))
        low = "" if self.low == -math.inf else f"{self.low:.15g}"
        high = "" if self.high == math.inf else f"{self.high:.15g}"
        text = f"{low}..{high}" if low and high else f">= {low}" if low else f"<= {high}" if high else "any number"
        if self.modulus > 1:
            text += f" and {self.residue} modulo {self.modulus}"
        if self.excluded:
            text += " but " + ", ".join(f"{e:.15g}" for e in sorted(self.excluded))
        return text


Domain = Union[Choice, Numbers]

_NOTHING = Numbers(1, 0, whole=False)
_NOTHING_WHOLE = Numbers(1, 0)

ANY_CHOICE = Choice(frozenset(), True)
TRUE_ONLY = Choice(frozenset({True}))
FALSE_ONLY = Choice(frozenset({False}))
BOOLS = Choice(frozenset({True, False}))


def shown(value: Any) -> str:
    """A value as a rules file writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value).removeprefix("torch.")


def _first(low: float, modulus: int, residue: int) -> float:
    if low == -math.inf:
        return low
    start = math.ceil(low)
    return start + (residue - start) % modulus


def _last(high: float, modulus: int, residue: int) -> float:
    if high == math.inf:
        return high
    end = math.floor(high)
    return end - (end - residue) % modulus


def _below(value: float, whole: bool) -> Numbers:
    return Numbers.of(-math.inf, value - 1) if whole else Numbers(high=value, excluded=frozenset({value}), whole=False)


def _above(value: float, whole: bool) -> Numbers:
    return Numbers.of(value + 1, math.inf) if whole else Numbers(low=value, excluded=frozenset({value}), whole=False)


def _congruent(left: Numbers, right: Numbers) -> tuple[int, int]:
    """Modulus and residue of numbers that fit both (Chinese remainders); modulus 0 where none does."""
    a, m, b, n = left.residue, left.modulus, right.residue, right.modulus
    if m == 1:
        return n, b
    if n == 1:
        return m, a
    shared = math.gcd(m, n)
    if (b - a) % shared:
        return 0, 0
    step = (b - a) // shared * pow(m // shared, -1, n // shared) % (n // shared)
    modulus = m // shared * n
    return modulus, (a + m * step) % modulus
