"""Patterns and graphs made to be slow end all the same: with an answer, or a clear refusal at load."""

from __future__ import annotations

import time

import pytest
import torch
from torch import fx

from apportion import engine
from tests.engine.programs import header

SECONDS = 60
"""Far more than any of these takes on a busy machine, far less than what has no bound."""


def chain(length: int, *ops: object) -> fx.GraphModule:
    graph = fx.Graph()
    value = torch.empty(2, device="meta")
    node = graph.placeholder("x")
    node.meta["val"] = value
    for index in range(length):
        node = graph.call_function(ops[index % len(ops)], (node,))
        node.meta["val"] = value
    graph.output((node,))
    return fx.GraphModule(torch.nn.Module(), graph)


def outcome(module: fx.GraphModule, rules: str) -> str:
    started = time.process_time()
    try:
        result = engine.partition(module, engine.parse_rules(header(rules)))
        found = result.report.summary()
    except engine.RulesError as error:
        found = str(error.diagnostics[0].code)
    assert time.process_time() - started < SECONDS
    return found


RELU, SIN = torch.ops.aten.relu.default, torch.ops.aten.sin.default


@pytest.mark.parametrize("length", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_pattern_of_200_nodes(length: int) -> None:
    bindings = ["n0 = aten.relu.default(x)", *(f"n{i} = aten.relu.default(n{i - 1})" for i in range(1, 200))]
    found = outcome(chain(length, RELU), "rule long { match { " + "\n".join(bindings) + " } }")
    assert found.startswith(f"{length} of {length} nodes claimed")


def test_a_long_pattern_that_never_quite_fits() -> None:
    bindings = ["n0 = aten.sin.default(x)", *(f"n{i} = aten.relu.default(n{i - 1})" for i in range(1, 200))]
    found = outcome(chain(3_000, RELU), "rule long { match { " + "\n".join(bindings) + " } }")
    assert found.startswith("0 of 3000 nodes claimed")


def test_alternatives_nested_ten_deep() -> None:
    term = "x"
    for _ in range(10):
        term = f"(aten.relu.default({term}) | aten.sin.default({term}))"
    assert outcome(chain(200, RELU, SIN), f"rule deep {{ match y = {term} }}").startswith("200 of 200 nodes claimed")


@pytest.mark.parametrize("depth", [12, 40])
def test_optional_nodes_upon_optional_nodes(depth: int) -> None:
    bindings = ["n0 = aten.relu.default(x)?", *(f"n{i} = aten.relu.default(n{i - 1})?" for i in range(1, depth))]
    sine = f"z = aten.sin.default(n{depth - 1})"
    text = "rule o { match { " + "\n".join([*bindings, sine]) + " } require z.rank == 7 }"
    assert outcome(chain(200, RELU, SIN), text).startswith("0 of 200 nodes claimed")


def test_sums_in_every_order_that_never_hold() -> None:
    graph = fx.Graph()
    value = torch.empty(2, device="meta")
    inputs = [graph.placeholder(f"x{i}") for i in range(24)]
    total = inputs[0]
    for other in inputs[1:]:
        total = graph.call_function(torch.ops.aten.add.Tensor, (total, other))
    graph.output((total,))
    for node in graph.nodes:
        node.meta["val"] = value
    term = "x0"
    for index in range(1, 24):
        term = f"aten.add.Tensor({term}, x{index})"
    module = fx.GraphModule(torch.nn.Module(), graph)
    started = time.process_time()
    result = engine.partition(
        module, engine.parse_rules(header(f"rule sums {{ match y = {term} require y.rank == 9 }}"))
    )
    assert time.process_time() - started < SECONDS
    assert not result.partitions
    assert all(reason.message for reason in result.report.left)
