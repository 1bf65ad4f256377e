"""What expressions come to when they are read without a graph: numbers over paths, choices, conditions, lists."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from attrs import field, frozen

from apportion.engine.lint.domains import Choice, Domain, Numbers, shown
from apportion.engine.lint.formulas import (
    FALSE,
    TRUE,
    Formula,
    In,
    Open,
    Poly,
    both,
    compared,
    either,
    negated,
    same,
)
from apportion.engine.lint.skeleton import Symbol

__all__ = ["UNDEFINED", "Blur", "Box", "Cond", "Fork", "LongList", "Num", "Pick", "Range", "Undefined", "as_number",
           "compare_terms", "cond", "key_of", "known"]  # fmt: skip


class Undefined:
    """What is unknown whatever the graph is: an index out of range, an attribute of nothing."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


@frozen
class Num:
    """A number over paths."""

    poly: Poly
    whole: bool = True


@frozen
class Pick:
    """The value of one choice path: a dtype, a string, an op, an optional of those."""

    var: str


@frozen
class Cond:
    """A condition: when it is true, and when it is known to be false. Unknown is neither."""

    true: Formula
    false: Formula


_LONGEST_KEY = 2_000


def _short(text: str) -> str:
    """A text over places, or where it is very long its start and a digest: names made of names double it each time."""
    if len(text) <= _LONGEST_KEY:
        return text
    return f"{text[:80]}… {hashlib.sha256(text.encode()).hexdigest()}"


@frozen
class Blur:
    """A value that can't be expressed; `key` is its text over places."""

    key: str = field(converter=_short)
    variables: frozenset[str] = frozenset()
    reason: str = field(default="fragment", eq=False)
    name: str = field(default="", eq=False)
    of: Any = field(default=None, eq=False)


@frozen
class LongList:
    """A list of which only the ends are looked at: `first` items, `last` items, and its length."""

    first: tuple[Any, ...]
    last: tuple[Any, ...]
    length: Poly
    key: str


@frozen
class Range:
    """A closed range after `in`."""

    low: Any
    high: Any


class Fork(Exception):
    """Reading needs a decision: one of `alternatives` holds, and each is to be tried."""

    def __init__(self, alternatives: Sequence[Formula]) -> None:
        self.alternatives = list(alternatives)
        super().__init__("undecided")


class Box:
    """Domains of paths; those not mentioned have the domain of their kind."""

    __slots__ = ("domains",)

    def __init__(self, domains: dict[str, Domain] | None = None) -> None:
        self.domains = {} if domains is None else domains

    def get(self, var: str) -> Domain:
        """The domain of a path."""
        found = self.domains.get(var)
        return default_domain(var) if found is None else found

    def copy(self) -> Box:
        """An independent copy."""
        return Box(dict(self.domains))

    def narrow(self, var: str, domain: Domain) -> bool | None:
        """Meet a path's domain with another: None where nothing is left, else whether it became smaller."""
        old = self.get(var)
        new = old.meet(domain)  # type: ignore[arg-type]  # one path has one kind of domain
        if new.empty:
            return None
        if new == old:
            return False
        self.domains[var] = new
        return True


def default_domain(var: str) -> Domain:
    """All values that a path can have."""
    from apportion.engine.lint.skeleton import domain_for

    found = _DEFAULTS.get(var)
    if found is None:
        found = _DEFAULTS[var] = domain_for(var.rpartition("/")[2])
        if len(_DEFAULTS) > 200_000:
            _DEFAULTS.clear()
    return found


_DEFAULTS: dict[str, Domain] = {}


def cond(formula: Formula) -> Cond:
    """A condition that is never unknown."""
    return Cond(formula, negated(formula))


def as_number(term: Any) -> Num | None:
    """A term as a number, or None."""
    if isinstance(term, bool):
        return Num(Poly((), int(term)))
    if isinstance(term, int):
        return Num(Poly((), term))
    if isinstance(term, float):
        return Num(Poly((), term), term == int(term) if abs(term) < 2**53 else False)
    return term if isinstance(term, Num) else None


def known(term: Any) -> bool:
    """Is the term a plain value?"""
    return term is None or isinstance(term, (bool, int, float, str, torch.dtype, frozenset, bytes))


def key_of(term: Any) -> str:
    """A text for a term, equal for equal terms."""
    match term:
        case Num():
            parts = ["*".join(m) if c == 1 else f"{c:g}*{'*'.join(m)}" for m, c in term.poly.terms]
            if term.poly.constant or not parts:
                parts.append(f"{term.poly.constant:g}")
            return "+".join(parts)
        case Pick():
            return term.var
        case Symbol():
            return term.place
        case Blur():
            return term.key
        case tuple():
            return "[" + ",".join(map(key_of, term)) + "]"
        case LongList():
            return term.key
        case Cond():
            return str(term.true)
        case Undefined():
            return "?"
        case _:
            return shown(term)


def variables_of(term: Any) -> frozenset[str]:
    """The paths behind a term, as far as they are known."""
    match term:
        case Num():
            return term.poly.variables
        case Pick():
            return frozenset({term.var})
        case Blur():
            return term.variables
        case tuple():
            return frozenset().union(*map(variables_of, term))
        case _:
            return frozenset()


_NEVER = Cond(FALSE, FALSE)


def open_condition(key: str, *terms: Any, reason: str = "fragment", name: str = "") -> Cond:
    """A condition of which nothing is known but its text."""
    for term in terms:
        if isinstance(term, Blur) and term.reason != "fragment":
            reason, name = term.reason, term.name
    paths = frozenset().union(*map(variables_of, terms)) if terms else frozenset()
    return Cond(Open(key, True, reason, paths, name), Open(key, False, reason, paths, name))


def compare_terms(op: str, left: Any, right: Any) -> Cond:
    """`left op right` of whole values, for op in == != < <= > >=."""
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return _NEVER
    if op == "!=":
        found = compare_terms("==", left, right)
        return Cond(found.false, found.true)
    if isinstance(left, Blur) or isinstance(right, Blur):
        return _blurred(op, left, right)
    one, two = as_number(left), as_number(right)
    if one is not None and two is not None:
        formula = compared(one.poly, op, two.poly, one.whole and two.whole)
        return Cond(formula, negated(formula) if op == "==" else _flipped(op, one, two))
    if op != "==":
        return _NEVER
    return _equal(left, right)


def _blurred(op: str, left: Any, right: Any) -> Cond:
    if left == right:
        return Cond(TRUE, FALSE) if op in ("==", "<=", ">=") else Cond(FALSE, TRUE)
    if op in (">", ">="):
        left, right, op = right, left, {">": "<", ">=": "<="}[op]
    if op == "<":  # one key for `a < b` and `b <= a`, with opposite polarity
        return _opposite(open_condition(f"{key_of(right)} <= {key_of(left)}", left, right))
    if op == "==" and key_of(left) > key_of(right):
        left, right = right, left
    return open_condition(f"{key_of(left)} {op} {key_of(right)}", left, right)


def _opposite(found: Cond) -> Cond:
    return Cond(found.false, found.true)


def _flipped(op: str, one: Num, two: Num) -> Formula:
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[op]
    return compared(one.poly, opposite, two.poly, one.whole and two.whole)


def _equal(left: Any, right: Any) -> Cond:
    if isinstance(left, Cond) or isinstance(right, Cond):
        return _equal_conditions(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _equal_lists(left, right)
    if isinstance(left, LongList) or isinstance(right, LongList):
        return _long_equal(left, right)
    if isinstance(left, Pick) and isinstance(right, Pick):
        if left.var == right.var:
            return Cond(TRUE, FALSE)
        return cond(same(left.var, right.var))
    if isinstance(right, Pick):
        left, right = right, left
    if isinstance(left, Pick):
        return _is_value(left, right)
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return _equal_symbols(left, right)
    if isinstance(left, frozenset) != isinstance(right, frozenset):
        ops, other = (left, right) if isinstance(left, frozenset) else (right, left)
        return Cond(FALSE, TRUE) if other is None or not isinstance(other, str) else cond(_truth(other in ops))
    return cond(_truth(left == right and isinstance(left, bool) == isinstance(right, bool)))


def _truth(value: bool) -> Formula:
    return TRUE if value else FALSE


def _is_value(pick: Pick, value: Any) -> Cond:
    if value is None or known(value) or isinstance(value, tuple):
        values = value if isinstance(value, frozenset) and pick.var.endswith("/op") else frozenset({value})
        return cond(In(pick.var, Choice(values)))
    return Cond(FALSE, TRUE) if isinstance(value, (Num, Symbol)) else open_condition(f"{pick.var} == {key_of(value)}")


def _equal_symbols(left: Any, right: Any) -> Cond:
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        if left.place == right.place:
            return Cond(TRUE, FALSE)
        one, two = sorted((left.place, right.place))
        return open_condition(f"{one} == {two}")
    symbol = left if isinstance(left, Symbol) else right
    other = right if isinstance(left, Symbol) else left
    if other is None and symbol.kind == "tensor?":
        present = In(f"{symbol.place}/present", Choice(frozenset({True})))
        return Cond(negated(present), present)
    return Cond(FALSE, TRUE)


def _equal_conditions(left: Any, right: Any) -> Cond:
    one = left if isinstance(left, Cond) else cond(_truth(left is True)) if isinstance(left, bool) else None
    two = right if isinstance(right, Cond) else cond(_truth(right is True)) if isinstance(right, bool) else None
    if one is None or two is None:
        other = right if isinstance(left, Cond) else left
        if isinstance(other, Pick):
            condition = left if isinstance(left, Cond) else right
            domain_true, domain_false = (In(other.var, Choice(frozenset({value}))) for value in (True, False))
            alike = either(both(condition.true, domain_true), both(condition.false, domain_false))
            return Cond(alike, either(both(condition.true, domain_false), both(condition.false, domain_true)))
        return Cond(FALSE, TRUE)
    alike = either(both(one.true, two.true), both(one.false, two.false))
    return Cond(alike, either(both(one.true, two.false), both(one.false, two.true)))


def _equal_lists(left: tuple[Any, ...], right: tuple[Any, ...]) -> Cond:
    if len(left) != len(right):
        return Cond(FALSE, TRUE)
    parts = [compare_terms("==", a, b) for a, b in zip(left, right, strict=True)]
    return Cond(both(*(p.true for p in parts)), either(*(p.false for p in parts)))


def _long_equal(left: Any, right: Any) -> Cond:
    one, two = (left, right) if isinstance(left, LongList) else (right, left)
    if isinstance(two, tuple):
        fits = compared(one.length, "==", Poly((), len(two)))
        if fits == FALSE or len(two) < len(one.first):
            return Cond(FALSE, TRUE)
        return open_condition(f"{one.key} == {key_of(two)}")
    if isinstance(two, LongList):
        return Cond(TRUE, FALSE) if one.key == two.key else open_condition(f"{one.key} == {two.key}")
    return Cond(FALSE, TRUE)


def numbers_of(box: Box, poly: Poly) -> Numbers:
    """Bounds of a polynomial in a box, as an interval."""
    low, high = bounds(box, poly)
    return Numbers(low, high, whole=False)


def bounds(box: Box, poly: Poly) -> tuple[float, float]:
    """The least and the greatest value that a polynomial may have in a box (never too narrow)."""
    low = high = poly.constant
    for monomial, coefficient in poly.terms:
        least, most = coefficient, coefficient
        for var in monomial:
            domain = box.get(var)
            if not isinstance(domain, Numbers):
                return -_INF, _INF
            ends = [_times(a, b) for a in (least, most) for b in (domain.low, domain.high)]
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return low, high


_INF = float("inf")


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b
