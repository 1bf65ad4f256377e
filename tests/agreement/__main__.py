"""`python -m tests.agreement`: both partitioners side by side, live, as tables.

    python -m tests.agreement                     the models under the default options
    python -m tests.agreement --options           and under every set of options
    python -m tests.agreement --probes            the probes of every configuration
    python -m tests.agreement --runs              lowered with the rules, run by the real runtime
    python -m tests.agreement --mutants           the rules changed one clause at a time
    python -m tests.agreement --all               everything
    python -m tests.agreement lstm bert …         only these models

Finished items are kept in a folder among the temporary files (`APPORTION_AGREEMENT_CACHE` names another): a run that
was broken off goes on. Piped, the tables are Markdown. The exit status is 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.agreement import checks, mutants
from tests.agreement.models import MODELS, missing_libraries
from tests.agreement.probes import PROBES, all_probes

console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; the number of failing parts decides the exit status."""
    logging.getLogger("apportion").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"one of {', '.join(MODELS)}")
    for name in ("options", "probes", "runs", "mutants", "all"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.models) - set(MODELS))
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}")
    names = given.models or list(MODELS)
    for name in list(names):
        missing = missing_libraries(name)
        if missing:
            console.print(f"{name} left out: {', '.join(missing)} not installed")
            names.remove(name)
    parts: list[Callable[[], bool]] = []
    wanted = given.all or not (given.probes or given.runs or given.mutants)
    if wanted or given.options:
        parts.append(lambda: show_models(names, every=given.options or given.all))
    if given.probes or given.all:
        parts.append(show_probes)
    if given.runs or given.all:
        parts.append(lambda: show_runs(names))
    if given.mutants or given.all:
        parts.append(show_mutants)
    verdicts = [part() for part in parts]  # all of them, whatever the first says
    return 0 if all(verdicts) else 1


def show_models(names: Iterable[str], *, every: bool) -> bool:
    """The table of models; true if all agree."""
    wanted = set(names)
    items = [item for item in checks.model_items() if item[0] in wanted and (every or not item[1])]
    table = Table(title="claimed call_function nodes (partitions)")
    for column in ("model", "options", "nodes", "theirs", "ours", "disagree", "errors of theirs", ""):
        table.add_column(column, justify="left" if column in ("model", "options") else "right")
    rows = []
    for position, (name, options) in enumerate(items, 1):
        _progress(f"{position} of {len(items)}: {name}, {checks.show_options(options)}")
        row = checks.model_row(name, options)
        rows.append(row)
        excused = str(len(row["excused"])) if row["excused"] else ""
        verdict = "same" if row["agrees"] else "DIFFERS"
        theirs, ours = (f"{claimed} ({parts})" for claimed, parts in (row["theirs"], row["ours"]))
        differ = str(row["disagreements"])
        table.add_row(name, row["options"], str(row["nodes"]), theirs, ours, differ, excused, verdict)
    _progress("")
    _show(table)
    nodes = sum(row["nodes"] for row in rows)
    differing = sum(row["disagreements"] for row in rows)
    console.print(f"{nodes - differing} of {nodes} verdicts agree ({100 * (nodes - differing) / max(nodes, 1):.2f} %)")
    _show_excuses(row for row in rows if row["excused"])
    return all(row["agrees"] for row in rows)


def _show_excuses(rows: Iterable[dict[str, Any]]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        for _, error in row["excused"]:
            seen[error] = seen.get(error, 0) + 1
    for error, count in seen.items():
        console.print(f"error of theirs ({count} nodes, shown by tests/agreement/test_errors.py): {error}")


def show_probes() -> bool:
    """One line per configuration; true if all probes agree under all options."""
    table = Table(title="probes under every set of options")
    for column in ("configuration", "probes", "judgements", "claimed", "left", "errors of theirs", "disagree"):
        table.add_column(column, justify="left" if column == "configuration" else "right")
    probes = list(all_probes())
    excuses: list[dict[str, Any]] = []
    right = True
    for config in PROBES:
        mine = [probe for probe in probes if probe.config == config]
        _progress(config)
        rows = [row for probe in mine for row in checks.probe_row(probe)]
        differing = [row for row in rows if not row["agrees"] or row["error"]]
        claimed = sum(row["theirs"][0] for row in rows)
        left = sum(row["nodes"] for row in rows) - claimed
        excused = [row for row in rows if row["excused"]]
        excuses += excused
        table.add_row(config, str(len(mine)), str(len(rows)), str(claimed), str(left), str(len(excused) or ""),
                      str(len(differing)))
        for row in differing:
            console.print(f"{row['options']}: {row['name']}")
            console.print(f"  only theirs {row['only_theirs']}, only ours {row['only_ours']}")
        right &= not differing
    _progress("")
    _show(table)
    _show_excuses(excuses)
    return right


def show_runs(names: Iterable[str]) -> bool:
    """One line per model; true if all results are close enough."""
    table = Table(title="lowered with the rules, run by ExecuTorch's runtime")
    for column in ("model", "delegated ops", "delegates", "difference", "elements off", "from theirs", ""):
        table.add_column(column, justify="left" if column == "model" else "right")
    right = True
    for name in names:
        _progress(name)
        row = checks.run_row(name)
        unit = " steps" if row["quantized"] else " of max"
        share = f"{100 * row['share']:.2f} %" if row["quantized"] else ""
        verdict = "right" if row["right"] else "runtime differs" if row["runtime_differs"] else "WRONG"
        table.add_row(name, f"{row['delegated']}/{row['nodes']}", str(row["delegates"]),
                      f"{row['difference']:.1e}{unit}", share, f"{row['from_theirs']:.1e}", verdict)
        right &= row["right"] or row["runtime_differs"]
    _progress("")
    _show(table)
    return right


def show_mutants() -> bool:
    """How many mutants something tells from the rules; true if the others have a reason."""
    found = []
    for mutant in mutants.all_mutants():
        _progress(mutant.title)
        found.append((mutant, mutants.verdict(mutant)))
    _progress("")
    alive = [(mutant, verdict) for mutant, verdict in found if not verdict["killed"]]
    unexplained = [mutant for mutant, _ in alive if not mutants.reason(mutant)]
    console.print(f"{len(found)} mutants: {len(found) - len(alive)} told apart, {len(alive)} not")
    for mutant, _ in alive:
        console.print(f"  {mutant.title}\n    {mutants.reason(mutant) or 'NO REASON GIVEN'}")
    return not unexplained


def _show(table: Table) -> None:
    if not console.is_terminal:
        table.box = box.MARKDOWN
    console.print(table)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text[:110]}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
