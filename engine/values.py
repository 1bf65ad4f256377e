"""Values of the rules language that PyTorch has no type for: what is not known, and sizes that are symbolic.

Nothing here evaluates a `SymInt` or a `SymBool`: a comparison is decided by the ranges that the program proves, or
it is `Unknown`. So no operation of this module adds a guard to a shape environment.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Union, cast

import sympy as _sympy
import torch
from attrs import field, frozen
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv, IntTrueDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

sympy: Any = _sympy  # its annotations are too few to check against
_MIN: Any = Min
_MAX: Any = Max
Expression = Any  # sympy.Expr

__all__ = [
    "COMPARISONS",
    "UNKNOWN",
    "Dim",
    "Kleene",
    "Number",
    "Ranges",
    "Unknown",
    "arith",
    "is_unknown",
    "k_all",
    "k_and",
    "k_any",
    "k_compare",
    "k_implies",
    "k_in",
    "k_not",
    "k_or",
    "make_dim",
]


@frozen
class Unknown:
    """What is not known, and why. It satisfies no requirement.

    Asking for its truth is a mistake of the caller (`x is True` asks whether something holds), so `bool` raises
    TypeError.
    """

    reason: str = ""

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of an unknown value was asked for ({self.reason or 'no reason given'})")

    def __str__(self) -> str:
        return f"unknown ({self.reason})" if self.reason else "unknown"


UNKNOWN: Final = Unknown()

Kleene = Union[bool, Unknown]
"""True, False, or not known."""


def is_unknown(value: object) -> bool:
    """Whether `value` is an `Unknown`."""
    return isinstance(value, Unknown)


# --- symbolic sizes --------------------------------------------------------------------------------------------


class Ranges:
    """What a program proves about its symbols: closed integer ranges, by symbol.

    `constraints` are the program's own (`ExportedProgram.range_constraints`); a symbol missing there is looked up in
    `shape_env`, the environment that made it.
    """

    __slots__ = ("_bounds", "constraints", "shape_env")

    def __init__(
        self,
        constraints: Mapping[Any, ValueRanges[Any]] | None = None,
        shape_env: ShapeEnv | None = None,
    ) -> None:
        self.constraints: Mapping[Any, ValueRanges[Any]] = {} if constraints is None else constraints
        self.shape_env = shape_env
        self._bounds: dict[Any, tuple[Expression, Expression]] = {}

    def bounds(self, expression: Expression) -> tuple[Expression, Expression]:
        """The least and the greatest value that `expression` can have; infinite where nothing is proven."""
        known = self._bounds.get(expression)
        if known is None:
            known = self._bounds[expression] = self._compute(expression)
        return known

    def _compute(self, expression: Expression) -> tuple[Expression, Expression]:
        if expression.is_number:
            return expression, expression
        ranges: dict[Any, ValueRanges[Any]] = {}
        for symbol in expression.free_symbols:
            found = self._range_of(symbol)
            if found is not None:
                ranges[symbol] = found
        try:
            result = bound_sympy(expression, ranges)
        except Exception:  # sympy has many, and a bound that can't be computed is only a bound that is not known
            return -sympy.oo, sympy.oo
        return result.lower, result.upper

    def _range_of(self, symbol: Any) -> ValueRanges[Any] | None:
        found = self.constraints.get(symbol)
        if found is None and self.shape_env is not None:
            found = self.shape_env.var_to_range.get(symbol)
        return found


NO_RANGES: Final = Ranges()

Number = Union[int, float, "Dim"]


def make_dim(value: int | torch.SymInt | Expression, ranges: Ranges | Mapping[Any, Any] | None = None) -> int | Dim:
    """`value` as an int where it is constant, else as a `Dim` over `ranges`. Adds no guard.

    Raises TypeError for a symbolic integer without an expression (the ragged dim of a nested tensor).
    """
    if not isinstance(ranges, Ranges):
        ranges = NO_RANGES if ranges is None else Ranges(ranges)
    if isinstance(value, int):
        return value
    if isinstance(value, torch.SymInt):
        node = value.node
        constant = node.maybe_as_int()
        if constant is not None:
            return int(constant)
        if node.is_nested_int():
            raise TypeError("the ragged size of a nested tensor has no expression")
        if ranges.shape_env is None and ranges is not NO_RANGES:
            ranges.shape_env = node.shape_env
        value = node.expr
    return cast("int | Dim", _simplest(value, ranges))


def _simplest(expression: Expression, ranges: Ranges) -> Any:
    if expression.is_Integer:
        return int(expression)
    if expression.is_number and expression.is_finite:
        return float(expression)
    return Dim(expression, ranges)


def _expression_of(value: Number) -> Expression:
    if isinstance(value, Dim):
        return value.expr
    return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)


_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@frozen(eq=False, repr=False)
class Dim:
    """A symbolic size: an expression over symbols, and the ranges that the program proves for them.

    `origin` is the graph value it was read from where it is an argument of a call (no part of equality). Two dims
    are `==` where their expressions are the same; `compare` says what is true for every size.
    """

    expr: Expression
    ranges: Ranges = NO_RANGES
    origin: Any = field(default=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.expr == other.expr

    def __hash__(self) -> int:
        return hash(self.expr)

    def __str__(self) -> str:
        return str(self.expr)

    __repr__ = __str__

    @property
    def bounds(self) -> tuple[Expression, Expression]:
        """The least and the greatest value it can have (integers, or infinite)."""
        return self.ranges.bounds(self.expr)

    @property
    def is_unbacked(self) -> bool:
        """Whether it depends on data (`item()`, `nonzero`) rather than on the sizes of inputs alone."""
        return any(symbol_is_type(s, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)) for s in self.expr.free_symbols)

    def compare(self, op: str, other: Number) -> Kleene:
        """What `self op other` is for every value of the symbols; `op` is one of `== != < <= > >=`."""
        if isinstance(other, float) and math.isnan(other):
            return op == "!="
        if isinstance(other, Dim):
            if self.expr == other.expr:
                return op in ("==", "<=", ">=")
            difference = self.expr - other.expr
            low, high = self.ranges.bounds(difference)
            limit: Expression = sympy.Integer(0)
        else:
            difference, limit = self.expr, _expression_of(other)
            low, high = self.bounds
        decided = _decide(op, low, high, limit)
        if decided is None and op in ("==", "!=") and _never_equal(difference, limit):
            decided = op == "!="
        if decided is None:
            return Unknown(f"{self} {op} {other} is not decided by the ranges of its symbols")
        return decided

    def __add__(self, other: object) -> Any:
        return _binary("+", self, other)

    def __radd__(self, other: object) -> Any:
        return _binary("+", other, self)

    def __sub__(self, other: object) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: object) -> Any:
        return _binary("-", other, self)

    def __mul__(self, other: object) -> Any:
        return _binary("*", self, other)

    def __rmul__(self, other: object) -> Any:
        return _binary("*", other, self)

    def __truediv__(self, other: object) -> Any:
        return _binary("/", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return _binary("/", other, self)

    def __floordiv__(self, other: object) -> Any:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return _binary("//", other, self)

    def __mod__(self, other: object) -> Any:
        return _binary("%", self, other)

    def __rmod__(self, other: object) -> Any:
        return _binary("%", other, self)

    def __neg__(self) -> Any:
        return _simplest(-self.expr, self.ranges)

    def __abs__(self) -> Any:
        low, high = self.bounds
        if low >= 0:
            return self
        if high <= 0:
            return -self
        return _simplest(sympy.Abs(self.expr), self.ranges)

    def min(self, other: int | Dim) -> int | Dim:
        """The smaller of the two, as an expression where that is not decided."""
        return self._choose("<=", _MIN, other)

    def max(self, other: int | Dim) -> int | Dim:
        """The larger of the two, as an expression where that is not decided."""
        return self._choose(">=", _MAX, other)

    def _choose(self, op: str, function: Any, other: int | Dim) -> int | Dim:
        better = self.compare(op, other)
        if isinstance(better, bool):
            return self if better else other
        return cast("int | Dim", _simplest(function(self.expr, _expression_of(other)), self.ranges))


def _decide(op: str, low: Expression, high: Expression, limit: Expression) -> bool | None:
    """The verdict of `[low, high] op limit` where it is the same for the whole interval."""
    if op == "<":
        return True if high < limit else False if low >= limit else None
    if op == "<=":
        return True if high <= limit else False if low > limit else None
    if op == ">":
        return True if low > limit else False if high <= limit else None
    if op == ">=":
        return True if low >= limit else False if high < limit else None
    if low > limit or high < limit:
        return op == "!="
    if low == high == limit:
        return op == "=="
    return None


def _never_equal(expression: Expression, limit: Expression) -> bool:
    """Whether an integer expression misses `limit` by divisibility: `2*s` is never 3."""
    if not limit.is_Integer:
        return bool(limit.is_finite) and bool(expression.is_integer)
    constant, rest = sympy.expand(expression - limit).as_coeff_Add()
    factors = [term.as_coeff_Mul()[0] for term in sympy.Add.make_args(rest)]
    if not constant.is_Integer or not all(f.is_Integer for f in factors) or not rest.is_integer:
        return False
    common = math.gcd(*(int(f) for f in factors))
    return common > 1 and int(constant) % common != 0


_ZERO = Unknown("division by zero")


def _binary(op: str, left: object, right: object) -> Any:
    if not isinstance(left, (int, float, Dim)) or not isinstance(right, (int, float, Dim)):
        return NotImplemented
    ranges = left.ranges if isinstance(left, Dim) else cast("Dim", right).ranges
    for side in (left, right):
        if isinstance(side, float) and not math.isfinite(side):
            return Unknown(f"{left} {op} {right} has no value")
    a, b = _expression_of(left), _expression_of(right)
    if op in ("/", "//", "%"):
        low, high = ranges.bounds(b)
        if low <= 0 and high >= 0:
            return _ZERO if low == high else Unknown(f"division by zero is possible: {right} may be 0")
    try:
        return _simplest(_OPERATIONS[op](a, b, ranges), ranges)
    except (ArithmeticError, AssertionError, TypeError, ValueError) as error:
        return Unknown(f"{left} {op} {right} can't be computed: {error}")


def _divide(a: Expression, b: Expression, _: Ranges) -> Expression:
    return a / b if b.is_number else IntTrueDiv(a, b)


def _floor_divide(a: Expression, b: Expression, _: Ranges) -> Expression:
    if not (a.is_integer and b.is_integer):
        raise ValueError("floor division of a number that is no integer")
    return FloorDiv(a, b)


def _modulo(a: Expression, b: Expression, ranges: Ranges) -> Expression:
    if not (a.is_integer and b.is_integer):
        raise ValueError("remainder of a number that is no integer")
    # The same form that PyTorch gives, so that equal sizes have equal expressions.
    plain = ranges.bounds(a)[0] >= 0 and ranges.bounds(b)[0] > 0
    return Mod(a, b) if plain else PythonMod(a, b)


_OPERATIONS: Mapping[str, Callable[[Expression, Expression, Ranges], Expression]] = {
    "+": lambda a, b, _: a + b,
    "-": lambda a, b, _: a - b,
    "*": lambda a, b, _: a * b,
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
}

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
        return _ZERO
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
