"""Hand-written partitioners and rules files in one program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from apportion import engine
from tests.engine.lowering.checks import Tagger, compare, delegates, eager_rules
from tests.engine.programs import Module


def program() -> tuple[Any, torch.nn.Module]:
    model = Module(lambda x: (x.relu().sin() + 1).cos())
    return torch.export.export(model, (torch.ones(3),)).run_decompositions(), model


def by_hand(*names: str) -> Tagger:
    return Tagger(lambda node: "hand" if node.op == "call_function" and any(n in node.name for n in names) else None)


def owners(result: engine.PartitionResult) -> dict[str, str]:
    return {node.name: part.tag for part in result.partitions for node in part.nodes}


@pytest.mark.parametrize("hand_first", [True, False])
def test_the_order_is_the_precedence(hand_first: bool) -> None:
    exported, model = program()
    rules = eager_rules("aten.relu.default", "aten.add.Tensor")
    given = [by_hand("relu", "sin"), rules] if hand_first else [rules, by_hand("cos")]
    result = engine.partition(exported, given)
    names = owners(result)
    if hand_first:
        assert names["relu"] == names["sin"] == "hand" and names["add"].startswith("apportion_")
        assert [reason.node for reason in result.report.left] == ["cos"]
    else:
        assert names["cos"] == "hand" and names["relu"].startswith("apportion_")
        assert [reason.node for reason in result.report.left] == ["sin"]
    assert (result.report.claimed, result.report.nodes_total) == (3, 4)
    assert set(names.values()) == set(result.partition_tags)
    lowered = engine.to_backend(exported, result)
    assert len(delegates(lowered)) == len(result.partitions)
    compare(lowered, model, [(torch.randn(3),)] * 2)


def test_a_partition_that_wants_what_is_gone_is_not_made() -> None:
    exported, model = program()
    result = engine.partition(exported, [eager_rules("aten.sin.default"), by_hand("relu", "sin"), eager_rules()])
    names = owners(result)
    assert "hand" not in names.values() and set(names) == {"relu", "sin", "add", "cos"}
    compare(engine.to_backend(exported, result), model, [(torch.randn(3),)] * 2)


def test_a_partition_around_an_earlier_one_is_not_made() -> None:
    exported, model = program()
    result = engine.partition(exported, [eager_rules("aten.sin.default"), by_hand("relu", "add")])
    assert set(owners(result)) == {"sin"}
    compare(engine.to_backend(exported, result), model, [(torch.randn(3),)] * 2)
