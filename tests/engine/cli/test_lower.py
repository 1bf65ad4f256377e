"""`apportion lower` and `apportion run`: from a program on disk to results, and what can go wrong on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from tests.engine.cli.conftest import Run

Apportion = Callable[..., Run]

EAGER = """
backend "EagerBackend" language 1
rule some {{ match y = {{{ops}}}() {more} }}
"""


class Both(nn.Module):
    """The same op twice, once too small for the rules below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small, large = nn.functional.hardswish(x[:, :2]), nn.functional.hardswish(x)
        return small.sum() + large


def _write(path: Path, ops: str, more: str = "") -> Path:
    path.write_text(EAGER.format(ops=ops, more=more))
    return path


def _save(module: nn.Module, inputs: tuple[Any, ...], path: Path) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    return path


def test_lower_and_run(apportion: Apportion, model: Path, tmp_path: Path) -> None:
    given, lowered, results = tmp_path / "given.pt", tmp_path / "out.apl", tmp_path / "results.pt"
    x = torch.randn(2, 8)
    torch.save((x,), given)
    run = apportion("lower", model, "-r", "eager", "-o", lowered)
    assert run.status == 0 and "EagerBackend" in run.out and lowered.exists()
    run = apportion("run", lowered, "--inputs", given, "-o", results)
    assert run.status == 0 and "float32[2, 8]" in run.out
    module = torch.export.load(model).module()
    torch.testing.assert_close(torch.load(results), module(x))


def test_what_is_left_of_ops_kept_whole_is_offered_again(apportion: Apportion, tmp_path: Path) -> None:
    program = _save(Both(), (torch.ones(2, 4),), tmp_path / "both.pt2")
    wide = _write(tmp_path / "wide.rules", "aten.hardswish.default", "require y.shape[1] >= 4")
    rest = _write(tmp_path / "rest.rules", "aten.clamp.default, aten.mul.Tensor, aten.add.Tensor, aten.div.Tensor")
    run = apportion("lower", program, "-r", wide, "-r", rest, "-o", tmp_path / "out.apl")
    assert run.status == 0 and run.out.count("offered again") == 1
    lowered = engine.load(tmp_path / "out.apl")
    left = {str(node.target) for node in lowered.graph.nodes if node.op == "call_function"}
    assert not left & {"aten.hardswish.default", "aten.clamp.default"}


def test_strict_writes_nothing(apportion: Apportion, model: Path, tmp_path: Path) -> None:
    rules, out = _write(tmp_path / "relu.rules", "aten.relu.default"), tmp_path / "out.apl"
    run = apportion("lower", model, "-r", rules, "-o", out, "--strict")
    assert run.status == 1 and "cumsum" in run.out and not out.exists()
    assert apportion("lower", model, "-r", rules, "-o", out).status == 0 and out.exists()


def test_as_it_is(apportion: Apportion, tmp_path: Path) -> None:
    program = _save(Both(), (torch.ones(2, 4),), tmp_path / "both.pt2")
    none = _write(tmp_path / "none.rules", "aten.relu.default")
    for flag, whole in (("--as-it-is", True), ("--decompose", False)):
        out = tmp_path / f"{flag[2:]}.apl"
        assert apportion("lower", program, "-r", none, "-o", out, flag).status == 0
        ops = {str(node.target) for node in engine.load(out).graph.nodes}
        assert ("aten.hardswish.default" in ops) is whole


def test_a_quantized_program_needs_no_import(apportion: Apportion, tmp_path: Path) -> None:
    """The process that reads it has not registered PyTorch's quantization ops: a new one is asked."""
    import torch.ao.quantization.fx._decomposed

    class Quantized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.quantized_decomposed.quantize_per_tensor.default(x, 0.1, 0, -128, 127, torch.int8)

    program = _save(Quantized(), (torch.ones(2, 3),), tmp_path / "quantized.pt2")
    code = "import sys; from apportion.engine.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "partition", program, "-r", "xnnpack"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "1 of 1" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("inputs, message", [
    ((torch.randn(2, 9),), "2, 9"),
    ((torch.randn(2, 8, dtype=torch.float64),), "float64"),
    ((torch.randn(2, 8), torch.randn(2, 8)), "takes 1 inputs, 2 were given"),
    ((3,), "int"),
])
def test_run_refuses_other_inputs(
    apportion: Apportion, model: Path, tmp_path: Path, inputs: tuple[Any, ...], message: str
) -> None:
    lowered, given = tmp_path / "out.apl", tmp_path / "given.pt"
    torch.save(inputs, given)
    assert apportion("lower", model, "-r", "eager", "-o", lowered).status == 0
    run = apportion("run", lowered, "--inputs", given)
    assert run.status == 2 and message in run.err


@pytest.mark.parametrize("arguments, message", [
    (("--fallback", "Nobody"), "Nobody"),
    (("--set", "nothing=1"), "nothing"),
])
def test_lower_refuses(
    apportion: Apportion, model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out.apl"
    run = apportion("lower", model, "-r", "eager", "-o", out, *arguments)
    assert run.status == 2 and message in run.err and not out.exists()


def test_what_is_read_is_not_written(apportion: Apportion, model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    run = apportion("lower", model, "-r", "eager", "-o", model)
    assert run.status == 2 and "read by the same command" in run.err and model.read_bytes() == before
    assert apportion("lower", model, "-r", "eager", "-o", "-").status == 2
    lowered = tmp_path / "out.apl"
    assert apportion("lower", model, "-r", "eager", "-o", lowered).status == 0
    assert "read by the same command" in apportion("run", lowered, "-o", lowered).err
