"""What rules say, as formulas over paths: domains of single paths, comparisons of polynomials, and what stays open."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Union

from attrs import field, frozen

from apportion.engine.lint.domains import Domain, Numbers

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Compare",
    "Formula",
    "In",
    "Open",
    "Or",
    "Poly",
    "Same",
    "Truth",
    "both",
    "compared",
    "either",
    "equal",
    "has_open",
    "negated",
    "variables",
]


@frozen
class Truth:
    """`TRUE` or `FALSE`."""

    value: bool


TRUE = Truth(True)
FALSE = Truth(False)


@frozen(cache_hash=True)
class In:
    """The path `var` has a value in `domain`."""

    var: str
    domain: Domain


@frozen(cache_hash=True)
class Poly:
    """A polynomial over number paths: pairs of a monomial (sorted paths) and its coefficient, and a constant."""

    terms: tuple[tuple[tuple[str, ...], float], ...] = ()
    constant: float = 0

    @classmethod
    def path(cls, var: str) -> Poly:
        """The polynomial that is one path."""
        return cls((((var,), 1),))

    @classmethod
    def build(cls, terms: Mapping[tuple[str, ...], float], constant: float) -> Poly:
        """From a mapping of monomials; those with coefficient 0 go away."""
        return cls(tuple(sorted((m, c) for m, c in terms.items() if c != 0)), constant)

    @property
    def is_constant(self) -> bool:
        """Has it no path?"""
        return not self.terms

    @property
    def single(self) -> str:
        """The path of a polynomial that is just that path, else an empty string."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return ""

    @property
    def variables(self) -> frozenset[str]:
        """The paths in it."""
        return frozenset(v for monomial, _ in self.terms for v in monomial)

    @property
    def degree(self) -> int:
        """How many paths its longest monomial multiplies."""
        return max((len(monomial) for monomial, _ in self.terms), default=0)

    def plus(self, other: Poly, factor: float = 1) -> Poly:
        """This and `factor` times the other."""
        terms = dict(self.terms)
        for monomial, coefficient in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor * coefficient
        return Poly.build(terms, self.constant + factor * other.constant)

    def times(self, other: Poly) -> Poly:
        """The product."""
        terms: dict[tuple[str, ...], float] = {}
        for one, a in (*self.terms, ((), self.constant)):
            for two, b in (*other.terms, ((), other.constant)):
                monomial = tuple(sorted(one + two))
                terms[monomial] = terms.get(monomial, 0) + a * b
        constant = terms.pop((), 0)
        return Poly.build(terms, constant)

    def value(self, values: Mapping[str, float]) -> float:
        """Its value where the paths have these values."""
        total = self.constant
        for monomial, coefficient in self.terms:
            for var in monomial:
                coefficient *= values[var]
            total += coefficient
        return total


@frozen(cache_hash=True)
class Compare:
    """`poly <= 0`, `poly == 0` or `poly != 0`."""

    poly: Poly
    op: str


@frozen(cache_hash=True)
class Same:
    """Two paths of a choice have (or, not `positive`, have not) the same value."""

    left: str
    right: str
    positive: bool = True


@frozen(cache_hash=True)
class Open:
    """A condition that the formulas can't express, by its text over paths; `reason` is extern, meta or fragment.

    `name` is the extern's. Equal keys are equal conditions, so opposite polarities contradict each other.
    """

    key: str
    positive: bool = True
    reason: str = field(default="fragment", eq=False)
    variables: frozenset[str] = field(default=frozenset(), eq=False)
    name: str = field(default="", eq=False)


@frozen(cache_hash=True)
class And:
    """All of `parts`."""

    parts: tuple[Formula, ...]


@frozen(cache_hash=True)
class Or:
    """One of `parts`."""

    parts: tuple[Formula, ...]


Formula = Union[Truth, In, Compare, Same, Open, And, Or]


def both(*parts: Formula) -> Formula:
    """The conjunction, simplified."""
    found: dict[Formula, None] = {}
    for part in _flat(parts, And):
        if part == FALSE:
            return FALSE
        if part != TRUE:
            found[part] = None
    return next(iter(found)) if len(found) == 1 else And(tuple(found)) if found else TRUE


def either(*parts: Formula) -> Formula:
    """The disjunction, simplified; choices over one path become one set."""
    found: dict[Formula, None] = {}
    for part in _flat(parts, Or):
        if part == TRUE:
            return TRUE
        if part != FALSE:
            found[part] = None
    return next(iter(found)) if len(found) == 1 else Or(tuple(found)) if found else FALSE


def _flat(parts: Iterable[Formula], kind: type) -> Iterator[Formula]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts  # type: ignore[union-attr]  # it is of that kind
        else:
            yield part


def negated(formula: Formula) -> Formula:
    """What holds where `formula` does not."""
    match formula:
        case Truth():
            return FALSE if formula.value else TRUE
        case In():
            if isinstance(formula.domain, Numbers) and formula.domain.single:  # one set, which narrows its path
                rest = Numbers(excluded=frozenset(formula.domain.single), whole=formula.domain.whole)
                return In(formula.var, rest)
            return either(*(In(formula.var, part) for part in formula.domain.complement()))
        case Compare():
            if formula.op == "==":
                return Compare(formula.poly, "!=")
            if formula.op == "!=":
                return Compare(formula.poly, "==")
            return Compare(Poly((), 0).plus(formula.poly, -1).plus(Poly((), 1)), "<=")
        case Same():
            return Same(formula.left, formula.right, not formula.positive)
        case Open():
            return Open(formula.key, not formula.positive, formula.reason, formula.variables, formula.name)
        case And():
            return either(*map(negated, formula.parts))
        case Or():
            return both(*map(negated, formula.parts))


def variables(formula: Formula) -> frozenset[str]:
    """The paths that a formula speaks of."""
    match formula:
        case In():
            return frozenset({formula.var})
        case Compare():
            return formula.poly.variables
        case Same():
            return frozenset({formula.left, formula.right})
        case Open():
            return formula.variables
        case And() | Or():
            return frozenset().union(*map(variables, formula.parts))
        case _:
            return frozenset()


def has_open(formula: Formula) -> bool:
    """Is a part of it open?"""
    return isinstance(formula, Open) or isinstance(formula, And | Or) and any(map(has_open, formula.parts))


_HOLDS = {"==": lambda d: d == 0, "!=": lambda d: d != 0, "<=": lambda d: d <= 0}


def same(one: str, other: str, positive: bool = True) -> Same:
    """Two choice paths have the same value; in one order, so that equal conditions are equal."""
    left, right = sorted((one, other))
    return Same(left, right, positive)


def compared(left: Poly, op: str, right: Poly, whole: bool = True) -> Formula:
    """`left op right` for op in == != < <= > >=; comparisons of one path with a number become a domain."""
    if op in (">", ">="):
        left, right, op = right, left, {">": "<", ">=": "<="}[op]
    difference = left.plus(right, -1)
    if op == "<":
        if not whole:
            return both(compared(left, "<=", right, False), compared(left, "!=", right, False))
        difference, op = difference.plus(Poly((), 1)), "<="
    if math.isnan(difference.constant) or (whole and math.isinf(difference.constant)):  # sizes are finite
        difference = Poly((), difference.constant)
    if difference.is_constant:
        return TRUE if _HOLDS[op](difference.constant) else FALSE
    if len(difference.terms) == 1 and len(difference.terms[0][0]) == 1:
        (var,), coefficient = difference.terms[0]
        return _domain(var, coefficient, op, -difference.constant / coefficient, whole)
    return Compare(difference, op)


def _domain(var: str, coefficient: float, op: str, bound: float, whole: bool) -> Formula:
    if op == "==":
        found = Numbers.point(bound, whole=whole)
        return FALSE if found.empty else In(var, found)
    if op == "!=":
        inside = not whole or bound == math.floor(bound)
        return In(var, Numbers(excluded=frozenset({bound}), whole=whole)) if inside else TRUE
    if coefficient > 0:
        return In(var, Numbers.of(-math.inf, bound, whole=whole))
    return In(var, Numbers.of(bound, math.inf, whole=whole))


def equal(var: str, values: Iterable[Hashable]) -> Formula:
    """A choice path has one of the values."""
    from apportion.engine.lint.domains import Choice

    found = frozenset(values)
    return In(var, Choice(found)) if found else FALSE
