"""What lowering costs: a graph of many nodes in 1, 10, 100 and 1,000 partitions, beside torch's two ways to cut graphs.

    python benchmarks/lowering_cost.py [--nodes 10000]

Ours is the whole of `to_backend` (checks, cutting, a program of its own for each partition, the calls, signature,
verification) with a backend that does nothing; `fuse_by_partitions` and `split_module` only make submodules. CPU
seconds, the best of several runs, all in one process.
"""

from __future__ import annotations

import argparse
import functools
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.passes.split_module import split_module
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from apportion import engine
from apportion.engine.lowering.inner import call_graph


class NothingBackend(engine.BackendDetails):
    """Compiles to nothing, without a copy of the program."""

    @classmethod
    def copy_exported_program_for_preprocess(cls, edge_program: Any, compile_specs: Any) -> Any:
        """It does not look at the program."""
        return edge_program

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        """No bytes."""
        return engine.PreprocessResult(b"")


def chain(nodes: int, partitions: int) -> tuple[ExportedProgram, list[list[fx.Node]]]:
    """A program of residual steps, and its nodes in stretches with an untagged node between them."""
    mode = FakeTensorMode()
    with mode:
        value = torch.empty(2, 4)
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = value
    previous, made = x, []
    for number in range(nodes):
        other = made[-2] if len(made) >= 2 and number % 7 == 0 else None
        target = torch.ops.aten.add.Tensor if other is not None else torch.ops.aten.relu.default
        previous = graph.call_function(target, (previous, other) if other is not None else (previous,))
        previous.meta["val"] = value
        made.append(previous)
    graph.output((previous,))
    size = nodes // partitions
    groups = [made[start:start + size - (partitions > 1)] for start in range(0, size * partitions, size)]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument("x"), None)],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(previous.name), None)],
    )
    program = ExportedProgram(torch.nn.Module(), graph, signature, {}, {}, call_graph(1, 1))
    return program, groups


def best(run: Callable[[], Any], prepare: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of `run(prepare())`."""
    times = []
    for _ in range(repeats):
        given = prepare()
        gc.collect()
        start = time.process_time()
        run(given)
        times.append(time.process_time() - start)
    return min(times)


def ours(given: tuple[ExportedProgram, list[list[fx.Node]]]) -> None:
    """Tags, and all of `to_backend`."""
    program, groups = given
    tags = {}
    for number, group in enumerate(groups):
        tags[f"t{number}"] = engine.DelegationSpec("NothingBackend")
        for node in group:
            node.meta["delegation_tag"] = f"t{number}"
    engine.to_backend(program, engine.PartitionResult(program, tags))


def fused(given: tuple[ExportedProgram, list[list[fx.Node]]]) -> None:
    """Submodules by torch's fuser."""
    program, groups = given
    fuse_by_partitions(program.graph_module, [dict.fromkeys(group) for group in groups])


def split(given: tuple[ExportedProgram, list[list[fx.Node]]]) -> None:
    """Submodules by torch's splitter, which also puts what lies between into some."""
    program, groups = given
    where = {node: 2 * number + 1 for number, group in enumerate(groups) for node in group}
    last = 0
    numbers = {}
    for node in program.graph.nodes:
        last = where.get(node, last + 1 if last % 2 else last)
        numbers[node] = last
    split_module(program.graph_module, None, lambda node: numbers[node])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[10000])
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    sys.setrecursionlimit(100000)
    out = sys.stdout.write
    out(f"{'nodes':>7} {'partitions':>10} {'apportion':>10} {'fuse':>8} {'split':>8} {'ours/better':>12}\n")
    for nodes in options.nodes:
        for partitions in options.partitions:
            fresh = functools.partial(chain, nodes, partitions)
            times = [best(run, fresh, options.repeats) for run in (ours, fused, split)]
            out(f"{nodes:7} {partitions:10} {times[0]:9.2f}s {times[1]:7.2f}s {times[2]:7.2f}s "
                f"{times[0] / min(times[1:]):11.2f}x\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
