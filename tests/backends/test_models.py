"""Real models through the backends that execute: what is delegated, and the difference from eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from apportion.engine.lowering.sizes import delegates_of
from tests.agreement.models import missing_libraries
from tests.backends.__main__ import cached, verdict
from tests.backends.runs import BACKENDS, NAMES, TOLERANCE, missing, row, worst
from tests.engine.lowering.checks import compare
from tests.engine.lowering.hazards import HAZARDS


def needed(backend: str) -> None:
    if missing(backend):
        pytest.skip(f"needs {', '.join(missing(backend))}")


@pytest.mark.parametrize("backend", ["eager", "onnxruntime", "openvino"])
def test_a_small_model_every_way(backend: str) -> None:
    needed(backend)
    found = row("linear_stack", backend)
    assert found["delegated"] == found["nodes"] and found["partitions"] == 1 and not found["left"]
    assert max(found["here"], found["elsewhere"], found["compiled"]) <= TOLERANCE
    assert found["compiled_delegates"] == 1


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_compiled(name: str) -> None:
    found = row(name, "eager", ways=("compiled",))
    assert found["delegated"] == found["nodes"] and found["compiled"] == 0.0 and found["compiled_delegates"]


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*NAMES, *HAZARDS])
def test_everything_every_way(name: str, backend: str) -> None:
    needed(backend)
    if name in NAMES and missing_libraries(name):
        pytest.skip(f"needs {', '.join(missing_libraries(name))}")
    found = cached(name, backend)
    assert verdict(name, backend, found) == "right", found


def test_three_backends_in_one_program_with_precedence() -> None:
    needed("openvino")
    needed("onnxruntime")
    found = row("linear_stack", ["openvino", "onnxruntime", "eager"], ways=("here",))
    assert found["delegated"] == found["nodes"] and found["here"] <= TOLERANCE


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).relu()
        return torch.softmax(self.linear(torch.cumsum(y, 0)), -1) * y.double().float()


def test_j1_the_order_of_the_files_is_the_precedence() -> None:
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

    for name in BACKENDS[backend]:
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


class Slices(nn.Module):
    """Sizes of one input, computed with, are the bounds of slices of another; one comes in from outside."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        n = y.shape[0]
        return x[:, : n + 3] * 2, x[:, n - 1 : n + 1].relu(), x[:, -n:] + 1


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_bounds_of_slices_that_are_computed(backend: str) -> None:
    needed(backend)
    shapes = (None, {0: torch.export.Dim("n", min=2, max=8)})
    program = torch.export.export(Slices(), (torch.ones(2, 20), torch.ones(4)), dynamic_shapes=shapes)
    lowered = engine.lower(program, backend)
    assert any("sym_size" in str(node.target) for _, one in delegates_of(lowered)
               for node in one.original_module.graph.nodes)
    compare(lowered, Slices(), [(torch.randn(2, 20), torch.randn(n)) for n in (4, 2, 7)], 1e-6)
