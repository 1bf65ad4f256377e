"""The generators themselves: programs export and run, the plain lowering changes nothing, rules texts parse."""

from __future__ import annotations

import collections
import random

import pytest
import torch
from attrs import fields, has

from apportion.grammar import tree
from apportion.grammar.parse import parse
from tests.properties.lowering import CALLS, CannotRun, contracted, lower_plain, order_edges
from tests.properties.programs import draw_program, exported, graph_module
from tests.properties.rules_text import draw_rules
from tests.properties.running import differences, observe

NOT_WRITTEN = {"Node", "Statement", "Expr", "Term", "RuleClause", "ExampleArgument", "Because"}

# What torch.export writes without a value: checks, and the write-backs at the end of an unlifted graph.
WITHOUT_VALUE = {"aten._assert_async.msg", "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
                 "aten.sym_constrain_range_for_size.default", "aten.copy_.default"}


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in module.named_buffers() if name.startswith("state")}


def random_groups(rng: random.Random, module: torch.fx.GraphModule,
                  order: list[tuple[torch.fx.Node, torch.fx.Node]]) -> dict[torch.fx.Node, str]:
    """Stretches of the graph as groups: those can always run; getitems go with what they take apart."""
    groups: dict[torch.fx.Node, str] = {}
    number = 0
    for node in module.graph.nodes:
        if rng.random() < 0.3:
            number += 1
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        if source is not None and isinstance(source.meta.get("val"), (tuple, list)) and node.op in CALLS:
            if source in groups:
                groups[node] = groups[source]
        elif node.op in CALLS and rng.random() < 0.8:
            groups[node] = f"g{number}"
        else:
            number += 1
    return groups


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_programs_run_as_exported_as_in_eager_and_lowered(first: int) -> None:
    lowered_ones = 0
    for seed in range(first, first + 10):
        program = draw_program(seed)
        calls = [program.inputs(call) for call in range(2)]
        eager_module = program.module()
        eager = observe(eager_module, lambda m=eager_module: state_of(m), calls)
        module = exported(program).module(check_guards=False)
        plain_module = exported(program).module(check_guards=False)
        plain = observe(plain_module, lambda m=plain_module: state_of(m), calls)
        randomly = any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in
                       module.graph.nodes)
        if not randomly:
            assert not differences(eager, plain, exact=False), program.describe()
        order = order_edges(plain_module, calls[0])
        names = {node.name: node for node in module.graph.nodes}
        order = [(names[one.name], names[other.name]) for one, other in order]
        try:
            lowered = lower_plain(module, random_groups(random.Random(seed), module, order), order)
        except CannotRun:
            continue
        lowered_ones += 1
        found = observe(lowered, lambda m=module: state_of(m), calls)
        assert not differences(plain, found), program.describe()
    assert lowered_ones >= 6


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_graph_modules_have_values_and_run(first: int) -> None:
    for seed in range(first, first + 10):
        program = draw_program(seed)
        module, way = graph_module(program)
        assert way in ("unlifted", "traced")
        for node in module.graph.nodes:
            if node.op == "call_function" and str(node.target) not in WITHOUT_VALUE:
                assert "val" in node.meta, node
        module(*program.inputs())


def test_the_same_seed_gives_the_same_program() -> None:
    for seed in range(10):
        one, other = draw_program(seed), draw_program(seed)
        assert one.describe() == other.describe()
        assert str(exported(one).graph) == str(exported(other).graph)


def test_lowering_refuses_a_cycle_and_a_tuple_across_a_border() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.topk(torch.relu(torch.sin(torch.relu(x))), 2)[0]

    module = torch.fx.experimental.proxy_tensor.make_fx(function)(torch.randn(4))
    relu, sin, again, topk, *items = [node for node in module.graph.nodes if node.op == "call_function"]
    with pytest.raises(CannotRun, match="cycle"):
        lower_plain(module, {relu: "a", again: "a"})
    with pytest.raises(CannotRun, match="tuple"):
        lower_plain(module, {topk: "a"})
    assert contracted(module.graph, {relu: "a", sin: "a"}).number_of_nodes() == len(module.graph.nodes) - 1
    lowered = lower_plain(module, {relu: "a", sin: "a", topk: "b", **dict.fromkeys(items, "b")})
    assert torch.equal(lowered(torch.ones(4)), torch.ones(2).sin())


def test_lowering_sees_an_effect_that_contraction_would_swap() -> None:
    """x * 2 before and after an in-place add: both in one call would give the same twice."""
    module = torch.fx.experimental.proxy_tensor.make_fx(lambda x: _around(x))(torch.zeros(1))
    first, write, second = [node for node in module.graph.nodes if node.op == "call_function"]
    order = order_edges(module, [torch.zeros(1)])
    assert set(order) == {(first, write), (write, second)}
    with pytest.raises(CannotRun):
        lower_plain(module, {first: "a", second: "a"}, order)
    assert [float(v) for v in lower_plain(module, {first: "a", write: "a"}, order)(torch.zeros(1))] == [0.0, 2.0]


def _around(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    before = x * 2
    x.add_(1)
    return before, x * 2


def test_programs_draw_every_group_of_steps() -> None:
    drawn = collections.Counter(step.name for seed in range(60) for step in draw_program(seed).steps)
    wanted = {"relu", "linear_bias", "cat", "stack", "topk", "max", "split", "layer_norm", "cond", "rand_like",
              "dropout", "assert", "item", "view written", "mul_", "state0 add_", "times size", "constants", "unbind",
              "where"}
    assert wanted <= set(drawn)


def test_every_construct_of_the_language_is_drawn_and_parses() -> None:
    seen: set[str] = set()
    for seed in range(150):
        parsed = parse(draw_rules(seed))
        assert not parsed.diagnostics, "\n".join(map(str, parsed.diagnostics))
        waiting: list[object] = [parsed.file]
        while waiting:
            item = waiting.pop()
            if isinstance(item, tuple):
                waiting.extend(item)
            elif has(type(item)) and isinstance(item, tree.Node):
                seen.add(type(item).__name__)
                waiting.extend(getattr(item, field.name) for field in fields(type(item)) if field.name != "span")
    assert seen >= set(tree.__all__) - NOT_WRITTEN
