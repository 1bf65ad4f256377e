"""Things kept on disk: the built parser, which takes most of a second to build and some milliseconds to read back, and
trees.

What is kept is unpickled, and unpickling runs whatever it is told to. So it is read only from a folder that belongs to
the user and that nobody else may write to, opened without following links; anything else is as if there were nothing.
Files are named by the content they were made from, written aside and then moved into place, so that processes may write
at once. Whatever fails (a read-only home, a broken file) means that the thing is made anew.
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

__all__ = ["MOST", "VARIABLE", "cached", "folder", "keep", "recall"]

VARIABLE = "APPORTION_CACHE"
"""The environment variable that names another folder; empty, it turns the cache off."""

MOST = 256
"""How many files are kept."""


def folder() -> Path | None:
    """Where things are kept: `$APPORTION_CACHE`, else in the user's cache folder; None for nowhere."""
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
    found = recall(parts)
    if found is None:
        found = make()
        keep(parts, found)
    return found


def recall(parts: tuple[str, ...]) -> Any:
    """What was kept under these parts, or None."""
    where = folder()
    return None if where is None or not hasattr(os, "getuid") else _read(where, _name(parts))


def keep(parts: tuple[str, ...], thing: Any) -> None:
    """Keeps a thing under these parts, where that is possible; the oldest go where there are more than `MOST`."""
    where = folder()
    if where is not None and hasattr(os, "getuid"):
        _write(where, _name(parts), thing)


def _name(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join((*parts, sys.version)).encode(errors="surrogatepass")).hexdigest()[:32] + ".pickle"


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
        oldest_first = sorted(where.glob("*.pickle"), key=lambda kept: kept.stat().st_mtime)
        for old in oldest_first[:-MOST]:
            old.unlink()
