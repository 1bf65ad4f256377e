"""`apportion check`: is a rules file well formed, well typed, and do its examples hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import click

from apportion import engine
from apportion.engine.cli import console, programs
from apportion.engine.examples import ExampleResult, run_examples
from apportion.engine.load import check_file, is_library
from apportion.grammar.diagnostics import Severity

__all__ = ["command"]

# What an outcome does to the exit status.
_STATUS: Mapping[str, int] = {"holds": 0, "skipped": 0, "fails": 1, "error": 1}


@click.command("check", short_help="Check rules files and run their examples.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
@click.option("-v", "--verbose", is_flag=True, help="List the examples that hold, too.")
def command(files: tuple[str, ...], imports: tuple[str, ...], verbose: bool) -> int:
    """Parse and type-check each FILE (a path, or the name of a shipped one) and run the examples in it.

    Exit status: 0 all is well, 1 an example fails, 2 a file is broken or can't be read.
    """
    programs.import_modules(imports)
    return max(_check(file, verbose) for file in files)


def _check(file: str, verbose: bool) -> int:
    with console.progress(f"checking {file}"):
        diagnostics = check_file(file)
    for diagnostic in diagnostics:
        console.error(str(diagnostic))
    if any(diagnostic.severity is Severity.error for diagnostic in diagnostics):
        broken = sum(diagnostic.severity is Severity.error for diagnostic in diagnostics)
        console.status_line(False, f"{file}: broken, {_count(broken, 'error')}")
        return 2
    if is_library(file):
        console.status_line(True, f"{file}: fine (a library: its examples run where it is used)")
        return 0
    rule_set = engine.load_rules(file)
    with console.progress(f"running the examples of {file}"):
        results = run_examples(rule_set)
    for result in results:
        if verbose or _STATUS[result.outcome]:
            _tell(result)
    status = max((_STATUS[result.outcome] for result in results), default=0)
    console.status_line(status == 0, f"{file}: {_summary(len(rule_set.rules), results)}")
    return status


def _tell(result: ExampleResult) -> None:
    kind = "accepts" if result.accepts else "rejects"
    message = f": {result.message}" if result.message else ""
    console.show(f"{result.span}: {result.rule} {kind}: {result.outcome}{message}")


def _summary(rules: int, results: tuple[ExampleResult, ...]) -> str:
    counts = Counter(result.outcome for result in results)
    parts = [f"{counts[outcome]} {word}" for outcome, word in _WORDS.items() if counts[outcome]]
    return f"{_count(rules, 'rule')}, {_count(len(results), 'example')}: {', '.join(parts) or 'nothing to run'}"


_WORDS: Mapping[str, str] = {
    "holds": "hold",
    "fails": "fail",
    "error": "can't be run",
    "skipped": "skipped (their op's library is absent)",
}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
