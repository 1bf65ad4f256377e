"""Partitioning beside its peers, on the same graphs in one run: `python -m benchmarks.partitioning`.

Each side runs in a process of its own, turn by turn, and reports CPU seconds (the best of its turns) and how much the
peak of its memory grew. The floor is one plain pass over the graph that reads target, inputs, dtype and shape.
`ours` is the whole of `partition()`: facts, matching, merging, settling, tags. The `capability` sides are
`CapabilityBasedPartitioner.propose_partitions` alone, given the nodes that ours claimed.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

from apportion import engine
from benchmarks.graphs import GRAPHS, make

__all__ = ["SIDES", "claimed", "main"]


def _plain(module: GraphModule, rules: str) -> int:
    """One pass that looks at what any partitioner has to look at."""
    count = 0
    for node in module.graph.nodes:
        node.target, node.all_input_nodes  # noqa: B018  # reading them is the point
        val = node.meta.get("val")
        if val is not None:
            val.dtype, val.shape  # noqa: B018
            count += 1
    return count


def _ours(module: GraphModule, rules: str) -> int:
    return len(engine.partition(module, rules).partitions)


def _capability(module: GraphModule, rules: str, *, connected: bool) -> int:
    supported = claimed(module)
    support = create_op_support(lambda _, node: node in supported)
    peer = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True,
                                      skip_horizontal_fusion=connected)
    return len(peer.propose_partitions())


SIDES: Mapping[str, Callable[[GraphModule, str], int]] = {
    "plain": _plain,
    "ours": _ours,
    "capability": lambda module, rules: _capability(module, rules, connected=False),
    "capability connected": lambda module, rules: _capability(module, rules, connected=True),
}
"""What is measured, by name: each gives a count of partitions (the plain pass: of nodes)."""


def claimed(module: GraphModule) -> set[Node]:
    """The op nodes that an earlier `partition` tagged."""
    return {node for node in module.graph.nodes if node.op == "call_function" and "delegation_tag" in node.meta}


def _measure(side: str, kind: str, size: int, rules: str) -> dict[str, Any]:
    """One turn: best of three runs after one on a small graph that warms everything up."""
    action = SIDES[side]
    small, module = make(kind, 100), make(kind, size)
    for one in (small, module):
        engine.partition(one, rules)  # tags what the peers are told is supported
    action(small, rules)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best, count = math.inf, 0
    for _ in range(3 if side in ("plain", "ours") else 1):
        start = time.process_time()
        count = action(module, rules)
        best = min(best, time.process_time() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"seconds": best, "count": count, "megabytes": grown}


def _turn(side: str, kind: str, size: int, rules: str, limit: float) -> dict[str, Any] | None:
    """A turn in a process of its own; None where it took longer than `limit` seconds."""
    command = [sys.executable, "-m", "benchmarks.partitioning", "--turn", side, kind, str(size), rules]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _table(options: argparse.Namespace) -> None:
    write = sys.stdout.write
    write(f"torch {torch.__version__}, Python {sys.version.split()[0]}, rules {options.rules}\n")
    write(f"{'graph':12} {'nodes':>7} {'side':22} {'seconds':>9} {'x plain':>8} {'x ours':>8} {'growth':>7}")
    write(f" {'parts':>6} {'MB':>7}\n")
    for kind in options.graphs:
        last: dict[str, tuple[int, float]] = {}
        for size in options.sizes:
            best: dict[str, dict[str, Any]] = {}
            for _ in range(options.turns):
                for side in SIDES:
                    if side.startswith("capability") and size > options.largest:
                        continue
                    found = _turn(side, kind, size, options.rules, options.limit)
                    if found is not None and found["seconds"] < best.get(side, {"seconds": math.inf})["seconds"]:
                        best[side] = found
            for side, found in best.items():
                growth = ""
                if side in last:
                    before, seconds = last[side]
                    growth = f"{math.log(found['seconds'] / seconds) / math.log(size / before):.2f}"
                last[side] = (size, found["seconds"])
                write(f"{kind:12} {size:7} {side:22} {found['seconds']:9.4f}"
                      f" {found['seconds'] / best['plain']['seconds']:8.1f}"
                      f" {found['seconds'] / best['ours']['seconds']:8.1f} {growth:>7} {found['count']:6}"
                      f" {found['megabytes']:7.1f}\n")
                sys.stdout.flush()


def main() -> None:
    """Print a line for each graph, size and side; `growth` is the exponent since the size before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 20_000, 50_000, 100_000])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--rules", default="xnnpack", help="a shipped name or a path")
    parser.add_argument("--largest", type=int, default=1_000, help="nodes up to which the slow peer is run")
    parser.add_argument("--turns", type=int, default=2, help="how often every side has its turn")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a turn is given up")
    parser.add_argument("--turn", nargs=4, metavar=("SIDE", "GRAPH", "SIZE", "RULES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn is None:
        _table(options)
        return
    side, kind, size, rules = options.turn
    sys.stdout.write(json.dumps(_measure(side, kind, int(size), rules)))


if __name__ == "__main__":
    main()
