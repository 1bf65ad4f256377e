"""Partitioning beside its peers, on the same graphs in one run: `python -m benchmarks.partitioning`.

Each side runs in a process of its own, turn by turn, and reports CPU seconds (the best of its runs) and how much more
memory it had at its peak in the first run. The floor is one plain pass over the graph that reads target, inputs, dtype
and shape. `ours` is the whole of `partition()`: facts, matching, merging, settling, tags. The `capability` sides are
`CapabilityBasedPartitioner.propose_partitions` alone, given the nodes that ours claimed. `inductor` and `subgraph` are
matchers that get the 30 patterns and find the same matches (which is checked); `ours, matching alone` and `ours, the
same patterns` are beside them. `xnnpack` is ExecuTorch's `XnnpackPartitioner.partition` on an Edge program, `ours edge`
ours on that; `tvm` is Relax' `FuseOpsByPattern` in a Python of its own (`--tvm`). With `--rows FILE` every row is kept
as it comes, and a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

from apportion import engine
from apportion.engine.candidates import Attempts, Matcher
from apportion.engine.collector import collector_paused
from apportion.engine.facts import ProgramFacts
from benchmarks.graphs import EXPORTED, GRAPHS, make
from benchmarks.rules import ABSENT, rules_text

__all__ = ["SIDES", "claimed", "main", "plan"]

Row = dict[str, Any]


@cache
def rules(more: int = 0) -> engine.RuleSet:
    """The 50 rules, with more for absent ops."""
    return engine.parse_rules(rules_text(more), "written_out.rules")


def _plain(module: GraphModule) -> Callable[[], int]:
    """One pass that looks at what any partitioner has to look at."""

    def run() -> int:
        count = 0
        for node in module.graph.nodes:
            node.target, node.all_input_nodes  # noqa: B018  # reading them is the point
            val = node.meta.get("val")
            if isinstance(val, torch.Tensor):  # the output has a tuple
                val.dtype, val.shape  # noqa: B018
                count += 1
        return count

    return run


def _ours(module: GraphModule, more: int = 0) -> Callable[[], int]:
    return lambda: len(engine.partition(module, rules(more)).partitions)


def _without_norms(module: GraphModule) -> Callable[[], int]:
    return lambda: len(engine.partition(module, "onnxruntime", exclude=NORMS).partitions)


NORMS = ("aten.native_layer_norm.default", "aten._softmax.default")
"""What is left out where the graph is an exported decoder: ONNX Runtime could have all of it."""


def _matching(module: GraphModule) -> Callable[[], int]:
    """What other matchers do, and the requirements and invariants on top: facts, and all candidates of the 50 rules."""

    def run() -> int:
        matcher = Matcher(rules(), ProgramFacts.of(module).main, lambda node: None, Attempts(), lambda node, rule: None)
        with collector_paused():
            return len(matcher.candidates())

    return run


def _same_patterns(module: GraphModule) -> Callable[[], int]:
    """What other matchers do and no more: facts, and the matches of the 30 patterns without requirements, as names."""
    from benchmarks.matchers import our_matches, several

    bare = several(rules())

    def run() -> int:
        with collector_paused():
            return len(our_matches(module, bare))

    return run


def _capability(module: GraphModule, *, connected: bool) -> Callable[[], int]:
    supported = claimed(module)
    support = create_op_support(lambda _, node: node in supported)
    peer = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True,
                                      skip_horizontal_fusion=connected)
    return lambda: len(peer.propose_partitions())


def _matcher(module: GraphModule, which: str) -> Callable[[], int]:
    from benchmarks import matchers

    patterns = matchers.trees(rules(), matchers.argument_counts(module))
    peer = getattr(matchers, which)(module, patterns)
    ours, theirs = matchers.named(matchers.our_matches(module, matchers.several(rules()))), matchers.named(peer())
    if ours != theirs:
        raise RuntimeError(f"{which} finds {len(theirs)} matches, ours {len(ours)}, in common {len(ours & theirs)}")
    return lambda: len(peer())


MORE = "ours, 1,000 rules more"
"""Measured beside `ours` in one process."""

SIDES: Mapping[str, Callable[[GraphModule], Callable[[], int]]] = {
    "plain": _plain,
    "ours": _ours,
    "ours, no norms": _without_norms,
    MORE: lambda module: _ours(module, ABSENT),
    "ours, matching alone": _matching,
    "ours, the same patterns": _same_patterns,
    "capability": lambda module: _capability(module, connected=False),
    "capability connected": lambda module: _capability(module, connected=True),
    "inductor": lambda module: _matcher(module, "inductor_matches"),
    "subgraph": lambda module: _matcher(module, "subgraph_matches"),
}
"""What is measured, by name: each prepares and gives what is timed, which counts partitions, matches or nodes."""

EDGE = ("ours edge", "xnnpack")
QUICK = ("ours", "ours, no norms", MORE, "ours, matching alone", "ours, the same patterns", "ours edge")
"""Sides that are run several times in a turn, the plain pass each time before."""


def claimed(module: GraphModule) -> set[Node]:
    """The op nodes that an earlier `partition` tagged."""
    return {node for node in module.graph.nodes if node.op == "call_function" and "delegation_tag" in node.meta}


def plan(
    sizes: list[int], largest: int, matching: list[int], edge: list[int], graphs: list[str], layers: list[int]
) -> Iterator[Row]:
    """The rows of a run, small ones first; sides of one row come after another."""
    for count in layers:
        for side in ("ours, no norms", "capability", "capability connected"):
            yield {"graph": EXPORTED, "size": count, "side": side}
    for size in sizes:
        for kind in graphs:
            for side in ("ours", MORE):
                yield {"graph": kind, "size": size, "side": side}
            if size <= largest or (kind == "decoder" and size <= 2 * largest):
                yield {"graph": kind, "size": size, "side": "capability"}
                yield {"graph": kind, "size": size, "side": "capability connected"}
            if kind == "quantized" and size in matching:
                yield {"graph": kind, "size": size, "side": "ours, matching alone"}
                yield {"graph": kind, "size": size, "side": "ours, the same patterns"}
                yield {"graph": kind, "size": size, "side": "inductor"}
                yield {"graph": kind, "size": size, "side": "subgraph"}
    for size in edge:
        for side in EDGE:
            yield {"graph": "edge", "size": size, "side": side}
        yield {"graph": "chain", "size": size, "side": "tvm"}


# --- one turn --------------------------------------------------------------------------------------------------


def _measure(side: str, kind: str, size: int) -> Row:
    """One turn: best of several runs after one on a small graph that warms everything up."""
    if side in EDGE:
        return _edge_turn(side, size)
    prepare = SIDES[side]
    small, module = make(kind, 1 if kind == EXPORTED else 100), make(kind, size)
    ours = SIDES["ours, no norms" if kind == EXPORTED else "ours"]
    ours(small)()
    if side.startswith("capability"):
        ours(module)()  # tags what it is told is supported
    prepare(small)()
    timed = _timed(lambda: prepare(module), module, 9 if side in QUICK else 1, _ours(module) if side == MORE else None)
    return {"nodes": len(module.graph.nodes), **timed}


def _timed(
    prepare: Callable[[], Callable[[], int]], module: GraphModule, times: int, beside: Callable[[], int] | None = None
) -> Row:
    """The best CPU seconds of an action, of the plain pass and of what stands `beside` it, by turns; how much memory
    preparing and the first one took more."""
    before = _peak(reset=True)
    actions = {"seconds": prepare(), "plain": _plain(module), **({} if beside is None else {"beside": beside})}
    best: Row = dict.fromkeys(actions, math.inf)
    count, grown = 0, 0.0
    for number in range(times):
        for name, action in actions.items():
            start = time.process_time()
            done = action()
            best[name] = min(best[name], time.process_time() - start)
            if name == "seconds":
                count = done
                grown = grown if number else _peak() - before
    return {**best, "count": count, "megabytes": grown}


def _peak(*, reset: bool = False) -> float:
    """The most megabytes that this process has had, or on Linux has had since the peak was `reset` to what it has."""
    if reset and _STATUS.exists():
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what was freed is not to hide what will be taken
        Path("/proc/self/clear_refs").write_text("5")
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(_STATUS.read_text().split("VmHWM:")[1].split()[0]) / 1024


_STATUS = Path("/proc/self/status")


def _edge_turn(side: str, size: int) -> Row:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge

    class Layers(torch.nn.Module):
        def __init__(self, count: int) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(count))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.relu(layer(x))
            return x

    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[torch.ops.aten.linear.default])

    def program(count: int) -> Any:
        exported = torch.export.export(Layers(count).eval(), (torch.randn(2, 8),), strict=False)
        return to_edge(exported, compile_config=config).exported_program()

    small, large = program(3), program(max(1, size // 2))

    def run(edge: Any) -> int:
        if side == "xnnpack":
            return len(XnnpackPartitioner().partition(edge).partition_tags)
        return len(engine.partition(edge, "xnnpack").partitions)

    run(small)
    calls = sum(node.op == "call_function" for node in large.graph.nodes)
    return {"nodes": calls, **_timed(lambda: lambda: run(large), large.graph_module, 3 if side in QUICK else 1)}


TVM = """
import json, resource, sys, time
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
def chain(size):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for _ in range(size // 3):
                s = builder.emit(relax.op.sigmoid(y))
                y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.multiply(s, y))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get()
patterns = [("t." + name, is_op(name)(wildcard())) for name in ("relax.nn.relu", "relax.sigmoid")]
patterns.append(("t.multiply", is_op("relax.multiply")(wildcard(), wildcard())))
def run(module):
    fused = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(module)
    return relax.transform.MergeCompositeFunctions()(fused)
run(chain(30))
module = chain(int(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
count = len(run(module).functions)
seconds = time.process_time() - start
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps({"nodes": int(sys.argv[1]), "seconds": seconds, "count": count, "megabytes": grown}))
"""


def _turn(row: Row, limit: float, tvm: str | None) -> Row:
    """A turn in a process of its own; what failed is in `failed`."""
    side, kind, size = row["side"], row["graph"], str(row["size"])
    command = [sys.executable, "-m", "benchmarks.partitioning", "--turn", side, kind, size]
    if side == "tvm":
        if tvm is None:
            return {**row, "failed": "no Python with TVM was given"}
        command = [tvm, "-c", TVM, size]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
        return {**row, **json.loads(done.stdout.splitlines()[-1])}
    except subprocess.TimeoutExpired:
        return {**row, "failed": f"more than {limit:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {**row, "failed": (error.stderr.strip().splitlines() or ["?"])[-1]}


def _key(row: Row) -> tuple[str, int, str]:
    return row["graph"], row["size"], row["side"]


def _run(options: argparse.Namespace) -> dict[tuple[str, int, str], Row]:
    """All turns that are not kept yet; the best of each row."""
    kept = options.rows
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(*_key(row), row["turn"]) for row in rows}
    for turn in range(options.turns):
        every = plan(
            options.sizes, options.largest, options.matching, options.edge, options.graphs, options.layers)
        for row in every:
            if (*_key(row), turn) in done or (turn and row["side"] not in QUICK):
                continue
            found = {**_turn(row, options.limit, options.tvm), "turn": turn}
            rows.append(found)
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    best: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        if row.get("seconds", math.inf) <= best.get(_key(row), row).get("seconds", math.inf):
            best[_key(row)] = row
    return best


# --- what is shown ---------------------------------------------------------------------------------------------


def _table(best: Mapping[tuple[str, int, str], Row]) -> None:
    write = sys.stdout.write
    write(f"torch {torch.__version__}, Python {sys.version.split()[0]}\n")
    write(f"{'graph':16} {'nodes':>7} {'side':29} {'seconds':>9} {'x plain':>8} {'x ours':>8} {'growth':>7}")
    write(f" {'count':>6} {'MB':>7}\n")
    last: dict[tuple[str, str], Row] = {}
    for (kind, size, side), row in best.items():
        if "failed" in row:
            write(f"{kind:16} {size:7} {side:29} {row['failed']}\n")
            continue
        ours = next((best[key] for whole in ("ours", "ours, no norms", "ours edge")
                     if (key := (kind, size, whole)) in best), {})
        growth = ""
        before = last.get((kind, side))
        if before is not None:
            times, nodes = row["seconds"] / before["seconds"], row["nodes"] / before["nodes"]
            growth = f"{math.log(times) / math.log(nodes):.2f}"
        last[kind, side] = row
        bases = row.get("plain"), row.get("beside", ours.get("seconds"))
        ratios = [f"{row['seconds'] / base:8.2f}" if base else " " * 8 for base in bases]
        write(f"{kind:16} {size:7} {side:29} {row['seconds']:9.4f} {ratios[0]} {ratios[1]} {growth:>7}"
              f" {row['count']:6} {row['megabytes']:7.1f}\n")


def _plot(best: Mapping[tuple[str, int, str], Row], path: Path) -> None:
    """Seconds over nodes, both logarithmic, a picture for each graph."""
    from matplotlib import use
    from matplotlib.figure import Figure

    use("svg")
    kinds = [kind for kind in GRAPHS if any(key[0] == kind for key in best)]
    figure = Figure(figsize=(11, 2.6 * math.ceil(len(kinds) / 3)), layout="constrained")
    for number, kind in enumerate(kinds):
        axes = figure.add_subplot(math.ceil(len(kinds) / 3), 3, number + 1, title=kind, xscale="log", yscale="log")
        for side in dict.fromkeys(key[2] for key in best if key[0] == kind):
            points = [(row["nodes"], row["seconds"]) for key, row in best.items()
                      if key[0] == kind and key[2] == side and "seconds" in row]
            axes.plot(*zip(*points, strict=True), marker=".", label=side) if points else None
        axes.legend(fontsize=6)
        axes.set_xlabel("nodes")
        axes.set_ylabel("CPU seconds")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print a line for each graph, size and side; `growth` is the exponent since the size before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 20_000, 50_000, 100_000])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--largest", type=int, default=1_000, help="nodes up to which the slow peer is run")
    parser.add_argument("--matching", type=int, nargs="*", default=[1_000, 10_000], help="sizes for other matchers")
    parser.add_argument("--edge", type=int, nargs="*", default=[], help="sizes for ExecuTorch's partitioner and TVM")
    parser.add_argument("--layers", type=int, nargs="*", default=[], help="how many layers of an exported decoder")
    parser.add_argument("--turns", type=int, default=2, help="how often every quick side has its turn")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a turn is given up")
    parser.add_argument("--rows", type=Path, help="keep each row in this file, and go on from it")
    parser.add_argument("--plot", type=Path, help="write a picture of the times (needs matplotlib)")
    parser.add_argument("--tvm", help="a Python that has TVM")
    parser.add_argument("--turn", nargs=3, metavar=("SIDE", "GRAPH", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn is not None:
        side, kind, size = options.turn
        sys.stdout.write(json.dumps(_measure(side, kind, int(size))) + "\n")
        return
    best = _run(options)
    _table(best)
    if options.plot is not None:
        _plot(best, options.plot)


if __name__ == "__main__":
    main()
