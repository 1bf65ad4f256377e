"""Programs and modules that a command line names: reading them, and saying in one sentence why they can't be read."""

from __future__ import annotations

import importlib
import logging
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from apportion.engine.cli.console import CommandError
from apportion.engine.ops.held_back import register_held_back

__all__ = ["import_modules", "load_program"]

_UNRESOLVED = re.compile(r"failed to resolve torch\.ops\.([\w.]+) to an operator")
_KNOWN_LIBRARIES = {"torchao", "torchvision"}  # modules that bring ops of their own name


def import_modules(names: Iterable[str]) -> None:
    """Import what `--import` names: modules that register ops or the functions that an `extern` calls.

    Raises CommandError where an import fails, whatever the module raised.
    """
    if names and "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` has it: a module beside the model is found
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as problem:
            raise CommandError(f"--import {name}: {type(problem).__name__}: {problem}") from problem


def load_program(path: str) -> ExportedProgram:
    """The program in a `.pt2` file as `torch.export.save` writes it.

    Ops that PyTorch brings along but holds back are registered where the program needs them. Raises CommandError that
    tells a missing file, a file of another kind, a cut one, and one that needs ops of a library that is not imported
    from each other.
    """
    _refuse_what_is_no_archive(Path(path))
    try:
        return _loaded(path)
    except _MissingOp as missing:
        if not register_held_back(missing.op.split(".")[0]):
            raise
    return _loaded(path)


_OF_PROGRAMS = frozenset({"archive_format", "serialized_exported_program.json"})
"""Files of which any exported program has one."""


class _MissingOp(CommandError):
    """The program uses an op that nothing has registered."""

    def __init__(self, path: str, op: str) -> None:
        library = op.split(".")[0]
        module = library if library in _KNOWN_LIBRARIES else "MODULE"
        super().__init__(f"{path}: the program uses {op}, which nothing has registered; name the module that does: "
                         f"--import {module}")
        self.op = op


def _loaded(path: str) -> ExportedProgram:
    with _torch_log() as log:
        try:
            return torch.export.load(path)
        except Exception as problem:
            unresolved = _UNRESOLVED.search("\n".join(log) + str(problem))
            if unresolved is not None:
                raise _MissingOp(path, unresolved[1]) from problem
            raise CommandError(f"{path}: torch {torch.__version__} can't read this file: {_cause(problem, log)}"
                               ) from problem


def _refuse_what_is_no_archive(path: Path) -> None:
    if path.is_dir():
        raise CommandError(f"{path}: is a directory, not a .pt2 file")
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except OSError as problem:
        raise CommandError(f"{path}: {(problem.strerror or str(problem)).lower()}") from problem
    if start != b"PK":
        raise CommandError(f"{path}: is not a .pt2 file (torch.export.save writes them)")
    if not zipfile.is_zipfile(path):
        raise CommandError(f"{path}: is cut off or damaged; write it again with torch.export.save")
    inside = {name.rpartition("/")[2] for name in zipfile.ZipFile(path).namelist()}
    if "data.pkl" in inside and inside.isdisjoint(_OF_PROGRAMS):
        raise CommandError(f"{path}: has what torch.save wrote (weights, or a module), not a program; write one with "
                           f"torch.export.save(torch.export.export(model, inputs), path)")


def _cause(problem: Exception, log: list[str]) -> str:
    """What torch says last, whether it logs it or raises it."""
    lines = [line for record in log for line in record.strip().splitlines() if line.strip()]
    return (lines or str(problem).strip().splitlines() or [type(problem).__name__])[-1].strip()[:300]


@contextmanager
def _torch_log() -> Iterator[list[str]]:
    """Collect what torch.export logs instead of letting its traceback reach the terminal."""
    records: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(logging.Formatter().format(record))

    logger = logging.getLogger("torch.export")
    collector, propagate, handlers = Collector(), logger.propagate, logger.handlers[:]
    logger.handlers[:], logger.propagate = [collector], False
    try:
        yield records
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
