"""Broken files and what is said about them: `tests/diagnostics/syntax/NAME.rules` and `NAME.txt`.

With APPORTION_UPDATE_MESSAGES=1 the texts are written anew; read the difference before committing it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from apportion.grammar.parse import build_parser, parse

FOLDER = Path(__file__).parent.parent / "diagnostics" / "syntax"
CASES = sorted(FOLDER.glob("*.rules"))
UPDATE = os.environ.get("APPORTION_UPDATE_MESSAGES") == "1"


def messages(path: Path) -> str:
    result = parse(path.read_bytes().decode(), path.name)
    return "".join(f"{diagnostic}\n" for diagnostic in result.diagnostics)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_messages_of_broken_files(path: Path) -> None:
    text = messages(path)
    golden = path.with_suffix(".txt")
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text, "the file is not broken"
    assert text == golden.read_text(encoding="utf-8")


def test_there_are_many() -> None:
    assert len(CASES) >= 30


@pytest.fixture(scope="module")
def terminal_names() -> set[str]:
    return {terminal.name for terminal in build_parser().terminals}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_i1_messages_speak_of_what_is_typed(path: Path, terminal_names: set[str]) -> None:
    for diagnostic in parse(path.read_bytes().decode(), path.name).diagnostics:
        said = " ".join(filter(None, (diagnostic.message, diagnostic.help, diagnostic.label)))
        spoken = set(re.findall(r"[A-Z_]{2,}[0-9]*", re.sub(r"`[^`]*`", "", said)))
        assert not spoken & terminal_names
        assert "{'" not in said
        assert "__ANON" not in said
        assert diagnostic.span is not None
        head = str(diagnostic).split("\n")
        assert re.fullmatch(rf" *--> {re.escape(path.name)}:\d+:\d+", head[1])
        assert "^" in head[4]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_file_gives_a_flood(path: Path) -> None:
    """A mistake is one message: no line has more than a few."""
    lines: dict[int, int] = {}
    for diagnostic in parse(path.read_bytes().decode(), path.name).diagnostics:
        assert diagnostic.span is not None
        lines[diagnostic.span.line] = lines.get(diagnostic.span.line, 0) + 1
    assert max(lines.values()) <= 6


@pytest.mark.parametrize("name", ["acme.rules", "everything.rules"])
def test_one_missing_quote_gives_one_or_two_messages(name: str) -> None:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    quotes = [at for at, character in enumerate(text) if character == '"' and text[at - 1] != "\\"]
    for at in quotes[::2]:
        result = parse(text[:at] + text[at + 1 :], name)
        line = text.count("\n", 0, at) + 1
        places = [d.span.line for d in result.diagnostics if d.span is not None]
        assert len(places) in (1, 2) and set(places) <= {line, line + 1}, [str(d) for d in result.diagnostics]
