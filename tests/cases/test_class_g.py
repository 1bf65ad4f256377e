"""Public reports about quantized patterns, by their ids."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from apportion import engine
from tests.engine.programs import header, tags

QD = torch.ops.quantized_decomposed
ATEN = torch.ops.aten


class Builder:
    """A graph written by hand, with metadata from PyTorch's own kernels."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.mode = FakeTensorMode()
        self.root = torch.nn.Module()

    def input(self, *shape: int, dtype: torch.dtype = torch.float32) -> fx.Node:
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        return self._typed(node, shape, dtype)

    def constant(self, *shape: int, dtype: torch.dtype = torch.float32) -> fx.Node:
        name = f"c{len(self.graph.nodes)}"
        self.root.register_buffer(name, torch.zeros(shape, dtype=dtype))
        return self._typed(self.graph.get_attr(name), shape, dtype)

    def _typed(self, node: fx.Node, shape, dtype) -> fx.Node:
        with self.mode:
            node.meta["val"] = torch.empty(shape, dtype=dtype)
        return node

    def call(self, op, *args) -> fx.Node:
        node = self.graph.call_function(op, args)
        with self.mode:
            node.meta["val"] = op(
                *fx.node.map_aggregate(args, lambda a: a.meta["val"] if isinstance(a, fx.Node) else a)
            )
        return node

    def dq(self, x: fx.Node, scale: float = 0.1, zero: int = 0, dtype: torch.dtype = torch.int8) -> fx.Node:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return self.call(QD.dequantize_per_tensor.default, x, scale, zero, low, high, dtype)

    def q(self, x: fx.Node, scale: float = 0.1, zero: int = 0) -> fx.Node:
        return self.call(QD.quantize_per_tensor.default, x, scale, zero, -128, 127, torch.int8)

    def program(self, *outputs: fx.Node) -> fx.GraphModule:
        self.graph.output(outputs)
        return fx.GraphModule(self.root, self.graph)


def partition(module: fx.GraphModule, rules: str):
    module.graph_module = module  # `tags` reads programs and modules alike
    return engine.partition(module, engine.parse_rules(header('use "std/quant"\n' + rules)))


def test_G2_the_dequantize_of_a_weight_lands_with_its_matmul() -> None:
    b = Builder()
    x = b.call(ATEN.relu.default, b.input(2, 4, dtype=torch.float32))
    weight = b.dq(b.constant(4, 4, dtype=torch.int8))
    module = b.program(b.call(ATEN.mm.default, b.call(ATEN.sin.default, x), weight))
    result = partition(
        module, "rule mm { match { v = shared dequantize(w) y = aten.mm.default(x, v) } require w is constant }"
    )
    (only,) = result.partitions
    assert {n.target for n in only.nodes} == {ATEN.mm.default, QD.dequantize_per_tensor.default}


@pytest.mark.parametrize(("dtype", "zero", "count"), [(torch.int8, 3, 2), (torch.int32, 0, 2), (torch.int32, 3, 0)])
def test_G3_a_failing_member_refuses_the_whole_match(dtype: torch.dtype, zero: int, count: int) -> None:
    b = Builder()
    module = b.program(b.call(ATEN.relu.default, b.dq(b.input(2, 4, dtype=dtype), zero=zero, dtype=dtype)))
    result = partition(
        module,
        """
    rule relu {
      match { d = shared dequantize(x, zero_point: z)  y = aten.relu.default(d) }
      require x.dtype == int32 implies z == 0 because "32-bit values have no zero point"
    }""",
    )
    assert result.report.claimed == count
    for reason in result.report.left:
        assert reason.because == "32-bit values have no zero point"


@pytest.mark.parametrize(("scale", "count"), [(0.1, 3), (0.2, 0)])
def test_G5_a_slice_between_equal_quantizations_only(scale: float, count: int) -> None:
    b = Builder()
    sliced = b.call(ATEN.slice.Tensor, b.dq(b.input(4, 4, dtype=torch.int8)), 0, 0, 2)
    module = b.program(b.q(sliced, scale))
    result = partition(
        module,
        """
    rule slice {
      match { d = shared dequantize(x)  y = aten.slice.Tensor(d)  q = quantize(y) }
      require same_qparams(d, q) because "a slice keeps its scale"
    }""",
    )
    assert result.report.claimed == count


def test_G7_two_forms_of_dequantize_in_one_rule() -> None:
    b = Builder()
    x = b.dq(b.input(2, 4, dtype=torch.int8))
    weight = b.call(
        QD.dequantize_per_channel.default,
        b.constant(4, 4, dtype=torch.int8),
        b.constant(4),
        b.constant(4, dtype=torch.int64),
        0,
        -128,
        127,
        torch.int8,
    )
    module = b.program(b.call(ATEN.mm.default, x, weight))
    result = partition(
        module,
        """
    pattern dq(x) = quantized_decomposed.dequantize_per_tensor.default(x)
                  | quantized_decomposed.dequantize_per_channel.default(x)
    rule mm { match y = aten.mm.default(dq(a), dq(w)) require w is constant }""",
    )
    assert result.report.claimed == 3


def test_G8_quantizers_alone_are_no_partition() -> None:
    b = Builder()
    x = b.dq(b.input(2, 4, dtype=torch.int8))
    module = b.program(b.q(b.call(ATEN.erf.default, x)))
    result = partition(
        module,
        """
    rule q  { match y = quantize(x) }
    rule dq { match y = dequantize(x) }
    partition { reject all(n.op in dq_ops or n.op in q_ops for n in nodes) because "nothing is computed" }""",
    )
    assert not result.partitions
    assert {r.kind for r in result.report.left} == {"rejected", "no rule"}
    assert not tags(module)
