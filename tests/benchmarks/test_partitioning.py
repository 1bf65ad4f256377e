"""The benchmark's graphs in small: every side is run, and what ours gives is valid beside the peer's."""

from __future__ import annotations

import pytest

from apportion import engine
from benchmarks.graphs import GRAPHS, make
from benchmarks.partitioning import SIDES, claimed


@pytest.mark.parametrize("kind", GRAPHS)
def test_ours_makes_no_more_partitions_than_the_peer(kind: str) -> None:
    module = make(kind, 60)
    result = engine.partition(module, "xnnpack")
    assert {node for p in result.partitions for node in p.nodes} == claimed(module)
    assert len(claimed(module)) == result.report.claimed > 0
    assert len(result.partitions) == SIDES["ours"](module, "xnnpack")
    assert len(result.partitions) <= SIDES["capability"](module, "xnnpack")


def test_a_graph_is_as_large_as_asked_for() -> None:
    for kind in GRAPHS:
        assert 100 <= sum(node.op == "call_function" for node in make(kind, 100).graph.nodes) < 120, kind
