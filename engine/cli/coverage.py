"""`apportion coverage`: models by backends, in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from apportion.engine.cli import console, programs
from apportion.engine.cli.decompose import decomposed
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.explain.coverage import Measured, coverage

__all__ = ["command", "prepare", "prepare_as_it_is"]

_WHAT = ("nodes", "ops", "work", "weights")


@click.command("coverage", short_help="Compare what backends take of models, in one table.")
@click.argument("models", metavar="MODEL.pt2...", nargs=-1, required=True)
@click.option("-r", "--rules", "rules", metavar="RULES", multiple=True, required=True,
              help="A rules file or a shipped name; repeat it to compare. acme.rules,xnnpack is both, by precedence.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
@click.option("--decompose/--as-it-is", default=True, show_default=True,
              help="Decompose to core ATen first, keeping the ops that the rules preserve.")
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(min=1),
              help="How many processes work at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(models: tuple[str, ...], rules: tuple[str, ...], imports: tuple[str, ...], decompose: bool, jobs: int,
            as_json: bool) -> int:
    """Partition every model by every list of rules files, and print the share of nodes, of distinct ops, of
    floating-point operations (as torch counts them) and of weights that is taken. Ends with status 1 if a model could
    not be measured.
    """
    programs.import_modules(imports)
    lists = [tuple(part for part in text.split(",") if part) for text in rules]
    bar = Progress(console=Console(stderr=True), transient=True, disable=not console_is_terminal())
    with _executor(jobs, imports) as executor, bar:
        task = bar.add_task("partitioning", total=len(models) * len(lists))
        found = coverage(models, lists, prepare if decompose else prepare_as_it_is, executor=executor,
                         progress=lambda _: bar.advance(task))
    if as_json:
        click.echo(json.dumps({"schema": "apportion.coverage/1", "results": [m.to_json() for m in found]}, indent=2))
    else:
        _show(found)
    return 1 if any(m.problem for m in found) else 0


def console_is_terminal() -> bool:
    """Whether somebody is looking at standard error."""
    return Console(stderr=True).is_terminal


def _executor(jobs: int, imports: Sequence[str]) -> AbstractContextManager[Executor | None]:
    """Processes that end with the block; none for one job at a time."""
    if jobs <= 1:
        return nullcontext()
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(tuple(imports),))


def _begin(imports: tuple[str, ...]) -> None:
    """A worker takes one core, and knows what `--import` named."""
    import torch

    torch.set_num_threads(1)
    programs.import_modules(imports)


def prepare(model: str, rules: tuple[RuleSet, ...]) -> Any:
    """Read a model and decompose it, keeping the ops that the rules preserve."""
    return decomposed(programs.load_program(model), rules)


def prepare_as_it_is(model: str, rules: tuple[RuleSet, ...]) -> Any:
    """Read a model."""
    return programs.load_program(model)


def _show(found: Sequence[Measured]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("model", "rules"):
        table.add_column(name)
    for name in (*_WHAT, "partitions"):
        table.add_column(name, justify="right")
    for one in found:
        if one.problem:
            table.add_row(one.model, one.rules, *["-"] * 5)
        else:
            table.add_row(one.model, one.rules, *(_percent(one.share(what)) for what in _WHAT), str(one.partitions))
    console.output().print(table)
    for one in found:
        if one.problem:
            console.error(f"{one.model}: {one.problem}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
