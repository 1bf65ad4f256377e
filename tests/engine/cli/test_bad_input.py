"""Command lines that can't be carried out: one clear message, status 2, no traceback."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

BAD_PROGRAMS = {
    "missing.pt2": "no such file",
    "folder.pt2": "is a directory",
    "empty.pt2": "is not a .pt2 file",
    "text.pt2": "is not a .pt2 file",
    "cut.pt2": "is cut off or damaged",
    "hole.pt2": "can't read this file",
    "other.pt2": "can't read this file",
    "state.pt2": "has what torch.save wrote (weights, or a module), not a program",
}


@pytest.fixture
def programs(model: Path, tmp_path: Path) -> Path:
    """A folder with the files of BAD_PROGRAMS."""
    whole = model.read_bytes()
    (tmp_path / "folder.pt2").mkdir()
    (tmp_path / "empty.pt2").touch()
    (tmp_path / "text.pt2").write_text("backend")
    (tmp_path / "cut.pt2").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile(model) as source, zipfile.ZipFile(tmp_path / "hole.pt2", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content[: len(content) // 2] if name.endswith(".json") else content)
    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as target:
        target.writestr("readme.txt", "no program")
    torch.save({"weight": torch.zeros(1)}, tmp_path / "state.pt2")
    return tmp_path


@pytest.mark.parametrize("name", BAD_PROGRAMS)
@pytest.mark.parametrize("command", ["partition", "new"])
def test_programs(apportion, programs: Path, rules: Path, command: str, name: str) -> None:
    arguments = {"partition": [programs / name, "-r", rules], "new": [programs / "x.rules", "--from", programs / name]}
    run = apportion(command, *arguments[command])
    assert run.status == 2
    assert BAD_PROGRAMS[name] in run.err and name in run.err
    assert run.out == "" and len(run.err.strip().splitlines()) == 1
    assert not (programs / "x.rules").exists()


def test_an_op_that_nothing_registers_is_named(apportion, rules: Path, tmp_path: Path) -> None:
    library = torch.library.Library("acme_cli_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    twice = torch.ops.acme_cli_test.twice.default

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(x)

    torch.export.save(torch.export.export(Twice(), (torch.randn(2),)), tmp_path / "twice.pt2")
    library._destroy()
    run = apportion("partition", tmp_path / "twice.pt2", "-r", rules)
    assert run.status == 2 and "acme_cli_test.twice.default" in run.err and "--import" in run.err


BAD_LINES = {
    "no command": ([], "Usage"),
    "unknown command": (["partitoin"], "No such command"),
    "no rules": (["partition", "{model}"], "--rules"),
    "unknown flag": (["partition", "{model}", "-r", "{rules}", "--jsn", "x"], "--jsn"),
    "unknown rules": (["partition", "{model}", "-r", "xnnpak"], "xnnpack"),
    "missing rules": (["partition", "{model}", "-r", "missing.rules"], "missing.rules"),
    "setting without =": (["partition", "{model}", "-r", "{rules}", "--set", "max_rank"], "--set option=value"),
    "setting twice": (["partition", "{model}", "-r", "{rules}", "-s", "max_rank=1", "-s", "max_rank=2"], "twice"),
    "unknown option": (["partition", "{model}", "-r", "{rules}", "--set", "max_rnk=3"], "max_rank"),
    "far-off option": (["partition", "{model}", "-r", "{rules}", "--set", "qqqq=3"], "level, max_rank, modes"),
    "no int": (["partition", "{model}", "-r", "{rules}", "--set", "max_rank=many"],
               "option max_rank is an int, not 'many'"),
    "no bool": (["partition", "{model}", "-r", "{rules}", "--set", "strict=maybe"],
                "option strict is a bool, not 'maybe'"),
    "no float": (["partition", "{model}", "-r", "{rules}", "--set", "scale=big"], "option scale is a float, not 'big'"),
    "unknown word": (["partition", "{model}", "-r", "{rules}", "--set", "level=mid"], 'one of "high", "low", not'),
    "unknown member": (["partition", "{model}", "-r", "{rules}", "--set", "modes=fast,slow"],
                       'out of "exact", "fast", not'),
    "unknown rule": (["partition", "{model}", "-r", "{rules}", "--with-rules", "lniear"], "lniear"),
    "json into nowhere": (["partition", "{model}", "-r", "{rules}", "--json", "{tmp}/no/where.json"], "does not exist"),
    "json onto a folder": (["partition", "{model}", "-r", "{rules}", "--json", "{tmp}"], "is a directory"),
    "json onto a full disk": (["partition", "{model}", "-r", "{rules}", "--json", "/dev/full"], "no space left"),
    "unknown module": (["partition", "{model}", "-r", "{rules}", "--import", "acme.nowhere"], "acme"),
    "check nothing": (["check"], "FILE"),
    "check a missing file": (["check", "{tmp}/missing.rules"], "missing.rules"),
    "check a folder": (["check", "{tmp}"], "is a folder"),
    "check no text": (["check", "{tmp}/binary.rules"], "binary.rules"),
    "check an empty file": (["check", "{tmp}/empty.rules"], "A010"),
    "new without a model": (["new", "{tmp}/x.rules"], "--from"),
    "new into nowhere": (["new", "{tmp}/no/x.rules", "--from", "{model}"], "does not exist"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_lines(apportion, model: Path, rules: Path, tmp_path: Path, name: str) -> None:
    arguments, expected = BAD_LINES[name]
    (tmp_path / "binary.rules").write_bytes(b"\xff\xfe\x00\x01backend")
    (tmp_path / "empty.rules").touch()
    if "/dev/full" in arguments and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    run = apportion(*(str(word).format(model=model, rules=rules, tmp=tmp_path) for word in arguments))
    assert run.status == 2
    assert expected in run.err + run.out


def test_an_unwritable_file_is_seen_before_the_work(apportion, model: Path, rules: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    tmp_path.chmod(0o500)
    run = apportion("partition", model, "-r", rules, "--json", tmp_path / "x.json")
    assert run.status == 2 and "permission denied" in run.err


def test_a_mistake_of_ours_is_no_traceback(model: Path, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.engine.cli import check, main

    def broken(path: str) -> None:
        raise ZeroDivisionError("what nobody foresaw")

    monkeypatch.setattr(check, "check_file", broken)
    assert main.main(["check", "x.rules"]) == 2
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: what nobody foresaw" in err and "Traceback" not in err
    monkeypatch.setenv("APPORTION_TRACEBACK", "1")
    assert main.main(["check", "x.rules"]) == 2
    assert "Traceback" in capsys.readouterr().err
