"""Expressions are a subset of Python's: random ones mean the same there. What is known in spite of unknown names
holds whatever these turn out to be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.engine.values import Unknown
from tests.engine.compile.evaluating import evaluate

NAMES = ("a", "b", "c")

leaves = st.sampled_from([*NAMES, "xs[0]", "xs[a]", "len(xs)", "sum(xs)"])

numbers = st.recursive(
    st.one_of(st.integers(-4, 9).map(lambda n: f"({n})"), leaves),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda n: f"(-{n})"),
        inner.map(lambda n: f"abs({n})"),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        inner.map(lambda n: f"sum(x * {n} for x in xs)"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < 3 else {t[2]})"),
    ),
    max_leaves=8,
)

conditions = st.recursive(
    st.one_of(
        st.tuples(numbers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers).map(" ".join),
        st.tuples(numbers, numbers, numbers).map(lambda t: f"{t[0]} <= {t[1]} < {t[2]}"),
        numbers.map(lambda n: f"{n} in {{1, 2, 3}}"),
        numbers.map(lambda n: f"{n} not in [1, 2, 3]"),
        st.just("xs == [1, 2]"),
        st.just("[a, b] != [b, a]"),
    ).map(lambda text: f"({text})"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda c: f"(not {c})"),
        inner.map(lambda c: f"all({c} or x > a for x in xs)"),
        inner.map(lambda c: f"any({c} and x > a for x in xs if x != b)"),
        inner.map(lambda c: f"all(x + y > a for x in xs for y in xs if {c})"),
    ),
    max_leaves=6,
)

small = st.integers(-3, 5)
values = st.fixed_dictionaries({**dict.fromkeys(NAMES, small), "xs": st.lists(small, max_size=3)})


def python(text: str, names: dict[str, Any]) -> Any:
    try:
        return eval(text, dict(names))  # the text is made above
    except (ZeroDivisionError, IndexError):
        return Unknown("python raised")


def ours(text: str, names: dict[str, Any]) -> Any:
    given_names = {name: tuple(value) if isinstance(value, list) else value for name, value in names.items()}
    found = evaluate(text, **given_names)
    assert [d.code for d in found.diagnostics if d.code != "A011"] == []
    return found.value


@given(text=st.one_of(numbers, conditions), names=values)
def test_the_same_as_python(text: str, names: dict[str, Any]) -> None:
    names = {**names, "xs": names["xs"] or [1]}
    expected, found = python(text, names), ours(text, names)
    if isinstance(expected, Unknown) or isinstance(found, Unknown):
        return  # Python stops at once where we go on: `1 // 0 == 1 or true` is true
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)


@given(text=numbers, names=values)
def test_numbers_without_errors_are_known(text: str, names: dict[str, Any]) -> None:
    names = {**names, "xs": names["xs"] or [1]}
    if not isinstance(python(text, names), Unknown):
        assert not isinstance(ours(text, names), Unknown) or " if " in text


@given(text=conditions, names=values, hidden=st.sets(st.sampled_from(NAMES), min_size=1))
def test_what_is_known_holds_for_every_value(text: str, names: dict[str, Any], hidden: set[str]) -> None:
    partly = {**names, **{name: Unknown(name) for name in hidden}}
    found = ours(text, partly)
    if isinstance(found, Unknown):
        return
    settled = ours(text, names)
    assert isinstance(settled, Unknown) or settled == found
