"""Public reports about reasons, counts and strictness, by their ids."""

from __future__ import annotations

import logging
import operator
from pathlib import Path

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header


def op_nodes(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Every callable node, by FX alone."""
    return [n for n in program.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]


def network(x, w):
    y = torch.relu(x @ w)
    z = torch.cumsum(y, 0).sigmoid()
    values, _ = torch.topk(z, 2)
    return values + 1, torch.neg(y.double())


RULES = header("""
rule product { match y = aten.mm.default(a, b)  require b is constant because "weights are packed" }
rule unary   { match y = aten.{relu,sigmoid,neg}.default(x)  require y.dtype == float32 because "floats only" }
rule pair    { match { y = aten.add.Tensor(x, 1)  z = aten.neg.default(y) } }
""")


def test_D1_every_node_that_is_left_appears_once_with_rule_condition_and_value() -> None:
    program = exported(network, torch.randn(4, 8), torch.randn(8, 8))
    result = engine.partition(program, engine.parse_rules(RULES, "acme.rules"))
    claimed = {name for c in result.report.coverage for name in c.nodes}
    left = [r.node for r in result.report.left]
    assert sorted([*left, *claimed]) == sorted(n.name for n in op_nodes(program))
    assert len(set(left)) == len(left)
    by_op = {r.op: r for r in result.report.left}
    product = by_op["aten.mm.default"]
    assert (product.rule, product.condition, product.because) == ("product", "b is constant", "weights are packed")
    assert product.location is not None and product.location.startswith("acme.rules:3:")
    assert dict(product.observed) == {"b": "w"} or dict(product.observed) == {"b": "args_1"}
    negation = by_op["aten.neg.default"]
    assert (negation.rule, dict(negation.observed)) == ("unary", {"y.dtype": "float64"})
    assert by_op["aten.cumsum.default"].kind == "no rule"
    assert all(r.message for r in result.report.left)


def test_D3_both_percentages_are_of_the_program_handed_in() -> None:
    program = exported(network, torch.randn(4, 8), torch.randn(8, 8))
    report = engine.partition(program, engine.parse_rules(RULES, "acme.rules")).report
    nodes = op_nodes(program)
    ops: dict[str, list[bool]] = {}
    tagged = {n.name for n in nodes if "delegation_tag" in n.meta}
    for node in nodes:
        ops.setdefault(str(node.target), []).append(node.name in tagged)
    assert report.nodes_total == len(nodes)
    assert report.share == len(tagged) / len(nodes)
    assert report.share_of_ops == sum(all(own) for own in ops.values()) / len(ops)


def test_D4_counts_are_those_of_the_saved_result_and_lowering_does_not_change_them(tmp_path: Path) -> None:
    program = exported(network, torch.randn(4, 8), torch.randn(8, 8))
    rules = engine.parse_rules(RULES, "acme.rules")
    result = engine.partition(program, rules)
    before = result.report.to_json()
    torch.export.save(program, tmp_path / "program.pt2")
    again = engine.partition(torch.export.load(tmp_path / "program.pt2"), rules).report.to_json()
    for one in (before, again):
        for reason in one["left"]:
            reason.pop("module")  # the path of the file's module may be written differently
    assert again == before
    eager = engine.load_rules("eager")
    result = engine.partition(program, eager)
    before = result.report.to_json()
    engine.to_backend(program, result)
    assert result.report.to_json() == before


def test_D6_little_coverage_is_a_warning_and_the_nodes_are_listed(caplog: pytest.LogCaptureFixture) -> None:
    def deep(x):
        for index in range(409):
            x = torch.relu(x) if index in (1, 200, 400) else torch.erf(x)
        return x

    program = exported(deep, torch.randn(2), decompose=False)
    rules = engine.parse_rules(header("rule r { match y = aten.relu.default(x) }"))
    with caplog.at_level(logging.INFO, "apportion"):
        report = engine.partition(program, rules).report
    (record,) = [r for r in caplog.records if "3 of 409 nodes" in r.getMessage()]
    assert record.levelno == logging.WARNING
    assert report.coverage[0].nodes == ("relu", "relu_1", "relu_2")


def test_D8_every_op_is_listed_and_yet_nodes_are_left_each_says_why() -> None:
    program = exported(lambda x: (x.relu().double().neg().float().sigmoid(), x.to(torch.int64).neg()), torch.randn(4))
    text = header("""rule all { match y = {aten.{relu,neg,sigmoid}.default, aten._to_copy.default}(x)
                                require x.dtype in {float32, float64}  require x.rank == 1 }
                     partition { min_nodes = 2 }""")
    report = engine.partition(program, engine.parse_rules(text, "acme.rules")).report
    kinds = {r.kind for r in report.left if r.op != "aten._assert_tensor_metadata.default"}
    assert kinds == {"requirement", "limit"}
    (negation,) = [r for r in report.left if r.op == "aten.neg.default"]
    assert dict(negation.observed) == {"x.dtype": "int64"}


def test_D9_strict_raises_and_names_the_node_and_passes_where_nothing_is_left() -> None:
    program = exported(lambda x: torch.erf(torch.relu(x)), torch.randn(3))
    text = "rule r { match y = aten.relu.default(x) }"
    with pytest.raises(engine.StrictError, match=r"1 of 2 nodes.*\n.*erf \(aten.erf.default\): no rule of Test names"):
        engine.partition(program, engine.parse_rules(header(text)), strict=True)
    both = engine.parse_rules(header("rule r { match y = aten.{relu,erf}.default(x) }"))
    assert engine.partition(program, both, strict=True).report.left == ()
    nothing = exported(lambda x: x, torch.randn(3))
    assert engine.partition(nothing, both, strict=True).report.nodes_total == 0
