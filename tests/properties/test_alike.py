"""Trying a rule once for all calls that are alike gives what trying it at each of them gives."""

from __future__ import annotations

import random
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
