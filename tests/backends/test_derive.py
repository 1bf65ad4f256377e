"""The derived parts of rules files: written from calls that are tried, read by the engine, right about each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from apportion import engine, rules
from apportion.backends import derive
from apportion.backends.derive import Call, claimed_in_vain, tried, updated
from tests.backends.runs import missing

aten = torch.ops.aten


def calls() -> list[Call]:
    x, n, b = torch.randn(2, 3), torch.arange(6).reshape(2, 3), torch.tensor([True, False])
    several: list[tuple[Any, ...]] = [
        (aten.relu.default, x), (aten.relu.default, n), (aten.add.Tensor, x, x), (aten.add.Tensor, n, n),
        (aten.bitwise_and.Tensor, b, b), (aten.cat.default, [x, x], 1), (aten.full.default, [2], 1.5),
        (aten._local_scalar_dense.default, torch.ones(())),
    ]
    return [Call(op, args, {}) for op, *args in several]


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_file_is_written_from_what_was_tried(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing(name):
        pytest.skip(f"needs {', '.join(missing(name))}")
    outcome = tried(name, calls())
    assert outcome["aten.add.Tensor"].passed == {"float32": 1, "int64": 1} and not outcome["aten.add.Tensor"].failed
    assert outcome["aten.cat.default"].passed == {"float32": 1}
    assert not outcome["aten._local_scalar_dense.default"].is_good

    def disagrees(expected: Any, found: Any) -> str | None:
        return "gives other values" if expected[0].dtype == torch.int64 else None

    monkeypatch.setattr(derive, "_disagreement", disagrees)  # an engine that is wrong about whole numbers
    outcome = tried(name, calls())
    text = (Path(rules.__path__[0]) / f"{name}.rules").read_text()
    written = updated(text, name, outcome)
    assert updated(written, name, outcome) == written and written.endswith(text[text.index("ops sizes"):])
    made = engine.parse_rules(written, name="derived")
    assert not claimed_in_vain(made, outcome)
    assert claimed_in_vain(engine.load_rules(name), outcome)  # the shipped file trusts the engine
    for op, kind, claimed in (("add", torch.float32, 1), ("add", torch.int64, 0), ("mul", torch.float32, 0)):
        x = torch.ones(2, dtype=kind)
        program = torch.export.export(Binary(op), (x, x)).run_decompositions()
        assert engine.partition(program, made).report.claimed == claimed


class Binary(torch.nn.Module):
    def __init__(self, op: str) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = getattr(torch, self.op)(x, y)
        return found


@pytest.mark.full
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_no_call_is_claimed_in_vain(name: str) -> None:
    if missing(name):
        pytest.skip(f"needs {', '.join(missing(name))}")
    outcome = derive.try_all(name)
    assert len(outcome) > 80
    assert claimed_in_vain(engine.load_rules(name), outcome) == []
