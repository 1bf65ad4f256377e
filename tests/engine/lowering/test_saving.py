"""Lowered programs in files: another process runs them, damaged ones are refused."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from tests.engine.lowering.checks import compare, delegates, eager_rules, lowered

ELSEWHERE = """
import sys, torch
from apportion import engine
program = engine.load(sys.argv[1])
inputs = torch.load(sys.argv[2], weights_only=True)
module = program.module()
with torch.no_grad():
    torch.save([module(*one) for one in inputs], sys.argv[3])
"""


class Model(nn.Module):
    """A branch, a buffer that is written, and two delegates with an op between them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(x.sum(0))
        y = torch.cond(x.sum() > 0, lambda v: v.relu() * 3, lambda v: v.sigmoid() - 1, (self.linear(x),))
        return y.sin() + self.count, x.shape[0]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Model()


@pytest.fixture(scope="module")
def program(model: nn.Module) -> Any:
    shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
    exported = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=shapes).run_decompositions()
    ops = ("aten.addmm.default", "aten.linear.default", "aten.relu.default", "aten.mul.Tensor", "aten.sigmoid.default",
           "aten.add.Tensor", "aten.sum.dim_IntList", "aten.permute.default")
    return lowered(exported, eager_rules(*ops))


def calls() -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(n, 4) + s,) for n, s in ((3, 1), (5, -1), (3, 1))]


def test_another_process_runs_the_delegates(program: Any, model: nn.Module, tmp_path: Path) -> None:
    file, given, made = tmp_path / "m.apl", calls(), tmp_path / "out.pt"
    engine.save(program, file)
    torch.save(given, tmp_path / "in.pt")
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, str(file), str(tmp_path / "in.pt"), str(made)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    reference = Model()
    reference.load_state_dict(model.state_dict())
    for found, inputs in zip(torch.load(made), given, strict=True):
        with torch.no_grad():
            expected = reference(*inputs)
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
        assert found[1] == expected[1]


def test_what_is_loaded_has_the_same_structure(program: Any, model: nn.Module, tmp_path: Path) -> None:
    engine.save(program, tmp_path / "m.apl")
    loaded = engine.load(tmp_path / "m.apl")
    loaded.validate()
    assert [str(n.target) for n in loaded.graph.nodes] == [str(n.target) for n in program.graph.nodes]
    assert loaded.graph_signature.user_inputs == program.graph_signature.user_inputs
    mine, theirs = delegates(program), delegates(loaded)
    assert len(mine) == len(theirs) >= 3
    for one, other in zip(mine, theirs, strict=True):
        assert one.processed_bytes == other.processed_bytes and one.backend_id == other.backend_id
        assert one.compile_specs == other.compile_specs
        assert one.meta["debug_handle_map"] == other.meta["debug_handle_map"]
        ours, read = (d.original_module.graph_signature for d in (one, other))
        assert list(ours.user_inputs) == list(read.user_inputs) and list(ours.parameters) == list(read.parameters)
    compare(loaded, model, calls())


def test_methods_are_saved_together(program: Any, model: nn.Module, tmp_path: Path) -> None:
    engine.save({"one": program, "two": program}, tmp_path / "m.apl")
    loaded = engine.load(tmp_path / "m.apl")
    assert list(loaded) == ["one", "two"]
    compare(loaded["two"], model, calls())
    names = zipfile.ZipFile(tmp_path / "m.apl").namelist()
    assert len([name for name in names if name.startswith("delegates/")]) == len(delegates(program))


def test_a_file_that_is_cut_at_any_place_is_refused(program: Any, tmp_path: Path) -> None:
    engine.save(program, tmp_path / "m.apl")
    data = (tmp_path / "m.apl").read_bytes()
    for size in (0, 1, 10, 500, len(data) // 2, len(data) - 30, len(data) - 1):
        (tmp_path / "cut.apl").write_bytes(data[:size])
        with pytest.raises(engine.FormatError, match="cut.apl"):
            engine.load(tmp_path / "cut.apl")


def test_damaged_bytes_are_refused(program: Any, tmp_path: Path) -> None:
    engine.save(program, tmp_path / "m.apl")
    data = bytearray((tmp_path / "m.apl").read_bytes())
    place = data.index(b"APDL") + 100
    data[place] ^= 0xFF
    (tmp_path / "m.apl").write_bytes(data)
    with pytest.raises(engine.FormatError, match="damaged"):
        engine.load(tmp_path / "m.apl")


def rewritten(path: Path, change: Any) -> Path:
    """The file with another manifest."""
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(parts["apportion.json"])
    change(manifest)
    parts["apportion.json"] = json.dumps(manifest).encode()
    target = path.with_name("other.apl")
    with zipfile.ZipFile(target, "w") as new:
        for name, data in parts.items():
            new.writestr(name, data)
    return target


def test_a_newer_format_is_refused_with_both_numbers(program: Any, tmp_path: Path) -> None:
    engine.save(program, tmp_path / "m.apl")
    newer = rewritten(tmp_path / "m.apl", lambda m: m.update(version=7, apportion="9.1"))
    with pytest.raises(engine.FormatError, match=r"format 7 by apportion 9\.1.*up to format 1"):
        engine.load(newer)


def test_a_missing_backend_is_named(program: Any, tmp_path: Path) -> None:
    engine.save(program, tmp_path / "m.apl")
    strange = rewritten(tmp_path / "m.apl", lambda m: [d.update(backend_id="FarawayBackend") for d in m["delegates"]])
    with pytest.raises(engine.BackendNotFoundError, match="FarawayBackend"):
        engine.load(strange)


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip", bytes(2000)])
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(engine.FormatError):
        engine.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        engine.load(tmp_path / "absent")


def test_what_is_no_program_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(engine.ProgramError):
        engine.save(nn.Linear(1, 1), tmp_path / "x")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_torch_cannot_write_is_a_clear_error(tmp_path: Path) -> None:
    class Named(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.topk(x.relu(), 2)  # a named tuple of torch's

    program = torch.export.export(Named(), (torch.ones(4),)).run_decompositions()
    with pytest.raises(engine.ProgramError, match="can't write this program: .*topk"):
        engine.save(lowered(program, eager_rules("aten.relu.default")), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
