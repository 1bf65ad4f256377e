"""Every finding: its page, a file that has it, one that has not, and how it reads."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from apportion.engine.lint import FINDINGS, LintResult, lint
from apportion.engine.lint.explanations import EXPLANATIONS
from apportion.engine.lint.pages import page
from apportion.engine.lint.report import as_sarif

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

def run(code: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LintResult:
    monkeypatch.chdir(folder)
    explanation = EXPLANATIONS[code]
    Path("acme.rules").write_text(text, encoding="utf-8")
    files = ["acme.rules"]
    if explanation.other:
        Path("other.rules").write_text(explanation.other, encoding="utf-8")
        if not explanation.baseline:
            files.append("other.rules")
    select = [code] if FINDINGS[code].severity is None else []
    return lint(files, baseline="other.rules" if explanation.baseline else None, select=select)


@cache
def sarif_schema() -> Any:
    """A validator of the schema that OASIS publishes for SARIF 2.1.0."""
    validators = pytest.importorskip("jsonschema", reason="jsonschema holds SARIF against its published schema")
    text = (HERE / "sarif" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8")
    return validators.Draft4Validator(json.loads(text))


def test_the_sarif_schema_refuses_what_is_not_sarif() -> None:
    assert not sarif_schema().is_valid({"version": "2.1.0", "runs": [{"results": []}]})


def test_every_finding_is_explained() -> None:
    assert set(EXPLANATIONS) == set(FINDINGS)
    assert {path.stem for path in (ROOT / "docs" / "findings").glob("A*.md")} == set(FINDINGS)


@pytest.mark.parametrize("code", sorted(FINDINGS))
def test_the_page_in_docs_is_what_is_explained(code: str) -> None:
    assert (ROOT / "docs" / "findings" / f"{code}.md").read_text(encoding="utf-8") == page(code)


@pytest.mark.parametrize("code", sorted(FINDINGS))
def test_the_bad_file_has_it_and_reads_as_expected(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(code, EXPLANATIONS[code].bad, tmp_path, monkeypatch)
    found = [d for d in result.diagnostics if d.code == code]
    assert found, result
    golden = HERE / "golden" / f"{code}.txt"
    # "ranks" is an argument of the distributed ops, which other tests may have loaded
    shown = "\n\n".join(map(str, found)).replace(" or `ranks`", "") + "\n"
    assert shown == golden.read_text(encoding="utf-8")
    sarif_schema().validate(json.loads(as_sarif(result)))


@pytest.mark.parametrize("code", sorted(EXPLANATIONS))
def test_the_good_file_has_not(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(code, EXPLANATIONS[code].good, tmp_path, monkeypatch)
    assert code not in {d.code for d in result.diagnostics}, result
    assert not result.errors, result
