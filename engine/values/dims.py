"""Symbolic sizes: expressions over symbols, with the ranges that a program proves for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Union, cast

import sympy as _sympy
import torch
from attrs import field, frozen
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv, IntTrueDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from apportion.engine.values.unknown import Kleene, Unknown

__all__ = ["DIVISION_BY_ZERO", "Dim", "Number", "Ranges", "make_dim"]

sympy: Any = _sympy  # its annotations are too few to check against
_MIN: Any = Min
_MAX: Any = Max
Expression = Any  # sympy.Expr


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


DIVISION_BY_ZERO = Unknown("division by zero")


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
            return DIVISION_BY_ZERO if low == high else Unknown(f"division by zero is possible: {right} may be 0")
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
