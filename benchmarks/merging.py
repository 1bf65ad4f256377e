"""Merging beside `CapabilityBasedPartitioner`, on the same graphs in one run: `python -m benchmarks.merging`.

Times are CPU seconds, the best of three for ours; ratios are what counts. `--largest` bounds the graphs that the peer
gets (its time grows with the square or cube), `--sizes` are those that ours gets.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from apportion.engine.merge import Flow, Unit, merge

Graph = tuple[list[list[int]], list[int]]


def transformer(size: int) -> Graph:
    """Blocks of attention and a gated feed-forward part on a residual stream; norms and softmax unclaimed."""
    predecessors: list[list[int]] = [[]]
    claimed: list[int] = []

    def add(*before: int, claim: bool = True) -> int:
        predecessors.append(sorted(set(before)))
        if claim:
            claimed.append(len(predecessors) - 1)
        return len(predecessors) - 1

    stream = 0
    while len(predecessors) < size:
        norm = add(stream, claim=False)
        query, key, value = add(add(norm)), add(add(norm)), add(add(norm))
        weights = add(add(add(query, add(key))), claim=False)
        stream = add(stream, add(add(weights, value)))
        norm = add(stream, claim=False)
        stream = add(stream, add(add(add(add(norm)), add(norm))))
    return predecessors, claimed


def everything(size: int) -> Graph:
    """The same, all of it claimed."""
    predecessors, _ = transformer(size)
    return predecessors, list(range(1, len(predecessors)))


def local(size: int) -> Graph:
    """Random edges of a reach of 50 nodes, four fifths claimed."""
    rng = random.Random(size)
    predecessors = [sorted(rng.sample(range(max(0, node - 50), node), min(node, rng.choice((1, 1, 2, 2, 3)))))
                    for node in range(size)]
    return predecessors, [node for node in range(size) if rng.random() < 0.8]


GRAPHS: dict[str, Callable[[int], Graph]] = {"transformer": transformer, "all claimed": everything, "random": local}


class _Claimed(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return bool(node.meta.get("claimed"))


def peer(graph: Graph) -> CapabilityBasedPartitioner:
    """The peer on a real FX graph of the same shape."""
    predecessors, claimed = graph
    made = torch.fx.Graph()
    root = made.placeholder("x")
    nodes: list[torch.fx.Node] = []
    for before in predecessors:
        nodes.append(made.call_function(_first, tuple(nodes[other] for other in before) or (root,)))
    for node in claimed:
        nodes[node].meta["claimed"] = True
    made.output(tuple(node for node in nodes if not node.users))
    return CapabilityBasedPartitioner(torch.fx.GraphModule({}, made), _Claimed(), allows_single_node_partition=True,
                                      skip_horizontal_fusion=True)


def _first(*values: Any) -> Any:
    return values[0]


def timed(action: Callable[[], Sequence[Any]], times: int) -> tuple[float, int]:
    """The least CPU seconds, and how many partitions."""
    best, count = float("inf"), 0
    for _ in range(times):
        started = time.process_time()
        count = len(action())
        best = min(best, time.process_time() - started)
    return best, count


def peak(action: Callable[[], Any]) -> float:
    """The most megabytes that Python objects took meanwhile."""
    tracemalloc.start()
    action()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    """Print a line for each graph and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000, 100_000])
    parser.add_argument("--largest", type=int, default=1_000, help="nodes up to which the peer is run")
    options = parser.parse_args()
    write = sys.stdout.write
    write(f"{'graph':12} {'nodes':>7} {'mode':9} {'parts':>6} {'seconds':>8} {'MB':>6}"
          f" {'peer parts':>10} {'peer s':>8} {'ratio':>6}\n")
    for name, make in GRAPHS.items():
        for size in options.sizes:
            graph = make(size)
            units = [Unit((node,)) for node in graph[1]]
            theirs = timed(peer(graph).propose_partitions, 1) if size <= options.largest else None
            for mode in ("adjacent", "all"):
                action = _merging(graph[0], units, mode)
                seconds, parts = timed(action, 3)
                line = f"{name:12} {len(graph[0]):7} {mode:9} {parts:6} {seconds:8.4f} {peak(action):6.1f}"
                if theirs is not None and mode == "adjacent":
                    line += f" {theirs[1]:10} {theirs[0]:8.3f} {theirs[0] / seconds:6.0f}"
                write(line + "\n")


def _merging(predecessors: list[list[int]], units: Sequence[Unit], mode: str) -> Callable[[], Sequence[Any]]:
    return lambda: merge(Flow(predecessors), units, mode)


if __name__ == "__main__":
    main()
