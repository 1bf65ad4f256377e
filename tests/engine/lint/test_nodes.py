"""Random nodes against random rules: what is called disjoint is claimed by no node, every witness by both rules."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import torch
import torch.fx as fx
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from apportion.engine.lint.confirm import matches, names_of
from apportion.engine.lint.model import RuleFile, RuleModel
from apportion.engine.lint.overlap import covered, examine
from apportion.engine.lint.witness import Drawing
from apportion.engine.load import parse_rules
from tests.engine.lint.judge import as_text, rule
from tests.engine.lint.planted import ROWS

SINGLE = tuple(row for row in ROWS if row.match == "y = OP(x)" and "meta" not in row.uses)
TEXTS = tuple(text for row in SINGLE for text in (row.one, row.meets, row.apart))
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 64)
DTYPES = (torch.float32, torch.float16, torch.int8, torch.uint8, torch.int32, torch.bool)
NODES = 60  # of which a rule claims one each at most


def requirement(draw: random.Random) -> str:
    """One condition on `y = relu(x)`: of the judge's kind, or of the table of all constructs."""
    return as_text(rule(draw)[0]) if draw.random() < 0.4 else f"({draw.choice(TEXTS)})"


def pair(draw: random.Random) -> tuple[RuleModel, RuleModel, str]:
    """Two random rules."""
    lines = ['backend "Acme" language 1']
    row = draw.choice(SINGLE)
    apart = draw.random() < 0.4
    for name, text in (("one", row.one), ("other", row.apart)):
        parts = [requirement(draw) for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.3:
            parts = [f"not ({parts[0]})", *parts[1:]]
        joined = draw.choice([" and ", " or "]).join(parts)
        joined = f"({text}) and ({joined})" if apart else joined
        lines.append(f"rule {name} {{ match y = aten.relu.default(x) require {joined} }}")
    text = "\n".join(lines)
    file = RuleFile(parse_rules(text))
    return file.models[0], file.models[1], text


@cache
def nodes(seed: int) -> Drawing:
    """A graph of many calls of relu, of all sorts of values."""
    draw = random.Random(seed)
    graph, root, mode = fx.Graph(), torch.nn.Module(), FakeTensorMode(shape_env=ShapeEnv())
    results = []
    for index in range(NODES):
        x = source(draw, graph, root, mode, index)
        for op in draw.choice([(), (), (), (torch.ops.aten.neg.default,), (torch.ops.aten.abs.default,)]):
            x = call(graph, mode, op, x)
        y = call(graph, mode, torch.ops.aten.relu.default, x)
        y.meta["nn_module_stack"] = {"m": (draw.choice(["", "body", "head"]), "torch.nn.Module")}
        for _ in range(draw.choice([0, 0, 1, 2, 4])):
            call(graph, mode, torch.ops.aten.clone.default, y)
        results += [y] if draw.random() < 0.7 or not y.users else []
    graph.output(tuple(results))
    return Drawing(fx.GraphModule(root, graph), {}, {}, "")


def source(draw: random.Random, graph: fx.Graph, root: torch.nn.Module, mode: FakeTensorMode, index: int) -> fx.Node:
    """An input or a stored tensor."""
    shape: list[Any] = [draw.choice(SIZES) for _ in range(draw.choice([0, 1, 2, 2, 2, 3, 4, 4, 5]))]
    dtype = draw.choice(DTYPES)
    kind = draw.choice(["user", "user", "user", "parameter", "buffer", "constant"])
    with mode:
        value = torch.empty(shape, dtype=dtype)
        if len(shape) == 4 and draw.random() < 0.3:
            value = value.to(memory_format=torch.channels_last)
    if kind == "user":
        made = graph.placeholder(f"input_{index}")
    else:
        name = f"state_{index}"
        if kind == "parameter":
            root.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
        elif kind == "buffer":
            root.register_buffer(name, value)
        else:
            setattr(root, name, value)
        made = graph.get_attr(name)
    made.meta["val"] = value
    return made


def call(graph: fx.Graph, mode: FakeTensorMode, op: Any, x: fx.Node) -> fx.Node:
    """A call, with its fake value."""
    made = graph.call_function(op, (x,))
    with mode:
        made.meta["val"] = x.meta["val"].clone() if x.meta["val"].dtype == torch.bool else op(x.meta["val"])
    return made


def claimed(model: RuleModel, drawing: Drawing) -> set[str]:
    """The names of the nodes that a rule claims."""
    return {name for match in matches(model, drawing) for name in names_of(match)}


def check(seed: int) -> str:
    draw = random.Random(seed)
    one, other, text = pair(draw)
    verdict = examine(one, other)
    drawing = nodes(seed % 8)
    first, second = claimed(one, drawing), claimed(other, drawing)
    if verdict.kind == "disjoint":
        assert not first & second, f"{text}\n{sorted(first & second)}"
    if verdict.witness is not None:
        mine, theirs = verdict.witness.matches
        assert names_of(mine) & names_of(theirs), text
    if covered(other, [one]):
        assert second <= first, f"{text}\n{sorted(second - first)}"
    return verdict.kind


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_no_node_satisfies_what_is_disjoint(seed: int) -> None:
    check(seed)


@pytest.mark.full
def test_a_thousand_pairs_on_random_nodes() -> None:
    kinds = [check(seed) for seed in range(1000)]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))})
    assert kinds.count("disjoint") > 200 and kinds.count("overlap") > 200
