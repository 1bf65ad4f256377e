"""Trying a rule once for all calls that are alike gives what trying it at each of them gives."""

from __future__ import annotations

import random
from operator import getitem
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from apportion.engine import RuleSet, parse_rules
from apportion.engine.facts import ProgramFacts
from apportion.engine.partition import Run
from apportion.engine.programs import methods_of
from apportion.engine.wishes import Wishes
from tests.properties.harness import Outcome, outcomes

aten = torch.ops.aten


def _reported(program: Any, *rules: RuleSet, each: bool) -> tuple[Any, Any, Any]:
    """Partitions, specs and report; with `each` every rule is tried at every node."""
    run = Run(rules, Wishes.of((), ()), None, several=False, every=[] if each else None)
    for method, one in methods_of(program):
        run.method(method, ProgramFacts.of(one))
    result = run.finish(program)
    return [(p.tag, p.matches, p.inputs, p.constants) for p in result.partitions], result.marks, result.report.to_json()


def _repetitive(seed: int) -> GraphModule:
    """A graph in which many calls are alike, and many are nearly so."""
    rng = random.Random(seed)
    graph, mode = Graph(), FakeTensorMode()
    root = torch.nn.Module()
    root.register_parameter("w", torch.nn.Parameter(torch.zeros(4, 4)))
    x, w = graph.placeholder("x"), graph.get_attr("w")
    x.meta["val"] = w.meta["val"] = mode.from_tensor(torch.zeros(4, 4))
    nodes: list[Node] = [x, w]
    calls = (
        lambda: (aten.relu.default, _pick(rng, nodes)),
        lambda: (aten.sigmoid.default, _pick(rng, nodes)),
        lambda: (aten.mul.Tensor, _pick(rng, nodes), _pick(rng, nodes)),
        lambda: (aten.add.Tensor, _pick(rng, nodes), rng.choice([_pick(rng, nodes), 1, 1.0, 2])),
        lambda: (aten.mm.default, _pick(rng, nodes), rng.choice([w, _pick(rng, nodes)])),
        lambda: (aten._softmax.default, _pick(rng, nodes), rng.choice([0, 1, -1]), False),
    )
    for _ in range(40):
        target, *arguments = rng.choice(calls)()
        node = graph.call_function(target, tuple(arguments))
        if rng.random() < 0.9:
            node.meta["val"] = mode.from_tensor(torch.zeros(4, 4, dtype=rng.choice([torch.float32] * 4 + [torch.half])))
        nodes.append(node)
    graph.output(tuple(nodes[-3:]))
    return GraphModule(root, graph)


def _pick(rng: random.Random, nodes: list[Node]) -> Node:
    return rng.choice(nodes[-6:])


RULES = """backend "Test" language 1
let silu_like(n) = n.op == aten.mul.Tensor and n.self.op == aten.sigmoid.default
invariant types { match y = {aten.mul.Tensor, aten.add.Tensor}()
  require all(i.dtype == y.dtype for i in y.inputs) because "one type" }
invariant used { match y = aten.sigmoid.default()
  require len(y.users) <= 2 because "few users" }
rule unary { match y = {aten.relu.default, aten.sigmoid.default}(x)
  require x.op != aten.mm.default
  mark y as "unary" }
rule square { match y = aten.mul.Tensor(x, x) }
rule gate { match { s = aten.sigmoid.default(x)
    y = aten.mul.Tensor(x, s) }
  emit "gate" = "yes" }
rule plus { match y = aten.add.Tensor(a, b)
  require b is int implies y is not returned
  require a is node implies len(a.inputs) == 2 }
rule product { match { m = aten.mm.default(x, w)
    y = aten.relu.default(m)? }
  require w is constant or silu_like(x)
  take w }
rule soft { match y = aten._softmax.default(x, 1)
  let  source = x.op
  require source not in {aten.relu.default} because "not after a relu" }
partition { constants = "none" }
"""


@pytest.mark.parametrize("seed", range(60))
def test_calls_that_are_alike_come_to_the_same(seed: int) -> None:
    rules = parse_rules(RULES)
    program = _repetitive(seed)
    assert _reported(program, rules, each=False) == _reported(program, rules, each=True)


def test_so_it_is_for_random_rules_and_programs() -> None:
    def check(found: Outcome) -> None:
        rules = found.rules()
        assert _reported(found.given, *rules, each=False) == _reported(found.given, *rules, each=True)

    outcomes(60, check)


LAYERED = """backend "Test" language 1
invariant narrow { match y = aten.mm.default(x, w)
  require y.dtype == x.dtype because "one type" }
rule fused { match { m = aten.mm.default(x, w)
    a = aten.add.Tensor(m, b)?
    y = {aten.relu.default, aten.sigmoid.default}(a) }
  require w is constant because "packed"
  require b is none or b.dtype == m.dtype
  take w }
rule swish { match { s = aten.sigmoid.default(x)
    y = aten.mul.Tensor(x, s) } }
rule both { match { d = shared aten.neg.default(x)
    y = aten.mul.Tensor(d, aten.neg.default(z)) }
  require z.op != aten.relu.default
  mark d as "shared" }
rule largest { match { m = aten.max.dim(x, 0)
    y = aten.sub.Tensor(m[0], x) } }
rule parts { match { m = aten.max.dim(x, 1)
    y = aten.add.Tensor(m[0], aten.neg.default(_)) }
  require len(m[0].users) == 1 }
rule walked { match y = aten.tanh.default(through{aten.t.default}(x))
  require x is not returned }
rule single over swish { match y = {aten.sigmoid.default, aten.add.Tensor, aten.mul.Tensor}(*xs)
  require all(x.dtype == y.dtype for x in xs) }
rule sum { match y = aten.add.Tensor(a, a) }
partition { constants = "none" }
"""


def _layered(seed: int) -> GraphModule:
    """Blocks of a few kinds one after another, most of them like earlier ones, some with another user or wiring."""
    rng = random.Random(seed)
    graph, mode = Graph(), FakeTensorMode()
    root = torch.nn.Module()
    root.register_parameter("w", torch.nn.Parameter(torch.zeros(4, 4)))
    with mode:
        tensor, row = torch.zeros(4, 4), torch.zeros(4)
    x, w = graph.placeholder("x"), graph.get_attr("w")
    x.meta["val"] = w.meta["val"] = tensor
    returned: list[Node] = []
    made: dict[Any, list[Node]] = {}

    def call(target: Any, *arguments: Any, val: Any = tensor) -> Node:
        node = graph.call_function(target, arguments)
        node.meta["val"] = val
        if val is tensor:
            made.setdefault(target, []).append(node)
        if rng.random() < 0.08:
            returned.append(node)
        return node

    def twin(node: Node) -> Node:
        """Another value that the same op made: alike, and yet another one."""
        return rng.choice(made.get(node.target, [node]))

    def largest(y: Node, dim: int) -> Node:
        whole = call(aten.max.dim, y, dim, val=(row, row))
        return graph.call_function(getitem, (whole, rng.choice([0, 0, 0, 1])))

    def products(y: Node) -> Node:
        m = call(aten.mm.default, y, rng.choice([w] * 9 + [y]))
        m = call(aten.add.Tensor, *rng.choice([(m, first), (first, m), (m, m)])) if rng.random() < 0.3 else m
        return call(rng.choice([aten.relu.default] * 5 + [aten.sigmoid.default]), m)

    def swish(y: Node) -> Node:
        s = call(aten.sigmoid.default, y)
        return call(aten.mul.Tensor, *rng.choice([(y, s), (s, y), (twin(y), s), (y, twin(s))]))

    def both(y: Node) -> Node:
        d = call(aten.neg.default, y)
        e = rng.choice([d, call(aten.neg.default, rng.choice([twin(y), y]))])
        return call(aten.add.Tensor, call(aten.mul.Tensor, d, e), call(aten.mul.Tensor, e, d))

    def parts(y: Node) -> Node:
        if rng.random() < 0.5:
            return call(aten.sub.Tensor, largest(y, 0), rng.choice([y, twin(y)]))
        return call(aten.add.Tensor, largest(y, 1), call(aten.neg.default, y))

    def walked(y: Node) -> Node:
        for _ in range(rng.choice([0, 1, 2])):
            y = call(aten.t.default, y)
        return call(aten.tanh.default, y)

    first = x
    for _ in range(50):
        x_was = x
        x = rng.choice([products] * 6 + [swish, swish, both, parts, walked])(x)
        for node in (x, x_was):
            node.meta.setdefault("val", row)
        if rng.random() < 0.5:
            returned.append(call(aten.erf.default, twin(rng.choice(rng.choice(list(made.values()))))))
    graph.output((x, *returned))
    return GraphModule(root, graph)


@pytest.mark.parametrize("seed", range(40))
def test_patterns_of_several_nodes_come_to_the_same(seed: int) -> None:
    rules = parse_rules(LAYERED)
    program = _layered(seed)
    assert _reported(program, rules, each=False) == _reported(program, rules, each=True)
