"""Models and hazards through a backend that executes: what is delegated, how far the results are from eager PyTorch.

A row has three ways to run a model, each called twice: the lowered program here, the same program saved and loaded by
another process, and `torch.compile(model, backend="apportion")`.
"""

from __future__ import annotations

import copy
import importlib.util
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from attrs import frozen
from torch.utils import _pytree as pytree

from apportion import engine
from apportion.engine.lowering.compiling import CACHE
from apportion.engine.lowering.whole import prepare
from tests.agreement.models import MODELS, Exported, exported
from tests.engine.lowering.hazards import HAZARDS

__all__ = ["BACKENDS", "NAMES", "TOLERANCE", "elsewhere", "given", "missing", "row", "worst"]

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


@frozen(eq=False)
class Given:
    """A program, the module that says what it computes, the inputs of its calls, and whether sizes vary."""

    program: Any
    module: torch.nn.Module
    calls: list[tuple[Any, ...]]
    dynamic: bool


def given(name: str) -> Given:
    """The model or the hazard of that name."""
    if name not in HAZARDS:
        made = exported(name)
        return Given(made.program, made.module, _calls(name, made), MODELS[name].dynamic is not None)
    torch.manual_seed(0)
    hazard = HAZARDS[name]
    module, calls = hazard.module().eval(), hazard.calls()
    program = torch.export.export(module, copy.deepcopy(calls[0]), dynamic_shapes=hazard.dynamic)
    return Given(program, module, calls, hazard.dynamic is not None)


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
    found = [_called(call, inputs) for inputs in calls]
    return max(worst(*pair) for pair in zip(found, expected, strict=True))


def _called(call: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, Any]:
    """What a call gives, and what its inputs are afterwards."""
    own = copy.deepcopy(inputs)
    with torch.no_grad():
        return copy.deepcopy(call(*own)), own


def _compiled(made: Given, rules: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"rules": rules}
    return torch.compile(copy.deepcopy(made.module), backend="apportion", dynamic=made.dynamic or None, options=options)


def row(name: str, rules: Any, ways: Sequence[str] = ("here", "elsewhere", "compiled")) -> dict[str, Any]:
    """One model or hazard through the backends of `rules`: nodes, those delegated, partitions, the difference each
    way, and why nodes were left."""
    made = given(name)
    partitioner = engine.RulesPartitioner(rules)
    program = prepare(made.program, partitioner)
    decision = engine.partition(program, partitioner.rules)
    lowered = engine.to_backend(program, decision)
    lowered.validate()
    reference = copy.deepcopy(made.module)
    expected = [_called(reference, inputs) for inputs in made.calls]
    found: dict[str, Any] = {
        "nodes": decision.report.nodes_total,
        "delegated": decision.report.claimed,
        "partitions": len(decision.partitions),
        "left": sorted(Counter(f"{one.op}: {one.message}" for one in decision.report.left).items()),
    }
    if "elsewhere" in ways:  # first: a call may write buffers of the program
        with tempfile.TemporaryDirectory() as folder:
            pairs = zip(elsewhere(lowered, made.calls, Path(folder)), expected, strict=True)
            found["elsewhere"] = max(worst(one, other) for one, (other, _) in pairs)
    if "here" in ways:
        found["here"] = _furthest(lowered.module(check_guards=False), made.calls, expected)
    if "compiled" in ways:
        before = CACHE.hits + CACHE.misses
        with torch._dynamo.config.patch(allow_rnn=True):  # it leaves recurrent layers alone otherwise
            found["compiled"] = _furthest(_compiled(made, rules), made.calls, expected)
        found["compiled_delegates"] = CACHE.hits + CACHE.misses - before
    return found
