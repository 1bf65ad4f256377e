"""A small program for each kind of reason that the ten models don't bring about by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from attrs import evolve
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.engine.explain.replay import Setup
from tests.engine.programs import exported, header

__all__ = ["CASES"]

RELU_NEG = "rule pair { match { p = aten.relu.default(x)  y = aten.neg.default(p) } }"


def _chain(*more: Callable[[torch.Tensor], torch.Tensor]) -> torch.export.ExportedProgram:
    def run(x: torch.Tensor) -> torch.Tensor:
        for one in (torch.relu, torch.neg, *more):
            x = one(x)
        return x

    return exported(run, torch.randn(2, 3))


def _other_backend() -> Setup:
    first = 'backend "First" language 1\nrule r { match y = aten.relu.default(x) }'
    return Setup(_chain(), (first, f'backend "Second" language 1\n{RELU_NEG}'))


def _excluded() -> Setup:
    return Setup(_chain(), (header(RELU_NEG),), {"exclude": "relu"})


def _two_users() -> Setup:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return torch.neg(y) + torch.erf(y)

    return Setup(exported(run, torch.randn(2, 3)), (header(RELU_NEG),))


def _returned() -> Setup:
    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x)
        return y, torch.neg(y)

    return Setup(exported(run, torch.randn(2, 3)), (header(RELU_NEG),))


def _interleaved() -> Setup:
    """a1 -> b1, a2 -> b2 are two matches, each of which waits for the other."""

    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.relu(x), torch.sigmoid(y)
        return torch.add(a, b), torch.mul(a, b)

    rules = """rule one { match { p = shared aten.relu.default(x)  y = aten.add.Tensor(p, o) } }
               rule two { match { p = shared aten.sigmoid.default(x)  y = aten.mul.Tensor(o, p) } }"""
    return Setup(exported(run, torch.randn(2), torch.randn(2)), (header(rules),))


def _around() -> Setup:
    """A match of two nodes, between which a third one waits for the first."""

    def run(x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(x)
        return torch.add(a, torch.erf(a))

    rules = "rule one { match { p = shared aten.relu.default(x)  y = aten.add.Tensor(p, o) } }"
    return Setup(exported(run, torch.randn(2)), (header(rules),))


def _emit() -> Setup:
    rules = """rule r { match y = aten.relu.default(x)
      emit low = min_value(x) }"""
    return Setup(_chain(), (header(rules),))


def _mutation() -> Setup:
    def run(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        self.b.add_(x)
        return self.b + x

    program = exported(run, torch.randn(2), decompose=False, b=torch.zeros(2))
    return Setup(program, (header("rule add { match y = aten.add_.Tensor(x, y2) }"),))


def _branches() -> Setup:
    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: torch.erf(y), lambda y: torch.neg(y), (x,))

    rules = "rule c { match y = higher_order.cond(p, *rest) }\nrule e { match y = aten.erf.default(x) }"
    return Setup(exported(run, torch.randn(2, 3)), (header(rules),))


def _unused() -> Setup:
    graph = fx.Graph()
    with FakeTensorMode():
        val = torch.empty(2)
    x = graph.placeholder("x")
    relu, dead = (graph.call_function(op, (x,)) for op in (torch.ops.aten.relu.default, torch.ops.aten.neg.default))
    for node in (x, relu, dead):
        node.meta["val"] = val
    graph.output((relu,))
    return Setup(fx.GraphModule(torch.nn.Module(), graph), (header("rule n { match y = aten.neg.default(x) }"),))


def _other_partitioner() -> Setup:
    program = _chain()
    for node in program.graph.nodes:
        if node.name == "relu":
            node.meta["delegation_tag"] = "somebody_else"
    return Setup(program, (header("rule r { match y = aten.relu.default(x) }"),))


def _sizes() -> Setup:
    rules = """rule r { match y = aten.{relu,neg,erf,sigmoid}.default(x) }
      partition { max_partitions = 1  merge = "none" }"""
    return Setup(_chain(torch.erf, torch.sigmoid), (header(rules),))


def _literal() -> Setup:
    rules = "rule sums { match y = aten.sum.dim_IntList(x, [0], true) }"
    return Setup(exported(lambda x: x.sum(0) * 2, torch.randn(2, 3)), (header(rules),))


def _inner() -> Setup:
    setup = _two_users()
    text = header("rule pair { match { p = aten.relu.default(x)  y = aten.sigmoid.default(p) } }")
    return evolve(setup, texts=(text,))


CASES: Mapping[str, tuple[str, Callable[[], Setup]]] = {
    "lost to another backend": ("lost", _other_backend),
    "lost to an exclusion": ("lost", _excluded),
    "excluded": ("excluded by user", _excluded),
    "used by others": ("pattern", _two_users),
    "returned": ("pattern", _returned),
    "another literal": ("pattern", _literal),
    "interleaved with another": ("interleaved", _interleaved),
    "a way around": ("interleaved", _around),
    "an unknown spec": ("emit", _emit),
    "a write": ("mutation", _mutation),
    "a branch": ("branches", _branches),
    "dead code": ("unused", _unused),
    "tagged already": ("other partitioner", _other_partitioner),
    "too many partitions": ("limit", _sizes),
    "inside a pattern": ("inner node", _inner),
}
"""What is tried, the kind of reason that it brings about, and what to partition."""
