"""`apportion blockers`: what breaks the graph, ranked by what would change without it."""

from __future__ import annotations

import json

import click
from rich.table import Table

from apportion.engine.cli import console, inputs
from apportion.engine.cli.differences import signed
from apportion.engine.explain.blockers import ORDERS, Blockers, find_blockers

__all__ = ["command"]


@click.command("blockers", short_help="Rank the ops and conditions that break the graph.")
@click.argument("model", metavar="MODEL.pt2")
@inputs.program_options
@click.option("--by", type=click.Choice(tuple(ORDERS)), default="partitions", show_default=True,
              help="What counts most: fewer partitions, fewer bytes across borders, more nodes.")
@click.option("-k", "--together", default=3, show_default=True, type=click.IntRange(min=1),
              help="The largest number that is combined.")
@click.option("--backend", metavar="ID", help="Whose one-line rule takes an op (the first file's, if none is named).")
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=1), help="How many to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(model: str, by: str, together: int, backend: str | None, top: int, as_json: bool, **options: object) -> int:
    """For each op with nodes that are left, and each condition that failed: what would change in nodes, partitions and
    bytes across borders, if a rule of one line took the op, or the condition were let off. Then the best few together.
    """
    given = inputs.read(model, **options)  # type: ignore[arg-type]  # the options of program_options
    with console.progress("asking what would be if"):
        found = find_blockers(given.program, given.sets, by=by, together=together, backend=backend, **given.wishes)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show(found, top)
    return 0


def _show(found: Blockers, top: int) -> None:
    now = found.now
    console.show(f"now: {now.claimed} of {now.total} nodes claimed in {now.partitions} partitions, "
                 f"{now.border} bytes across borders")
    if not found.single:
        console.show("nothing stands in the way")
        return
    table = _table("without")
    for blocker in found.single[:top]:
        name = blocker.name if blocker.kind == "op" else f"{blocker.name} `{blocker.text}`"
        delta = blocker.difference
        table.add_row(name, str(blocker.nodes), signed(delta.nodes), signed(delta.partitions), signed(delta.border))
    console.output().print(table)
    best = _table("best together" + ("" if found.exact else " (added one by one)"))
    for some, delta in found.together:
        best.add_row("\n".join(b.name for b in some), str(sum(b.nodes for b in some)), signed(delta.nodes),
                     signed(delta.partitions), signed(delta.border))
    console.output().print(best)


def _table(title: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title)
    for name in ("left", "claimed", "partitions", "border bytes"):
        table.add_column(name, justify="right")
    return table
