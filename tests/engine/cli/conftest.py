"""Programs on disk for the commands, made once, and a way to run a command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attrs import frozen
from torch import nn

from apportion.engine.cli.main import main

RULES = """
backend "AcmeNpu" language 1
option max_rank: int = 4
option modes: set of {fast, exact} = {"fast"}
option level: {low, high} = "low"
option scale: float = 1.0
option strict: bool = false
rule linear { match y = aten.linear.default(x, w, b)
              require x.rank <= option.max_rank  because "the engine has four address counters"
              accepts aten.linear.default(float32[2,8], float32[4,8]) }
rule relu   { match y = aten.relu.default(x)  when "fast" in option.modes }
"""


class Model(nn.Module):
    """A linear layer, an activation, and something that no rules file here takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.relu(self.layer(x)), 1)


@frozen
class Run:
    """What a command line did."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "model.pt2"
    torch.export.save(torch.export.export(Model().eval(), (torch.randn(2, 8),)), path)
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "acme.rules"
    path.write_text(RULES)
    return path


@pytest.fixture
def apportion(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Runs a command line in this process; no command line may show a traceback or colours in a pipe."""

    def run(*arguments: object) -> Run:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        assert "internal error" not in captured.err
        assert "\x1b" not in captured.err + captured.out
        return Run(status, captured.out, captured.err)

    return run
