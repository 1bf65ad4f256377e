"""`apportion what-if`: the same program under changed rules, without a file being edited."""

from __future__ import annotations

import json
from typing import Any

import click

from apportion.engine.cli import console, inputs, settings
from apportion.engine.cli.differences import show_difference
from apportion.engine.explain.study import Difference, Study

__all__ = ["command"]


@click.command("what-if", short_help="What would change if a requirement were not there, or an option other.")
@click.argument("model", metavar="MODEL.pt2")
@inputs.program_options
@inputs.change_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(model: str, assume: tuple[str, ...], relax: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Compare the rules as they are, with the options that they have by default, with the rules changed by --assume,
    --relax and --set: nodes, ops, partitions and bytes, and which nodes are gained and lost.
    """
    given = inputs.read(model, **options)
    plain = settings.load(options["rules"], ())
    with console.progress("partitioning twice"):
        before = Study.of(given.program, plain, **given.wishes).outcome()
        after = Study.of(given.program, given.sets, **given.wishes)
        found = Difference(before, after.outcome(inputs.changes_of(given.sets, assume, relax)))
    if as_json:
        click.echo(json.dumps({"schema": "apportion.difference/1", **found.to_json()}, indent=2))
    else:
        show_difference(found)
    return 0
