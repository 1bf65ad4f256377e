"""`torch.compile` over rules."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from apportion.backends.eager import EagerBackend
from apportion.backends.inductor import InductorBackend
from apportion.engine.lowering.compiling import CACHE
from tests.engine.lowering.checks import eager_rules, equal


class Model(nn.Module):
    """A buffer that is written, and a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x).relu()
        self.total.add_(y.detach().sum(0))
        if y.sum() > 0:
            return y.sin() + self.total, y
        return y - self.total, y


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_equal_to_eager_with_breaks_and_dynamic_shapes(freeze: bool, dynamic: bool) -> None:
    model = Model()
    reference = copy.deepcopy(model)
    options = {"rules": ["eager"], "freeze": freeze}
    compiled = torch.compile(model, backend="apportion", dynamic=dynamic, options=options)
    with torch.no_grad():
        for size in (3, 3, 5):
            x = torch.randn(size, 4)
            equal(compiled(x), reference(x), 1e-6)
    equal(model.total, reference.total, 1e-6)


def test_equal_partitions_are_compiled_once() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    options = {"rules": [eager_rules("aten.addmm.default", "aten.permute.default")]}
    with torch.no_grad():
        torch.compile(model, backend="apportion", options=options)(x)
        hits, misses = CACHE.hits, CACHE.misses
        torch._dynamo.reset()
        torch.compile(copy.deepcopy(model), backend="apportion", options=options)(x)
    assert (CACHE.hits, CACHE.misses) == (hits + 1, misses)


@pytest.mark.full
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_rest_by_inductor(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs the C++ compiler g++")
    asked: list[str] = []
    for backend in (EagerBackend, InductorBackend):
        def counted(program: Any, specs: Any, backend: Any = backend, real: Any = backend.preprocess) -> Any:
            asked.append(backend.__name__)
            return real(program, specs)

        monkeypatch.setattr(backend, "preprocess", staticmethod(counted))
    model, own = Model(), eager_rules("aten.addmm.default", "aten.relu.default", "aten.permute.default")
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="apportion", dynamic=dynamic, options={"rules": [own], "rest": "inductor"})
    with torch.no_grad():
        for size in (3, 5):
            x = torch.randn(size, 4)
            equal(compiled(x), reference(x), 1e-6)
    equal(model.total, reference.total, 1e-6)
    assert set(asked) == {"EagerBackend", "InductorBackend"}


def test_training_works() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend=engine.compile_backend("eager"))
    x = torch.randn(3, 4)
    compiled(x).sum().backward()
    reference(x).sum().backward()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("options, message", [
    (None, "which rules"),
    ({"rules": "eager", "frieze": True}, "did you mean `freeze`"),
    ({"rules": "eager", "rest": "gpu"}, "rest is one of eager, inductor"),
    ({"rules": "eagre"}, "did you mean `eager`"),
])
def test_wrong_options_are_explained(options: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        torch.compile(nn.Linear(2, 2), backend="apportion", options=options)(torch.ones(1, 2))


def test_h4_found_without_importing_anything() -> None:
    code = ("import sys, torch\n"
            "import torch._dynamo as d; assert 'apportion' in d.list_backends()\n"
            "assert not [m for m in sys.modules if m.startswith('apportion')]\n"
            "f = torch.compile(lambda x: x.relu() + 1, backend='apportion', options={'rules': ['eager']})\n"
            "assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0)); print('fine')")
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "fine", run.stderr
