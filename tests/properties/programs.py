"""Random PyTorch programs, as exported programs and as FX graphs.

A program is made from a seed: a module whose forward runs a list of steps drawn at random, each tried eagerly while it
is drawn, so that every program runs. The same seed gives the same program in every process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["Program", "Step", "draw_program", "exported", "graph_module"]

Run = Callable[["RandomModule", Sequence[Tensor]], Any]
BATCH = 6


@frozen
class Step:
    """One step: its name, the places of the values it takes, and what it does with them."""

    name: str
    takes: tuple[int, ...]
    run: Run = field(eq=False, repr=False)


class RandomModule(nn.Module):
    """Runs steps over a growing list of values: first the inputs, then parameters and buffers, then results."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        for name, shape in (("w0", (4, 4)), ("w1", (4,)), ("w2", (5, 4))):
            self.register_parameter(name, nn.Parameter(torch.randn(shape, generator=generator) * 0.5))
        self.register_buffer("b0", torch.randn(4, generator=generator))
        self.register_buffer("b1", torch.randn(5, 4, generator=generator), persistent=False)
        for name in ("state0", "state1"):
            self.register_buffer(name, torch.zeros(4))
        self.constant = torch.arange(4.0)
        self.steps: list[Step] = []
        self.returns: Callable[[list[Tensor]], Any] = tuple

    def constants(self) -> list[Tensor]:
        """The parameters, buffers and constants that steps may take."""
        return [self.w0, self.w1, self.w2, self.b0, self.b1, self.state0, self.state1, self.constant]

    def forward(self, *inputs: Tensor) -> Any:
        values: list[Any] = [*inputs, *self.constants()]
        for step in self.steps:
            made = step.run(self, [values[place] for place in step.takes])
            values.extend(made if isinstance(made, (tuple, list)) else [made])
        return self.returns(values)


@frozen
class Program:
    """A program drawn from `seed`: a fresh `module()` and fresh `inputs(call)` each time they are asked for."""

    seed: int
    shapes: tuple[tuple[int, ...], ...]
    dynamic: bool
    steps: tuple[Step, ...]
    returned: tuple[Any, ...]

    def module(self) -> RandomModule:
        """The module, with its buffers as they are before the first call."""
        module = RandomModule(self.seed).eval()
        module.steps = list(self.steps)
        structure = self.returned
        module.returns = lambda values: _pick(structure, values)
        return module

    def inputs(self, call: int = 0, batch: int = BATCH) -> tuple[Tensor, ...]:
        """The inputs of a call; where the program is dynamic `batch` may be another."""
        generator = torch.Generator().manual_seed(1000 * self.seed + call)
        sizes = [(batch, *shape[1:]) if self.dynamic and shape else shape for shape in self.shapes]
        return tuple(torch.randn(size, generator=generator) for size in sizes)

    def describe(self) -> str:
        """Its steps, for the message of a failed test."""
        first = len(self.shapes)
        lines = [f"seed {self.seed}, inputs {self.shapes}, dynamic {self.dynamic}, constants from v{first}"]
        lines += [f"  {step.name}({', '.join(f'v{place}' for place in step.takes)})" for step in self.steps]
        return "\n".join([*lines, f"  return {self.returned}"])


def _pick(structure: Any, values: Sequence[Tensor]) -> Any:
    if isinstance(structure, int):
        return values[structure]
    if isinstance(structure, tuple):
        return tuple(_pick(item, values) for item in structure)
    if isinstance(structure, dict):
        return {key: _pick(item, values) for key, item in structure.items()}
    return None


# --- the steps ---------------------------------------------------------------------------------------------------


@frozen
class Kind:
    """A kind of step: how likely it is, how many values it takes, and how one is drawn.

    `draw` gives the name and the action, or None where it does not suit the values. `group` is what a caller may
    ask to leave out.
    """

    weight: int
    takes: int
    draw: Callable[[random.Random, Sequence[Tensor]], tuple[str, Run] | None]
    group: str = "plain"


def _unary(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    name = rng.choice(["relu", "sigmoid", "tanh", "neg", "abs", "sin", "square", "gelu", "silu", "hardtanh", "clone"])
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "square": lambda x: torch.tanh(x) * x,
        "gelu": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
        "hardtanh": lambda x: torch.nn.functional.hardtanh(x, -1.0, rng_high),
    }
    rng_high = rng.choice([1.0, 6.0])
    function = functions.get(name) or getattr(torch, name)
    return name, lambda m, v: function(v[0])


def _binary(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    name = rng.choice(["add", "sub", "mul", "maximum", "minimum", "add_alpha", "div", "where", "same"])
    if name == "add_alpha":
        return name, lambda m, v: torch.add(v[0], v[1], alpha=2)
    if name == "div":
        return name, lambda m, v: v[0] / (v[1].abs() + 1)
    if name == "where":
        return name, lambda m, v: torch.where(v[0] > v[1], v[0], v[1] * 0.5)
    if name == "same":
        return name, lambda m, v: v[0] * v[0]
    function = getattr(torch, name)
    return name, lambda m, v: function(v[0], v[1])


def _scalar(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    number = rng.choice([2, 0.5, -1.0, 1])
    name = rng.choice(["add", "mul", "sub", "rsub", "clamp", "gt"])
    if name == "rsub":
        return f"{number} -", lambda m, v: number - v[0]
    if name == "clamp":
        return "clamp", lambda m, v: v[0].clamp(-2, 2)
    if name == "gt":
        return f"> {number}", lambda m, v: (v[0] > number).to(v[0].dtype)
    function = getattr(torch, name)
    return f"{name} {number}", lambda m, v: function(v[0], number)


def _matrix(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if values[0].dim() < 1 or values[0].shape[-1] != 4:
        return None
    name = rng.choice(["linear", "linear_bias", "matmul", "linear_wide", "addmm"])
    functional = torch.nn.functional
    if name == "linear":
        return name, lambda m, v: functional.linear(v[0], m.w0)
    if name == "linear_bias":
        return name, lambda m, v: functional.linear(v[0], m.w0, m.w1)
    if name == "linear_wide":
        return name, lambda m, v: functional.linear(v[0], m.w2)
    if name == "addmm":
        return (name, lambda m, v: torch.addmm(m.w1, v[0], m.w0.t())) if values[0].dim() == 2 else None
    return name, lambda m, v: v[0] @ m.w0


def _product(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    return "matmul", lambda m, v: v[0] @ v[1].transpose(-1, -2)


def _view(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    rank = values[0].dim()
    if not rank:
        return "unsqueeze", lambda m, v: v[0].unsqueeze(0)
    dim = rng.randrange(-rank, rank)
    order = list(range(rank))
    rng.shuffle(order)
    options: dict[str, Run] = {
        "flatten": lambda m, v: v[0].reshape(-1),
        "rows": lambda m, v: v[0].reshape(v[0].shape[0], -1),
        "transpose": lambda m, v: v[0].transpose(dim, -1),
        "permute": lambda m, v: v[0].permute(order),
        "unsqueeze": lambda m, v: v[0].unsqueeze(dim),
        "squeeze": lambda m, v: v[0].unsqueeze(0).squeeze(0),
        "slice": lambda m, v: v[0].narrow(dim, 0, max(1, v[0].shape[dim] // 2)) if dim % rank else v[0][..., :2],
        "select": lambda m, v: v[0].select(dim, 0),
        "expand": lambda m, v: v[0].unsqueeze(0).expand(2, *v[0].shape),
        "contiguous": lambda m, v: v[0].contiguous(),
    }
    name = rng.choice(list(options))
    return name, options[name]


def _join(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    count = rng.choice([2, 2, 3])
    if rng.random() < 0.5:
        return "cat", lambda m, v: torch.cat([v[0], v[1], v[0]][:count], dim=-1)
    return "stack", lambda m, v: torch.stack([v[0], v[1]], dim=0)


def _several(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if not values[0].dim() or values[0].shape[-1] < 2:
        return None
    width = values[0].shape[-1]
    options: dict[str, Run] = {
        "topk": lambda m, v: torch.topk(v[0], 2, dim=-1),
        "max": lambda m, v: torch.max(v[0], dim=-1),
        "split": lambda m, v: torch.split(v[0], 1 + width // 2, dim=-1),
        "chunk": lambda m, v: torch.chunk(v[0], 2, dim=-1),
        "sort": lambda m, v: torch.sort(v[0], dim=-1),
        "var_mean": lambda m, v: torch.var_mean(v[0], dim=-1, correction=0),
        "unbind": lambda m, v: v[0].narrow(-1, 0, 2).unbind(-1),
        "layer_norm": lambda m, v: torch.native_layer_norm(v[0], [v[0].shape[-1]], None, None, 1e-5)[:2],
        "layer_norm_all": lambda m, v: torch.native_layer_norm(v[0], [v[0].shape[-1]], None, None, 1e-5),
    }
    name = rng.choice(list(options))
    return name, options[name]


def _reduce(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if not values[0].dim():
        return None
    keep = rng.random() < 0.5
    options: dict[str, Run] = {
        "sum": lambda m, v: v[0].sum(-1, keepdim=keep),
        "mean": lambda m, v: v[0].mean(-1, keepdim=keep),
        "amax": lambda m, v: v[0].amax(-1, keepdim=keep),
        "softmax": lambda m, v: v[0].softmax(-1),
        "layer_norm": lambda m, v: torch.nn.functional.layer_norm(v[0], v[0].shape[-1:]),
        "cumsum": lambda m, v: v[0].cumsum(-1),
    }
    name = rng.choice(list(options))
    return name, options[name]


def _types(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    kind = rng.choice([torch.int64, torch.float64, torch.int32])
    return f"through {kind}", lambda m, v: (v[0] * 4).to(kind).to(torch.float32)


def _sizes(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if not values[0].dim():
        return None
    if rng.random() < 0.5:
        return "times size", lambda m, v: v[0] * v[0].shape[0]
    return "ones of size", lambda m, v: v[0] + torch.ones(v[0].shape)


def _create(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if rng.random() < 0.5:
        return "full", lambda m, v: v[0] + torch.full((4,), 0.5).sum()
    return "constants", lambda m, v: m.w1 * m.b0 + m.constant


def _write_buffer(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    name = rng.choice(["state0", "state1"])
    options: dict[str, Run] = {
        "add_": lambda m, v: getattr(m, name).add_(1.0) * 1.0,
        "copy_": lambda m, v: getattr(m, name).copy_(torch.tanh(v[0]).mean().expand(4)) + 0.0,
        "slice": lambda m, v: getattr(m, name)[1:3].mul_(0.5).add_(torch.tanh(v[0]).mean()) + 1.0,
        "read around": lambda m, v: (getattr(m, name) * 2, getattr(m, name).add_(2.0).sum(), getattr(m, name) * 2),
        "fill": lambda m, v: getattr(m, name).fill_(3.0).neg(),
    }
    kind = rng.choice(list(options))
    return f"{name} {kind}", options[kind]


def _write_value(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    def through_view(m: RandomModule, v: Sequence[Tensor]) -> Any:
        fresh = v[0] * 1.0
        before = fresh + 1
        fresh.reshape(-1)[:1].add_(5.0)
        return fresh, before, fresh * 2

    def twice(m: RandomModule, v: Sequence[Tensor]) -> Any:
        fresh = v[0].clone()
        fresh.mul_(0.5)
        middle = fresh + v[0]
        fresh.sub_(1.0)
        return middle, fresh

    return rng.choice([("view written", through_view), ("written twice", twice)])


def _write_input(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    return rng.choice([
        ("mul_", lambda m, v: v[0].mul_(0.5) + 0.0),
        ("add_ scalar", lambda m, v: v[0].add_(1.0).sum()),
        ("copy_", lambda m, v: v[0].copy_(torch.sin(v[0]))),
    ])


def _chance(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    return rng.choice([
        ("rand_like", lambda m, v: v[0] + torch.rand_like(v[0])),
        ("dropout", lambda m, v: torch.nn.functional.dropout(v[0], 0.5, True)),
        ("bernoulli", lambda m, v: torch.bernoulli(torch.sigmoid(v[0]))),
        ("randn", lambda m, v: v[0] * torch.randn(1)),
    ])


def _demand(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    def assert_async(m: RandomModule, v: Sequence[Tensor]) -> Any:
        torch.ops.aten._assert_async.msg((v[0].abs() < 1e30).all(), "a value is too big")
        return v[0] + 1

    def counted(m: RandomModule, v: Sequence[Tensor]) -> Any:
        number = (v[0] > 0).sum().item()
        torch._check(number >= 0)
        return v[0] * number

    return rng.choice([("assert", assert_async), ("item", counted)])


def _branches(rng: random.Random, values: Sequence[Tensor]) -> tuple[str, Run] | None:
    if values[0].shape != values[1].shape:
        return None
    threshold = rng.choice([-1e9, 0.0, 1e9])
    nested = rng.random() < 0.3
    several = rng.random() < 0.3

    def inner(x: Tensor) -> Tensor:
        if nested:
            return torch.cond(x.mean() > 0, lambda a: torch.relu(a) * 2, lambda a: torch.sin(a) + 1, (x,))
        return torch.relu(x) * 2

    def chosen(x: Tensor, y: Tensor) -> Any:
        return (inner(x) + y, torch.tanh(y)) if several else torch.sigmoid(inner(x) + y)

    def other(x: Tensor, y: Tensor) -> Any:
        return (torch.tanh(x) * y, torch.neg(y)) if several else torch.tanh(x) * y - 1

    return "cond", lambda m, v: torch.cond(v[0].sum() > threshold, chosen, other, (v[0], v[1]))


_KINDS: tuple[Kind, ...] = (
    Kind(20, 1, _unary),
    Kind(20, 2, _binary),
    Kind(8, 1, _scalar),
    Kind(12, 1, _matrix),
    Kind(3, 2, _product),
    Kind(12, 1, _view),
    Kind(8, 2, _join),
    Kind(10, 1, _several),
    Kind(8, 1, _reduce),
    Kind(3, 1, _types),
    Kind(3, 1, _sizes),
    Kind(3, 1, _create),
    Kind(5, 1, _write_buffer, "writes"),
    Kind(3, 1, _write_value, "writes"),
    Kind(2, 1, _write_input, "writes"),
    Kind(4, 1, _chance, "random"),
    Kind(3, 1, _demand, "asserts"),
    Kind(4, 2, _branches, "control flow"),
)

_SHAPES = ((BATCH, 4), (BATCH, 4), (BATCH, 5, 4), (BATCH, 3, 4), (BATCH, 5))


def draw_program(seed: int, largest: int = 18, without: frozenset[str] = frozenset()) -> Program:
    """The program of a seed: up to `largest` steps, none of the groups in `without`.

    Groups are "writes", "random", "asserts", "control flow".
    """
    rng = random.Random(seed)
    shapes = tuple(rng.choice(_SHAPES) for _ in range(rng.choice([1, 2, 2, 3])))
    dynamic = rng.random() < 0.3
    draft = Program(seed, shapes, dynamic, (), ())
    module = draft.module()
    inputs = [value.clone() for value in draft.inputs()]
    values: list[Any] = [*inputs, *module.constants()]
    kinds = [kind for kind in _KINDS if kind.group not in without]
    steps: list[Step] = []
    with torch.no_grad(), torch.random.fork_rng():
        for _ in range(8 * largest):
            if len(steps) >= rng.randint(largest // 3, largest):
                break
            step = _draw_step(rng, kinds, values, len(inputs), module)
            if step is not None:
                steps.append(step[0])
                values.extend(step[1])
    return Program(seed, shapes, dynamic, tuple(steps), _draw_returned(rng, values, len(inputs)))


def _draw_step(
    rng: random.Random, kinds: Sequence[Kind], values: list[Any], inputs: int, module: RandomModule
) -> tuple[Step, list[Tensor]] | None:
    kind = rng.choices(kinds, [kind.weight for kind in kinds])[0]
    takes = tuple(_draw_place(rng, len(values)) for _ in range(kind.takes))
    if kind.draw is _write_input:
        takes = (rng.randrange(inputs),)
    taken = [values[place] for place in takes]
    if any(value.dtype != torch.float32 or not 0 < value.numel() <= 2000 for value in taken):
        return None
    drawn = kind.draw(rng, taken)
    if drawn is None:
        return None
    try:
        made = drawn[1](module, taken)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    if not all(bool(torch.isfinite(value.double()).all()) and value.abs().max() < 1e6 for value in results):
        return None
    return Step(drawn[0], takes, drawn[1]), results


def _draw_place(rng: random.Random, count: int) -> int:
    """Mostly one of the newest values."""
    return count - 1 - min(int(rng.expovariate(0.2)), count - 1)


def _draw_returned(rng: random.Random, values: Sequence[Any], inputs: int) -> tuple[Any, ...]:
    last = len(values) - 1
    picked: list[Any] = [last]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        picked.append(_draw_place(rng, len(values)))
    if rng.random() < 0.2:
        picked.append(picked[0])  # the same value twice
    if rng.random() < 0.1:
        picked.append(rng.randrange(inputs))  # an input as it is (or as it was changed)
    if rng.random() < 0.1:
        picked.append(None)
    if rng.random() < 0.15:
        return ({"first": picked[0], "rest": tuple(picked[1:])},)
    return tuple(picked)


# --- as PyTorch programs ------------------------------------------------------------------------------------------


def exported(program: Program, decompose: bool | None = None, dead: bool | None = None) -> ExportedProgram:
    """The program exported; decomposed and with dead code as its seed says, or as told."""
    rng = random.Random(program.seed + 1)
    as_seed_says, dead_as_seed_says = rng.random() < 0.6, rng.random() < 0.2
    shapes = tuple({0: Dim.AUTO} for _ in program.shapes) if program.dynamic else None
    with torch.no_grad(), torch.random.fork_rng():
        made = export(program.module(), program.inputs(), dynamic_shapes=(shapes,) if shapes else None, strict=False)
        if as_seed_says if decompose is None else decompose:
            made = made.run_decompositions()
    if dead_as_seed_says if dead is None else dead:
        _add_dead_code(rng, made.graph_module)
    return made


def graph_module(program: Program) -> tuple[torch.fx.GraphModule, str]:
    """The program as an FX graph with values in its metadata, and how it was made."""
    rng = random.Random(program.seed + 2)
    cond = any(step.name == "cond" for step in program.steps)
    way = rng.choice(["unlifted", "unlifted", "traced"])
    if way == "traced" and not cond and not any(step.name == "item" for step in program.steps):
        module, inputs = program.module(), program.inputs()
        mode = rng.choice(["fake", "symbolic"])
        with torch.no_grad(), torch.random.fork_rng():
            made = make_fx(lambda *values: _flat(module(*values)), tracing_mode=mode,
                           _allow_non_fake_inputs=True)(*inputs)
    else:
        way, made = "unlifted", exported(program, dead=False).module(check_guards=False)
    if rng.random() < 0.4:
        _add_dead_code(rng, made)
    return made, way


def _flat(returned: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(returned)


def _add_dead_code(rng: random.Random, module: torch.fx.GraphModule) -> None:
    """Nodes that nobody uses, in a chain of two; their values in metadata."""
    graph = module.graph
    tensors = [node for node in graph.nodes if node.op == "call_function" and isinstance(node.meta.get("val"), Tensor)
               and node.meta["val"].is_floating_point()]
    if not tensors:
        return
    source = rng.choice(tensors)
    with graph.inserting_before(next(iter(reversed(graph.nodes)))):
        for target in (torch.ops.aten.relu.default, torch.ops.aten.sigmoid.default)[:rng.choice([1, 2])]:
            node = graph.call_function(target, (source,))
            with source.meta["val"].fake_mode:
                node.meta["val"] = target(source.meta["val"])
            source = node
    module.recompile()
