"""The guarantees over programs that are not drawn at random: loops of every kind, real models, several methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import frozen
from torch import Tensor, nn
from torch._higher_order_ops import map as map_op
from torch._higher_order_ops import scan, while_loop

from apportion import engine
from tests.agreement.models import MODELS, exported, missing_libraries
from tests.properties.harness import CLEAN, Outcome, a_program, graphs_of, pairs_of, snapshot, tags_in
from tests.properties.rules_text import draw_rules
from tests.properties.test_guarantees import CHECKS, as_plain, claimed_by_half, connected_never_more


@frozen(eq=False)
class Given:
    """A program that is judged as a random one is: its module, its inputs, a seed for what the checks draw."""

    name: str
    build: Callable[[], nn.Module]
    first: tuple[Tensor, ...]
    seed: int = 0

    def module(self) -> nn.Module:
        return self.build()

    def inputs(self, call: int = 0) -> tuple[Tensor, ...]:
        """The inputs of a call: floats are other ones each time."""
        generator = torch.Generator().manual_seed(call)
        return tuple(
            torch.randn(value.shape, generator=generator) if value.is_floating_point() else value.clone()
            for value in self.first
        )

    def describe(self) -> str:
        return self.name


def judge(program: Given, given: Any, texts: tuple[str, ...]) -> int:
    """Every check on one program and some rules; how many partitions there were."""
    before = snapshot(given)
    result = engine.partition(given, [engine.parse_rules(text) for text in texts])
    found = Outcome(program, given, texts, result, before)  # type: ignore[arg-type] # has all that the checks ask for
    for check in CHECKS:
        check(found)
    return len(result.partitions)


# --- loops ---------------------------------------------------------------------------------------------------------


class Mapped(nn.Module):
    def forward(self, x: Tensor, w: Tensor) -> Any:
        rows = map_op(lambda row, v: torch.sigmoid(torch.relu(row) * v.sum()) + 1, x, w)
        return rows * 2, torch.neg(rows)


class Scanned(nn.Module):
    def forward(self, x: Tensor) -> Any:
        def combine(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            following = torch.tanh(carry + row)
            return following, torch.relu(following) * 2

        last, rows = scan(combine, torch.zeros(4), torch.sin(x))
        return last + 1, rows.sum(-1)


class Looped(nn.Module):
    def forward(self, x: Tensor) -> Any:
        def more(count: Tensor, value: Tensor) -> Tensor:
            return count < 3

        def step(count: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            return count + 1, torch.tanh(value) * 0.5 + torch.abs(value)

        count, value = while_loop(more, step, (torch.zeros((), dtype=torch.int64), torch.relu(x)))
        return value + 1, count


class Chosen(nn.Module):
    def forward(self, x: Tensor) -> Any:
        def deep(a: Tensor) -> Tensor:
            return torch.cond(a.mean() > 0, lambda b: torch.relu(b) * 2, lambda b: torch.sin(b) + 1, (a,))

        y = torch.cond(x.sum() > 0, lambda a: torch.sigmoid(deep(a)), lambda a: torch.tanh(a) * a - 1, (x,))
        return torch.neg(y), y


class WrittenAround(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        before = self.total * 2
        self.total.add_(torch.relu(x).mean(0))
        rows = map_op(lambda row, v: torch.relu(row) + v, x, self.total.clone())
        return before, rows, self.total + 1


LOOPS = (
    Given("map", Mapped, (torch.randn(6, 4), torch.randn(3))),
    Given("scan", Scanned, (torch.randn(6, 4),)),
    Given("while_loop", Looped, (torch.randn(6, 4),)),
    Given("cond", Chosen, (torch.randn(6, 4),)),
    Given("written around a map", WrittenAround, (torch.randn(6, 4),)),
)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("program", LOOPS, ids=lambda program: program.name)
@pytest.mark.parametrize("many", [pytest.param(6, id="6"), pytest.param(60, id="60", marks=pytest.mark.full)])
def test_loops(program: Given, decomposed: bool, many: int) -> None:
    given = torch.export.export(program.module(), program.inputs(), strict=False)
    given = given.run_decompositions() if decomposed else given
    inner = [module for path, module in graphs_of(given.graph_module) if path]
    assert inner
    names = {str(node.target) for _, m in graphs_of(given.graph_module) for node in m.graph.nodes
             if isinstance(node.target, torch._ops.OpOverload)}
    ops = ", ".join(sorted(names))
    everything = f'backend "B" language 1\nrule r {{ match y = {{{ops}}}(*xs) }}\npartition {{ merge = "all" }}\n'
    assert judge(program, given, (everything,)) > 0
    assert any(tags_in(module) for module in inner), "what is inside is claimed too"
    pairs = pairs_of(given)
    made = sum(judge(program, given, (draw_rules(1000 + seed, pairs),)) for seed in range(many))
    assert made > 0


# --- real models -----------------------------------------------------------------------------------------------------

SMALL = ("lstm", "vit_tiny")


@pytest.mark.parametrize("name, many", [
    *(pytest.param(name, 2, id=f"{name}-2") for name in SMALL),
    *(pytest.param(name, 20, id=f"{name}-20", marks=pytest.mark.full) for name in MODELS
      if MODELS[name].quantize != "dynamic"),
])
def test_real_models(name: str, many: int) -> None:
    absent = missing_libraries(name)
    if absent:
        pytest.skip(f"{name} needs {', '.join(absent)}")
    made = exported(name)
    program = Given(name, lambda: made.module, made.inputs)
    xnnpack = engine.load_rules("xnnpack").sources[0].text
    assert judge(program, made.program, (xnnpack,)) > 0
    pairs = pairs_of(made.program)
    for seed in range(many):
        judge(program, made.program, (draw_rules(seed, pairs), xnnpack))


@pytest.mark.parametrize("name, many", [
    *(pytest.param(name, 3, id=f"{name}-3") for name in SMALL),
    *(pytest.param(name, 10, id=f"{name}-10", marks=pytest.mark.full) for name in MODELS),
])
def test_connected_partitions_are_few(name: str, many: int) -> None:
    """Never more than the peer that fuses connected nodes, wherever its partitions can run one after another."""
    absent = missing_libraries(name)
    if absent:
        pytest.skip(f"{name} needs {', '.join(absent)}")
    program = exported(name).program
    ops = sorted({str(node.target).removeprefix("aten.") for node in program.graph.nodes
                  if str(node.target).startswith("aten.")})
    compared = [connected_never_more(program, *claimed_by_half(program, seed, "adjacent", ops)) for seed in range(many)]
    assert any(compared)


# --- several methods ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [pytest.param(12, id="12"), pytest.param(200, id="200", marks=pytest.mark.full)])
def test_methods_are_partitioned_as_if_alone(many: int) -> None:
    """A dict of methods gives each the partitions, specs and reasons that it has alone; tags differ over all."""
    claimed = 0
    for seed in range(many):
        methods = {"forward": a_program(3 * seed, CLEAN)[1], "other": a_program(3 * seed + 1, CLEAN)[1]}
        rules = engine.parse_rules(draw_rules(seed, [pair for one in methods.values() for pair in pairs_of(one)]))
        together = engine.partition(methods, rules)
        assert together.tagged_exported_program is methods
        tags = [partition.tag for partition in together.partitions]
        assert len(set(tags)) == len(tags) == len(together.partition_tags)
        for name, one in methods.items():
            alone = engine.partition(one, rules)
            ours = [as_plain(p)[1:] for p in together.partitions if p.method == name]
            assert ours == [as_plain(p)[1:] for p in alone.partitions]
            left = [(r.node, r.kind, r.message) for r in together.report.left if r.method == name]
            assert left == [(r.node, r.kind, r.message) for r in alone.report.left]
            claimed += len(ours)
    assert claimed > many / 2
