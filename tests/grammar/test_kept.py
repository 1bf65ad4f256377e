"""Trees that are read back from disk are those that were kept, spans and all; nothing else is taken for one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given

from apportion.engine.compile.units import shipped_folder
from apportion.grammar import cache, kept, tree
from apportion.grammar.cache import VARIABLE, keep, recall
from apportion.grammar.diagnostics import Source, Span
from apportion.grammar.kept import parse_kept
from apportion.grammar.parse import parse
from tests.grammar.random_trees import FILES
from tests.grammar.texts import ACME, EVERYTHING

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files here")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def _everything(thing: Any) -> Any:
    """A tree as plain data with its classes, types of literals and spans."""
    if isinstance(thing, tree.Node):
        return type(thing), *(_everything(getattr(thing, a.name)) for a in attrs.fields(type(thing)))
    if isinstance(thing, Span):
        return thing.start, thing.end, thing.source
    return tuple(map(_everything, thing)) if isinstance(thing, tuple) else (type(thing), repr(thing))


def _round(text: str) -> None:
    file = parse(text, "a.rules").file
    assert file is not None
    again = kept._decoded(kept._encoded(file), Source("a.rules", text))
    assert _everything(again) == _everything(file)


@given(FILES)
def test_random_trees_come_back_whole(text: str) -> None:
    _round(text)


SHIPPED = [path.read_text(encoding="utf-8") for path in sorted(shipped_folder().rglob("*.rules"))]


@pytest.mark.parametrize("text", [ACME, EVERYTHING, *SHIPPED])
def test_trees_come_back_whole(text: str) -> None:
    _round(text)


def test_what_was_parsed_is_read_back_and_not_parsed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parse_kept(ACME, "a.rules")
    monkeypatch.setattr("apportion.grammar.parse.parse", lambda *_: pytest.fail("it was parsed again"))
    again = parse_kept(ACME, "b.rules")
    assert again == first and again.file is not first.file
    assert again.file is not None and again.file.span.source == Source("b.rules", ACME)


def test_an_edited_text_and_another_version_are_parsed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_kept(ACME, "a.rules")
    edited = parse_kept(ACME.replace("acme", "bcme"), "a.rules")
    assert edited == parse(ACME.replace("acme", "bcme"), "a.rules")
    monkeypatch.setattr(kept, "_package", lambda: "another version")
    assert recall((ACME, "another version")) is None
    assert parse_kept(ACME, "a.rules") == parse(ACME, "a.rules")
    assert recall((ACME, "another version")) is not None


def test_a_text_with_errors_is_not_kept(folder: Path) -> None:
    assert parse_kept("rule {", "a.rules") == parse("rule {", "a.rules")
    assert recall(("rule {", kept._package())) is None


@pytest.mark.parametrize("thing", [7, [1], (0,), (10**6, 0, 1), (0, 0, 1), ("x", 0, 1, 2), {"a": 1}])
def test_what_is_no_tree_is_parsed_again(folder: Path, thing: Any) -> None:
    keep((ACME, kept._package()), thing)
    assert parse_kept(ACME, "a.rules") == parse(ACME, "a.rules")
    assert parse_kept(ACME, "a.rules") == parse(ACME, "a.rules")


def test_the_oldest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 3)
    for number in range(6):
        keep((str(number),), number)
        os.utime(folder / cache._name((str(number),)), (number, number))
    assert [recall((str(number),)) for number in range(6)] == [None, None, None, 3, 4, 5]
