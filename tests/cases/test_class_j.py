"""Public reports about several backends, limits and exclusions, by their ids."""

from __future__ import annotations

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags


def rules(backend: str, body: str) -> engine.RuleSet:
    return engine.parse_rules(f'backend "{backend}" language 1\n{body}', name=f"{backend}.rules")


def chain(x):
    return torch.tanh(torch.relu(torch.sin(torch.cos(torch.sin(x)))))


NPU = rules("Npu", "rule trig { match y = aten.{sin,cos}.default(x) }")
GPU = rules("Gpu", "rule smooth { match y = aten.{cos,relu}.default(x) }")
CPU = rules("Cpu", "rule any { match y = _ }")


def owners(order: list[engine.RuleSet]) -> dict[str, str]:
    program = exported(chain, torch.randn(3))
    result = engine.partition(program, order)
    return {name: result.partition_tags[tag].backend_id for name, tag in tags(program).items()}


def test_J1_the_order_of_the_sequence_is_the_precedence() -> None:
    first = owners([NPU, GPU, CPU])
    assert first == {"sin": "Npu", "cos": "Npu", "sin_1": "Npu", "relu": "Gpu", "tanh": "Cpu"}
    swapped = owners([GPU, NPU, CPU])
    assert {name for name in first if first[name] != swapped[name]} == {"cos"}
    assert swapped["cos"] == "Gpu"


def test_J1_who_lost_to_whom_is_told() -> None:
    program = exported(lambda x: torch.sin(x), torch.randn(3))
    only = rules(
        "Other",
        "rule sin { match y = aten.sin.default(x) } rule neg { match y = aten.neg.default(aten.sin.default(x)) }",
    )
    result = engine.partition(program, [NPU, only])
    assert [c.claimed for c in result.report.coverage] == [1, 0]


def test_J4_two_rules_on_one_node_give_one_claim() -> None:
    program = exported(lambda x: torch.relu(x), torch.randn(3))
    twice = engine.parse_rules(
        header("rule a { match y = aten.relu.default(x) } rule b { match y = aten.relu.default(x) }")
    )
    result = engine.partition(program, twice)
    assert len(result.partitions) == 1
    assert result.partitions[0].matches == (("a", ("relu",)),)


@pytest.mark.parametrize(("limit", "most"), [("max_nodes = 2", 2), ("max_nodes = 3", 3)])
def test_J6_partitions_are_split_at_legal_cuts(limit: str, most: int) -> None:
    program = exported(chain, torch.randn(3))
    result = engine.partition(
        program, engine.parse_rules(header(f"rule any {{ match y = _ }} partition {{ {limit} }}"))
    )
    assert result.report.claimed == 5
    assert [len(p.nodes) for p in result.partitions] == ([2, 2, 1] if most == 2 else [3, 2])


def test_J6_bytes_of_constants_per_partition() -> None:
    def layers(m, x):
        return x @ m.a @ m.b @ m.c

    state = {name: torch.nn.Parameter(torch.randn(8, 8)) for name in "abc"}
    program = exported(layers, torch.randn(2, 8), **state)
    result = engine.partition(
        program, engine.parse_rules(header("rule any { match y = _ } partition { max_constant_bytes = 512 }"))
    )
    assert [p.constant_bytes for p in result.partitions] == [512, 256]
    tight = engine.parse_rules(header("rule any { match y = _ } partition { max_constant_bytes = 255 }"))
    refused = engine.partition(exported(layers, torch.randn(2, 8), **state), tight)
    assert not refused.partitions
    assert {r.kind for r in refused.report.left} == {"limit"}


def test_J6_an_option_goes_to_the_backend_that_has_it() -> None:
    first = rules(
        "First", "option most: int = 9 rule any { match y = aten.sin.default(x) } partition { max_nodes = option.most }"
    )
    second = rules(
        "Second",
        "option most: int = 9 rule any { match y = aten.relu.default(x) } partition { max_nodes = option.most }",
    )
    program = exported(lambda x: torch.relu(torch.relu(torch.sin(torch.sin(x)))), torch.randn(3))
    result = engine.partition(program, [first, second], options={"Second.most": 1})
    assert [(p.spec.backend_id, len(p.nodes)) for p in result.partitions] == [
        ("First", 2),
        ("Second", 1),
        ("Second", 1),
    ]


@pytest.mark.parametrize("pattern", ["relu", "re*", "aten.relu", "aten.relu.default", "aten.rel*", "body.1", "body"])
def test_J9_kept_off_by_name_op_or_module(pattern: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.ReLU())

        def forward(self, x):
            return torch.sin(self.body(x))

    program = torch.export.export(Model(), (torch.randn(3),)).run_decompositions()
    result = engine.partition(program, CPU, exclude=[pattern])
    reason = result.report.reason("relu")
    assert reason.kind == "excluded by user"
    assert pattern in reason.message
    assert "sin" in tags(program)


def test_J9_only_what_was_named() -> None:
    program = exported(chain, torch.randn(3))
    engine.partition(program, CPU, only="aten.sin.default")
    assert set(tags(program)) == {"sin", "sin_1"}
