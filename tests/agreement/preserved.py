"""Which nodes each partitioner wants to keep whole, on the ATen graph that ExecuTorch asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from tests.agreement.edge import load_libraries
from tests.agreement.record import Options, clean, theirs

__all__ = ["preserved_cases", "preserved_nodes", "preserved_theirs"]

Inputs = tuple[torch.Tensor, ...]


class _Outside(nn.Module):
    """A linear whose weight is an input."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, w)


class _Affine(nn.Module):
    """A dynamically quantized linear in torchao's affine ops."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-8, 7, (4, 8), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(4, 2) + 0.1)
        self.register_buffer("zero", torch.zeros(4, 2, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.torchao
        scale, zero = ops.choose_qparams_affine(x, "ASYMMETRIC", [1, 8], torch.int8, -128, 127)
        q = ops.quantize_affine(x, [1, 8], scale, zero, torch.int8, -128, 127)
        d = ops.dequantize_affine(q, [1, 8], scale, zero, torch.int8, -128, 127)
        w = ops.dequantize_affine(self.weight, [1, 4], self.scale, self.zero, torch.int8, -8, 7)
        return nn.functional.linear(d, w)


class _Call(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def _image() -> Inputs:
    return (torch.randn(1, 3, 8, 8),)


def _double() -> Inputs:
    return (torch.randn(1, 3, 8, 8, dtype=torch.float64),)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "linear": (lambda: nn.Linear(8, 4), lambda: (torch.randn(2, 8),)),
    "linear over an input": (_Outside, lambda: (torch.randn(2, 8), torch.randn(4, 8))),
    "linear in float64": (lambda: nn.Linear(8, 4).double(), lambda: (torch.randn(2, 8, dtype=torch.float64),)),
    "affine linear": (_Affine, lambda: (torch.randn(2, 8),)),
    "max_pool2d": (lambda: nn.MaxPool2d(2), _image),
    "max_pool2d, wide stride": (lambda: nn.MaxPool2d(2, 3), _image),
    "hardswish": (nn.Hardswish, _image),
    "hardswish in float64": (nn.Hardswish, _double),
    "prelu": (lambda: nn.PReLU(3), _image),
    "prelu over an input": (lambda: _Call(torch.prelu), lambda: (torch.randn(1, 3, 8, 8), torch.randn(3))),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _image),
    "upsample in float64": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _double),
}

KEPT = (
    "linear.default",
    "max_pool2d.default",
    "upsample_bilinear2d.vec",
    "hardswish.default",
    "prelu.default",
    "quantize_affine.default",
    "dequantize_affine.default",
    "choose_qparams_affine.default",
)
"""The ops that the real partitioner ever keeps. The rules keep more of what they claim (a leaky ReLU, say): only these
are compared."""


@cache
def _program(name: str) -> ExportedProgram:
    load_libraries()
    torch.manual_seed(0)
    module, inputs = CASES[name]
    return torch.export.export(module().eval(), inputs(), strict=False).run_decompositions({})


def preserved_cases() -> Iterator[tuple[str, ExportedProgram]]:
    """The ATen programs by name."""
    for name in CASES:
        yield name, _program(name)


def _kept(partitioner: Any, program: ExportedProgram) -> frozenset[str]:
    ops, keep = partitioner.ops_to_not_decompose(program)
    kept = [
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and node.target in ops and (keep is None or keep(node))
        and node.target.__name__ in KEPT
    ]
    clean(program)
    return frozenset(kept)


def preserved_nodes(rules: Any, program: ExportedProgram) -> frozenset[str]:
    """The nodes that loaded rules keep whole."""
    from apportion.backends.executorch import RulesPartitioner

    return _kept(RulesPartitioner(rules), program)


@cache
def preserved_theirs(name: str, options: Options = ()) -> frozenset[str]:
    """The nodes that the real partitioner keeps whole."""
    return _kept(theirs(options), _program(name))
