"""Functions and arithmetic over terms. What needs a number that is open becomes a path of its own, with the facts that
tie it to its arguments; what can't be said at all becomes a blur."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve

from apportion.engine.lint.domains import Numbers
from apportion.engine.lint.formulas import Formula, In, Poly, both, compared, either
from apportion.engine.lint.skeleton import Symbol
from apportion.engine.lint.terms import (
    UNDEFINED,
    Blur,
    Cond,
    Fork,
    LongList,
    Num,
    Undefined,
    as_number,
    bounds,
    compare_terms,
    key_of,
    known,
)

if TYPE_CHECKING:
    from apportion.engine.lint.evaluate import Reader

__all__ = ["FUNCTIONS", "constant"]

_FEW = 16


def _result(poly: Poly, whole: bool) -> Any:
    if not poly.is_constant:
        return Num(poly, whole)
    return int(poly.constant) if whole and poly.constant == math.floor(poly.constant) else poly.constant


MOST_TERMS = 64
"""Products of more paths, or of more terms, are not multiplied out: they stay open."""


def _blur(name: str, *terms: Any) -> Any:
    if any(isinstance(term, Undefined) for term in terms):
        return UNDEFINED
    blurred = next((t for t in terms if isinstance(t, Blur) and t.reason != "fragment"), None)
    key = f"{name}({', '.join(map(key_of, terms))})"
    return Blur(key) if blurred is None else Blur(key, blurred.variables, blurred.reason, blurred.name)


def _pair(left: Any, right: Any) -> tuple[Num, Num] | None:
    one, two = as_number(left), as_number(right)
    return None if one is None or two is None else (one, two)


def _add(reader: Reader, left: Any, right: Any) -> Any:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    found = _pair(left, right)
    return _blur("+", left, right) if found is None else _result(found[0].poly.plus(found[1].poly), _whole(*found))


def _subtract(reader: Reader, left: Any, right: Any) -> Any:
    found = _pair(left, right)
    if found is None:
        return _blur("-", left, right)
    return _result(found[0].poly.plus(found[1].poly, -1), _whole(*found))


def _multiply(reader: Reader, left: Any, right: Any) -> Any:
    found = _pair(left, right)
    if found is None or len(found[0].poly.terms) * len(found[1].poly.terms) > MOST_TERMS or (
            found[0].poly.degree + found[1].poly.degree > MOST_TERMS):
        return _blur("*", left, right)
    return _result(found[0].poly.times(found[1].poly), _whole(*found))


def _whole(one: Num, two: Num) -> bool:
    return one.whole and two.whole


def _divide(reader: Reader, left: Any, right: Any) -> Any:
    found = _pair(left, right)
    if found is None:
        return _blur("/", left, right)
    divisor = _constant(reader, found[1])
    if divisor is None:
        return _blur("/", left, right)
    if divisor == 0:
        return UNDEFINED
    return _result(found[0].poly.times(Poly((), 1 / divisor)), False)


def _constant(reader: Reader, number: Num) -> float | None:
    """The value of a number; forked over where it depends on one path with few values."""
    if number.poly.is_constant:
        return number.poly.constant
    low, high = bounds(reader.box, number.poly)
    if low == high:
        return low
    paths = number.poly.variables
    domain = reader.box.get(next(iter(paths))) if len(paths) == 1 else None
    if isinstance(domain, Numbers) and domain.whole and domain.count() <= _FEW:
        raise Fork([In(next(iter(paths)), Numbers.point(value)) for value in domain.members()])
    return None


def constant(reader: Reader, number: Num) -> Any:
    """A whole number as a plain one where it can be had, by a fork if need be; else the number as it is."""
    found = _constant(reader, number) if number.whole else None
    return number if found is None else int(found)


def _split(reader: Reader, left: Any, right: Any) -> tuple[Any, Any] | None:
    """Quotient and remainder by a constant: two paths with `left == divisor * quotient + remainder`."""
    found = _pair(left, right)
    if found is None or not _whole(*found):
        return None
    divisor = _constant(reader, found[1])
    if divisor is None:
        return None
    if divisor == 0:
        return UNDEFINED, UNDEFINED
    if found[0].poly.is_constant:
        value = found[0].poly.constant
        return int(value // divisor), int(value % divisor)
    by = int(divisor)
    key = f"{key_of(found[0])} by {by}"
    quotient, remainder = f"{key}/quotient:int", f"{key}/remainder:int"
    parts = found[0].poly.plus(Poly.path(quotient), -by).plus(Poly.path(remainder), -1)
    inside = Numbers.of(0, by - 1) if by > 0 else Numbers.of(by + 1, 0)
    reader.note(both(compared(parts, "==", Poly()), In(remainder, inside)))
    return reader.number(quotient), reader.number(remainder)


def _floor_divide(reader: Reader, left: Any, right: Any) -> Any:
    found = _split(reader, left, right)
    return _blur("//", left, right) if found is None else found[0]


def _remainder(reader: Reader, left: Any, right: Any) -> Any:
    found = _split(reader, left, right)
    return _blur("%", left, right) if found is None else found[1]


def _ceil_divide(reader: Reader, left: Any, right: Any) -> Any:
    return _multiply(reader, -1, _floor_divide(reader, _multiply(reader, -1, left), right))


def _align(reader: Reader, left: Any, right: Any) -> Any:
    return _multiply(reader, _ceil_divide(reader, left, right), right)


def _length(reader: Reader, term: Any) -> Any:
    if isinstance(term, LongList):
        low, high = bounds(reader.box, term.length)
        return int(low) if low == high else _result(term.length, True)
    return len(term) if isinstance(term, (tuple, str, frozenset)) else _blur("len", term)


def _fold(name: str, start: int, step: Callable[..., Any]) -> Callable[..., Any]:
    def compute(reader: Reader, items: Any) -> Any:
        if not isinstance(items, tuple):
            return _blur(name, items)
        found: Any = start
        for item in items:
            if isinstance(item, Undefined):
                return UNDEFINED
            found = step(reader, found, item)
        return found

    return compute


def _extreme(name: str, op: str, better: Callable[..., Any]) -> Callable[..., Any]:
    def compute(reader: Reader, items: Any) -> Any:
        if not isinstance(items, tuple):
            return _blur(name, items)
        if not items or any(isinstance(item, Undefined) for item in items):
            return UNDEFINED
        numbers = [as_number(item) for item in items]
        found = [number for number in numbers if number is not None]
        if len(found) < len(items):
            return _blur(name, items)
        if all(n.poly.is_constant for n in found):
            return better(n.poly.constant for n in found) if not found[0].whole else int(
                better(n.poly.constant for n in found))
        if len(found) == 1:
            return items[0]
        return _tied(reader, name, op, found)

    return compute


def _tied(reader: Reader, name: str, op: str, numbers: list[Num]) -> Any:
    """The least or greatest of open numbers: a path that bounds all and equals one."""
    whole = all(n.whole for n in numbers)
    var = f"{name}({', '.join(map(key_of, numbers))})/value:{'int' if whole else 'number'}"
    path = Poly.path(var)
    parts: list[Formula] = [compared(path, op, n.poly, whole) for n in numbers]
    parts.append(either(*(compared(path, "==", n.poly, whole) for n in numbers)))
    reader.note(both(*parts))
    return reader.number(var)


def _absolute(reader: Reader, term: Any) -> Any:
    number = as_number(term)
    if number is None:
        return _blur("abs", term)
    if number.poly.is_constant:
        return abs(term)
    positive = compared(number.poly, ">=", Poly(), number.whole)
    negative = compared(number.poly, "<", Poly(), number.whole)
    verdict = reader.decide(Cond(positive, negative))
    return term if verdict else _multiply(reader, -1, term)


def _sorted(reader: Reader, items: Any) -> Any:
    if not isinstance(items, tuple) or any(isinstance(item, Undefined) for item in items):
        return UNDEFINED if isinstance(items, Undefined) else _blur("sorted", items)
    if all(isinstance(item, (int, float, str)) for item in items):
        return tuple(sorted(items))
    if len(items) > 3 or any(as_number(item) is None for item in items):
        return _blur("sorted", items)
    found: list[Any] = []
    for item in items:  # insertion, each step decided or forked over
        place = len(found)
        while place and reader.decide(compare_terms("<", item, found[place - 1])):
            place -= 1
        found.insert(place, item)
    return tuple(found)


def _zip(reader: Reader, *lists: Any) -> Any:
    from apportion.engine.lint.symbols import as_list

    lists = tuple(as_list(reader, items) for items in lists)
    if any(isinstance(items, Undefined) for items in lists):
        return UNDEFINED
    if all(isinstance(items, tuple) for items in lists):
        return UNDEFINED if len({len(items) for items in lists}) > 1 else tuple(zip(*lists, strict=True))
    if all(isinstance(items, LongList) for items in lists):
        shapes = {(len(items.first), len(items.last)) for items in lists}
        if len(shapes) == 1:
            first = tuple(zip(*(items.first for items in lists), strict=True))
            last = tuple(zip(*(items.last for items in lists), strict=True))
            return LongList(first, last, lists[0].length, f"zip({', '.join(items.key for items in lists)})")
    return _blur("zip", *lists)


def _range(reader: Reader, *ends: Any) -> Any:
    settled: list[Any] = []
    for end in ends:
        number = as_number(end)
        settled.append(None if number is None else _constant(reader, number))
    if any(end is None for end in settled):
        return _blur("range", *ends)
    if len(settled) == 3 and settled[2] == 0:
        return UNDEFINED
    found = range(*(int(end) for end in settled))
    return tuple(found) if len(found) <= 256 else _blur("range", *ends)


def _distinct(reader: Reader, items: Any) -> Any:
    if isinstance(items, tuple) and all(map(known, items)):
        return tuple(dict.fromkeys(items))
    if isinstance(items, tuple) and len(items) < 2:
        return items
    return _blur("distinct", items)


def _log2(reader: Reader, term: Any) -> Any:
    if isinstance(term, (int, float)) and not isinstance(term, bool):
        return math.log2(term) if term > 0 else UNDEFINED
    return _blur("log2", term)


def _round(reader: Reader, term: Any, digits: Any = None) -> Any:
    if isinstance(term, (int, float)) and (digits is None or isinstance(digits, int)):
        return round(term, digits)
    return term if isinstance(term, Num) and term.whole and digits is None else _blur("round", term, digits)


def _named(name: str) -> Callable[..., Any]:
    def compute(reader: Reader, *terms: Any) -> Any:
        return _blur(name, *terms)

    return compute


def _data(name: str) -> Callable[..., Any]:
    """What the data of a constant says: open until a candidate with data is tried."""

    def compute(reader: Reader, *terms: Any) -> Any:
        found = _blur(name, *terms)
        if not isinstance(found, Blur) or found.reason != "fragment":
            return found
        origins = frozenset(f"{term.place}/origin" for term in terms if isinstance(term, Symbol))
        return evolve(found, reason="data", variables=origins)

    return compute


def _symmetric(name: str) -> Callable[..., Any]:
    def compute(reader: Reader, *terms: Any) -> Any:
        return _blur(name, *sorted(terms, key=key_of))

    return compute


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "//": _floor_divide,
    "%": _remainder,
    "len": _length,
    "prod": _fold("prod", 1, _multiply),
    "sum": _fold("sum", 0, _add),
    "min": _extreme("min", "<=", min),
    "max": _extreme("max", ">=", max),
    "abs": _absolute,
    "round": _round,
    "sorted": _sorted,
    "zip": _zip,
    "range": _range,
    "distinct": _distinct,
    "log2": _log2,
    "ceil_div": _ceil_divide,
    "align_up": _align,
    "broadcastable": _symmetric("broadcastable"),
    "depends_on": _named("depends_on"),
    "same_qparams": _symmetric("same_qparams"),
    "min_value": _data("min_value"),
    "max_value": _data("max_value"),
    "all_zero": _data("all_zero"),
    "flops": _named("flops"),
}
"""Every operator and function by name; each takes the reader and terms."""
