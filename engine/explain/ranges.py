"""What a program would have to promise about its sizes, for a comparison to be proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as _sympy
from torch.utils._sympy.functions import Mod
from torch.utils._sympy.value_ranges import ValueRanges

from apportion.engine.values import Dim, Ranges

__all__ = ["proof_of", "range_of"]

sympy: Any = _sympy

_LARGEST = 1 << 40


def range_of(dim: Dim) -> str:
    """The sizes that a program allows for a dim: `2 to 128`, `0 and more`."""
    low, high = dim.bounds
    if high.is_finite and high < _LARGEST:
        return f"{low} to {high}"
    return f"{low} and more" if low.is_finite else "any size"


def proof_of(left: Any, op: str, right: Any) -> str | None:
    """Which range of a symbol would prove `left op right`, in a sentence; None where nothing symbolic is compared.

    Where a range alone can't (a remainder), it says what can.
    """
    if not isinstance(left, (int, Dim)) or not isinstance(right, (int, Dim)) or isinstance(left, bool):
        return None
    if not isinstance(left, Dim):
        if not isinstance(right, Dim):
            return None
        left, op, right = right, _MIRRORED.get(op, op), left
    if op not in _MIRRORED or left.compare(op, right) is True:
        return None
    expression = left.expr - (right.expr if isinstance(right, Dim) else right)
    symbols = sorted(expression.free_symbols, key=str)
    known = f"{left} is {range_of(left)}"
    for symbol in symbols:
        wish = _wish(symbol, expression, op, left.ranges)
        if wish is not None:
            return f"not proven: {known}; it would be with {wish}"
    multiple = _multiple(expression, op)
    if multiple is not None:
        return f"not proven: {known}; it would be if the exported dim were {multiple}"
    return f"not proven: {known}; no range of {', '.join(map(str, symbols))} alone proves it"


_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _wish(symbol: Any, expression: Any, op: str, ranges: Ranges) -> str | None:
    """The widest range of one symbol that proves `expression op 0`."""
    low, high = ranges.bounds(symbol)
    if op in ("==", "!="):
        pinned = _pinned(symbol, expression, low, high)
        return pinned if op == "==" else _apart(symbol, expression, op, high, ranges, pinned)
    start = int(low) if low.is_finite else 0
    end = int(high) if high.is_finite and high < _LARGEST else _LARGEST

    def proves(a: int, b: int) -> bool:
        return _decided(expression, op, symbol, a, b, ranges)

    upper = _last(start, end, lambda b: proves(start, b))
    if upper is not None:
        return f"{symbol} <= {upper} (`max={upper}`)"
    lower = _first(start, end, lambda a: proves(a, end))
    return None if lower is None else f"{symbol} >= {lower} (`min={lower}`)"


def _decided(expression: Any, op: str, symbol: Any, low: int, high: int, ranges: Ranges) -> bool:
    narrowed = {s: _known(s, ranges) for s in expression.free_symbols}
    narrowed[symbol] = ValueRanges(low, sympy.oo if high >= _LARGEST else high)
    found = Ranges({s: r for s, r in narrowed.items() if r is not None})
    return Dim(expression, found).compare(op, 0) is True


def _known(symbol: Any, ranges: Ranges) -> Any:
    low, high = ranges.bounds(symbol)
    return ValueRanges(low, high) if low <= high else None


def _last(start: int, end: int, holds: Callable[[int], bool]) -> int | None:
    """The largest `b` of `start..end` for which it holds, given that it holds for all smaller ones then."""
    if not holds(start):
        return None
    low, high = start, end
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _first(start: int, end: int, holds: Callable[[int], bool]) -> int | None:
    found = _last(0, end - start, lambda back: holds(end - back))
    return None if found is None else end - found


def _pinned(symbol: Any, expression: Any, low: Any, high: Any) -> str | None:
    """The one size for which an expression is zero."""
    if expression.has(Mod):
        return None
    try:
        roots = sympy.solve(expression, symbol)
    except (NotImplementedError, ValueError, TypeError):
        return None
    fitting = [root for root in roots if root.is_Integer and low <= root <= high]
    return f"{symbol} = {fitting[0]} (a static size)" if fitting else None


def _apart(symbol: Any, expression: Any, op: str, high: Any, ranges: Ranges, pinned: str | None) -> str | None:
    """A range above its root, in which an expression is never zero."""
    if pinned is None:
        return None
    root = int(pinned.split(" = ")[1].split(" ")[0])
    top = int(high) if high.is_finite else _LARGEST
    if root < top and _decided(expression, op, symbol, root + 1, top, ranges):
        return f"{symbol} >= {root + 1} (`min={root + 1}`)"
    return None


def _multiple(expression: Any, op: str) -> str | None:
    for remainder in expression.atoms(Mod):
        base, divisor = remainder.args
        if op == "==" and divisor.is_Integer and base.is_Symbol:
            return f"a multiple, `{divisor} * Dim(…)`"
    return None
