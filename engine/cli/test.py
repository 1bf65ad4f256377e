"""`apportion test`: the examples of rules files, and what none of them exercises."""

from __future__ import annotations

from collections import Counter

import click

from apportion import engine
from apportion.engine.cli import console, programs
from apportion.engine.lint.exercised import exercises

__all__ = ["command"]


@click.command("test", short_help="Run the examples of rules files, and say what they leave out.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Exit with 1 where a requirement is not exercised on both sides.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
def command(files: tuple[str, ...], strict: bool, imports: tuple[str, ...]) -> int:
    """Run the examples of each FILE and name each requirement that no example shows both holding and failing.

    Exit status: 0 all examples hold, 1 one does not (with --strict also: a requirement is not exercised), 2 a file is
    broken or can't be read.
    """
    programs.import_modules(imports)
    return max(_test(file, strict) for file in files)


def _test(file: str, strict: bool) -> int:
    rules = engine.load_rules(file)
    with console.progress(f"running the examples of {file}"):
        results = engine.run_examples(rules)
        found = exercises(rules)
    for result in results:
        if result.outcome in ("fails", "error"):
            kind = "accepts" if result.accepts else "rejects"
            console.show(f"{result.span}: {result.rule} {kind}: {result.outcome}: {result.message}")
    missing = [exercise for exercise in found if exercise.missing]
    for exercise in missing:
        console.show(f"{exercise.span}: {exercise.rule}: no example shows `{exercise.text}` {exercise.missing}")
    counts = Counter(result.outcome for result in results)
    failed = counts["fails"] + counts["error"]
    shown = ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "none"
    both = f"{len(found) - len(missing)} of {len(found)} requirements are exercised on both sides"
    console.status_line(not failed, f"{file}: {len(results)} examples: {shown}; {both}")
    return 1 if failed or (strict and missing) else 0
