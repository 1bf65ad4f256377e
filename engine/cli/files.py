"""Files that a command writes: refused early where they can't be written, and never left half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from apportion.engine.cli.console import CommandError

__all__ = ["refuse_unwritable", "write_text"]


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
