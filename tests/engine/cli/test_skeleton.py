"""Names in a new rules file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import apportion.grammar
from apportion.engine.cli.skeleton import _safe

GRAMMAR = (Path(apportion.grammar.__file__).parent / "rules.lark").read_text(encoding="utf-8")


@pytest.mark.parametrize("keyword", sorted(set(re.findall(r'"([a-z]+)"', GRAMMAR))))
def test_no_name_is_a_keyword(keyword: str) -> None:
    assert _safe(keyword) != keyword and _safe(keyword).isidentifier()


@pytest.mark.parametrize(("name", "expected"), [("self", "self"), ("_softmax", "softmax"), ("0", "0_"), ("a.b", "a_b")])
def test_names_are_names(name: str, expected: str) -> None:
    assert _safe(name) == expected
