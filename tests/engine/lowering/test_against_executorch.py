"""The same small programs and partitioners through ExecuTorch's `to_backend` and through ours: the same structure."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from apportion import engine

pytest.importorskip("executorch.exir")

from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.backend import backend_api as theirs
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

Choose = Callable[[torch.fx.Node], "str | None"]


class BothBackend(BackendDetails):
    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> PreprocessResult:
        return PreprocessResult(b"bytes")


TheirBackend = BothBackend


class Ours(engine.BackendDetails):
    """Renamed below: both sides know it by the same id."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        return engine.PreprocessResult(b"bytes")


Ours.__name__ = "BothBackend"


def tag(program: Any, choose: Choose) -> list[str]:
    found = []
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                chosen = choose(node)
                if chosen is not None:
                    node.meta["delegation_tag"] = chosen
                    found.append(chosen)
    return sorted(set(found))


class TheirPartitioner(Partitioner):
    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self.choose = choose

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags = tag(exported_program, self.choose)
        specs = {t: DelegationSpec("BothBackend", [CompileSpec("k", t.encode())]) for t in tags}
        return PartitionResult(exported_program, specs)


class OurPartitioner(engine.Partitioner):
    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self.choose = choose

    def partition(self, program: Any) -> engine.PartitionResult:
        tags = tag(program, self.choose)
        return engine.PartitionResult(
            program, {t: engine.DelegationSpec("BothBackend", [engine.CompileSpec("k", t.encode())]) for t in tags})


def structure(program: ExportedProgram, call: str) -> Any:
    """Everything that a runtime sees: calls in order with what goes in and out, the rest, the signature."""
    found: list[Any] = []
    for path, module in sorted(program.graph_module.named_modules(), key=lambda item: item[0]):
        if not isinstance(module, torch.fx.GraphModule) or ".fused_" in path:  # theirs leaves it
            continue
        for node in module.graph.nodes:
            if node.op == "call_function" and call in str(node.target):
                lowered = getattr(module, node.args[0].target)
                inner = lowered.original_module
                # Theirs describes what the delegate writes back itself, too, though the call does not give it.
                results = len(inner.graph_signature.user_outputs)
                found.append((
                    path, node.args[0].target, [a.name for a in node.args[1:] if "getitem" not in a.name],
                    len(node.args), [tuple(v.shape) for v in node.meta["val"]][-results:], lowered.backend_id,
                    [(s.key, s.value) for s in lowered.compile_specs], lowered.processed_bytes,
                    [(s.kind.name, s.target) for s in inner.graph_signature.input_specs],
                    [(s.kind.name, s.target) for s in inner.graph_signature.output_specs],
                    sorted(n.target.__name__ for n in inner.graph.nodes if n.op == "call_function"),
                    sorted(inner.state_dict),
                ))
            elif node.op == "call_function" and "getitem" not in str(node.target):
                found.append((path, str(node.target), len(node.args)))
    signature = program.graph_signature
    inputs = [(s.kind.name, s.arg.name, s.target) for s in signature.input_specs]
    outputs = [(s.kind.name, s.target) for s in signature.output_specs]
    # Theirs keeps the copies of shared constants that moved into delegates; nothing refers to them.
    targets = {s.target for s in signature.input_specs}
    held = sorted(targets & program.state_dict.keys()), sorted(targets & program.constants.keys())
    return found, inputs, outputs, held, program.example_inputs


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu().sin() + x


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.mm(x, self.w)).mm(self.w)


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.b.add_(x)
        return (x + self.b).sin()


class Several(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        a = x.relu()
        return a, a.sin(), a + 1


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: (v.relu() + 1,), lambda v: (v.sin() * 2,), (x,))[0] + 1


def without(*names: str, constants: str = "") -> Choose:
    """All calls but those whose name has one of these words, in one partition; constants by the start of their name."""

    def choose(node: torch.fx.Node) -> str | None:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            return None
        if node.op == "call_function" and not any(word in node.name for word in names):
            return "t"
        return "t" if constants and node.op == "placeholder" and node.name.startswith(constants) else None

    return choose


def each(word: str, constants: str = "") -> Choose:
    """A partition for each call whose name has this word."""

    def choose(node: torch.fx.Node) -> str | None:
        if node.op == "call_function" and word in node.name:
            return node.name
        return f"{word}" if constants and node.op == "placeholder" and node.name.startswith(constants) else None

    return choose


CASES: list[tuple[str, nn.Module, tuple[torch.Tensor, ...], Choose]] = [
    ("all, constants inside", Linear(), (torch.ones(2, 4),), without(constants="p_")),
    ("all, constants as inputs", Linear(), (torch.ones(2, 4),), without()),
    ("two of four", Linear(), (torch.ones(2, 4),), without("relu", "sin", "add", constants="p_")),
    ("one op", Linear(), (torch.ones(2, 4),), each("sin")),
    ("a shared constant is copied", Shared(), (torch.ones(2, 4),), each("mm", constants="p_")),
    ("a buffer that is written stays", Writes(), (torch.ones(4),), without("sin")),
    ("a buffer that is written moves in", Writes(), (torch.ones(4),), without("sin", constants="b_")),
    ("several outputs", Several(), (torch.ones(3),), without()),
    ("a branch", Branch(), (torch.ones(3),), each("sin")),
    ("nothing", Linear(), (torch.ones(2, 4),), each("nowhere")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_same_structure(case: Any) -> None:
    _, model, inputs, choose = case
    edge = to_edge(torch.export.export(model, inputs), compile_config=EdgeCompileConfig(_check_ir_validity=False))
    program = edge.exported_program()
    expected = theirs.to_backend(copy.deepcopy(program), TheirPartitioner(choose))
    found = engine.to_backend(program, OurPartitioner(choose))
    assert structure(found, "apportion_call_delegate") == structure(expected, "executorch_call_delegate")


def test_the_same_refusals() -> None:
    program = to_edge(torch.export.export(Linear(), (torch.ones(2, 4),))).exported_program()
    for choose in (lambda n: "t" if n.op == "output" else None, lambda n: "t" if n.name == "x" else None):
        with pytest.raises(RuntimeError, match="should not be tagged"):
            theirs.to_backend(copy.deepcopy(program), TheirPartitioner(choose))
        with pytest.raises(RuntimeError, match="must not be tagged"):
            engine.to_backend(program, OurPartitioner(choose))
    with pytest.raises(NotImplementedError):
        theirs.to_backend("Nobody", program, [])
    with pytest.raises(NotImplementedError):
        engine.to_backend("Nobody", program, [])
