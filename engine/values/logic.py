"""Arithmetic, three-valued logic and comparison over everything that an expression can have for a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apportion.engine.values.dims import DIVISION_BY_ZERO, Dim
from apportion.engine.values.unknown import Kleene, Unknown

__all__ = [
    "COMPARISONS",
    "arith",
    "k_all",
    "k_and",
    "k_any",
    "k_compare",
    "k_implies",
    "k_in",
    "k_not",
    "k_or",
]

_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def arith(op: str, a: Any, b: Any) -> Any:
    """`a op b` for numbers and dims (`+ - * / // %`), and `+` for lists; else, and for a division by zero, unknown.

    Never raises.
    """
    if isinstance(a, Unknown):
        return a
    if isinstance(b, Unknown):
        return b
    lists = isinstance(a, (tuple, list)) and isinstance(b, (tuple, list))
    numbers = isinstance(a, (int, float, Dim)) and isinstance(b, (int, float, Dim))
    if lists and op == "+":
        return (*a, *b)
    if not numbers:
        return Unknown(f"{_described(a)} {op} {_described(b)} has no value")
    try:
        return _ARITHMETIC[op](a, b)
    except ZeroDivisionError:
        return DIVISION_BY_ZERO
    except (ArithmeticError, ValueError) as error:
        return Unknown(f"{a} {op} {b} can't be computed: {error}")


def _described(value: object) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, (int, float, str, Dim)) else type(value).__name__


# --- three values ----------------------------------------------------------------------------------------------


def k_not(a: Kleene) -> Kleene:
    """`not a`."""
    return a if isinstance(a, Unknown) else not a


def k_and(*values: Kleene) -> Kleene:
    """False if one is False, else the first unknown, else True."""
    return k_all(values)


def k_or(*values: Kleene) -> Kleene:
    """True if one is True, else the first unknown, else False."""
    return k_any(values)


def k_implies(a: Kleene, b: Kleene) -> Kleene:
    """`not a or b`."""
    return k_any((k_not(a), b))


def k_all(values: Iterable[Kleene]) -> Kleene:
    """`k_and` over any number, True for none; stops at the first False."""
    unknown: Unknown | None = None
    for value in values:
        if isinstance(value, Unknown):
            unknown = value if unknown is None else unknown
        elif not value:
            return False
    return True if unknown is None else unknown


def k_any(values: Iterable[Kleene]) -> Kleene:
    """`k_or` over any number, False for none; stops at the first True."""
    unknown: Unknown | None = None
    for value in values:
        if isinstance(value, Unknown):
            unknown = value if unknown is None else unknown
        elif value:
            return True
    return False if unknown is None else unknown


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def k_compare(op: str, a: Any, b: Any) -> Kleene:
    """`a op b`; `op` is one of `== != < <= > >=`.

    Numbers compare by value (2 and 2.0 are equal), dims by what their ranges prove, lists element by element (of
    different lengths: not equal), `none` equals only itself, anything else by plain equality. An order between
    things that have none is unknown. Never raises.
    """
    if isinstance(a, Unknown):
        return a
    if isinstance(b, Unknown):
        return b
    if isinstance(a, Dim) and isinstance(b, (int, float, Dim)):
        return a.compare(op, b)
    if isinstance(b, Dim) and isinstance(a, (int, float)):
        return b.compare(_SWAPPED[op], a)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return _compare_lists(op, a, b)
    if op in ("==", "!="):
        try:
            return bool(COMPARISONS[op](a, b))
        except Exception as error:  # a foreign object's own comparison
            return Unknown(f"{_described(a)} {op} {_described(b)} can't be compared: {error}")
    if _ordered(a, b):
        return bool(COMPARISONS[op](a, b))
    return Unknown(f"{_described(a)} {op} {_described(b)} can't be compared")


def _ordered(a: Any, b: Any) -> bool:
    return (isinstance(a, (int, float)) and isinstance(b, (int, float))) or (isinstance(a, str) and isinstance(b, str))


def _compare_lists(op: str, a: tuple[Any, ...] | list[Any], b: tuple[Any, ...] | list[Any]) -> Kleene:
    if op not in ("==", "!="):
        return Unknown(f"lists have no order ({op}); compare them element by element in all(…) or any(…)")
    equal: Kleene = False
    if len(a) == len(b):
        equal = k_all(k_compare("==", x, y) for x, y in zip(a, b, strict=True))
    return equal if op == "==" else k_not(equal)


def k_in(a: Any, container: Any) -> Kleene:
    """Whether `container` (a list, a set, a `range`, a string) has an element equal to `a`."""
    if isinstance(a, Unknown):
        return a
    if isinstance(container, Unknown):
        return container
    if isinstance(container, str):
        return a in container if isinstance(a, str) else False
    if isinstance(container, range) and container.step == 1:
        return k_and(k_compare(">=", a, container.start), k_compare("<", a, container.stop))
    if isinstance(container, (frozenset, set)) and not isinstance(a, (Dim, tuple, list)):
        try:
            if a in container:
                return True
        except TypeError:
            pass
    try:
        return k_any(k_compare("==", a, item) for item in container)
    except TypeError:
        return Unknown(f"{_described(container)} has no elements")
