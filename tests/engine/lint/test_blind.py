"""Pairs of rules with their relations, written down by someone who had not seen the linter: it is never wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.engine.lint.linting import lint_program
from apportion.engine.lint.model import RuleFile
from apportion.engine.lint.overlap import Verdict, covered, examine
from apportion.engine.load import _read

FOLDER = Path(__file__).parent / "blind"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
MOST_UNDECIDED = 15


def judged(name: str) -> tuple[RuleFile, Verdict]:
    file, found = lint_program(_read(FOLDER / name))
    assert file is not None, found
    return file, examine(*file.models)


@pytest.mark.parametrize("name", EXPECTED)
def test_no_relation_is_wrong(name: str) -> None:
    file, verdict = judged(name)
    overlap, relation = EXPECTED[name]["overlap"], EXPECTED[name]["relation"]
    assert verdict.kind in ("undecided", "overlap" if overlap else "disjoint"), EXPECTED[name]["why"]
    first, second = file.models
    if covered(second, [first]):
        assert relation in ("first_shadows_second", "equal")
    if covered(first, [second]):
        assert relation in ("second_shadows_first", "equal")


def test_most_are_decided() -> None:
    undecided = [name for name in EXPECTED if judged(name)[1].kind == "undecided"]
    assert len(EXPECTED) == 40 and len(undecided) <= MOST_UNDECIDED, undecided
