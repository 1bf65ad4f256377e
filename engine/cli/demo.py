"""`apportion demo`: the whole way on a small model, with what is installed."""

from __future__ import annotations

import importlib.util
import time

import click
import torch
from torch import Tensor
from torch.export import ExportedProgram

from apportion import engine
from apportion.engine.cli import console
from apportion.engine.cli.decompose import decomposed
from apportion.engine.cli.demo_model import SmallVision, example_inputs

__all__ = ["command"]

RULES = "xnnpack"


@click.command("demo", short_help="Partition (and, with ExecuTorch, run) a small model.")
@click.option("--no-run", is_flag=True, help="Only partition, even where ExecuTorch is installed.")
def command(no_run: bool) -> int:
    """Export a small image classifier, partition it by the shipped rules for XNNPACK, and print who takes what.

    Torch alone is enough for that. Where ExecuTorch is installed, the same rules then lower the model with its real
    XNNPACK compiler, its runtime executes it, and the result is compared with eager PyTorch.
    """
    torch.manual_seed(0)
    model, inputs = SmallVision().eval(), example_inputs()
    with console.progress("exporting the model"):
        program = torch.export.export(model, inputs)
    rules = engine.load_rules(RULES)
    with console.progress("partitioning"):
        result = engine.partition(decomposed(program, [rules]), rules)
    console.show(f"SmallVision, an image classifier of {_parameters(model)} parameters, by the rules {RULES!r}\n")
    console.show(str(result.report))
    if no_run:
        return 0
    if importlib.util.find_spec("executorch") is None:
        console.note("note: ExecuTorch is not installed; with it (pip install 'executorch>=1.5.1,<1.6') this "
                     "demo also lowers and runs the model")
        return 0
    return _lower_and_run(model, program, inputs)


def _parameters(model: torch.nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in model.parameters()):,}"


def _lower_and_run(model: torch.nn.Module, program: ExportedProgram, inputs: tuple[Tensor, ...]) -> int:
    """Lower with ExecuTorch's own compiler and run in its runtime; 1 where the result differs from eager's."""
    console.note("lowering and running with ExecuTorch ...")
    with console.quiet():  # its compiler and its runtime speak to their own developers
        from executorch.exir import to_edge_transform_and_lower
        from executorch.runtime import Runtime

        from apportion.backends.executorch import RulesPartitioner

        edge = to_edge_transform_and_lower(program, partitioner=[RulesPartitioner(RULES)])
        binary = edge.to_executorch().buffer
        loaded = Runtime.get().load_program(binary)  # the runtime does not copy: both are kept while it runs
        method = loaded.load_method("forward")
        if method is None:
            raise console.CommandError("ExecuTorch's runtime found no method forward in what its compiler wrote")
        started = time.perf_counter()
        values, classes = method.execute(list(inputs))
        milliseconds = 1000 * (time.perf_counter() - started)
    with torch.no_grad():
        expected, expected_classes = model(*inputs)
    difference = (values - expected).abs().max().item() / expected.abs().max().item()
    same = difference <= 1e-4 and torch.equal(classes, expected_classes)
    console.show(f"\nExecuTorch lowered it ({len(binary) / 1024:.0f} KiB) and its runtime ran it in "
                 f"{milliseconds:.1f} ms")
    console.status_line(same, f"largest difference from eager PyTorch: {difference:.1e} of the largest value; classes "
                              f"{'agree' if torch.equal(classes, expected_classes) else 'differ'}")
    return 0 if same else 1
