"""Ten small models and four rules files, for checks that every reason is there and true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

__all__ = ["MODELS", "RULES", "program"]


class Attention(nn.Module):
    """Scaled dot products by hand, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = (q @ k.transpose(-2, -1)) / 4.0
        scores = scores.masked_fill(self.mask == 0, -1e9)
        return self.norm(x + torch.softmax(scores, -1) @ v)


class Conv(nn.Module):
    """Convolutions of several kinds with batch norm and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.n = nn.BatchNorm2d(8)
        self.c = nn.Conv1d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.n(self.a(x)))
        x = nn.functional.max_pool2d(torch.sigmoid(self.b(x)), 2)
        return self.c(x.flatten(2)).mean(-1)


class Recurrent(nn.Module):
    """A recurrent cell, three steps long."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for step in range(3):
            h = self.cell(x[:, step], h)
        return h


class Indexed(nn.Module):
    """Embeddings, integers, comparisons."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens + 1)
        keep = (tokens > 2).unsqueeze(-1)
        return torch.where(keep, x, torch.zeros_like(x)).sum(1)


class Branches(nn.Module):
    """A branch that depends on data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: torch.relu(y) + torch.erf(y), lambda y: torch.neg(y), (x,))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def _doubles(x: torch.Tensor) -> torch.Tensor:
    y = x.double() * 2.0
    return torch.cat([y.relu(), y.tanh()], -1).float().view(-1).add(1.0, alpha=2.0)


def _several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, indices = torch.topk(x, 2)
    a, b = torch.split(x, [2, 6], -1)
    return torch.relu(values), indices + 1, torch.tanh(a), torch.sigmoid(b)


def _dynamic(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ w)
    return y.reshape(x.shape[0] * 4, -1).tanh().sum(0)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.Hardtanh(), nn.Dropout(), nn.Linear(32, 4))


MODELS: Mapping[str, Callable[[], tuple[nn.Module, tuple[Any, ...], Any]]] = {
    "attention": lambda: (Attention(), (torch.randn(2, 6, 16),), None),
    "conv": lambda: (Conv().eval(), (torch.randn(1, 3, 8, 8),), None),
    "recurrent": lambda: (Recurrent(), (torch.randn(2, 3, 8), torch.randn(2, 8)), None),
    "indexed": lambda: (Indexed(), (torch.randint(0, 15, (2, 5)),), None),
    "branches": lambda: (Branches(), (torch.randn(2, 3),), None),
    "doubles": lambda: (Function(_doubles), (torch.randn(2, 4),), None),
    "several": lambda: (Function(_several), (torch.randn(4, 8),), None),
    "dynamic": lambda: (Function(_dynamic), (torch.randn(4, 8), torch.randn(8, 8)),
                        (({0: Dim("batch", min=2, max=512)}, None),)),
    "mlp": lambda: (_mlp().eval(), (torch.randn(3, 8),), None),
    "residual": lambda: (Function(lambda x, y: (x + y).relu() * torch.erf(x - y) + x), (torch.randn(4), torch.randn(4)),
                         None),
}


@cache
def program(name: str) -> ExportedProgram:
    """A model as an exported program in core ATen."""
    module, args, dynamic = MODELS[name]()
    return torch.export.export(module, args, dynamic_shapes=dynamic).run_decompositions()


RULES: Mapping[str, str] = {
    "strict": """backend "Strict" language 1
let floats = {float32, float16}

contract small(n) {
  require n.numel <= 64          because "the scratch memory holds 64 numbers"
  require n.dtype in floats      because "computes in floating point"
}

rule unary {
  match y = aten.{relu,sigmoid,tanh,neg,erf,gelu,hardtanh}.default(x)
  require x.rank in 2..3         because "works on matrices"
  require small(y)
}

rule binary {
  match y = aten.{add,sub,mul,div}.Tensor(a, b)
  require all(i.dtype == y.dtype for i in y.inputs) because "operands have one type"
  require a is tensor and b is tensor
  require small(y)
  require y.shape[0] <= 128      because "rows are counted in seven bits"
}

rule product {
  match y = aten.{mm,bmm}.default(a, b)
  require b is constant or b.numel <= 16 because "weights are packed ahead of time"
  require y.shape[0] % 2 == 0
}

invariant no_scalars {
  match y = _
  require all(o.rank >= 1 for o in y.outputs) because "no scalars"
}

partition { min_nodes = 2 }
""",
    "patterns": """backend "Patterns" language 1
rule linear {
  match { y = aten.addmm.default(b, x, w)  z = aten.{relu,gelu,hardtanh}.default(y)? }
  require x.numel >= 32          because "small products are not worth a call"
  require not present(z) or z.op == aten.relu.default
}
rule norm {
  match y = aten.native_layer_norm.default(x, shape, w, b)
  require w is constant
  require y[0].rank == 2
}
rule pointwise {
  match y = {aten.{sigmoid,tanh,relu,view}.default, aten.{add,mul}.Tensor}(*xs)
  require y.numel <= 1024
}
partition {
  trim n.op == aten.view.default and all(u.op != aten.relu.default for u in n.users)
       because "a view alone moves nothing"
  reject len(nodes) < 2 and sum(i.nbytes for i in inputs) > 40  because "too much traffic"
}
""",
    "all": """backend "All" language 1
rule everything { match y = _()  require y.op is not none }
invariant floats_only {
  match y = _()
  require all(i.dtype != int64 for i in y.inputs if i is tensor)  because "no 64-bit integers"
  require all(o is static for o in y.outputs)                     because "sizes are fixed ahead of time"
}
""",
    "contested": """backend "Contested" language 1
rule gated "a gate and what it lets through" {
  match { g = aten.sigmoid.default(a)  y = aten.mul.Tensor(g, b) }
}
rule axpy {
  match { p = aten.mul.Tensor(a, b)  y = aten.add.Tensor(p, c) }
}
rule fused {
  match { p = aten.addmm.default(b, x, w)  y = aten.relu.default(p) }
}
rule scores {
  match { p = aten.bmm.default(a, b)  v = aten.view.default(p, _)  y = aten.div.Tensor(v, 4.0) }
}
rule negative {
  match y = aten.neg.default(x)
  given u = aten.cat.default(*many)
}
rule lonely {
  match y = aten.{tanh,relu,erf,clone,gelu}.default(x)
  require len(nodes) > 1 because "a call costs more than it saves"
}
rule columns {
  match y = aten.slice.Tensor(x, dim: 1)
}
partition { max_nodes = 3 }
""",
}
