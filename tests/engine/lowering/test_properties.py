"""Guarantee 2 through the real `to_backend`: random programs, run twice by delegates, equal to eager PyTorch."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion import engine
from tests.engine.lowering.checks import delegates
from tests.properties.programs import draw_program, exported
from tests.properties.running import differences, observe


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in module.named_buffers() if name.startswith("state")}


def rules_for(program: torch.export.ExportedProgram, rng: random.Random) -> engine.RuleSet:
    """Rules that take most of the ops that occur, under a random policy."""
    ops = {str(node.target) for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    left = sorted(op for op in ops if rng.random() < 0.3)
    refusal = f"require y.op.name not in {{{', '.join(map(repr, left))}}}".replace("'", '"') if left else ""
    merge = rng.choice(["adjacent", "all", "siblings", "none"])
    constants = rng.choice(["all", "unshared", "none"])
    owned = rng.choice(["true", "false"])
    return engine.parse_rules(
        f'backend "EagerBackend" language 1\nrule most {{ match y = _() {refusal} }}\n'
        f'partition {{ merge = "{merge}" constants = "{constants}" mutable_buffers = {owned} }}')


def check(seed: int) -> int:
    program = draw_program(seed, without=frozenset({"random"}))
    calls = [program.inputs(call) for call in range(2)]
    original = exported(program)
    rules = rules_for(original, random.Random(seed))
    module = original.module(check_guards=False)
    expected = observe(module, lambda: state_of(module), calls)
    fresh = exported(program)
    lowered = engine.to_backend(fresh, engine.partition(fresh, rules))
    lowered.validate()
    made = lowered.module(check_guards=False)
    found = observe(made, lambda: state_of(made), calls)
    assert not differences(expected, found, exact=False), program.describe()
    return len(delegates(lowered))


@pytest.mark.parametrize("first", [0, 10])
def test_delegates_mean_the_same(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 6)) > 6


@pytest.mark.full
@given(st.integers(100, 100_000))
def test_delegates_mean_the_same_on_many_programs(seed: int) -> None:
    check(seed)
