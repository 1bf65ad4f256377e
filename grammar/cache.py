"""The built parser, kept on disk: building it takes most of a second, reading it back some milliseconds.

What is kept is unpickled, and unpickling runs whatever it is told to. So it is read only from a folder that belongs to
the user and that nobody else may write to, opened without following links; anything else is as if there were nothing.
Files are named by the content they were made from, written aside and then moved into place, so that processes may write
at once. Whatever fails (a read-only home, a broken file) means that the parser is built anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["VARIABLE", "cached", "folder"]

VARIABLE = "APPORTION_CACHE"
"""The environment variable that names another folder; empty, it turns the cache off."""


def folder() -> Path | None:
    """Where built parsers are kept: `$APPORTION_CACHE`, else in the user's cache folder; None for nowhere."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    if sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(given if os.path.isabs(given) else "~/.cache")
    try:
        return base.expanduser() / "apportion"
    except RuntimeError:  # there is no home
        return None


def cached(parts: tuple[str, ...], make: Callable[[], Any]) -> Any:
    """What `make` gives, read back where it was kept under these parts (contents and versions) before."""
    where = folder()
    if where is None or not hasattr(os, "getuid"):
        return make()
    name = hashlib.sha256("\0".join((*parts, sys.version)).encode()).hexdigest()[:32] + ".pickle"
    found = _read(where, name)
    if found is None:
        found = make()
        _write(where, name, found)
    return found


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(where: Path, name: str) -> Any:
    try:
        if not _is_private(os.lstat(where)) or not stat.S_ISDIR(os.lstat(where).st_mode):
            return None
        with open(os.open(where / name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return pickle.load(file) if _is_private(os.fstat(file.fileno())) else None
    except Exception:  # broken in whatever way: made anew
        return None


def _write(where: Path, name: str, thing: Any) -> None:
    with contextlib.suppress(OSError, pickle.PicklingError):
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(os.lstat(where)):
            return
        handle, path = tempfile.mkstemp(dir=where)
        try:
            with open(handle, "wb") as file:
                pickle.dump(thing, file)
            os.replace(path, where / name)
        except BaseException:
            os.unlink(path)
            raise
