"""`apportion lint`: overlaps, shadowed and dead rules, with proofs and witnesses."""

from __future__ import annotations

from pathlib import Path

import click

from apportion.engine.cli import console, programs
from apportion.engine.cli.files import write_text
from apportion.engine.lint import FINDINGS, FORMATS, LintResult, lint
from apportion.grammar.diagnostics import Severity

__all__ = ["command"]


@click.command("lint", short_help="Look for overlapping, shadowed and dead rules.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--format", "format_", type=click.Choice(sorted(FORMATS)), default="text", show_default=True,
              help="How to print the findings.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings and for what is undecided, too.")
@click.option("--order", metavar="NAME,NAME", help="Which backend goes first where they contend.")
@click.option("--baseline", metavar="FILE", help="An older version of the file: report which claims changed (A503).")
@click.option("--select", metavar="CODE", multiple=True, type=click.Choice(sorted(FINDINGS)),
              help="Turn on a finding that is off by default.")
@click.option("--fix", is_flag=True, help="Repair what has one safe repair, in place.")
@click.option("--quiet", "-q", is_flag=True, help="Leave out notes.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
def command(
    files: tuple[str, ...], format_: str, strict: bool, order: str | None, baseline: str | None,
    select: tuple[str, ...], fix: bool, quiet: bool, imports: tuple[str, ...],
) -> int:
    """Look at the rules of each FILE (a path, or the name of a shipped one), alone and against each other.

    Disjoint and Overlap are proofs; an overlap comes with a witness that PyTorch accepts and the matcher claims.
    Undecided is neither, and is counted.

    Exit status: 0 no errors, 1 error findings (with --strict also warnings and undecided pairs), 2 a file can't be read
    or is no rules file.
    """
    programs.import_modules(imports)
    ranks = [part.strip() for part in order.split(",") if part.strip()] if order else None
    with console.progress(f"linting {', '.join(files)}"):
        result = lint(list(files), order=ranks, baseline=baseline, select=select)
    if fix:
        result = _fixed(files, result)
    _print(result, format_, quiet)
    return result.status(strict)


def _fixed(files: tuple[str, ...], result: LintResult) -> LintResult:
    from apportion.engine.lint.fixes import fix_texts

    repaired = fix_texts(result.diagnostics)
    for name, text in repaired.items():
        path = Path(name)
        if path.is_file():
            write_text(path, text)
            console.note(f"note: {name}: repaired")
    return lint(list(files)) if repaired else result


def _print(result: LintResult, format_: str, quiet: bool) -> None:
    if format_ != "text":
        console.output().file.write(FORMATS[format_](result) + "\n")
        return
    shown = [d for d in result.diagnostics if not (quiet and d.severity is Severity.note)]
    for diagnostic in shown:
        console.show(f"{diagnostic}\n")
    console.status_line(result.status() == 0, result.summary)
