"""Real models through a backend that executes: what is delegated, and how far the results are from eager PyTorch.

A row has three ways to run a model, each called twice: the lowered program here, the same program saved and loaded by
another process, and `torch.compile(model, backend="apportion")`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from apportion import engine
from apportion.engine.lowering.compiling import CACHE
from apportion.engine.lowering.whole import prepare
from tests.agreement.models import MODELS, Exported, exported

__all__ = ["BACKENDS", "NAMES", "TOLERANCE", "elsewhere", "missing", "row", "worst"]

TOLERANCE: Final = 1e-4
"""The largest difference that is allowed, as a share of the largest value."""

BACKENDS: Final[dict[str, tuple[str, ...]]] = {
    "eager": (),
    "inductor": (),
    "onnxruntime": ("onnxruntime", "onnx", "onnxscript"),
    "openvino": ("openvino",),
}
"""The rules files, and the libraries that each needs."""

NAMES: Final = [name for name, model in MODELS.items() if model.quantize is None and "dynamic_batch" not in name]

_ELSEWHERE: Final = """
import sys, torch
from apportion import engine
torch.set_num_threads(1)
module = engine.load(sys.argv[1]).module(check_guards=False)
with torch.no_grad():
    torch.save([module(*one) for one in torch.load(sys.argv[2], weights_only=True)], sys.argv[3])
"""


def missing(backend: str) -> list[str]:
    """The libraries that a backend needs and that are not installed."""
    return [name for name in BACKENDS[backend] if importlib.util.find_spec(name) is None]


def worst(found: Any, expected: Any) -> float:
    """The largest difference as a share of the largest value."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    return max(_difference(a, b) for a, b in pairs if isinstance(b, torch.Tensor))


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    assert one.shape == other.shape and one.dtype == other.dtype
    return float((one.double() - other.double()).abs().max() / other.double().abs().max().clamp(min=1e-6))


def elsewhere(program: Any, calls: Sequence[tuple[Any, ...]], folder: Path) -> list[Any]:
    """What a lowered program gives in another process that loads it from a file."""
    program_file, inputs, outputs = folder / "m.apl", folder / "in.pt", folder / "out.pt"
    engine.save(program, program_file)
    torch.save(list(calls), inputs)
    command = [sys.executable, "-W", "ignore", "-c", _ELSEWHERE, str(program_file), str(inputs), str(outputs)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    found: list[Any] = torch.load(outputs, weights_only=True)
    return found


def _calls(name: str, made: Exported) -> list[tuple[Any, ...]]:
    """Two sets of inputs; the second has another size where one may vary."""
    (first,) = made.inputs
    shape = list(first.shape)
    if MODELS[name].dynamic is not None:
        shape[1] += 5
    if first.dtype.is_floating_point:
        return [(first,), (torch.randn(shape),)]
    return [(first,), (torch.randint(0, 64, shape),)]


def _furthest(call: Callable[..., Any], calls: Sequence[tuple[Any, ...]], expected: Sequence[Any]) -> float:
    with torch.no_grad():
        return max(worst(call(*inputs), one) for inputs, one in zip(calls, expected, strict=True))


def _compiled(made: Exported, rules: Any, dynamic: bool) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"rules": rules}
    return torch.compile(made.module, backend="apportion", dynamic=dynamic or None, options=options)


def row(name: str, rules: Any, ways: Sequence[str] = ("here", "elsewhere", "compiled")) -> dict[str, Any]:
    """One model through the backends of `rules`: nodes, those delegated, partitions, the difference each way, and why
    nodes were left."""
    made = exported(name)
    partitioner = engine.RulesPartitioner(rules)
    program = prepare(made.program, partitioner)
    decision = engine.partition(program, partitioner.rules)
    lowered = engine.to_backend(program, decision)
    lowered.validate()
    calls = _calls(name, made)
    with torch.no_grad():
        expected = [made.module(*inputs) for inputs in calls]
    found: dict[str, Any] = {
        "nodes": decision.report.nodes_total,
        "delegated": decision.report.claimed,
        "partitions": len(decision.partitions),
        "left": sorted(Counter(f"{one.op}: {one.message}" for one in decision.report.left).items()),
    }
    if "here" in ways:
        found["here"] = _furthest(lowered.module(check_guards=False), calls, expected)
    if "elsewhere" in ways:
        with tempfile.TemporaryDirectory() as folder:
            pairs = zip(elsewhere(lowered, calls, Path(folder)), expected, strict=True)
            found["elsewhere"] = max(worst(one, other) for one, other in pairs)
    if "compiled" in ways:
        before = CACHE.hits + CACHE.misses
        with torch._dynamo.config.patch(allow_rnn=True):  # it leaves recurrent layers alone otherwise
            found["compiled"] = _furthest(_compiled(made, rules, MODELS[name].dynamic is not None), calls, expected)
        found["compiled_delegates"] = CACHE.hits + CACHE.misses - before
    return found
