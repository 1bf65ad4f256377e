"""Graphs of many shapes and sizes, as FX graphs with sizes and dtypes, made without running anything."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

__all__ = ["EXPORTED", "GRAPHS", "Maker", "exported", "make"]

aten = torch.ops.aten
WIDTH = 8


class Maker:
    """Adds calls to `graph`, `count` of them so far; every tensor is WIDTH by WIDTH and an object of its own."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.root = torch.nn.Module()
        self.count = 0

    def input(self, name: str) -> Node:
        """A placeholder."""
        node = self.graph.placeholder(name)
        node.meta["val"] = torch.empty(WIDTH, WIDTH, device="meta")
        return node

    def weight(self) -> Node:
        """A parameter of its own."""
        name = f"w{len(self.root._parameters)}"
        self.root.register_parameter(name, torch.nn.Parameter(torch.empty(WIDTH, WIDTH, device="meta")))
        node = self.graph.get_attr(name)
        node.meta["val"] = torch.empty(WIDTH, WIDTH, device="meta")
        return node

    def call(self, op: Any, *arguments: Any, dtype: torch.dtype = torch.float32) -> Node:
        """A call."""
        node = self.graph.call_function(op, arguments)
        node.meta["val"] = torch.empty(WIDTH, WIDTH, device="meta", dtype=dtype)
        self.count += 1
        return node

    def constant(self, dtype: torch.dtype, *shape: int) -> Node:
        """A buffer that nothing writes."""
        name = f"c{len(self.root._buffers)}"
        self.root.register_buffer(name, torch.empty(shape, device="meta", dtype=dtype))
        node = self.graph.get_attr(name)
        node.meta["val"] = torch.empty(shape, device="meta", dtype=dtype)
        return node

    def quantize(self, x: Node) -> Node:
        """To int8, one scale for all."""
        op = torch.ops.quantized_decomposed.quantize_per_tensor.default
        return self.call(op, x, 0.1, 0, -128, 127, torch.int8, dtype=torch.int8)

    def dequantize(self, x: Node) -> Node:
        """Back to float."""
        op = torch.ops.quantized_decomposed.dequantize_per_tensor.default
        return self.call(op, x, 0.1, 0, -128, 127, torch.int8)

    def linear(self, x: Node) -> Node:
        """A product with a weight of its own."""
        return self.call(aten.linear.default, x, self.weight())


def _chain(make: Maker, size: int) -> Node:
    """Everything can be claimed."""
    x = make.input("x")
    while make.count < size:
        x = make.call(aten.relu.default, make.call(aten.mul.Tensor, make.call(aten.sigmoid.default, x), x))
    return x


def _alternating(make: Maker, size: int) -> Node:
    """Every second node has no rule."""
    x = make.input("x")
    while make.count < size:
        x = make.call(aten.erf.default, make.call(aten.relu.default, x))
    return x


def _residual(make: Maker, size: int) -> Node:
    """Blocks of two products with activations, added to what went in; the norm has no rule."""
    x = make.input("x")
    while make.count < size:
        y = make.call(aten.relu.default, make.linear(make.call(aten.erf.default, x)))
        x = make.call(aten.add.Tensor, x, make.call(aten.relu.default, make.linear(y)))
    return x


def _decoder(make: Maker, size: int) -> Node:
    """Attention and a gated feed-forward part on a residual stream; norms and the inner softmax have no rule."""
    x = make.input("x")
    while make.count < size:
        norm = make.call(aten.erf.default, x)
        query, key, value = (make.linear(norm) for _ in range(3))
        scores = make.call(aten.mul.Tensor, make.call(aten.mm.default, query, make.call(aten.t.default, key)), query)
        mixed = make.call(aten.mm.default, make.call(aten.special_erfcx.default, scores), value)
        x = make.call(aten.add.Tensor, x, make.linear(mixed))
        norm = make.call(aten.erf.default, x)
        gate = make.linear(norm)
        gated = make.call(aten.mul.Tensor, make.call(aten.mul.Tensor, gate, make.call(aten.sigmoid.default, gate)),
                          make.linear(norm))
        x = make.call(aten.add.Tensor, x, make.linear(gated))
    return x


def _ladder(make: Maker, size: int) -> Node:
    """Two chains with rungs in both directions; every fifth node has no rule."""
    left = right = make.input("x")
    while make.count < size:
        op = aten.erf.default if make.count % 5 == 0 else aten.relu.default
        left, right = make.call(aten.add.Tensor, left, right), make.call(op, right)
        left, right = right, left
    return make.call(aten.add.Tensor, left, right)


def _siblings(make: Maker, size: int) -> Node:
    """Many branches of one value, summed up."""
    x = make.input("x")
    total = x
    while make.count < size:
        branch = make.call(aten.relu.default, make.call(aten.sigmoid.default, x))
        total = make.call(aten.add.Tensor, total, make.call(aten.erf.default, branch))
    return total


def _random(make: Maker, size: int) -> Node:
    """Operands drawn from the last 50 values; three of ten nodes have no rule."""
    rng = random.Random(size)
    nodes = [make.input("x")]
    while make.count < size:
        recent = nodes[-50:]
        if rng.random() < 0.4:
            nodes.append(make.call(aten.add.Tensor, rng.choice(recent), rng.choice(recent)))
        else:
            op = rng.choice([aten.relu.default, aten.sigmoid.default, aten.erf.default])
            nodes.append(make.call(op, rng.choice(recent)))
    return nodes[-1]


def _quantized(make: Maker, size: int) -> Node:
    """Float layers with activations, and quantized ones between quantize and dequantize, in turn; what stands between
    has no rule."""
    import torch.ao.quantization.fx._decomposed  # registers the ops

    per_channel = torch.ops.quantized_decomposed.dequantize_per_channel.default
    x = make.input("x")
    while make.count < size:
        y = make.call(aten.relu.default, make.call(aten.linear.default, x, make.weight(), make.weight()))
        y = make.call(aten.hardtanh.default, make.call(aten.addmm.default, make.weight(), y, make.weight()), -1.0, 1.0)
        p, q = make.quantize(y), make.quantize(make.call(aten.mm.default, y, make.weight()))
        added = make.call(aten.add.Tensor, make.dequantize(p), make.dequantize(q))
        p = make.quantize(make.call(aten.relu.default, added))
        q = make.quantize(make.call(aten.mul.Tensor, make.dequantize(p), make.dequantize(q)))
        q = make.quantize(make.call(aten.view.default, make.dequantize(q), [WIDTH, WIDTH]))
        scales = make.constant(torch.float32, WIDTH), make.constant(torch.int64, WIDTH)
        weight = make.call(per_channel, make.constant(torch.int8, WIDTH, WIDTH), *scales, 0, -127, 127, torch.int8)
        y = make.call(aten.linear.default, make.dequantize(q), weight, make.weight())
        q = make.quantize(make.call(aten.relu.default, y))
        x = make.call(aten.erf.default, make.dequantize(q))
    return x


GRAPHS: Mapping[str, Callable[[Maker, int], Node]] = {
    "chain": _chain,
    "alternating": _alternating,
    "residual": _residual,
    "decoder": _decoder,
    "ladder": _ladder,
    "siblings": _siblings,
    "random": _random,
    "quantized": _quantized,
}
"""The kinds of graphs by name."""


EXPORTED = "exported decoder"
"""The kind whose size is counted in layers."""


class _Layer(torch.nn.Module):
    """A layer of a decoder. Its scores stand keys by queries, so their softmax is over a dim that has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(_HIDDEN) for _ in range(2))
        self.query, self.key, self.value, self.out = (torch.nn.Linear(_HIDDEN, _HIDDEN) for _ in range(4))
        self.gate, self.up = (torch.nn.Linear(_HIDDEN, 2 * _HIDDEN) for _ in range(2))
        self.down = torch.nn.Linear(2 * _HIDDEN, _HIDDEN)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        norm = self.norms[0](x)
        query, key, value = (
            linear(norm).unflatten(-1, (_HEADS, _HIDDEN // _HEADS)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = key @ query.transpose(-1, -2) / (_HIDDEN // _HEADS) ** 0.5 + mask
        mixed = torch.softmax(scores, -2).transpose(-1, -2) @ value
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        norm = self.norms[1](x)
        return x + self.down(torch.nn.functional.silu(self.gate(norm)) * self.up(norm))


class _Decoder(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(_Layer() for _ in range(layers))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


_HIDDEN, _HEADS, _LENGTH = 64, 4, 8


def exported(layers: int) -> GraphModule:
    """A decoder, exported and decomposed to core ATen."""
    inputs = torch.randn(1, _LENGTH, _HIDDEN), torch.zeros(_LENGTH, _LENGTH)
    program = torch.export.export(_Decoder(layers).eval(), inputs, strict=True)
    return program.run_decompositions().graph_module


def make(kind: str, size: int) -> GraphModule:
    """A graph of a kind with at least `size` op nodes; of the exported decoder with `size` layers."""
    if kind == EXPORTED:
        return exported(size)
    maker = Maker()
    maker.graph.output((GRAPHS[kind](maker, size),))
    return GraphModule(maker.root, maker.graph)
