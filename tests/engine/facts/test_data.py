"""Facts about data: constants' contents, relations, cost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from apportion.engine.facts import (
    GraphFacts,
    ProgramFacts,
    all_zero,
    broadcastable,
    constant_data,
    depends_on,
    flops,
    max_value,
    min_value,
    same_qparams,
)
from apportion.engine.values import Dim, Unknown
from tests.engine.programs import Module, exported

WEIGHT = torch.tensor([[1.0, -2.0], [0.5, 4.0]])


def main(function: Any, *inputs: Any, **kwargs: Any) -> GraphFacts:
    return ProgramFacts.of(exported(function, *inputs, **kwargs)).main


def test_data_of_constants() -> None:
    for state in (WEIGHT, nn.Parameter(WEIGHT)):
        w = main(lambda self, x: x @ self.w, torch.ones(2, 2), w=state).placeholders[0]
        assert torch.equal(constant_data(w), WEIGHT)  # type: ignore[arg-type]
        assert (min_value(w), max_value(w), all_zero(w)) == (-2.0, 4.0, False)
    zeros = main(lambda self, x: x + self.w, torch.ones(2), w=torch.zeros(2, dtype=torch.int32)).placeholders[0]
    assert (min_value(zeros), all_zero(zeros)) == (0, True) and type(min_value(zeros)) is int


def test_what_is_no_constant_has_no_data() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.m.add_(1)
        return x + self.m

    graph = main(function, torch.ones(2), m=torch.zeros(2))
    for value in graph.values.values():
        assert isinstance(constant_data(value), Unknown), value
    assert isinstance(min_value(3), Unknown) and isinstance(all_zero(graph.calls[0]), Unknown)


def test_fake_weights_have_no_data() -> None:
    program = exported(lambda self, x: x @ self.w, torch.ones(2, 2), w=nn.Parameter(WEIGHT))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for name, tensor in list(program.state_dict.items()):
        program.state_dict[name] = mode.from_tensor(tensor)
    w = ProgramFacts.of(program).main.placeholders[0]
    found = min_value(w)
    assert isinstance(found, Unknown) and "fake" in found.reason
    assert isinstance(constant_data(w), Unknown) and w.shape == (2, 2)


def test_creation_ops_are_computed() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            x + torch.arange(2, 4),
            x + torch.full_like(x, 3.0),
            x + torch.ones(2, dtype=torch.float16),
            x + torch.zeros(1 << 17)[:2],
            x + torch.tensor(7.0),
        ]

    graph = main(function, torch.ones(2))
    values = {c.op.base: c for c in graph.calls if c.op is not None and c.op.base != "add"}
    assert (min_value(values["arange"]), max_value(values["arange"])) == (2, 3)
    fulls = [c for c in graph.calls if c.op is not None and c.op.base in ("full", "full_like")]
    sizes = {c.numel: min_value(c) for c in fulls}
    assert sizes[2] in (1, 3.0)
    large = next(c for c in fulls if c.numel == 1 << 17)
    assert isinstance(min_value(large), Unknown) and "too large" in min_value(large).reason
    lifted = values.get("lift_fresh_copy")
    assert lifted is None or max_value(lifted) == 7.0


def test_broadcastable() -> None:
    graph = main(lambda x, y, z: (x + y, z + 1), torch.ones(2, 3), torch.ones(1, 3), torch.ones(4))
    x, y, z = graph.placeholders
    assert broadcastable(x, y) is True and broadcastable(x, z) is False and broadcastable((2, 1), (4, 1, 5)) is True
    dynamic = ({0: torch.export.Dim("n", min=2, max=8)}, None)
    n, fixed = main(lambda x, y: (x + 1, y + 1), torch.ones(4), torch.ones(5), dynamic=(dynamic,)).placeholders
    assert isinstance(broadcastable(n, fixed), Unknown)


def test_depends_on() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.relu(x)
        b = torch.sin(y)
        return torch.topk(a, 1)[0] + b

    graph = main(function, torch.ones(3), torch.ones(3))
    x, y = graph.placeholders
    relu, sin, topk, add = graph.calls
    assert depends_on(add, x) is True and depends_on(add, relu) is True and depends_on(add, sin) is True
    assert depends_on(relu, y) is False and depends_on(sin, relu) is False and depends_on(relu, add) is False
    assert depends_on(add, topk.output(0)) is True and depends_on(add, topk.output(1)) is False
    assert depends_on(relu, relu) is False


def _quantized(scale: float, end: int = 127) -> GraphFacts:
    q = torch.ops.quantized_decomposed

    def function(x: torch.Tensor) -> torch.Tensor:
        y = q.dequantize_per_tensor.default(x, 0.1, 2, -128, 127, torch.int8)
        return q.quantize_per_tensor.default(y[1:], scale, 2, -128, end, torch.int8)

    return main(function, torch.ones(4, dtype=torch.int8))


@pytest.mark.parametrize(("scale", "end", "same"), [(0.1, 127, True), (0.2, 127, False), (0.1, 126, False)])
def test_g5_same_quantization_parameters(scale: float, end: int, same: bool) -> None:
    dequantize, _, quantize = _quantized(scale, end).calls
    assert same_qparams(dequantize, quantize) is same and same_qparams(quantize, dequantize) is same


def test_quantization_parameters_in_tensors() -> None:
    q = torch.ops.quantized_decomposed

    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = q.dequantize_per_channel.default(x, self.s, self.z, 0, -128, 127, torch.int8)
        first = q.quantize_per_channel.default(y, self.s2, self.z, 0, -128, 127, torch.int8)
        second = q.quantize_per_channel.default(y, self.s3, self.z, 0, -128, 127, torch.int8)
        return first + second

    state = {"s": torch.ones(2), "s2": torch.ones(2), "s3": torch.zeros(2), "z": torch.zeros(2, dtype=torch.int64)}
    graph = main(function, torch.ones(2, 3, dtype=torch.int8), **state)
    dequantize, first, second, add = graph.calls
    assert same_qparams(dequantize, first) is True and same_qparams(dequantize, second) is False
    assert isinstance(same_qparams(dequantize, add), Unknown)


CASES = {
    "linear": (lambda x, w: F.linear(x, w), (torch.ones(5, 3), torch.ones(4, 3))),
    "matmul": (lambda x, w: x @ w, (torch.ones(2, 5, 3), torch.ones(2, 3, 4))),
    "conv": (lambda x, w: F.conv2d(x, w, stride=2, groups=2), (torch.ones(2, 4, 8, 8), torch.ones(6, 2, 3, 3))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w), (torch.ones(2, 4, 8, 8), torch.ones(4, 2, 3, 3))),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w), (torch.ones(4), torch.ones(5, 3), torch.ones(3, 4))),
    "relu": (lambda x: torch.relu(x), (torch.ones(5),)),
}


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("decompose", [False, True])
def test_flops_are_torchs(name: str, decompose: bool) -> None:
    function, inputs = CASES[name]
    program = exported(function, *inputs, decompose=decompose)
    with FlopCounterMode(display=False) as counter:
        Module(function)(*inputs)
    total = sum(flops(c) for c in ProgramFacts.of(program).main.calls)  # type: ignore[misc]
    assert total == counter.get_total_flops()


@pytest.mark.parametrize("decompose", [False, True])
def test_flops_of_attention(decompose: bool) -> None:
    q = torch.ones(1, 2, 4, 8)
    graph = main(lambda q: F.scaled_dot_product_attention(q, q, q), q, decompose=decompose)
    assert sum(flops(c) for c in graph.calls) == 2 * (2 * 2 * 4 * 4 * 8)  # type: ignore[misc]


def test_flops_of_symbolic_sizes_are_an_expression() -> None:
    dynamic = ({0: torch.export.Dim("n", min=2, max=8)}, None)
    graph = main(lambda x, w: x @ w, torch.ones(4, 3), torch.ones(3, 5), dynamic=(dynamic,))
    found = flops(graph.calls[-1])
    assert isinstance(found, Dim) and found == graph.placeholders[0].shape[0] * 30  # type: ignore[index]
    assert found.compare("<=", 240) is True
