"""Real models through the backends that execute: what is delegated, and the difference from eager PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from apportion import engine
from apportion.engine.lowering.whole import prepare
from tests.agreement.models import MODELS, exported, missing_libraries

NEEDS = {"eager": (), "onnxruntime": ("onnxruntime", "onnx", "onnxscript"), "openvino": ("openvino",)}
FLOAT = [name for name, model in MODELS.items() if model.quantize is None and "dynamic_batch" not in name]
SMALL = ["linear_stack"]
SHARE = 0.95


def needed(backend: str) -> None:
    missing = [name for name in NEEDS[backend] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def worst(found: Any, expected: Any) -> float:
    """The largest difference as a share of the largest value."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    return max(float((a.float() - b.float()).abs().max() / b.float().abs().max().clamp(min=1e-6))
               for a, b in pairs if isinstance(b, torch.Tensor))


def check(name: str, rules: Any, tmp_path: Path) -> Any:
    made = exported(name)
    partitioner = engine.RulesPartitioner(rules)
    program = prepare(made.program, partitioner)
    decision = engine.partition(program, partitioner.rules)
    lowered = engine.to_backend(program, decision)
    engine.save(lowered, tmp_path / "m.apl")
    for one in (lowered, engine.load(tmp_path / "m.apl")):
        module = one.module(check_guards=False)
        for _ in range(2):
            with torch.no_grad():
                assert worst(module(*made.inputs), made.module(*made.inputs)) <= 1e-4
    assert len(decision.report.left) == decision.report.nodes_total - decision.report.claimed
    return decision.report


@pytest.mark.parametrize("backend", sorted(NEEDS))
@pytest.mark.parametrize("name", SMALL)
def test_small_models(name: str, backend: str, tmp_path: Path) -> None:
    needed(backend)
    report = check(name, backend, tmp_path)
    assert report.claimed >= SHARE * report.nodes_total, str(report)


@pytest.mark.full
@pytest.mark.parametrize("backend", sorted(NEEDS))
@pytest.mark.parametrize("name", FLOAT)
def test_models(name: str, backend: str, tmp_path: Path) -> None:
    needed(backend)
    if missing_libraries(name):
        pytest.skip(f"needs {', '.join(missing_libraries(name))}")
    report = check(name, backend, tmp_path)
    assert report.claimed >= SHARE * report.nodes_total, str(report)


def test_three_backends_in_one_program_with_precedence(tmp_path: Path) -> None:
    needed("openvino")
    needed("onnxruntime")
    report = check("linear_stack", ["openvino", "onnxruntime", "eager"], tmp_path)
    assert report.claimed == report.nodes_total


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).relu()
        return torch.softmax(self.linear(torch.cumsum(y, 0)), -1) * y.double().float()


def test_j1_the_order_of_the_files_is_the_precedence(tmp_path: Path) -> None:
    needed("openvino")
    needed("onnxruntime")
    program = torch.export.export(Mixed(), (torch.ones(3, 8),)).run_decompositions()
    owners = []
    for order in (["openvino", "onnxruntime", "eager"], ["onnxruntime", "openvino", "eager"]):
        decision = engine.partition(program, order)
        owners.append({node.name: part.spec.backend_id for part in decision.partitions for node in part.nodes})
        lowered = engine.to_backend(program, decision)
        lowered.validate()
        assert lowered.graph_signature.user_inputs == program.graph_signature.user_inputs
        x = torch.randn(3, 8)
        with torch.no_grad():
            assert worst(lowered.module()(x), program.module()(x)) <= 1e-4
    assert set(owners[0].values()) == {"OpenVinoBackend", "EagerBackend"}
    assert set(owners[1].values()) == {"OnnxRuntimeBackend", "EagerBackend"}
    first, second = ({n for n, b in names.items() if b == "EagerBackend"} for names in owners)
    assert first == second


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_an_absent_library_is_a_clear_message(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in NEEDS[backend]:
        monkeypatch.setitem(sys.modules, name, None)
    program = torch.export.export(nn.ReLU(), (torch.ones(2),)).run_decompositions()
    decision = engine.partition(program, backend)
    with pytest.raises(engine.PreprocessError, match=rf"pip install apportion\[{backend}\]") as caught:
        engine.to_backend(program, decision)
    assert isinstance(caught.value.__cause__, engine.BackendUnavailableError)


def test_no_compiler_is_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    program = torch.export.export(nn.ReLU(), (torch.ones(2),)).run_decompositions()
    with pytest.raises(engine.BackendUnavailableError, match=r"C\+\+ compiler.*g\+\+"):
        engine.to_backend("InductorBackend", program, [])


@pytest.mark.full
def test_inductor_compiles_and_runs(tmp_path: Path) -> None:
    check("linear_stack", "inductor", tmp_path)
