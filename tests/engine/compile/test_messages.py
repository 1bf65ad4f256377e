"""Files that parse but mean nothing, and what is said about them: `tests/diagnostics/check/NAME.rules` and `NAME.txt`.

With APPORTION_UPDATE_MESSAGES=1 the texts are written anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apportion.engine.errors import RulesError
from apportion.engine.load import check_file, load_rules

FOLDER = Path(__file__).parents[2] / "diagnostics" / "check"
CASES = sorted(FOLDER.glob("*.rules"))
UPDATE = os.environ.get("APPORTION_UPDATE_MESSAGES") == "1"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_messages_of_broken_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(RulesError) as caught:
        load_rules(path.name)
    text = f"{caught.value}\n"
    golden = path.with_suffix(".txt")
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_check_says_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    said = "\n\n".join(map(str, check_file(path.name))) + "\n"
    golden = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert golden.endswith(said), "a file for loading may have more wrong with it than a library"


def test_there_are_many() -> None:
    assert len(CASES) >= 30
