"""`apportion lower`: a program with delegates in it, in one file."""

from __future__ import annotations

from pathlib import Path

import click

from apportion import engine
from apportion.engine.cli import console, files, programs, settings
from apportion.engine.lowering.sizes import size_report
from apportion.engine.result import PartitionResult

__all__ = ["command"]


@click.command("lower", short_help="Compile what the rules claim, and write the program that calls it.")
@click.argument("model", metavar="MODEL.pt2")
@click.option("-r", "--rules", "rules", metavar="RULES", multiple=True, required=True,
              help="A rules file, or the name of a shipped one (onnxruntime). Repeat it: the first has precedence.")
@click.option("-o", "--output", "output", metavar="OUT", required=True, help="The file to write.")
@click.option("-s", "--set", "assignments", metavar="OPTION=VALUE", multiple=True,
              help="Set an option that a rules file declares; a set is written a,b.")
@click.option("--exclude", metavar="WHAT", multiple=True, help="Leave this node, op or module path out.")
@click.option("--only", metavar="WHAT", multiple=True, help="Offer this node, op or module path, and nothing else.")
@click.option("--fallback", metavar="BACKEND", multiple=True,
              help="Who is asked where a backend fails to compile a partition: a backend id, or `graph`. Repeatable.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, backends, or functions for externs.")
@click.option("--decompose/--as-it-is", default=True, show_default=True,
              help="Decompose to core ATen first, keeping the ops that the rules preserve.")
@click.option("--strict", is_flag=True, help="End with status 1, and write nothing, if a node is left.")
def command(model: str, rules: tuple[str, ...], output: str, assignments: tuple[str, ...], exclude: tuple[str, ...],
            only: tuple[str, ...], fallback: tuple[str, ...], imports: tuple[str, ...], decompose: bool,
            strict: bool) -> int:
    """Partition the program in MODEL.pt2 (written by torch.export.save), have each partition compiled by its backend,
    and write the program that calls them to OUT. `apportion run OUT` runs it, in any process.
    """
    files.refuse_binary_targets({"--output": output}, [model, *rules])
    target = Path(output)
    programs.import_modules(imports)
    rule_sets = settings.load(rules, assignments)
    with console.progress(f"reading {model}"):
        program = programs.load_program(model)
    try:
        with console.progress("decomposing, partitioning and compiling"):
            lowered = engine.lower(program, rule_sets, decompose=decompose, fallback=fallback, exclude=exclude,
                                   only=only, strict=strict, on_decision=_Teller())
    except engine.StrictError:
        return 1  # the report says which nodes
    engine.save(lowered, target)
    console.show(str(size_report(lowered)))
    console.note(f"note: wrote {target}")
    return 0


class _Teller:
    """Shows each decision as it is made; the second is about what the first left to be decomposed."""

    def __init__(self) -> None:
        self.before = 0

    def __call__(self, decision: PartitionResult) -> None:
        if self.before:
            console.show("Ops that were kept whole and not taken are decomposed now, and offered again:")
        self.before += 1
        console.show(str(decision.report))
