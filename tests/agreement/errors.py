"""Where ExecuTorch's XNNPACK partitioner is wrong, each shown by a minimal program.

`ERRORS` names the nodes in question; `test_errors.py` runs each program and shows the error, so that an entry which a
newer ExecuTorch has put right fails there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from attrs import frozen
from torch import fx, nn
from torch.export import ExportedProgram

from tests.agreement.edge import load_libraries

__all__ = ["ERRORS", "TheirError", "error_of_theirs"]


@frozen
class TheirError:
    """`concerns` tells the nodes, `shown` how the error shows: theirs "refuses" a program that lowers and runs right
    once it is delegated, "fails" in lowering what it claimed, or computes "wrong" numbers. `module` and `inputs` are
    the minimal program; `runs` is False where the runtime has no kernel for what stays behind."""

    name: str
    shown: str
    explanation: str
    concerns: Callable[[fx.Node, ExportedProgram], bool]
    module: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    runs: bool = True


_AFFINE = ("quantize_affine.default", "dequantize_affine.default")


def name_of(node: fx.Node) -> str:
    """The op's name without its namespace."""
    return str(getattr(node.target, "__name__", node.target)).partition(".")[2]


class _Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])


class _Max(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, 2)[0]


class _MaxChannels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, 1, keepdim=True)[0]


class _Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 4))
        self.bias = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight, beta=2, alpha=3)


class _Affine(nn.Module):
    """A dynamically quantized linear whose weight has one scale."""

    def __init__(self) -> None:
        super().__init__()
        load_libraries()
        self.register_buffer("weight", torch.randint(-8, 7, (4, 8), dtype=torch.int8))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("zero", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.torchao
        scale, zero = ops.choose_qparams_affine(x, "ASYMMETRIC", [1, 8], torch.int8, -128, 127)
        q = ops.quantize_affine(x, [1, 8], scale, zero, torch.int8, -128, 127)
        d = ops.dequantize_affine(q, [1, 8], scale, zero, torch.int8, -128, 127)
        w = ops.dequantize_affine(self.weight, [4, 8], self.scale, self.zero, torch.int8, -128, 127)
        return nn.functional.linear(d, w)


class _Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.norm.running_mean = torch.rand(8)
        self.norm.running_var = torch.rand(8) + 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))  # type: ignore[no-any-return]


class _Fed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.scale = nn.Parameter(torch.ones(4))
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return nn.functional.batch_norm(self.conv(x), mean, variance, self.scale, self.shift)


def _repeated_cat(node: fx.Node, program: ExportedProgram) -> bool:
    if name_of(node) != "cat.default":
        return False
    tensors = node.args[0]
    return isinstance(tensors, (list, tuple)) and len(tensors) >= 2 and len(set(tensors)) < 2


def _call_of(name: str, node: fx.Node) -> fx.Node | None:
    """The call of the op `name` that the node is, or takes an element of."""
    if getattr(node.target, "__name__", "") == "getitem" and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node if name_of(node) == name else None


def _lost_dim(node: fx.Node, program: ExportedProgram) -> bool:
    found = _call_of("max.dim", node)
    return found is not None and not (len(found.args) > 2 and found.args[2])


def _other_dim(node: fx.Node, program: ExportedProgram) -> bool:
    found = _call_of("max.dim", node)
    return found is not None and not _lost_dim(node, program) and found.args[1] not in (2, 3)


def _scaled_addmm(node: fx.Node, program: ExportedProgram) -> bool:
    scales = (node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1))
    return name_of(node) == "addmm.default" and scales != (1, 1)


def _affine(node: fx.Node, program: ExportedProgram) -> fx.Node | None:
    """An affine quantization that is not understood, in the quantized op that the node is part of."""
    near = {node}
    for _ in range(6):  # from the numbers chosen for the activation to the weight
        near |= {n for one in near for n in (*one.all_input_nodes, *one.users) if n.op == "call_function"}
    return next((one for one in near if name_of(one) in _AFFINE and not _understood(one, program)), None)


def _understood(node: fx.Node, program: ExportedProgram) -> bool:
    from executorch.backends.xnnpack.utils.quant_utils import is_dynamic_qdq, is_per_channel_group, is_per_token

    if node.args[2].meta["val"].dim() == 0:  # type: ignore[union-attr]  # one number for all: their helpers raise
        return False
    if is_dynamic_qdq(node):
        return bool(is_per_token(node))
    source = node.all_input_nodes[0]
    constant = source.op == "placeholder" and source.name not in program.graph_signature.user_inputs
    return bool(is_per_channel_group(node)) and constant


def _other_affine(node: fx.Node, program: ExportedProgram) -> bool:
    return _affine(node, program) is not None


def _folded_norm(node: fx.Node, program: ExportedProgram) -> bool:
    found = _call_of("_native_batch_norm_legit_no_training.default", node)
    source = found.args[0] if found is not None else None
    if not isinstance(source, fx.Node) or name_of(source) != "linear.default":
        return False
    return source.meta["val"].dim() != 2


def _fed_norm(node: fx.Node, program: ExportedProgram) -> bool:
    found = _call_of("_native_batch_norm_legit_no_training.default", node)
    inputs = program.graph_signature.user_inputs
    return found is not None and any(isinstance(p, fx.Node) and p.name in inputs for p in found.args[1:5])


ERRORS: tuple[TheirError, ...] = (
    TheirError(
        "a tensor concatenated with itself",
        "refuses",
        "operands are counted without repeats, so cat([x, x]) seems to have one",
        _repeated_cat,
        _Twice,
        lambda: (torch.randn(2, 3),),
    ),
    TheirError(
        "max.dim that loses its dim",
        "fails",
        "claimed, but its compiler lowers the form with keepdim only",
        _lost_dim,
        _Max,
        lambda: (torch.randn(1, 3, 4, 5),),
    ),
    TheirError(
        "max.dim over another dim than height and width",
        "fails",
        "claimed, but its compiler pools over dims 2 and 3 only",
        _other_dim,
        _MaxChannels,
        lambda: (torch.randn(1, 3, 4, 5),),
    ),
    TheirError(
        "addmm with alpha or beta",
        "wrong",
        "claimed, but its compiler drops both factors",
        _scaled_addmm,
        _Scaled,
        lambda: (torch.randn(2, 8),),
    ),
    TheirError(
        "affine quantization that is neither for each token on the fly nor for each channel or group of a weight",
        "fails",
        "claimed as part of a quantized op, but its compiler knows those two only",
        _other_affine,
        _Affine,
        lambda: (torch.randn(2, 8),),
        runs=False,
    ),
    TheirError(
        "batch norm over the second of more than two dims, after a linear",
        "wrong",
        "folded into the linear as if it normalised the last dim",
        _folded_norm,
        _Normed,
        lambda: (torch.randn(2, 8, 8),),
    ),
    TheirError(
        "batch norm over statistics that are inputs",
        "fails",
        "claimed after a convolution or linear, whose weights it is folded into ahead of time, though they come late",
        _fed_norm,
        _Fed,
        lambda: (torch.randn(1, 4, 5, 5), torch.zeros(4), torch.ones(4)),
    ),
)


def error_of_theirs(node: fx.Node, program: ExportedProgram) -> str:
    """The name of the error that explains a different verdict on this node; empty where there is none."""
    return next((error.name for error in ERRORS if error.concerns(node, program)), "")
