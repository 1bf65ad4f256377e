"""`apportion diff`: which claims a change to a rules file adds and takes away."""

from __future__ import annotations

import click

from apportion import engine
from apportion.engine.cli import console, programs
from apportion.engine.cli.console import CommandError
from apportion.engine.errors import RulesError
from apportion.engine.lint.difference import Change, compare
from apportion.engine.lint.model import RuleFile

__all__ = ["command"]


@click.command("diff", short_help="Say which claims a change to a rules file adds and takes away.")
@click.argument("base", metavar="BASE")
@click.argument("head", metavar="HEAD")
@click.option("--model", "models", metavar="MODEL.pt2", multiple=True,
              help="Also say which nodes of this program change hands.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
def command(base: str, head: str, models: tuple[str, ...], imports: tuple[str, ...]) -> int:
    """Compare the claims of two versions of a rules file, each change with a call that shows it.

    Exit status: 0 the same claims, 1 claims were gained or lost, 2 a file can't be read.
    """
    programs.import_modules(imports)
    older, newer = _load(base), _load(head)
    with console.progress("comparing"):
        gained, lost = compare(older, newer)
    _tell("+", "gained", gained)
    _tell("-", "lost", lost)
    moved = sum(_on_model(model, older, newer) for model in models)
    console.status_line(not (gained or lost or moved), f"{len(gained)} gained, {len(lost)} lost"
                        + (f", {moved} nodes change hands" if models else ""))
    return 1 if gained or lost or moved else 0


def _load(name: str) -> RuleFile:
    try:
        return RuleFile(engine.load_rules(name))
    except RulesError as error:
        raise CommandError(str(error)) from error


def _tell(sign: str, word: str, changes: list[Change]) -> None:
    for change in changes:
        console.show(f"{sign} {word} by {change.rule.name} ({change.rule.span}): {change.text}")


def _on_model(model: str, base: RuleFile, head: RuleFile) -> int:
    program = programs.load_program(model)
    before, after = (_owners(engine.partition(program, file.rules)) for file in (base, head))
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    for name in changed:
        console.show(f"{model}: {name}: {before.get(name, 'left')} -> {after.get(name, 'left')}")
    return len(changed)


def _owners(result: engine.PartitionResult) -> dict[str, str]:
    owners: dict[str, str] = {}
    for partition in result.partitions:
        for rule, nodes in partition.matches:
            for node in nodes:
                owners[f"{partition.method}/{node}"] = rule
    return owners
