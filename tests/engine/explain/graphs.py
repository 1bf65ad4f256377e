"""Graphs of any size with modules and metadata, built by hand: exporting thousands of nodes takes minutes."""

from __future__ import annotations

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = ["RULES", "layers"]

RULES = """backend "Test" language 1

rule linear "a matrix product with its activation" {
  match { y = aten.mm.default(x, w)  z = aten.relu.default(y)? }
  require x.rank == 2
}

rule plain {
  match y = {aten.{relu,sigmoid,tanh,neg}.default, aten.add.Tensor}(*xs)
  require y.numel <= 64  because "the scratch memory holds 64 numbers"
}
"""


def layers(size: int) -> fx.GraphModule:
    """About `size` op nodes: layers of ten, each a module with two inner ones; one op of each that no rule takes, and
    one that is too large."""
    graph = fx.Graph()
    mode = FakeTensorMode()
    with mode:
        small, large = torch.empty(4, 8), torch.empty(16, 8)
        weight = torch.empty(8, 8)
    x = graph.placeholder("x")
    w = graph.placeholder("w")
    big = graph.placeholder("big")
    x.meta["val"], w.meta["val"], big.meta["val"] = small, weight, large

    def call(target: object, args: tuple[fx.Node, ...], module: str, val: torch.Tensor) -> fx.Node:
        node = graph.call_function(target, args)
        node.meta["val"] = val
        node.meta["nn_module_stack"] = {module: (module, "torch.nn.Module")}
        node.meta["stack_trace"] = f'  File "model.py", line {len(graph.nodes)}, in forward\n    y = {target}(x)\n'
        return node

    aten = torch.ops.aten
    rest = big
    for layer in range(max(1, size // 10)):
        here = f"stages.{layer // 10}.layers.{layer}"
        a = call(aten.mm.default, (x, w), f"{here}.mix", small)
        a = call(aten.relu.default, (a,), f"{here}.mix", small)
        b = call(aten.sigmoid.default, (x,), f"{here}.gate", small)
        b = call(aten.neg.default, (b,), f"{here}.gate", small)
        b = call(aten.erf.default, (b,), f"{here}.gate", small)
        b = call(aten.tanh.default, (b,), f"{here}.gate", small)
        c = call(aten.add.Tensor, (a, b), here, small)
        rest = call(aten.tanh.default, (rest,), here, large)
        c = call(aten.sigmoid.default, (c,), here, small)
        x = call(aten.add.Tensor, (c, x), here, small)
    graph.output((x, rest))
    return fx.GraphModule(torch.nn.Module(), graph)
