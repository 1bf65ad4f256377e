"""What is kept from decomposition: exactly what the real partitioner keeps, and exactly what is claimed afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("executorch")

from apportion.backends.executorch import RulesPartitioner
from tests.agreement.models import MODELS, exported
from tests.agreement.preserved import CASES, preserved_cases, preserved_nodes, preserved_theirs
from tests.agreement.runs import lower


@pytest.mark.parametrize("name", list(CASES))
def test_the_same_nodes_are_kept(name: str) -> None:
    program = dict(preserved_cases())[name]
    assert preserved_nodes("xnnpack", program) == preserved_theirs(name)


def _small() -> list[Any]:
    names = [name for name, model in MODELS.items() if model.small]
    return [names[0], *(pytest.param(name, marks=pytest.mark.full) for name in names[1:])]


@pytest.mark.parametrize("name", _small())
def test_kept_ops_are_claimed(name: str) -> None:
    """`to_edge_transform_and_lower` refuses a program with a kept op that was not delegated: none is left."""
    lowered = lower(exported(name).program, RulesPartitioner("xnnpack"))
    left = {str(node.target) for node in lowered.exported_program().graph.nodes if node.op == "call_function"}
    assert not any(word in target for target in left for word in ("linear", "hardswish", "prelu", "max_pool2d"))


def test_nothing_in_the_graph_changes() -> None:
    program = exported("linear_stack").program.run_decompositions({})
    before = str(program.graph)
    partitioner = RulesPartitioner("xnnpack")
    ops, keep = partitioner.ops_to_not_decompose(program)
    assert torch.ops.aten.linear.default in ops and keep is not None
    assert str(program.graph) == before
    assert not any("delegation_tag" in node.meta for node in program.graph.nodes)
