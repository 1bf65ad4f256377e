"""`apportion fmt`: rules files in their one layout."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from apportion.engine.cli import console
from apportion.engine.cli.console import CommandError
from apportion.engine.cli.files import write_text
from apportion.grammar.format import format_file
from apportion.grammar.parse import parse

__all__ = ["command"]


@click.command("fmt", short_help="Format rules files.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a file would change.")
@click.option("--diff", "show_diff", is_flag=True, help="Change nothing; print what would change.")
def command(files: tuple[str, ...], check: bool, show_diff: bool) -> int:
    """Format each FILE in place; `-` reads standard input and writes standard output. Comments are kept.

    Exit status: 0 fine, 1 something would change (with --check or --diff), 2 a file is broken or can't be read.
    """
    return max(_format(file, check, show_diff) for file in files)


def _format(file: str, check: bool, show_diff: bool) -> int:
    text = _read(file)
    result = parse(text, "<stdin>" if file == "-" else file)
    errors = [d for d in result.diagnostics if d.is_error]
    if result.file is None or errors:
        for diagnostic in errors:
            console.error(str(diagnostic))
        return 2
    formatted = format_file(result.file)
    if file == "-" and not (check or show_diff):
        sys.stdout.write(formatted)
        return 0
    if formatted == text:
        return 0
    if show_diff:
        lines = difflib.unified_diff(text.splitlines(True), formatted.splitlines(True), file, f"{file} (formatted)")
        sys.stdout.write("".join(lines))
    if check:
        console.note(f"{file} would change")
    if check or show_diff:
        return 1
    write_text(Path(file), formatted)
    console.note(f"{file}: formatted")
    return 0


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise CommandError(f"{file}: {reason.lower() if isinstance(reason, str) else reason}") from problem
