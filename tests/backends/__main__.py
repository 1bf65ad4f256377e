"""`python -m tests.backends`: real models, and small hazards, through the backends that execute, as a table.

    python -m tests.backends                              every model and hazard through every backend
    python -m tests.backends --hazards                    only the hazards
    python -m tests.backends --backend openvino lstm …    only these
    python -m tests.backends --left                       and why nodes were left

Finished rows are kept in a folder among the temporary files (`APPORTION_BACKENDS_CACHE` names another), so a run that
was broken off goes on; a row is good for the sources it came from. The exit status is 1 where a difference is above
1e-4 of the largest value, or `onnxruntime` or `openvino` delegate less than 95 % of a model's nodes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from tests.agreement.models import missing_libraries
from tests.backends.runs import BACKENDS, NAMES, TOLERANCE, missing, row
from tests.engine.lowering.hazards import HAZARDS

ROOT = Path(__file__).parents[2]
SOURCES = ("backends/*.py", "rules/*.rules", "engine/*.py", "engine/lowering/*.py", "engine/facts/*.py",
           "engine/merge/*.py", "engine/compile/*.py", "tests/backends/runs.py", "tests/agreement/models.py",
           "tests/engine/lowering/hazards.py")
ENGINES = ("torch", "onnxruntime", "onnxscript", "openvino")
SHARE = 0.95
DEMANDING = ("onnxruntime", "openvino")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for and show it."""
    parser = argparse.ArgumentParser(prog="python -m tests.backends", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join([*NAMES, *HAZARDS])}")
    parser.add_argument("--hazards", action="store_true", help="Only the small programs in which delegates go wrong.")
    parser.add_argument("--backend", action="append", choices=list(BACKENDS), help="Only this backend; repeatable.")
    parser.add_argument("--left", action="store_true", help="Show why nodes were left.")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.models) - {*NAMES, *HAZARDS})
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table = Table(title="delegated nodes, and the largest difference as a share of the largest value, over two calls")
    for column in ("model", "backend", "delegated", "", "partitions", "here", "another process", "torch.compile", " "):
        table.add_column(column, justify="left" if column in ("model", "backend", " ") else "right")
    rows = []
    for name in given.models or ([] if given.hazards else NAMES) + list(HAZARDS):
        for backend in given.backend or BACKENDS:
            absent = [*(missing_libraries(name) if name in NAMES else ()), *missing(backend)]
            if absent:
                console.print(f"{name} with {backend} left out: {', '.join(absent)} not installed")
                continue
            found = cached(name, backend)
            rows.append((name, backend, found))
            table.add_row(name, backend, *columns(found), verdict(name, backend, found))
            print(name, backend, *columns(found), verdict(name, backend, found), file=sys.stderr, flush=True)
    if not console.is_terminal:
        table.box = box.MARKDOWN
    console.print(table)
    if given.left:
        for name, backend, found in rows:
            for reason, count in found["left"]:
                console.print(f"{name} with {backend}: {count} x {reason}", markup=False)
    return int(any(verdict(name, backend, found) != "right" for name, backend, found in rows))


def columns(found: dict[str, Any]) -> list[str]:
    """A row as text."""
    share = found["delegated"] / found["nodes"]
    return [f"{found['delegated']}/{found['nodes']}", f"{100 * share:.1f} %", str(found["partitions"]),
            *(f"{found[way]:.1e}" for way in ("here", "elsewhere", "compiled"))]


def verdict(name: str, backend: str, found: dict[str, Any]) -> str:
    """What is wrong with a row, or "right"."""
    if not all(found[way] <= TOLERANCE for way in ("here", "elsewhere", "compiled")):  # NaN is wrong, too
        return "DIFFERS"
    if name in HAZARDS:
        return "right"
    if backend in DEMANDING and found["delegated"] < SHARE * found["nodes"]:
        return "TOO FEW"
    return "right" if found["compiled_delegates"] else "NOTHING COMPILED"


def cached(name: str, backend: str) -> dict[str, Any]:
    """A row, from disk if these sources have given it before."""
    chosen = os.environ.get("APPORTION_BACKENDS_CACHE")
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "apportion-backends"
    file = folder / sources_key() / f"{backend}-{name}.json"
    if file.exists():
        return dict(json.loads(file.read_text()))
    found = row(name, backend)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(found))
    partial.replace(file)
    return found


@cache
def sources_key() -> str:
    """A digest of everything that a row depends on."""
    digest = hashlib.sha256(" ".join(_version(name) for name in ENGINES).encode())
    for file in sorted({file for pattern in SOURCES for file in ROOT.glob(pattern)}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    sys.exit(main())
