"""Explanations of nodes: how far each rule came, what would do, what could not be proven, why partitions are two."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram

from apportion import engine
from apportion.engine.explain.explaining import explain
from apportion.engine.explain.explanation import NodeExplanation
from apportion.engine.explain.exports import graphviz, model_explorer
from tests.engine.explain.models import RULES, program
from tests.engine.explain.replay import without
from tests.engine.programs import exported, header


def node(name: str, text: str, one: ExportedProgram, **arguments: Any) -> NodeExplanation:
    found = explain(one, engine.parse_rules(header(text), "r.rules"), node=name, **arguments)
    assert len(found.nodes) == 1
    return found.nodes[0]


def relu(*shape: int, dynamic: Any = None) -> ExportedProgram:
    return exported(torch.relu, torch.randn(*shape), dynamic=dynamic)


def test_rules_in_the_order_in_which_they_came_near() -> None:
    text = """
    rule other   { match y = aten.neg.default(x) }
    rule first   { match y = aten.relu.default(x)  require x.rank == 4 because "images"  require x.numel > 1 }
    rule further { match y = aten.relu.default(x)  require x.rank == 2  require x.dtype == int8 }
    rule inner   { match { z = aten.relu.default(x)  y = aten.neg.default(z) } }
    """
    found = node("relu", text, relu(2, 3))
    assert [(a.rule, a.kind) for a in found.attempts] == [
        ("further", "requirement"), ("first", "requirement"), ("inner", "inner node")]  # fmt: skip
    best = found.attempts[0]
    assert (best.passed, best.of) == (1, 2)
    assert best.condition == "x.dtype == int8" and best.observed == (("x.dtype", "float32"),)
    assert best.location is not None and best.location.startswith("r.rules:5:")
    assert found.attempts[1].because == "images"
    assert found.message == best.message


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("x.rank == 4", "x.rank [2] == 4"),
        ("x.rank in 3..4", "x.rank in 3..4"),
        ("x.dtype in {float16, int8}", "x.dtype [float32] in {float16, int8}"),
        ("not (x.rank == 2)", "x.rank [2] != 2"),
        ("x is constant", "x is constant"),
        ("x.rank == 2 and x.numel > 8", "x.numel [6] > 8"),
        ("x.rank == 3 or x.numel > 8", "x.rank [2] == 3 or x.numel [6] > 8"),
        ("x.rank == 2 implies x.numel > 8", "x.rank [2] != 2 or x.numel [6] > 8"),
        ("all(s % 2 == 0 for s in x.shape)", "s % 2 (s = 3) [1] == 0"),
        ("any(s > 7 for s in x.shape)", "s (s = 2) [2] > 7 or s (s = 3) [3] > 7"),
        ("x.numel > 8 if x.rank == 2 else false", "x.numel [6] > 8"),
        ("1 < x.rank < 2", "x.rank [2] < 2"),
    ],
)
def test_what_would_do(condition: str, remedy: str) -> None:
    found = node("relu", f"rule r {{ match y = aten.relu.default(x)  require {condition} }}", relu(2, 3))
    assert found.attempts[0].remedies == (remedy,)


def test_what_would_do_is_true() -> None:
    """The remedies of several requirements, carried out on the program."""
    text = """rule r { match y = aten.relu.default(x)
      require x.rank == 3  require x.shape[-1] % 8 == 0  require x.numel <= 64 }"""
    assert node("relu", text, relu(2, 3)).attempts[0].remedies == ("x.rank [2] == 3",)
    assert node("relu", text, relu(1, 2, 3)).attempts[0].remedies == ("x.shape[-1] % 8 [3] == 0",)
    assert node("relu", text, relu(1, 16, 8)).attempts[0].remedies == ("x.numel [128] <= 64",)
    assert node("relu", text, relu(1, 8, 8)).backend == "Test"


@pytest.mark.parametrize(
    ("condition", "wish", "narrowed"),
    [
        ("x.shape[0] <= 128", "<= 128 (`max=128`)", {"min": 2, "max": 128}),
        ("x.shape[0] * 3 < 100", "<= 33 (`max=33`)", {"min": 2, "max": 33}),
        ("x.shape[0] >= 16", ">= 16 (`min=16`)", {"min": 16, "max": 1024}),
        ("x.shape[0] != 40", ">= 41 (`min=41`)", {"min": 41, "max": 1024}),
    ],
)
def test_ranges_that_would_prove_it_do(condition: str, wish: str, narrowed: dict[str, int]) -> None:
    text = f"rule r {{ match y = aten.relu.default(x)  require {condition} }}"
    found = node("relu", text, relu(8 if narrowed["min"] < 9 else 48, 3, dynamic=(({0: Dim("n", min=2, max=1024)},),)))
    (remedy,) = found.attempts[0].remedies
    assert "not proven" in remedy and " to " in remedy and wish in remedy, remedy
    size = narrowed["min"] + 3
    assert node("relu", text, relu(size, 3, dynamic=(({0: Dim("n", **narrowed)},),))).backend == "Test"


def test_sizes_that_no_range_proves() -> None:
    text = "rule r { match y = aten.relu.default(x)  require x.shape[0] % 8 == 0 }"
    found = node("relu", text, relu(8, 3, dynamic=(({0: Dim("n", min=2, max=1024)},),)))
    assert "8 * Dim(…)" in found.attempts[0].remedies[0]
    again = relu(16, 3, dynamic=(({0: 8 * Dim("n", min=1, max=64)},),))
    assert node("relu", text, again).backend == "Test"
    pinned = node("relu", "rule r { match y = aten.relu.default(x)  require x.shape[0] == 8 }",
                  relu(8, 3, dynamic=(({0: Dim("n", min=2, max=1024)},),)))
    assert "= 8 (a static size)" in pinned.attempts[0].remedies[0]


def test_invariants_name_their_rule() -> None:
    text = """
    rule r { match y = aten.relu.default(x) }
    invariant small { match y = _  require y.numel <= 4 because "little memory" }
    """
    (attempt,) = node("relu", text, relu(2, 3)).attempts
    assert (attempt.rule, attempt.invariant, attempt.kind) == ("r", "small", "invariant")
    assert attempt.remedies == ("y.numel [6] <= 4",)


def test_claimed_nodes_say_by_whom() -> None:
    found = node("relu", "rule r { match y = aten.relu.default(x) }", relu(2, 3))
    assert (found.backend, found.attempts[0].kind, found.attempts[0].rule) == ("Test", "claimed", "r")
    assert "claimed by Test" in str(found)
    assert ("output relu", "float32[2, 3]") in found.values
    assert "programs.py:" in found.source, "the line of the model, not of torch"


def test_two_partitions_and_the_way_between() -> None:
    one = exported(lambda x: torch.neg(torch.erf(torch.relu(x)) + torch.relu(x)), torch.randn(2, 3))
    rules = engine.parse_rules(header("""
      rule r { match y = {aten.{relu,neg}.default, aten.add.Tensor}(*xs) }"""), "r.rules")
    found = explain(one, rules)
    assert len(found.apart) >= 1
    pair = found.apart[0]
    assert pair.path == ("erf",)
    assert pair.reasons == (("erf", "no rule of Test names aten.erf.default"),)
    assert "erf" in str(pair)


def test_two_partitions_for_other_causes() -> None:
    one = exported(lambda x: torch.neg(torch.relu(x)), torch.randn(2, 3))
    specs = header("""rule a { match y = aten.relu.default(x) emit mode = 1 }
                      rule b { match y = aten.neg.default(x) emit mode = 2 }""")
    assert "compile specs differ: mode" in explain(one, engine.parse_rules(specs)).apart[0].why
    both = "rule a { match y = aten.{relu,neg}.default(x) } partition { "
    assert 'merge = "none"' in explain(one, engine.parse_rules(header(both + 'merge = "none" }'))).apart[0].why
    assert "max_nodes is 1" in explain(one, engine.parse_rules(header(both + "max_nodes = 1 }"))).apart[0].why


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"node": "rellu"}, "no node `rellu`; did you mean `relu`"),
        ({"op": "aten.relu6.default"}, "did you mean `aten.relu.default`"),
        ({"module": "encoder"}, "no module is recorded in it"),
    ],
)
def test_unknown_names(wanted: dict[str, str], message: str) -> None:
    with pytest.raises(engine.OptionError, match=message):
        explain(relu(2, 3), engine.parse_rules(header("rule r { match y = aten.neg.default(x) }")), **wanted)


def test_patterns_over_names() -> None:
    found = explain(program("attention"), engine.parse_rules(RULES["strict"]), op="aten.*", module="norm")
    assert {n.op for n in found.nodes} == {"aten.native_layer_norm.default"}
    assert found.nodes[0].module == "norm"


@pytest.mark.parametrize(
    ("name", "rules"),
    [("doubles", "strict"), ("residual", "strict"), ("several", "strict"), ("recurrent", "patterns")],
)
def test_what_else_is_in_the_way(name: str, rules: str) -> None:
    """Without the conditions that are named, all at once, the node is claimed, or left for what is named last."""
    text = RULES[rules]
    found = explain(program(name), engine.parse_rules(text, "r0.rules"), node="*")
    followed = [one for one in found.nodes if one.further is not None]
    assert followed
    for one in followed:
        assert one.further is not None
        places = [one.attempts[0].location, *(obstacle.location for obstacle in one.further if obstacle.condition)]
        last = one.further[-1] if one.further and one.further[-1].condition is None else None
        without_them = reduce(without, filter(None, places), text)
        report = engine.partition(program(name), engine.parse_rules(without_them, "r0.rules")).report
        after = next((r for r in report.left if (r.graph, r.node) == (one.graph, one.node)), None)
        assert (after and after.message) == (last and last.message), one.node


def test_of_a_chosen_node_all_obstacles_are_told() -> None:
    text = """
    rule r { match y = aten.relu.default(x)  require x.rank == 4  require x.dtype == int8 }
    invariant v { match y = _  require y.numel > 99 because "small" }
    """
    found = node("relu", text, relu(2, 3))
    assert found.further is not None
    assert [o.condition for o in found.further] == ["x.dtype == int8", "y.numel > 99"]
    assert found.further[0].observed == (("x.dtype", "float32"),)
    assert str(found).count("then in the way: ") == 2 and "small" in str(found)
    easier = text.replace("99", "1").replace("int8", "float32")
    assert "nothing else is in the way" in str(node("relu", easier, relu(2)))
    assert node("relu", text.replace("relu", "neg"), relu(2)).further is None


def test_a_program_without_metadata() -> None:
    graph = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    found = explain(graph, engine.parse_rules(header("rule r { match y = torch.relu(x)  require x.rank == 2 }")))
    (warning,) = found.warnings
    assert 'no meta["val"] (relu)' in warning and "FakeTensorProp" in warning
    assert found.nodes[0].attempts[0].kind == "requirement"


def test_as_data_and_for_other_tools() -> None:
    from apportion.engine.explain.explaining import Explainer

    explainer = Explainer.of(program("residual"), engine.parse_rules(RULES["patterns"], "r.rules"))
    data = json.loads(json.dumps(explainer.explanation().to_json()))
    assert data["schema"] == "apportion.explanation/1"
    assert {n["node"] for n in data["nodes"]} == {r.node for r in explainer.result.report.left}
    dot = graphviz(explainer)
    assert dot.count("subgraph cluster_") == len(explainer.result.partitions)
    assert dot.count(" -> ") >= 4 and dot.startswith("digraph")
    results = model_explorer(explainer)["graph"]["results"]
    assert len(results) == explainer.result.report.nodes_total
    assert all(r["bgColor"].startswith("#") for r in results.values())


def test_hand_written_partitioners_in_the_mix() -> None:
    from apportion.engine.explain import Explainer, Study, find_blockers, page
    from tests.engine.lowering.checks import Tagger

    one = exported(lambda x: torch.cos(torch.add(torch.sin(torch.relu(x)), 1)), torch.ones(3))
    hand = Tagger(lambda n: "hand" if n.op == "call_function" and n.name in ("relu", "sin") else None)
    rules = engine.parse_rules(header("rule add { match y = aten.add.Tensor(x, z) }"), "r.rules")
    result = engine.partition(one, [hand, rules])
    explainer = Explainer.of(one, [hand, rules])
    assert [p.tag for p in explainer.result.partitions] == [p.tag for p in result.partitions]
    found = {n.node: n for n in (explainer.node(place) for place in explainer.places())}
    assert found["relu"].tag == found["sin"].tag == "hand" and found["relu"].backend is not None
    assert found["add"].attempts[0].kind == "claimed"
    assert found["cos"].backend is None and found["cos"].kind == "no rule"
    assert [n.node for n in explainer.explanation().nodes] == ["cos"]
    outcome = Study.of(one, [hand, rules]).outcome()
    assert (outcome.claimed, outcome.total, outcome.partitions) == (3, 4, 2)
    (blocker,) = find_blockers(one, [hand, rules]).single
    assert (blocker.name, blocker.difference.nodes) == ("aten.cos.default", 1)
    assert "hand" in page(explainer)
    alone = Explainer.of(one, hand)
    assert {n.node for n in alone.explanation().nodes} == {"add", "cos"}
