"""Public reports about files, versions and what is preserved, by their ids."""

from __future__ import annotations

import io
import logging
import operator
from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from apportion.engine.lowering.sizes import delegates_of
from tests.engine.lowering.checks import compare, delegates, eager_rules, ops_in
from tests.engine.programs import exported, header, tags


def older_form(state: torch.Tensor) -> torch.fx.GraphModule:
    """How graphs wrote a buffer before signatures said so: a copy_ at their end."""
    graph = torch.fx.Graph()
    x, b = graph.placeholder("x"), graph.placeholder("b_state")
    total = graph.call_function(torch.ops.aten.add.Tensor, (b, x))
    result = graph.call_function(torch.ops.aten.sin.default, (total,))
    copied = graph.call_function(torch.ops.aten.copy_.default, (b, total))
    graph.output((result,))
    for node in (x, b, total, result, copied):
        node.meta["val"] = state.to("meta")
    return torch.fx.GraphModule(nn.Module(), graph)


ANY = 'rule any { match y = _ } rule copy { match y = aten.copy_.default(a, b) } partition { mutable_buffers = %s }'


@pytest.mark.parametrize("owned", ["false", "true"])
def test_K1_a_buffer_that_is_written_in_the_form_of_older_versions(owned: str) -> None:
    module = older_form(torch.zeros(3))
    result = engine.partition(module, engine.parse_rules(header(ANY % owned)))
    tagged = {str(node.target) for node in module.graph.nodes if "delegation_tag" in node.meta}
    assert tagged == {"aten.add.Tensor", "aten.sin.default"}
    (reason,) = result.report.left
    assert reason.op == "aten.copy_.default" and reason.kind == "mutation"


def test_K1_the_form_of_this_version_writes_what_the_older_one_writes() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.add_(x)
            return torch.sin(self.state)

    program = torch.export.export(Writes(), (torch.ones(3),)).run_decompositions()
    result = engine.partition(program, eager_rules())
    assert set(tags(program)) == {"add", "sin"}
    compare(engine.to_backend(program, result), Writes(), [(torch.randn(3),)] * 3)
    state, x = torch.zeros(3), torch.randn(3)
    older = older_form(state)
    assert torch.equal(older(x, state)[0], torch.sin(x)) and torch.equal(state, x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(x.sum(0))
        y = torch.cond(x.sum() > 0, lambda v: v.relu() * 3, lambda v: v.sigmoid() - 1, (self.body(x),))
        return y.sin() + self.count, torch.topk(y, 2)[0]


RULES = header("rule some { match y = {aten.{addmm,permute,relu,sigmoid,topk}.default, aten.{add,mul}.Tensor}() }")


def all_tags(program: Any) -> list[tuple[str, str]]:
    return [(node.name, node.meta["delegation_tag"]) for module in program.graph_module.modules()
            if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes
            if "delegation_tag" in node.meta and "unused" not in node.name]  # what a file adds for results nobody reads


def test_K3_the_same_tags_after_a_file() -> None:
    program = torch.export.export(Model(), (torch.ones(3, 4),)).run_decompositions()
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    read = torch.export.load(io.BytesIO(buffer.getvalue()))
    for one in (program, read):
        engine.partition(one, engine.parse_rules(RULES))
    assert len(all_tags(program)) > 8
    assert all_tags(read) == all_tags(program)


def test_K3_the_same_claims_whether_export_was_strict() -> None:
    found = []
    for strict in (False, True):
        program = torch.export.export(Model(), (torch.ones(3, 4),), strict=strict).run_decompositions()
        result = engine.partition(program, engine.parse_rules(RULES))
        found.append(sorted(str(node.target) for part in result.partitions for node in part.nodes))
    assert found[0] == found[1] and len(found[0]) > 8


def test_K4_a_view_that_is_to_be_preserved_is_a_visible_warning(caplog: pytest.LogCaptureFixture) -> None:
    rules = engine.parse_rules(header(
        "preserve claimed | {aten.view.default, aten.hardswish.default} rule any { match y = _ }"))
    program = exported(lambda x: torch.nn.functional.hardswish(x.view(4)), torch.randn(2, 2), decompose=False)
    with caplog.at_level(logging.WARNING, "apportion"):
        ops, keep = engine.RulesPartitioner(rules).ops_to_not_decompose(program)
    assert [str(op) for op in ops] == ["aten.hardswish.default"]
    assert "`aten.view.default` can't be preserved: it is a view" in caplog.text
    assert keep is not None and any(keep(node) for node in program.graph.nodes)


def test_K4_what_is_preserved_arrives_whole_and_what_nobody_claims_is_decomposed() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            small, large = torch.nn.functional.hardswish(x[:, :2]), torch.nn.functional.hardswish(x)
            return small.sum() + large

    rules = engine.parse_rules('backend "EagerBackend" language 1\nrule wide { match y = aten.hardswish.default(x)'
                               " require x.shape[1] >= 4 }")
    model, x = Both(), torch.ones(2, 4)
    lowered = engine.lower(model, rules, (x,))
    (one,) = delegates(lowered)
    inside = [node for node in one.original_module.graph.nodes if node.op == "call_function"]
    assert [str(node.target) for node in inside] == ["aten.hardswish.default"]
    assert inside[0].meta["val"].shape == (2, 4)
    assert "aten.hardswish.default" not in ops_in(lowered) and "aten.clamp.default" in ops_in(lowered)
    compare(lowered, model, [(torch.randn(2, 4),)] * 2, 1e-6)
    with pytest.raises(engine.StrictError, match="aten.clamp.default"):
        engine.lower(model, rules, (x,), strict=True)
    both = [rules, eager_rules("aten.clamp.default", "aten.mul.Tensor", "aten.add.Tensor", "aten.div.Tensor")]
    pieces = [str(node.target) for _, one in delegates_of(engine.lower(model, both, (x,)))
              for node in one.original_module.graph.nodes]
    assert "aten.clamp.default" in pieces and pieces.count("aten.hardswish.default") == 1


def test_K6_a_rule_for_newer_targets() -> None:
    text = header("option ios: int = 15\nrule topk { match y = aten.topk.default()"
                  ' require option.ios >= 16 because "older targets run it wrongly" emit ios = option.ios }')
    for ios, claimed in ((15, 0), (16, 1), (17, 1)):
        program = exported(lambda x: torch.topk(x, 2)[0], torch.randn(5))
        result = engine.partition(program, engine.parse_rules(text, options={"ios": ios}))
        assert len(result.partitions) == claimed
        specs = [(spec.key, spec.value) for part in result.partitions for spec in part.spec.compile_specs]
        assert specs == [("ios", str(ios).encode())] * claimed
        if not claimed:
            (reason,) = (r for r in result.report.left if "topk" in r.op)
            assert "older targets run it wrongly" in reason.message


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return torch.sin(x.relu().view(n * 4) * n) + n


@pytest.mark.parametrize("sizes", ["", "rule sizes { match y = {aten.sym_size.int, operator.mul}() }"])
def test_K9_a_size_crosses_a_border_only_inwards(sizes: str) -> None:
    shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
    program = torch.export.export(Sizes(), (torch.ones(3, 4),), dynamic_shapes=shapes).run_decompositions()
    some = "rule some { match y = {aten.{relu,view}.default, aten.{mul,add}.Tensor}() }"
    rules = engine.parse_rules(f'backend "EagerBackend" language 1\n{some} {sizes}')
    lowered = engine.to_backend(program, engine.partition(program, rules))
    lowered.validate()
    assert delegates(lowered)
    for one in delegates(lowered):
        (results,) = one.original_module.graph.output_node().args
        assert all(isinstance(node.meta["val"], torch.Tensor) for node in results)
        assert not any(node.target is operator.getitem for node in results)
    compare(lowered, Sizes(), [(torch.randn(n, 4),) for n in (2, 3, 7)])
