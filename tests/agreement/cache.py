"""Finished checks, kept on disk so that a run that was broken off goes on where it stopped.

A result is good for the sources that it came from: rules, engine, grammar, adapter, these tests, and the versions of
torch and ExecuTorch are in its key.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["cached"]

ROOT = Path(__file__).parents[2]
SOURCES = ("grammar/**/*.py", "grammar/*.lark", "engine/**/*.py", "backends/executorch.py", "rules/**/*.rules")
TESTS = "tests/agreement/*.py"


@cache
def sources_key() -> str:
    """A digest of everything that a result depends on."""
    digest = hashlib.sha256(f"{version('torch')} {version('executorch')}".encode())
    files = sorted({file for pattern in (*SOURCES, TESTS) for file in ROOT.glob(pattern)})
    for file in files:
        if not file.name.startswith(("test_", "__main__", "report")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Where results are kept: `APPORTION_AGREEMENT_CACHE`, or a folder among the temporary files."""
    chosen = os.environ.get("APPORTION_AGREEMENT_CACHE")
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / "apportion-agreement"


@cache
def judge_key() -> str:
    """A digest of what the real partitioner's verdicts on probes depend on."""
    digest = hashlib.sha256(f"{version('torch')} {version('executorch')}".encode())
    digest.update((ROOT / "tests" / "agreement" / "edge.py").read_bytes())
    return "theirs-" + digest.hexdigest()[:16]


def cached(kind: str, key: Any, compute: Callable[[], Any], *, theirs: bool = False) -> Any:
    """The result of `compute` (plain JSON data), from disk if these sources have given it before.

    With `theirs` it depends on the real partitioner alone, not on the rules and the engine.
    """
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    file = folder() / (judge_key() if theirs else sources_key()) / kind / f"{name}.json"
    if file.exists():
        return json.loads(file.read_text())
    result = compute()
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(result))
    partial.replace(file)
    return json.loads(json.dumps(result))
