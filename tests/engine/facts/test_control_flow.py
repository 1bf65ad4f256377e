"""Branches of control-flow ops."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.while_loop import while_loop

from apportion.engine.facts import GraphFacts, ProgramFacts, is_kind
from tests.engine.programs import exported


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        def dense(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, w).relu()

        def other(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x, w: x @ w, lambda x, w: (x * w).sin(), (x, w))

        y = torch.cond(flag, dense, other, (x, self.linear.weight))
        y = map_over(lambda a, s: a + s, y, self.scale)
        step = torch.zeros(())
        _, y = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * self.scale), (step, y))
        return y


def graphs(**kwargs: Any) -> tuple[ProgramFacts, dict[str, GraphFacts]]:
    program = torch.export.export(Branches(), (torch.ones(4, 4), torch.tensor(True)))
    if kwargs.get("decompose"):
        program = program.run_decompositions()
    facts = ProgramFacts.of(program)
    return facts, {g.path: g for g in facts.graphs}


def test_branches_come_before_their_owners() -> None:
    facts, by_path = graphs()
    paths = [g.path for g in facts.graphs]
    assert paths[-1] == "" and facts.main is facts.graphs[-1]
    assert paths.index("false_graph_0.true_graph_0") < paths.index("false_graph_0")
    assert len(paths) == len(set(paths)) == 8
    cond = next(c for c in facts.main.calls if str(c.op) == "higher_order.cond")
    assert [g.path for g in cond.subgraphs] == ["true_graph_0", "false_graph_0"]
    assert by_path["true_graph_0"].owner is cond and facts.main.owner is None
    assert [v.name for v in cond.inputs] == ["flag", "x", "p_linear_weight"]
    for path, graph in by_path.items():
        assert graph.module is facts.main.module.get_submodule(path)


def test_f6_a_parameter_stays_one_inside_a_branch() -> None:
    for decompose in (False, True):
        facts, by_path = graphs(decompose=decompose)
        for path in ("true_graph_0", "false_graph_0", "false_graph_0.true_graph_0", "false_graph_0.false_graph_0"):
            x, w = by_path[path].placeholders
            assert is_kind(w, "constant") is True and is_kind(w, "parameter") is True, path
            assert is_kind(w, "frozen") is True and is_kind(w, "graph_input") is True
            assert is_kind(x, "constant") is False and is_kind(x, "user_input") is True


def test_what_a_loop_carries_is_nothing_in_particular() -> None:
    _, by_path = graphs()
    (step, carried, scale) = by_path["while_loop_body_graph_0"].placeholders
    assert is_kind(scale, "buffer") is True and is_kind(scale, "constant") is True
    for value in (step, carried):
        assert not any(is_kind(value, k) is True for k in ("user_input", "constant", "frozen", "buffer"))
    item, scale = by_path["body_graph_0"].placeholders
    assert is_kind(scale, "constant") is True and is_kind(item, "user_input") is False


def test_effects_of_branches_are_effects() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x + 1, (x,))

    calls = ProgramFacts.of(exported(function, torch.ones(3))).main.calls
    assert [c.has_effects for c in calls if c.subgraphs] == [True]
    assert [c.has_effects for c in graphs()[0].main.calls if c.subgraphs] == [False] * 3
