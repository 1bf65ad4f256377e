"""What the commands that look into a program have in common: its options, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from attrs import frozen
from torch.export import ExportedProgram

from apportion.engine.cli import console, programs, settings
from apportion.engine.cli.decompose import decomposed
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.explain.changes import NOTHING, Changes, assumed, relaxed
from apportion.engine.facts import ProgramFacts
from apportion.engine.wishes import Wishes, names_of
from apportion.grammar.diagnostics import nearest

__all__ = ["Inputs", "change_options", "changes_of", "program_options", "read", "tell_unmet"]

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-r", "--rules", "rules", metavar="RULES", multiple=True, required=True,
                 help="A rules file, or the name of a shipped one (xnnpack). Repeat it: the first has precedence."),
    click.option("-s", "--set", "assignments", metavar="OPTION=VALUE", multiple=True,
                 help="Set an option that a rules file declares; a set is written a,b."),
    click.option("--exclude", metavar="WHAT", multiple=True, help="Leave this node, op or module path out."),
    click.option("--only", metavar="WHAT", multiple=True, help="Offer this node, op or module path, and nothing else."),
    click.option("--import", "imports", metavar="MODULE", multiple=True,
                 help="Import a Python module first: one that registers ops, or functions for externs."),
    click.option("--decompose/--as-it-is", default=True, show_default=True,
                 help="Decompose to core ATen first, keeping the ops that the rules preserve."),
)

_CHANGES = (
    click.option("--assume", metavar="RULE.LINE", multiple=True,
                 help="What if the requirement of this rule in this line of its file were met?"),
    click.option("--relax", metavar="FILE:LINE", multiple=True,
                 help="What if the condition in this line (also of a contract, invariant or limit) were not there?"),
)


def program_options(command: Command) -> Command:
    """The options of every command that partitions a program: rules, settings, wishes, imports, decompositions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def change_options(command: Command) -> Command:
    """`--assume` and `--relax`."""
    for option in reversed(_CHANGES):
        command = option(command)
    return command


@frozen(eq=False)
class Inputs:
    """A program as it will be partitioned, its rules, and what the caller wants kept out."""

    program: ExportedProgram
    sets: tuple[RuleSet, ...]
    exclude: tuple[str, ...]
    only: tuple[str, ...]

    @property
    def wishes(self) -> dict[str, Any]:
        """The keywords that `partition` takes them by."""
        return {"exclude": self.exclude, "only": self.only}


def read(model: str, *, rules: Sequence[str], assignments: Sequence[str], exclude: tuple[str, ...],
         only: tuple[str, ...], imports: Sequence[str], decompose: bool) -> Inputs:
    """Read what `program_options` gives. Raises CommandError, RulesError, OptionError."""
    programs.import_modules(imports)
    sets = settings.load(rules, assignments)
    with console.progress(f"reading {model}"):
        program = programs.load_program(model)
    if decompose:
        with console.progress("decomposing"):
            program = decomposed(program, sets)
    tell_unmet(program, exclude, only)
    return Inputs(program, sets, exclude, only)


def tell_unmet(program: ExportedProgram, exclude: Sequence[str], only: Sequence[str]) -> None:
    """Note, with near names, each pattern that means no node of the program."""
    wishes = Wishes.of(exclude, only)
    if not (exclude or only):
        return
    nodes = [node for graph in ProgramFacts.of(program).graphs for node in graph.calls]
    for node in nodes:
        wishes.refusal(node)
    known = sorted({name for node in nodes for name in names_of(node)})
    for pattern in wishes.unmet:
        near = " or ".join(f"`{name}`" for name in nearest(pattern, known))
        hint = f"; did you mean {near}?" if near else ""
        console.note(f"note: `{pattern}` is the name of no node, op or module of this program{hint}")


def changes_of(sets: Sequence[RuleSet], assume: Sequence[str], relax: Sequence[str]) -> Changes:
    """What `--assume` and `--relax` say together. Raises OptionError."""
    total: Changes = NOTHING
    for text in assume:
        total = total | assumed(sets, text)
    for text in relax:
        total = total | relaxed(sets, text)
    return total
