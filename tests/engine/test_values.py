"""Unknown values, symbolic sizes, three-valued logic."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._sympy.value_ranges import ValueRanges

from apportion.engine.values import (
    COMPARISONS,
    UNKNOWN,
    Dim,
    Ranges,
    Unknown,
    arith,
    is_unknown,
    k_all,
    k_and,
    k_any,
    k_compare,
    k_implies,
    k_in,
    k_not,
    k_or,
    make_dim,
)

S = sympy.Symbol("s7", integer=True, positive=True)
T = sympy.Symbol("s8", integer=True, positive=True)
U = sympy.Symbol("u0", integer=True, nonnegative=True)
LIMITS = {S: (2, 9), T: (3, 5), U: (0, 4)}
RANGES = Ranges({symbol: ValueRanges(low, high) for symbol, (low, high) in LIMITS.items()})
s, t, u = (make_dim(symbol, RANGES) for symbol in (S, T, U))


def test_the_truth_of_unknown_is_not_a_truth() -> None:
    with pytest.raises(TypeError, match="because"):
        bool(Unknown("because"))
    assert is_unknown(UNKNOWN) and not is_unknown(None)
    assert str(Unknown("why")) == "unknown (why)"


def test_a_constant_expression_is_an_int() -> None:
    assert make_dim(sympy.Integer(3)) == 3
    assert type(make_dim(sympy.Integer(3))) is int
    assert s - s == 0 and s * 0 == 0
    assert (4 * s) // s == 4
    assert str(s + 1) == "s7 + 1"


def test_equal_dims_are_one_key() -> None:
    assert s + 1 == 1 + s and hash(s + 1) == hash(1 + s)
    assert s != t and s != 2


@pytest.mark.parametrize(
    ("op", "other", "expected"),
    [
        ("<=", 9, True),
        ("<", 9, None),
        ("<", 10, True),
        (">=", 2, True),
        (">", 2, None),
        (">", 1, True),
        ("==", 1, False),
        ("!=", 1, True),
        ("==", 5, None),
        ("==", 2.5, False),
        ("<", math.inf, True),
        (">", math.inf, False),
        ("==", math.nan, False),
        ("!=", math.nan, True),
    ],
)
def test_a_comparison_is_decided_by_the_ranges(op: str, other: float, expected: bool | None) -> None:
    found = k_compare(op, s, other)
    assert (None if isinstance(found, Unknown) else found) == expected
    swapped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
    other_way = k_compare(swapped, other, s)
    assert (None if isinstance(other_way, Unknown) else other_way) == expected


def test_two_dims_compare_by_their_difference() -> None:
    assert k_compare("<", s, s + 1) is True
    assert k_compare("==", 2 * s, s + s) is True
    assert k_compare("<", t, s + 4) is True
    assert is_unknown(k_compare("<", t, s))


def test_divisibility_decides_equality() -> None:
    assert k_compare("==", 2 * s, 7) is False
    assert k_compare("==", 4 * s + 2, 2 * t * 2) is False
    assert k_compare("==", (4 * s) % 4, 0) is True
    assert is_unknown(k_compare("==", 2 * s, 8))


def test_no_range_is_no_proof() -> None:
    free = make_dim(sympy.Symbol("s1", integer=True))
    assert is_unknown(k_compare("<", free, 10))


OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
leaves = st.sampled_from([s, t, u, 0, 1, 2, 3, -4])
expressions = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner), max_leaves=4
)


def symbolic(tree: Any) -> Any:
    return arith(tree[0], symbolic(tree[1]), symbolic(tree[2])) if isinstance(tree, tuple) else tree


def concrete(tree: Any, sizes: dict[Any, int]) -> Any:
    if isinstance(tree, tuple):
        return OPERATIONS[tree[0]](concrete(tree[1], sizes), concrete(tree[2], sizes))
    return sizes[tree.expr] if isinstance(tree, Dim) else tree


def assignments() -> list[dict[Any, int]]:
    spans = [range(low, high + 1) for low, high in LIMITS.values()]
    return [dict(zip(LIMITS, values, strict=True)) for values in itertools.product(*spans)]


@given(expressions, expressions, st.sampled_from(sorted(COMPARISONS)))
def test_what_is_decided_holds_for_every_size(left: Any, right: Any, op: str) -> None:
    verdict = k_compare(op, symbolic(left), symbolic(right))
    if isinstance(verdict, Unknown):
        return
    for sizes in assignments():
        # A division by zero for some size must have made the whole unknown.
        a, b = concrete(left, sizes), concrete(right, sizes)
        close = isinstance(a, float) or isinstance(b, float)
        if not (close and math.isclose(a, b, abs_tol=1e-12)):
            assert COMPARISONS[op](a, b) == verdict, (left, op, right, sizes)


def test_arithmetic_never_raises() -> None:
    assert str(arith("//", 1, 0)) == "unknown (division by zero)"
    assert is_unknown(arith("%", s, 0)) and is_unknown(arith("/", 1, u))
    assert arith("/", 6, 4) == 1.5
    assert arith("+", (1, s), [2]) == (1, s, 2)
    assert is_unknown(arith("-", (1,), (2,))) and is_unknown(arith("+", None, 1)) and is_unknown(arith("*", "a", 2))
    assert arith("+", Unknown("first"), Unknown("second")) == Unknown("first")
    assert is_unknown(s * math.inf)


def test_min_max_abs() -> None:
    assert s.max(1) is s and s.min(1) == 1
    assert str(t.max(4)) == "Max(4, s8)"
    assert abs(-s) == s and abs(s) is s
    assert k_compare(">=", abs(u - 2), 0) is True


def test_unbacked_is_told_by_the_symbol() -> None:
    assert (u + s).is_unbacked and not s.is_unbacked


TRUTHS = [True, False, UNKNOWN]


def _number(truth: Any) -> float:
    return 0.5 if isinstance(truth, Unknown) else float(truth)


@pytest.mark.parametrize("a", TRUTHS)
@pytest.mark.parametrize("b", TRUTHS)
def test_kleene(a: Any, b: Any) -> None:
    assert _number(k_and(a, b)) == min(_number(a), _number(b))
    assert _number(k_or(a, b)) == max(_number(a), _number(b))
    assert _number(k_not(a)) == 1 - _number(a)
    assert _number(k_implies(a, b)) == max(1 - _number(a), _number(b))


def test_the_first_unknown_is_the_reason() -> None:
    assert k_all([True, Unknown("one"), Unknown("two")]) == Unknown("one")
    assert k_any([Unknown("one"), False]) == Unknown("one")
    assert k_all([]) is True and k_any([]) is False


def test_equality_of_values() -> None:
    assert k_compare("==", 2, 2.0) is True
    assert k_compare("==", None, None) is True and k_compare("==", None, 0) is False
    assert k_compare("!=", torch.float32, torch.float16) is True
    assert k_compare("==", torch.float32, "float32") is False
    assert k_compare("==", (1, 2), [1, 2]) is True and k_compare("==", (1,), (1, 2)) is False
    assert is_unknown(k_compare("==", (1, s), (1, 4))) and k_compare("==", (1, s), (2, 4)) is False
    assert k_compare("!=", (1, s), (2, 4)) is True
    assert k_compare("<", "a", "b") is True
    assert is_unknown(k_compare("<", None, 1)) and is_unknown(k_compare("<", (1,), (2,)))
    assert is_unknown(k_compare("<", torch.float32, 1))


def test_membership() -> None:
    assert k_in(2, {1, 2.0}) is True and k_in(3, (1, 2)) is False
    assert k_in(s, range(2, 10)) is True and k_in(s, range(20, 30)) is False and is_unknown(k_in(s, range(2, 9)))
    assert is_unknown(k_in(s, {3, 4})) and k_in(s, {0, 1}) is False
    assert k_in((1, s), {(1, s)}) is True
    assert k_in("a", "cat") is True and k_in(1, "cat") is False
    assert is_unknown(k_in(1, None)) and is_unknown(k_in(UNKNOWN, (1,)))
