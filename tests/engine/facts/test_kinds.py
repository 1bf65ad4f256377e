"""Kinds of values, in every form that constants and buffers take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx, nn

from apportion.engine.facts import KINDS, ProgramFacts, Value, is_kind
from apportion.engine.values import Dim, Unknown
from tests.engine.programs import exported


def kinds(argument: Any) -> set[str]:
    return {kind for kind in KINDS if is_kind(argument, kind) is True}


def unknown_kinds(argument: Any) -> set[str]:
    return {kind for kind in KINDS if isinstance(is_kind(argument, kind), Unknown)}


def found(program: Any) -> dict[str, Value]:
    return dict(ProgramFacts.of(program).main.values)


def test_the_list_of_kinds() -> None:
    assert set(KINDS) == set(
        """tensor node none literal int float bool str constant parameter buffer mutable_buffer frozen user_input
        graph_input returned static symbolic unbacked contiguous channels_last claimed""".split()
    )
    assert all(kind.doc for kind in KINDS.values())
    with pytest.raises(KeyError):
        is_kind(1, "constnat")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (None, {"none"}),
        (2, {"literal", "int", "static"}),
        (2.0, {"literal", "float", "static"}),
        (True, {"literal", "bool", "static"}),
        ("same", {"literal", "str", "static"}),
        (torch.int8, {"literal", "static"}),
        ((1, 2), {"literal", "static"}),
    ],
)
def test_literals(argument: Any, expected: set[str]) -> None:
    assert kinds(argument) == expected
    assert not unknown_kinds(argument)


def test_unknown_stays_unknown() -> None:
    assert is_kind(Unknown("why"), "tensor") == Unknown("why")


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("fixed", torch.ones(4))
        self.register_buffer("scratch", torch.ones(4), persistent=False)
        self.register_buffer("direct", torch.ones(4))
        self.register_buffer("sliced", torch.ones(4))
        self.register_buffer("chained", torch.ones(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.direct.add_(x)
        self.sliced[1:3].mul_(2)
        first, _ = torch.split(self.chained.view(-1), 2)
        first.unsqueeze(0).add_(1)
        state = self.fixed + self.scratch + self.direct + self.sliced + self.chained.view(-1)
        return x * self.weight + state + torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("form", ["exported", "decomposed", "module"])
def test_constants_and_buffers(form: str) -> None:
    program: Any = torch.export.export(Stateful(), (torch.ones(4),))
    if form == "decomposed":
        program = program.run_decompositions()
    if form == "module":
        program = program.module(check_guards=False)
    graph = ProgramFacts.of(program).main
    by_target = {}
    for value in graph.values.values():
        if not value.is_call and value not in graph.program.main.modules:
            name = value.name.removeprefix("p_").removeprefix("b_")
            by_target[name] = kinds(value)
    assert {"constant", "parameter", "frozen"} <= by_target["weight"]
    for name in ("fixed", "scratch"):
        assert {"constant", "buffer", "frozen"} <= by_target[name], name
        assert not {"mutable_buffer", "user_input"} & by_target[name], name
    for name in ("direct", "sliced", "chained"):
        assert {"buffer", "mutable_buffer"} <= by_target[name], name
        assert not {"constant", "frozen", "user_input"} & by_target[name], name
    assert {"user_input", "tensor", "graph_input"} <= by_target["x"] and "constant" not in by_target["x"]
    (lifted,) = (k for n, k in by_target.items() if "lifted" in n or "constant" in n)
    assert {"constant", "frozen"} <= lifted


def test_frozen_is_computed_from_constants_alone() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        w = (self.w.t() * 2).relu() + torch.arange(4.0)
        noise, empty = torch.rand(4), torch.empty_like(self.w)
        return x @ w + noise + empty

    graph = ProgramFacts.of(exported(function, torch.ones(4, 4), w=nn.Parameter(torch.ones(4, 4)))).main
    frozen = {c.op.base for c in graph.calls if c.op is not None and is_kind(c, "frozen") is True}
    assert {"permute", "mul", "relu", "arange"} <= frozen
    assert not frozen & {"rand", "empty", "empty_like", "mm", "matmul"}
    assert not any(is_kind(c, "constant") is True for c in graph.calls)


def test_what_is_written_is_not_frozen() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(4)
        y[:2].add_(x[:2])
        return y + x

    graph = ProgramFacts.of(exported(function, torch.ones(4), decompose=False, w=torch.ones(1))).main
    assert [is_kind(c, "frozen") for c in graph.calls if c.op is not None and c.op.base == "zeros"] == [False]


def test_sizes() -> None:
    dynamic = ({0: torch.export.Dim("n", min=2, max=32)},)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.view(x.shape[0] * 4), torch.nonzero(x)

    values = found(exported(function, torch.ones(4, 4), dynamic=(dynamic,)))
    x, view, nonzero = values["args_0"], values["view"], values["nonzero"]
    assert is_kind(x, "symbolic") is True and is_kind(x, "static") is False and is_kind(x, "unbacked") is False
    assert is_kind(nonzero, "unbacked") is True
    size = view.arguments["size"]
    assert is_kind(size, "symbolic") is True and is_kind(size, "literal") is False
    dim = size[0]  # type: ignore[index]
    assert isinstance(dim, Dim) and kinds(dim) == {"int", "symbolic"}
    query = dim.origin
    assert is_kind(query, "int") is True and is_kind(query, "tensor") is False and is_kind(query, "symbolic") is True


def test_layouts() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        last = x.to(memory_format=torch.channels_last)
        return [last, x.transpose(1, 2), last.contiguous(), x[:, :1], x.mean((2, 3))]

    program = exported(function, torch.ones(2, 3, 4, 5), decompose=False)
    for call in ProgramFacts.of(program).main.calls:
        tensor = call.val
        if tensor is None:
            continue
        assert is_kind(call, "contiguous") == tensor.is_contiguous(), call
        expected = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        assert is_kind(call, "channels_last") == expected, call


def test_a_layout_that_depends_on_a_size_is_unknown() -> None:
    dynamic = ({1: torch.export.Dim("n", min=1, max=32)},)
    graph = ProgramFacts.of(exported(lambda x: x.transpose(0, 1) + 0, torch.ones(3, 4), dynamic=(dynamic,))).main
    permuted = graph.calls[0]
    assert permuted.strides == (1, graph.placeholders[0].shape[1])  # type: ignore[index]
    assert isinstance(is_kind(permuted, "contiguous"), Unknown)
    assert is_kind(graph.placeholders[0], "contiguous") is True


def test_nodes_with_several_outputs_are_no_tensor() -> None:
    topk = ProgramFacts.of(exported(lambda x: torch.topk(x, 1), torch.ones(2, 3))).main.calls[0]
    assert is_kind(topk, "tensor") is False and is_kind(topk.output(0), "tensor") is True
    assert is_kind(topk, "node") is True and is_kind(topk.output(1), "returned") is True


def test_claimed_is_what_the_engine_says() -> None:
    graph = ProgramFacts.of(exported(lambda x: torch.relu(x) + 1, torch.ones(2))).main
    graph.claimed.add(graph.calls[0])
    assert [is_kind(c, "claimed") for c in graph.calls] == [True, False]


def test_constants_of_a_graph_module() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(torch.ones(2))
            self.register_buffer("b", torch.ones(2))
            self.register_buffer("m", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.m.view(-1)[:1].add_(x)
            return x + self.p + self.b + self.m

    values = found(fx.symbolic_trace(Plain()))
    assert {"constant", "parameter"} <= kinds(values["p"])
    assert {"constant", "buffer"} <= kinds(values["b"]) and "mutable_buffer" not in kinds(values["b"])
    assert {"buffer", "mutable_buffer"} <= kinds(values["m"]) and "constant" not in kinds(values["m"])
