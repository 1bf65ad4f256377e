"""Reading facts adds no guard and changes nothing; it takes time linear in the nodes."""

from __future__ import annotations

import inspect
import time
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim as Size

from apportion.engine.facts import KINDS, ProgramFacts, Value, broadcastable, depends_on, flops, is_kind
from apportion.engine.values import COMPARISONS, k_compare

READ = [
    name
    for name, member in inspect.getmembers(Value)
    if not name.startswith("_") and not inspect.isfunction(member) and not inspect.ismethod(member)
]


def read_everything(program: Any) -> int:
    count = 0
    for graph in ProgramFacts.of(program).graphs:
        values = list(graph.values.values())
        for value in values:
            for name in READ:
                getattr(value, name)
            for kind in KINDS:
                is_kind(value, kind)
            for argument in value.arguments.values():
                for kind in KINDS:
                    is_kind(argument, kind)
            flops(value)
            for op in COMPARISONS:
                k_compare(op, value.numel, 64)
                for other in values[:4]:
                    k_compare(op, value.shape, other.shape)
                    broadcastable(value, other)
                    depends_on(value, other)
            count += 1
    return count


class Dynamic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.relu(self.conv(x).to(memory_format=torch.channels_last))
        n = y.nonzero()
        w = torch.topk(self.linear(z.mean((-1, -2))), 2)[0]
        v = z.permute(0, 2, 3, 1).reshape(x.shape[0], -1).t()
        c = torch.cond(w.sum() > 0, lambda w: w + 1, lambda w: w * 2, (w,))
        return c, v, n, F(z), torch.cat([w, w])


def F(z: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(z, 2)


def test_reading_adds_no_guard() -> None:
    sizes = ({0: Size("n", min=1, max=64), 2: Size("h", min=8, max=64), 3: Size("w", min=8)}, {0: Size("m", min=1)})
    for decompose in (False, True):
        program = torch.export.export(Dynamic(), (torch.ones(2, 3, 16, 16), torch.ones(6)), dynamic_shapes=_auto(sizes))
        if decompose:
            program = program.run_decompositions()
        environment = next(
            n.meta["val"].fake_mode.shape_env
            for n in program.graph.nodes
            if isinstance(n.meta.get("val"), torch.Tensor)
        )
        before = _state(program, environment)
        assert read_everything(program) > 15
        assert _state(program, environment) == before


def _auto(sizes: Any) -> Any:
    """All dims dynamic with whatever relations the model needs."""
    return tuple(dict.fromkeys(each, Size.AUTO) for each in sizes)


def _state(program: Any, environment: Any) -> tuple[Any, ...]:
    return (
        [str(g.expr) for g in environment.guards],
        {str(k): [str(a.expr) for a in v] for k, v in environment.deferred_runtime_asserts.items()},
        {str(k): str(v) for k, v in environment.var_to_range.items()},
        {str(k): str(v) for k, v in environment.replacements.items()},
        environment.num_deferred_runtime_asserts,
        dict(program.range_constraints),
        program.graph_module.print_readable(print_output=False),
        [(n.name, sorted(n.meta), [id(v) for _, v in sorted(n.meta.items())]) for n in program.graph.nodes],
    )


def test_ten_thousand_nodes_are_fast() -> None:
    graph = fx.Graph()
    tensor = torch.empty(4, 4, device="meta")
    current = graph.placeholder("x")
    current.meta["val"] = tensor
    for _ in range(5000):
        relu = graph.call_function(torch.ops.aten.relu.default, (current,))
        current = graph.call_function(torch.ops.aten.add.Tensor, (relu, current))
        relu.meta["val"] = current.meta["val"] = tensor
    graph.output(current)
    module = fx.GraphModule(nn.Module(), graph)
    best = min(_time(module) for _ in range(5))
    assert best < 0.1, f"{best:.3f} s for 10,000 nodes"
    facts = ProgramFacts.of(module).main
    # Long chains, without recursion.
    assert is_kind(facts.calls[-1], "frozen") is False and depends_on(facts.calls[-1], facts.placeholders[0]) is True


def _time(module: fx.GraphModule) -> float:
    start = time.perf_counter()
    ProgramFacts.of(module)
    return time.perf_counter() - start
