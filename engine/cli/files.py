"""Files that a command writes: refused early where they can't be written, and never left half written.

`-` is standard output wherever a command writes text.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from apportion.engine.cli import console
from apportion.engine.cli.console import CommandError

__all__ = ["STDOUT", "refuse_binary_targets", "refuse_targets", "refuse_unwritable", "write_text", "write_to"]

STDOUT = "-"


def refuse_targets(targets: Mapping[str, str | None], reads: Iterable[str]) -> None:
    """CommandError, before any long work, where one of the files that options name (None: it was not given) can't be
    written, is one that the command `reads`, or is named by two options."""
    read = {Path(name).resolve() for name in reads if name and Path(name).is_file()}
    known: dict[Path | str, str] = {}
    for option, name in targets.items():
        if name is None:
            continue
        if not name:
            raise CommandError(f"{option}: a file name is missing (- is standard output)")
        place = name if name == STDOUT else Path(name).resolve()
        if place in known:
            where = "standard output" if name == STDOUT else name
            raise CommandError(f"{known[place]} and {option} both write to {where}")
        known[place] = option
        if place in read:
            raise CommandError(f"{option} {name}: this file is read by the same command")
        if name != STDOUT:
            refuse_unwritable(Path(name))


def refuse_binary_targets(targets: Mapping[str, str | None], reads: Iterable[str]) -> None:
    """The same for what is no text: standard output is none of its places either."""
    for option, name in targets.items():
        if name == STDOUT:
            raise CommandError(f"{option}: what is written is no text; name a file")
    refuse_targets(targets, reads)


def write_to(target: str, text: str) -> None:
    """Write a file, and say so; or standard output, where the target is `-`. Raises CommandError."""
    if target == STDOUT:
        click.echo(text, nl=False)
    else:
        write_text(Path(target), text)
        console.note(f"note: wrote {target}")


def refuse_unwritable(path: Path) -> None:
    """CommandError, before any long work, where `path` can't become a file."""
    if path.is_dir():
        raise CommandError(f"{path}: is a directory")
    if not path.parent.is_dir():
        raise CommandError(f"{path}: the directory {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandError(f"{path}: permission denied")


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none: the text goes beside it first. Raises CommandError."""
    if path.exists() and not path.is_file():
        _write_through(path, text)  # a device or a pipe, such as /dev/stdout
        return
    try:
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except OSError as problem:
        raise CommandError(f"{path}: {(problem.strerror or str(problem)).lower()}") from problem


def _write_through(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CommandError(f"{path}: {(problem.strerror or str(problem)).lower()}") from problem


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
