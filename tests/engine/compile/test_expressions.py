"""What expressions come to: arithmetic, comparisons, three values, lists, kinds, attributes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from apportion.engine.values import Dim, Unknown
from tests.engine.compile.evaluating import evaluate, graph, node, open_node


def _names() -> dict[str, Any]:
    rows = graph().value(next(n for n in graph().module.graph.nodes if n.name == "rows"))
    return {
        "c": node("convolution"),
        "r": node("relu"),
        "t": node("topk"),
        "k": node("cat"),
        "m": node("mul"),
        "o": open_node("convolution"),
        "rows": rows,
        "w": node("convolution").arguments["weight"],
        "gone": None,
        "two": 2,
        "half": 0.5,
        "sizes": (1, 2, 3),
        "none_yet": Unknown("not known"),
    }


CASES: list[tuple[str, Any]] = [
    # arithmetic
    ("1 + 2 * 3 - 4", 3),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("7 % 4", 3),
    ("1 / 4", 0.25),
    ("-two", -2),
    ("[1, 2] + [3]", (1, 2, 3)),
    ("{1, 2} | {3} == {1, 2, 3}", True),
    ("{1, 2} - {2} == {1}", True),
    ("ceil_div(7, 2)", 4),
    ("align_up(7, 4)", 8),
    ("align_up(8, 4)", 8),
    ("log2(8)", 3),
    ("abs(-3)", 3),
    ("round(2.5)", 2),
    ("round(2.345, 2)", round(2.345, 2)),
    ("prod(sizes)", 6),
    ("prod([])", 1),
    ("sum(sizes)", 6),
    ("sum([])", 0),
    ("min(3, two)", 2),
    ("max(sizes)", 3),
    ("sorted([3, 1, 2])", (1, 2, 3)),
    ("distinct([1, 1, 2])", (1, 2)),
    ("len(distinct([r, r]))", 1),
    ("zip([1, 2], [3, 4])", ((1, 3), (2, 4))),
    ("range(3)", (0, 1, 2)),
    ("range(1, 6, 2)", (1, 3, 5)),
    ("len(sizes)", 3),
    ("inf > 1000", True),
    # comparisons
    ("1 < 2 < 3", True),
    ("1 < 2 > 3", False),
    ("2 == 2.0", True),
    ("two in 1..2", True),
    ("two in 3..4", False),
    ("two not in 3..4", True),
    ("two in {2, 3}", True),
    ("[1, 2] in {[1, 2], [3, 4]}", True),
    ("sizes == [1, 2, 3]", True),
    ("sizes == [1, 2]", False),
    ("sizes != [1, 2]", True),
    ("gone == none", True),
    ("two == none", False),
    ('"a" == "a"', True),
    ("true and false", False),
    ("false implies false", True),
    ("true implies false", False),
    ("false implies false implies false", True),
    ("3 if two == 2 else 4", 3),
    # element by element
    ("all(sizes <= 3)", True),
    ("any(sizes == 2)", True),
    ("all(1 <= sizes < 3)", False),
    ("all(sizes <= [1, 2, 3])", True),
    ("all(sizes in {1, 2, 3})", True),
    ("any(sizes not in 1..2)", True),
    ("count(sizes >= 2)", 2),
    ("all([])", True),
    ("any([])", False),
    # comprehensions
    ("all(s > 0 for s in sizes)", True),
    ("any(s > 2 for s in sizes if s < 3)", False),
    ("count(s % 2 == 1 for s in sizes)", 2),
    ("sum(a * b for a in sizes for b in sizes)", 36),
    ("sum(a for a in sizes if a != 2)", 4),
    ("max(a * b for a, b in zip(sizes, [3, 2, 1]))", 4),
    ("all(all(a >= 1 for a in sizes) for b in sizes)", True),
    ("sum(sizes[i] for i in range(len(sizes)))", 6),
    ("all(two > 0 for two in sizes)", True),
    # brackets
    ("sizes[-1]", 3),
    ("sizes[1:]", (2, 3)),
    ("sizes[::2]", (1, 3)),
    # values
    ("c.rank", 4),
    ("c.shape", (2, 4, 8, 8)),
    ("c.shape[1]", 4),
    ("c.numel", 512),
    ("c.nbytes", 2048),
    ("c.strides", (256, 64, 8, 1)),
    ("c.dtype == float32", True),
    ("c.dtype in {float16, bfloat16}", False),
    ("c.dtype", torch.float32),
    ("c.dtype.itemsize", 4),
    ("c.dtype.is_floating_point", True),
    ("c.dtype.is_signed", True),
    ('c.device == "cpu"', True),
    ('c.device == "cuda"', False),
    ("c.dim_order", (0, 1, 2, 3)),
    ("c.stride", (2, 2)),
    ("c.groups", 1),
    ("c.transposed", False),
    ("not c.transposed", True),
    ("o.stride == [2, 2]", True),
    ("all(o.stride <= 2)", True),
    ("c.args.groups", 1),
    ("r.op == aten.relu.default", True),
    ("r.op != aten.relu.default", False),
    ("r.op in {aten.{relu,tanh}.default}", True),
    ("r.op in {aten.tanh.default}", False),
    ("aten.relu.default == r.op", True),
    ("r.op == c.op", False),
    ("r.op == r.op", True),
    ('r.op.name == "aten.relu.default"', True),
    ('r.op.namespace', "aten"),
    ("r.op.is_view", False),
    ('"core" in r.op.tags', True),
    ("rows.op == none", True),
    ("rows.op == aten.relu.default", False),
    ("rows.op in {aten.relu.default}", False),
    ("two.op == none", True),
    ("r.inputs[0] == c", True),
    ("r.inputs[0] == r", False),
    ("r in c.users", True),
    ("c in c.users", False),
    ("len(k.inputs)", 2),
    ("len(distinct(k.inputs))", 1),
    ("len(t.outputs)", 2),
    ("t[0].dtype == float32", True),
    ("t[1].dtype == int64", True),
    ("t[1].shape", (2, 3)),
    ('r.name', "relu"),
    ("m.other == 2.5", True),
    ("m.other is float", True),
    ("w is constant", True),
    ("c is constant", False),
    ("c is not constant", True),
    ("gone is none", True),
    ("c is tensor", True),
    ("c is static", True),
    ("rows is symbolic", True),
    ("two is int", True),
    ("half is int", False),
    ("broadcastable(c, r)", True),
    ("depends_on(r, c)", True),
    ("depends_on(c, r)", False),
    ("max_value(w) >= min_value(w)", True),
    ("all_zero(w)", False),
    ("flops(c) > 0", True),
    ("possible(none_yet == 3)", True),
    ("possible(1 == 2)", False),
    ("present(c)", True),
    ("present(gone)", False),
    # symbolic sizes
    ("rows.shape[0] <= 64", True),
    ("rows.shape[0] >= 3 or rows.shape[0] < 65", True),
    ("rows.shape[0] > 64", False),
    ("rows.shape[0] * 2 <= 128", True),
    ("rows.shape[0] in 1..64", True),
    ("rows.shape[0] == rows.shape[0]", True),
    ("rows.shape == rows.shape", True),
    ("rows.numel % 6 == 0", True),
    # what is known in spite of the unknown
    ("none_yet == 3 or 1 == 1", True),
    ("none_yet == 3 and 1 == 2", False),
    ("1 == 2 and none_yet == 3", False),
    ("false implies none_yet == 3", True),
    ("none_yet == 3 implies true", True),
    ("5 if none_yet == 3 else 5", 5),
    ("any(s == 2 or none_yet == s for s in sizes)", True),
    ("all(s == 2 and none_yet == s for s in sizes)", False),
    ("all(s < 3 for s in sizes if s < 2 or none_yet == 1)", Unknown),
    ("all(s < 4 for s in sizes if none_yet == 1)", True),
    ("any(s > 3 for s in sizes if none_yet == 1)", False),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_value(text: str, expected: Any) -> None:
    found = evaluate(text, **_names())
    assert found.diagnostics == ()
    if expected is Unknown:
        assert isinstance(found.value, Unknown)
    else:
        assert type(found.value) is type(expected)
        assert found.value == expected


UNKNOWN = [
    "none_yet == 3",
    "not none_yet == 3",
    "none_yet + 1",
    "sizes[3]",
    "sizes[-4]",
    "1 // (two - 2)",
    "1 % (two - 2)",
    "1 / (two - 2)",
    "all(sizes <= [1, 2])",
    "zip(sizes, [1])",
    "min([])",
    "log2(0)",
    "log2(rows.shape[0])",
    "rows.shape[0] == 3",
    "rows.shape[0] > 3",
    "rows.shape[0] in {2, 3}",
    "sizes[rows.shape[0]]",
    "count(none_yet == s for s in sizes)",
    "count(s > 0 for s in sizes if none_yet == 1)",
    "sum(s for s in sizes if none_yet == 1)",
    "3 if none_yet == 1 else 4",
    "gone.dtype == float32",
    "gone.shape[0] == 3",
    "o.ceil_mode",
    "rows.groups",
    "two in range(rows.shape[0])",
    "range(two, two, two - 2)",
    "max_value(r)",
    "len(none_yet)",
    "true implies none_yet == 3",
    "none_yet is constant",
    "sizes[0:two:two - 2]",
    "round(inf)",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown(text: str) -> None:
    found = evaluate(text, **_names())
    assert found.diagnostics == ()
    assert isinstance(found.value, Unknown)
    assert found.value.reason


def test_symbolic_size_stays_symbolic() -> None:
    found = evaluate("rows.shape[0] * 2 + 1", **_names())
    assert isinstance(found.value, Dim)


def test_max_of_symbolic_sizes_is_bounded() -> None:
    assert evaluate("max(rows.shape[0], 3) <= 64", **_names()).value is True
    assert evaluate("min(rows.shape[0], 3) >= 2", **_names()).value is True


def test_no_guard_is_added() -> None:
    rows = _names()["rows"]
    environment = rows.fx.meta["val"].fake_mode.shape_env
    before = len(environment.guards)
    for text in ("rows.shape[0] == 3", "rows.shape[0] * 6 == rows.numel", "rows.shape[0] in 2..64"):
        evaluate(text, rows=rows)
    assert len(environment.guards) == before


def test_loops_have_a_budget() -> None:
    text = "sum(a + b + c + d for a in r for b in r for c in r for d in r)"
    found = evaluate(text, r=tuple(range(1000)))
    assert found.diagnostics == ()
    assert isinstance(found.value, Unknown)
    assert "too many steps" in found.value.reason


def test_large_ranges_and_numbers_are_unknown() -> None:
    assert evaluate("range(two * 1000000000)", two=2).value == Unknown("too large to compute")
    big = "two" + " * two" * 30
    assert evaluate(f"({big}) * ({big}) * ({big}) * ({big})", two=2**20).value == Unknown("too large to compute")


def test_conditional_of_a_literal_is_decided_at_load() -> None:
    assert evaluate("gone.rank if 1 == 2 else 4", gone=None).value == 4
