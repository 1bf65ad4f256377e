"""Public reports about wrong partitions, by their ids: graphs that split, cross, share or write."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags


def partition(program, rules, **arguments):
    return engine.partition(program, engine.parse_rules(header(rules)), **arguments)


def quotient(program) -> nx.DiGraph:
    """The graph with each tag contracted to one node."""
    tagged = tags(program)
    made = nx.DiGraph()
    for node in program.graph_module.graph.nodes:
        name = tagged.get(node.name, node.name)
        made.add_node(name)
        for source in node.all_input_nodes:
            other = tagged.get(source.name, source.name)
            if other != name:
                made.add_edge(other, name)
    return made


@pytest.mark.parametrize("merge", ["all", "adjacent", "siblings"])
def test_A2_branches_that_cross_merge_at_most_once(merge: str) -> None:
    def crossing(x):
        x1, x2 = torch.sin(x), torch.cos(x)
        u1, u2 = torch.relu(x1), torch.relu(x2)
        y2, y1 = torch.sin(u1), torch.cos(u2)
        return y1 + x1, y2 + x2

    program = exported(crossing, torch.randn(3))
    partition(
        program,
        "rule all_but_relu { match y = {aten.{sin,cos}.default, aten.add.Tensor}(*xs) }"
        f' partition {{ merge = "{merge}" }}',
    )
    assert nx.is_directed_acyclic_graph(quotient(program))
    tagged = tags(program)
    assert len(tagged) == 6
    assert not (tagged["sin"] == tagged["cos_1"] and tagged["cos"] == tagged["sin_1"])


def test_A5_an_unsupported_node_in_the_middle_splits() -> None:
    def middle(x):
        s1 = torch.sin(x)
        return torch.relu(s1) + s1

    rules = "rule some { match y = {aten.sin.default, aten.add.Tensor}(*xs) }"
    assert len(partition(exported(middle, torch.randn(3)), rules).partition_tags) == 2
    everything = rules + " rule relu { match y = aten.relu.default(x) }"
    assert len(partition(exported(middle, torch.randn(3)), everything).partition_tags) == 1


def test_A9_dead_code_is_no_delegate() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    dead = graph.call_function(torch.ops.aten.sin.default, (x,))
    kept = graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.output((kept,))
    for node in (x, dead, kept):
        node.meta["val"] = torch.empty(3, device="meta")
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    result = partition(module, "rule sin { match y = aten.sin.default(x) }")
    assert not result.partition_tags
    assert result.report.reason(dead.name).kind == "unused"


def test_A10_a_write_into_a_buffer_is_refused_with_its_reason() -> None:
    program = exported(lambda m, x: m.state.copy_(x) * 1, torch.randn(3), state=torch.zeros(3), decompose=False)
    result = partition(program, "rule copy { match y = aten.copy_.default(a, b) }")
    written = [n.name for n in program.graph.nodes if "copy_" in str(n.target)]
    if written:  # the form before functionalisation
        reason = result.report.reason(written[0])
        assert reason.kind == "mutation"
        assert "b_state" in reason.message
    assert not result.partition_tags


def test_A14_a_tuple_never_crosses_a_border() -> None:
    def normed(x):
        return torch.relu(torch.ops.aten.native_layer_norm.default(x, [4], None, None, 1e-5)[0])

    program = exported(normed, torch.randn(2, 4))
    result = partition(program, "rule relu { match y = aten.relu.default(x) }")
    (only,) = result.partitions
    assert [n.name for n in only.nodes] == ["relu"]
    assert only.inputs == ("native_layer_norm[0]",)
    getitem = next(n for n in program.graph.nodes if n.name == "getitem")
    assert "delegation_tag" not in getitem.meta


def test_A15_a_wildcard_tags_no_placeholder_and_no_output() -> None:
    program = exported(lambda m, x: torch.relu(x + m.state), torch.randn(3), state=torch.ones(3))
    partition(program, 'rule anything { match y = _ } partition { constants = "none" }')
    for node in program.graph.nodes:
        assert ("delegation_tag" in node.meta) == (node.op == "call_function")


def test_A17_two_consumers_of_one_value() -> None:
    def two(x):
        square = x * x
        return torch.sin(square), torch.cos(square)

    rules = 'rule trig {{ match y = aten.{{sin,cos}}.default(x) }} partition {{ merge = "{}" }}'
    found = {
        mode: len(partition(exported(two, torch.randn(3)), rules.format(mode)).partition_tags)
        for mode in ("adjacent", "siblings", "all", "none")
    }
    assert found == {"adjacent": 2, "siblings": 1, "all": 1, "none": 2}


@pytest.mark.parametrize("merge", ["all", "adjacent", "siblings"])
def test_A19_a_constant_does_not_merge_partitions(merge: str) -> None:
    def around(m, x):
        return torch.relu(torch.sin(x) * m.scale) * m.scale

    program = exported(around, torch.randn(3), scale=torch.ones(3))
    result = partition(
        program, f'rule p {{ match y = {{aten.sin.default, aten.mul.Tensor}}(*xs) }} partition {{ merge = "{merge}" }}'
    )
    assert [sorted(n.name for n in p.nodes) for p in result.partitions] == [["mul", "sin"], ["mul_1"]]
    assert all("b_scale" in p.constants for p in result.partitions)
