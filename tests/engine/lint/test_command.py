"""The commands `lint`, `fmt`, `diff`, `test`, `explain-code`: output formats and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apportion.engine.cli.main import main
from apportion.engine.lint.explanations import EXPLANATIONS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for code in ("A101", "A104", "A203", "A901"):
        Path(f"{code}.rules").write_text(EXPLANATIONS[code].bad, encoding="utf-8")
    Path("good.rules").write_text(EXPLANATIONS["A101"].good, encoding="utf-8")
    Path("broken.rules").write_text("rule {", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["A101.rules"], 1), (["good.rules"], 0), (["broken.rules"], 2), (["absent.rules"], 2),
        (["A104.rules"], 0), (["A104.rules", "--strict"], 1), (["A901.rules"], 0), (["A901.rules", "--strict"], 1),
    ],
)
def test_exit_status(arguments: list[str], status: int, folder: Path) -> None:
    assert main(["lint", *arguments]) == status


def test_json_and_sarif(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "A101.rules", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "apportion.lint/1" and found["diagnostics"][0]["code"] == "A101"
    assert main(["lint", "A101.rules", "--format", "sarif"]) == 1
    result = json.loads(capsys.readouterr().out)["runs"][0]["results"][0]
    assert result["ruleId"] == "A101"
    assert result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "A101.rules"
    assert main(["lint", "A101.rules", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=A101.rules,line=3,")


def test_fix_removes_what_follows(folder: Path) -> None:
    assert main(["lint", "A203.rules", "--fix"]) == 0
    assert "x.rank > 2" not in Path("A203.rules").read_text(encoding="utf-8")


def test_fmt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "backend \"A\" language 1 rule r { match y = aten.relu.default(x) }"
    Path("A203.rules").write_text(text, encoding="utf-8")
    assert main(["fmt", "--check", "A203.rules"]) == 1
    assert main(["fmt", "A203.rules"]) == 0
    assert main(["fmt", "--check", "A203.rules"]) == 0
    assert main(["fmt", "broken.rules"]) == 2


def test_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "good.rules", "good.rules"]) == 0
    capsys.readouterr()
    assert main(["diff", "A104.rules", "good.rules"]) == 1
    out = capsys.readouterr().out
    assert "+ gained by conv2d" in out and "- lost by relu_any" in out


def test_examples_and_what_they_leave_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.rules").write_text(EXPLANATIONS["A601"].good, encoding="utf-8")
    assert main(["test", "a.rules"]) == 0
    assert "no example shows `x.rank == 4` failing" in capsys.readouterr().out
    assert main(["test", "a.rules", "--strict"]) == 1


def test_explain_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-code", "a101"]) == 0
    assert "# A101: ambiguous overlap" in capsys.readouterr().out
    assert main(["explain-code", "A999"]) == 2
