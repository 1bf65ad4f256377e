"""The parser that is kept on disk: used where it is safe to, made anew in every other case."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.grammar.cache import VARIABLE, cached, folder

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files here")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def _made(parts: tuple[str, ...] = ("text", "1")) -> tuple[object, bool]:
    calls: list[int] = []

    def make() -> object:
        calls.append(1)
        return {"rules": 1}

    return cached(parts, make), bool(calls)


def test_what_was_made_once_is_read_back(kept: Path) -> None:
    assert _made() == ({"rules": 1}, True)
    assert _made() == ({"rules": 1}, False)
    assert _made(("another text", "1"))[1] and _made(("text", "2"))[1]
    assert kept.stat().st_mode & 0o777 == 0o700
    assert len(list(kept.iterdir())) == 3


class _Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (os.environ[VARIABLE] + "/sprung",)


@pytest.mark.parametrize("what", ["the folder", "the file", "a link"])
def test_nothing_is_unpickled_that_others_may_have_written(kept: Path, what: str) -> None:
    _made()
    file = next(kept.iterdir())
    file.write_bytes(pickle.dumps(_Trap()))
    if what == "the folder":
        kept.chmod(0o777)
    elif what == "the file":
        file.chmod(0o666)
    else:
        moved = kept / "elsewhere"
        file.rename(moved)
        file.symlink_to(moved)
    assert _made() == ({"rules": 1}, True)
    assert not (kept / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle at all", pickle.dumps({"rules": 1})[:-3]])
def test_a_broken_file_is_replaced(kept: Path, content: bytes) -> None:
    _made()
    next(kept.iterdir()).write_bytes(content)
    assert _made() == ({"rules": 1}, True)
    assert _made() == ({"rules": 1}, False)


def test_where_nothing_can_be_written_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "cache"))
    assert _made() == _made() == ({"rules": 1}, True)
    monkeypatch.setenv(VARIABLE, "")
    assert folder() is None
    assert _made() == ({"rules": 1}, True)


def test_processes_that_start_at_once_parse_alike(kept: Path) -> None:
    code = (
        "from apportion.grammar.parse import parse;"
        "found = parse('backend \"A\" language 1 rule r { mach y = aten.relu.default(x) }');"
        "print([str(d) for d in found.diagnostics])"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    outputs = {process.communicate(timeout=120)[0] for process in processes}
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=120).stdout
    assert outputs == {again} and b"match" in again
    assert [path.suffix for path in kept.iterdir()] == [".pickle"]
