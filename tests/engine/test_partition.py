"""The pipeline as a whole: programs of every kind, tags, precedence, control flow, what the caller may ask for."""

from __future__ import annotations

import copy
import io

import pytest
import torch

from apportion import engine
from tests.engine.programs import Module, exported, header, tags

ANY = header("rule any { match y = _ }")


def rules(text: str) -> engine.RuleSet:
    return engine.parse_rules(header(text))


def chain(x):
    return torch.exp(torch.relu(torch.sin(x)))


def program():
    return exported(chain, torch.randn(3))


def test_the_program_is_given_back_as_it_was_but_for_tags() -> None:
    one = program()
    before = [(n.name, n.op, str(n.target), str(n.args)) for n in one.graph.nodes]
    metas = [{k for k in n.meta if k != "delegation_tag"} for n in one.graph.nodes]
    result = engine.partition(one, engine.parse_rules(ANY))
    assert result.tagged_exported_program is one
    assert before == [(n.name, n.op, str(n.target), str(n.args)) for n in one.graph.nodes]
    assert metas == [{k for k in n.meta if k != "delegation_tag"} for n in one.graph.nodes]


def test_tags_of_an_earlier_run_are_replaced() -> None:
    one = program()
    engine.partition(one, engine.parse_rules(ANY))
    engine.partition(one, rules("rule r { match y = aten.relu.default(x) }"))
    assert set(tags(one)) == {"relu"}


def test_tags_of_other_partitioners_are_respected() -> None:
    one = program()
    next(n for n in one.graph.nodes if n.name == "relu").meta["delegation_tag"] = "theirs"
    result = engine.partition(one, engine.parse_rules(ANY))
    assert tags(one)["relu"] == "theirs"
    assert len(result.partitions) == 2
    assert result.report.reason("relu").kind == "other partitioner"


def test_a_graph_module_is_given_back() -> None:
    module = program().module()
    result = engine.partition(module, engine.parse_rules(ANY))
    assert result.tagged_exported_program is module
    assert result.report.claimed == 3


def test_methods_have_tags_of_their_own() -> None:
    methods = {"encode": program(), "decode": program()}
    result = engine.partition(methods, engine.parse_rules(ANY))
    assert result.tagged_exported_program is methods
    assert {p.method for p in result.partitions} == {"encode", "decode"}
    assert not set(tags(methods["encode"]).values()) & set(tags(methods["decode"]).values())


def test_what_torch_compile_hands_over() -> None:
    seen: list[engine.PartitionResult] = []

    def backend(module, inputs):
        seen.append(
            engine.partition(module, rules("rule r { match y = aten.relu.default(x) require y.dtype == float32 }"))
        )
        return module.forward

    from torch._dynamo.backends.common import aot_autograd

    model = Module(lambda m, x: torch.relu(x @ m.weight), weight=torch.nn.Parameter(torch.randn(3, 3)))
    with torch.no_grad():
        torch.compile(model, backend=aot_autograd(fw_compiler=backend))(torch.randn(2, 3))
    assert [r.report.claimed for r in seen] == [1]


def test_save_and_load_change_no_tag() -> None:
    one = exported(chain, torch.randn(3))
    saved = io.BytesIO()
    torch.export.save(one, saved)
    saved.seek(0)
    again = torch.export.load(saved)
    text = "rule r { match y = aten.relu.default(aten.sin.default(x)) require x is user_input }"
    engine.partition(one, rules(text))
    engine.partition(again, rules(text))
    assert tags(one) == tags(again) != {}


def test_undecomposed_programs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    whole = torch.export.export(model, (torch.randn(2, 3),))
    result = engine.partition(
        whole,
        rules("rule l { match { y = aten.linear.default(x, w, b) z = aten.relu.default(y)? } require w is parameter }"),
    )
    assert result.report.claimed == 2


def test_the_same_input_gives_the_same_result() -> None:
    text = 'rule s { match y = aten.{sin,exp}.default(x) } partition { merge = "all" }'
    found = []
    for _ in range(2):
        one = program()
        result = engine.partition(one, rules(text))
        found.append((tags(one), result.partition_tags, [p.inputs for p in result.partitions]))
    assert found[0] == found[1]


# --- specs, marks, constants ---------------------------------------------------------------------------------------


def test_specs_are_emitted_and_added_to() -> None:
    text = """emit level = 2 emit "x-key" = x"00ff" rule s { match y = aten.sin.default(x) }
              rule r { match y = aten.relu.default(x) emit level = "high" }"""
    specs = [engine.CompileSpec("host", b"1")]
    result = engine.partition(program(), rules(text), compile_specs={"Test": specs})
    found = {m: [(s.key, s.value) for s in p.spec.compile_specs] for p in result.partitions for m, _ in p.matches}
    assert found == {
        "s": [("level", b"2"), ("x-key", b"\x00\xff"), ("host", b"1")],
        "r": [("level", b"high"), ("x-key", b"\x00\xff"), ("host", b"1")],
    }


def test_matches_with_other_specs_never_share_a_partition() -> None:
    text = """rule s { match y = aten.sin.default(x) emit k = 1 } rule r { match y = aten.relu.default(x) }
              rule e { match y = aten.exp.default(x) emit k = 1 } partition { merge = "all" }"""
    result = engine.partition(program(), rules(text))
    assert [[n.name for n in p.nodes] for p in result.partitions] == [["sin"], ["relu"], ["exp"]]


def test_marks_are_part_of_the_result_and_not_written() -> None:
    one = program()
    result = engine.partition(
        one, rules('rule r { match { s = aten.sin.default(x) y = aten.relu.default(s) } mark s as "KEY" }')
    )
    assert [(node.name, key) for node, key in result.marks] == [("sin", "KEY")]
    assert all("KEY" not in n.meta for n in one.graph.nodes)


@pytest.mark.parametrize(("policy", "tagged"), [("all", {"p_a", "p_b"}), ("none", {"p_a"})])
def test_which_constants_go_along(policy: str, tagged: set[str]) -> None:
    state = {name: torch.nn.Parameter(torch.randn(3, 3)) for name in "ab"}
    one = exported(lambda m, x: torch.addmm(m.b, x, m.a), torch.randn(3, 3), **state)
    text = f'rule r {{ match y = aten.addmm.default(b, x, w) take w }} partition {{ constants = "{policy}" }}'
    result = engine.partition(one, rules(text))
    found = {n.name for n in one.graph.nodes if n.op == "placeholder" and "delegation_tag" in n.meta}
    assert found == tagged == set(result.partitions[0].constants)


# --- several backends ----------------------------------------------------------------------------------------------


def test_partitions_of_several_backends_are_acyclic_together() -> None:
    def ladder(x):
        a, b = torch.sin(x), torch.cos(x)
        for _ in range(4):
            a, b = torch.sin(b) + a, torch.cos(a) + b
        return a, b

    first = engine.parse_rules(
        'backend "A" language 1 rule s { match y = aten.sin.default(x) } partition { merge = "all" }'
    )
    second = engine.parse_rules('backend "B" language 1 rule c { match y = _ } partition { merge = "all" }')
    one = exported(ladder, torch.randn(3))
    engine.partition(one, [first, second])
    import networkx as nx

    tagged = tags(one)
    graph = nx.DiGraph()
    for node in one.graph.nodes:
        for source in node.all_input_nodes:
            edge = (tagged.get(source.name, source.name), tagged.get(node.name, node.name))
            if edge[0] != edge[1]:
                graph.add_edge(*edge)
    assert nx.is_directed_acyclic_graph(graph)
    assert len(tagged) == len([n for n in one.graph.nodes if n.op == "call_function"])


# --- control flow --------------------------------------------------------------------------------------------------


class Branching(torch.nn.Module):
    def __init__(self, deep: bool = False) -> None:
        super().__init__()
        self.deep = deep

    def forward(self, x):
        def yes(y):
            return torch.sin(y) + 1

        def no(y):
            return torch.cos(y) + 2

        return torch.relu(torch.cond(x.sum() > 0, yes, no, (x,)))


def branching():
    return torch.export.export(Branching(), (torch.randn(3),)).run_decompositions()


def test_branches_are_partitioned_by_the_same_rules() -> None:
    result = engine.partition(branching(), rules("rule t { match y = aten.{sin,cos,relu}.default(x) }"))
    assert sorted((p.graph, [n.name for n in p.nodes]) for p in result.partitions) == [
        ("", ["relu"]),
        ("false_graph_0", ["cos"]),
        ("true_graph_0", ["sin"]),
    ]
    assert len(result.partition_tags) == 3


def test_a_control_flow_op_is_claimed_when_its_branches_are() -> None:
    text = "rule c {{ match y = higher_order.cond(p) }} rule t {{ match y = {{{}, aten.add.Tensor}}(*x) }}"
    whole = engine.partition(branching(), rules(text.format("aten.{sin,cos}.default")))
    assert [(p.graph, [n.name for n in p.nodes]) for p in whole.partitions] == [("", ["cond", "getitem"])]
    part = engine.partition(branching(), rules(text.format("aten.sin.default")))
    assert part.report.reason("cond").kind == "branches"
    assert "`cos`" in part.report.reason("cond").message


def test_rules_may_speak_of_branches() -> None:
    text = """rule c { match y = higher_order.cond(p) require all(len(g.nodes) <= 2 for g in y.subgraphs)
                       require all(n.op != aten.tan.default for g in y.subgraphs for n in g.nodes) }"""
    result = engine.partition(branching(), rules(text))
    assert [(p.graph, [n.name for n in p.nodes]) for p in result.partitions] == [("", ["cond", "getitem"])]


# --- settling ------------------------------------------------------------------------------------------------------


def test_trimming_goes_on_until_nothing_more_is_trimmed() -> None:
    text = """rule any { match y = _ }
              partition {
                trim any(i is user_input for i in n.inputs) or any(i not in nodes for i in n.inputs if i is node)
              }"""
    result = engine.partition(program(), rules(text))
    assert not result.partitions
    assert {r.kind for r in result.report.left} == {"trimmed"}


def test_a_match_that_is_taken_back_gives_way_to_its_smaller_variant() -> None:
    text = """rule r { match { s = aten.sin.default(x) y = aten.relu.default(s)? } require len(nodes) == 1 }"""
    result = engine.partition(program(), rules(text))
    assert [[n.name for n in p.nodes] for p in result.partitions] == [["sin"]]
    assert result.report.rounds == 2


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [("max_partitions = 1", [2]), ("min_nodes = 2", [2]), ("max_inputs = 0", []), ("max_outputs = 1", [2, 1])],
)
def test_limits(limits: str, sizes: list[int]) -> None:
    def split(x):
        return torch.sin(torch.sin(torch.relu(torch.sin(x))))

    one = exported(split, torch.randn(3))
    result = engine.partition(one, rules(f"rule s {{ match y = aten.sin.default(x) }} partition {{ {limits} }}"))
    assert sorted((len(p.nodes) for p in result.partitions), reverse=True) == sizes


# --- the partitioner -----------------------------------------------------------------------------------------------


def test_a_partitioner_keeps_what_the_rules_claim() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2).double()

        def forward(self, x):
            return self.second(torch.relu(self.first(x)).double())

    whole = torch.export.export(Two(), (torch.randn(2, 3),))
    partitioner = engine.RulesPartitioner(
        rules("rule l { match y = aten.linear.default(x, w, b) require y.dtype == float32 }")
    )
    ops, keep = partitioner.ops_to_not_decompose(whole)
    assert [str(op) for op in ops] == ["aten.linear.default"]
    linears = [n for n in whole.graph.nodes if "linear" in str(n.target)]
    assert [keep(n) for n in linears] == [True, False]
    assert not tags(whole)


def test_a_partitioner_takes_options_and_arguments() -> None:
    text = """option only_sin: bool = false rule s { match y = aten.sin.default(x) }
              rule r { match y = aten.relu.default(x) when not option.only_sin }"""
    one = program()
    engine.RulesPartitioner(rules(text), only_sin=True).partition(one)
    assert set(tags(one)) == {"sin"}
    again = copy.deepcopy(one)
    engine.RulesPartitioner(rules(text), exclude="sin")(again)
    assert set(tags(again)) == {"relu"}
