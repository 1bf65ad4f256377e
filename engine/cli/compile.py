"""`apportion compile`: what a rules file comes to for the matcher."""

from __future__ import annotations

import click

from apportion.engine.cli import console, settings
from apportion.engine.explain.decisions import ANY_OP, Decision, Tried, decisions

__all__ = ["command"]

_MANY = 6


@click.command("compile", short_help="Check a rules file, and show which rules are tried at which op.")
@click.argument("rules", metavar="FILE.rules")
@click.option("-s", "--set", "assignments", metavar="OPTION=VALUE", multiple=True,
              help="Set an option that the file declares.")
@click.option("--show", is_flag=True, help="Print the decision for each op: rules in order, what they share, patterns.")
@click.option("--op", "wanted", metavar="OP", help="Only this op (with --show).")
def command(rules: str, assignments: tuple[str, ...], show: bool, wanted: str | None) -> int:
    """Compile a rules file as `partition` does. With --show, for each op at which a pattern can end: the rules that are
    tried there, in order; the conditions that several of them have in common, which are evaluated once; those of each;
    the ops that the rest of a pattern needs, the most selective first; the invariants.
    """
    (loaded,) = settings.load([rules], assignments)
    found = decisions(loaded)
    if show:
        for decision in found:
            if wanted is None or wanted in decision.ops:
                _show(decision)
    ops = {op for decision in found for op in decision.ops} - {ANY_OP}
    several = len({tried.rule for decision in found for tried in decision.rules if tried.inner})
    console.status_line(True, f"{rules}: {len(loaded.rules)} rules ({several} of several nodes), "
                              f"{len(loaded.invariants)} invariants, {len(ops)} ops, {len(found)} decisions")
    return 0


def _show(decision: Decision) -> None:
    console.show(_ops(decision.ops))
    if decision.shared:
        console.show("  once for all: " + "; ".join(decision.shared))
    for number, tried in enumerate(decision.rules, 1):
        _show_rule(number, tried)
    for name, conditions in decision.invariants:
        console.show(f"  invariant {name}: " + "; ".join(conditions))
    console.show("")


def _show_rule(number: int, tried: Tried) -> None:
    size = " with variants" if tried.flexible else ""
    kind = f"pattern of several nodes{size}" if tried.inner else "single node"
    console.show(f"  {number}. {tried.rule} ({tried.location}): {kind}")
    if tried.inner:
        console.show("     needs, rarest first: " + _ops(tuple(name for name, _ in tried.inner)))
    if tried.over:
        console.show("     over " + ", ".join(tried.over))
    if tried.given:
        console.show(f"     looks around: {tried.given} given")
    for condition in tried.requires:
        console.show(f"     requires {condition}")


def _ops(names: tuple[str, ...]) -> str:
    shown = ", ".join("any other op" if name == ANY_OP else name for name in names[:_MANY])
    return shown + (f" and {len(names) - _MANY} more" if len(names) > _MANY else "")
