"""Small programs in which a delegate can go wrong, for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from attrs import frozen
from torch import nn
from torch.export import Dim

__all__ = [
    "HAZARDS",
    "Branches",
    "Counter",
    "Hazard",
    "Loops",
    "OneWeight",
    "Repeats",
    "SeveralOutputs",
    "Sizes",
    "WritesInput",
]


class Counter(nn.Module):
    """Reads a buffer, writes it, and returns what depends on both."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.b.add_(x)
        return x + self.b


class WritesInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sin()


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x.relu()
        return y, (y + 1, y), [y, x]


class OneWeight(nn.Module):
    """Four uses of one weight, with an op between them that nobody takes."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.sin(x @ self.w)
        return x


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(v: torch.Tensor) -> torch.Tensor:
            return torch.cond(v.mean() > 1, lambda t: t.relu() + 1, lambda t: t.sin() - 1, (v,))

        return torch.cond(x.sum() > 0, lambda v: inner(self.linear(v)), lambda v: v.relu() * 2, (x,)) + 1


class Loops(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops import map as map_
        from torch._higher_order_ops import scan, while_loop

        def body(i: torch.Tensor, v: torch.Tensor) -> Any:
            return i + 1, v.sin() * 2

        _, looped = while_loop(lambda i, v: i < 3, body, (torch.zeros((), dtype=torch.int64), x))
        last, all_of = scan(lambda c, v: (c + v, c * v), x[0], x)
        return looped, last, all_of, map_(lambda v: v.relu() + 1, x)


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        n = x.shape[0]
        return x.relu().view(n * 2, -1).sin().reshape(n, 4) + n, y.repeat(n, 1), n


class SeveralOutputs(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        a, b = x.split(2, dim=-1)
        values, places = torch.max(b, dim=-1)
        return a.relu() + 1, values, places


@frozen(eq=False)
class Hazard:
    """One of them: the module, the inputs of its calls, and which dims are dynamic, as `torch.export` takes it."""

    module: type[nn.Module]
    calls: Callable[[], list[tuple[Any, ...]]]
    dynamic: Any = None


def _floats(*shape: int) -> Callable[[], list[tuple[Any, ...]]]:
    return lambda: [(torch.randn(shape),), (torch.randn(shape),)]


def _signs() -> list[tuple[Any, ...]]:
    return [(torch.ones(2, 4),), (-torch.ones(2, 4),), (9 * torch.randn(2, 4),)]


def _sizes() -> list[tuple[Any, ...]]:
    return [(torch.randn(n, 4), torch.randn(1, 2)) for n in (3, 2, 7)]


HAZARDS: Final[Mapping[str, Hazard]] = {
    "written buffer": Hazard(Counter, _floats(3)),
    "written input": Hazard(WritesInput, _floats(3)),
    "returned twice": Hazard(Repeats, _floats(3)),
    "shared weight": Hazard(OneWeight, _floats(2, 4)),
    "branches": Hazard(Branches, _signs),
    "loops": Hazard(Loops, _floats(3, 4)),
    "sizes": Hazard(Sizes, _sizes, ({0: Dim("n", min=2, max=9)}, None)),
    "several outputs": Hazard(SeveralOutputs, _floats(3, 4)),
}
