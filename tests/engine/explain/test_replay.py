"""Every node that is left has a reason, and the reason is true: replayed with files that differ in one requirement.

Printed values are compared with values read from `node.meta`, by code that knows nothing of the engine.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from apportion import engine
from apportion.engine.report import NodeReason
from tests.engine.explain.models import MODELS, RULES, program


def op_nodes(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The op nodes of a program and its branches, by FX alone."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            yield node
        if node.op == "get_attr" and isinstance(inner := getattr(module, str(node.target), None), torch.fx.GraphModule):
            yield from op_nodes(inner)


def graph_of(name: str, path: str) -> torch.fx.GraphModule:
    found = program(name).graph_module
    for part in path.split(".") if path else []:
        found = getattr(found, part)
    return found


def reason_of(report: Any, left: NodeReason) -> NodeReason | None:
    return next((r for r in report.left if (r.node, r.graph) == (left.node, left.graph)), None)


def without(text: str, location: str, reason: NodeReason) -> str:
    """The file without the one requirement that the reason names: from `require` to the next statement."""
    line, column = map(int, location.rsplit(":", 2)[1:])
    lines = text.split("\n")
    start = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
    rest = text[start:]
    assert re.match(r"require|trim|reject", rest), rest[:40]
    end = re.search(r"\n\s*(require|match|trim|reject|\})|\}\s*\n", rest)
    assert end is not None
    return text[:start] + rest[end.start():]


@pytest.mark.parametrize("rules", list(RULES))
@pytest.mark.parametrize("name", list(MODELS))
def test_every_reason_is_true(name: str, rules: str) -> None:
    text = RULES[rules]
    report = engine.partition(program(name), engine.parse_rules(text, "r.rules")).report
    nodes = list(op_nodes(program(name).graph_module))
    assert report.nodes_total == len(nodes)
    assert len(report.left) == len(nodes) - report.claimed
    assert len({(r.graph, r.node) for r in report.left}) == len(report.left), "each node once"
    files: dict[str, Any] = {}
    for left in report.left:
        assert left.kind and left.message
        check_values(name, left)
        changed = replayed(text, left)
        if changed is None:
            continue
        again = files.get(changed)
        if again is None:
            again = files[changed] = engine.partition(program(name), engine.parse_rules(changed, "r.rules")).report
        after = reason_of(again, left)
        if after is not None:
            assert (after.kind, after.location, after.condition) != (left.kind, left.location, left.condition), left


def replayed(text: str, left: NodeReason) -> str | None:
    """The file without the obstacle that the reason names; None where it names none that a file could lack."""
    if left.kind in ("requirement", "invariant", "post-condition", "trimmed", "rejected"):
        assert left.location is not None and left.location.startswith("r.rules:")
        return without(text, left.location, left)
    if left.kind == "no rule":
        return f"{text}\nrule replay {{ match y = {left.op}() }}\n"
    if left.kind == "limit":
        return re.sub(r"min_nodes = \d+", "", text)
    return None


DTYPE = {str(d).removeprefix("torch."): d for d in (torch.float32, torch.float64, torch.int64, torch.bool)}


def check_values(name: str, left: NodeReason) -> None:
    """The values printed for a node are those of its metadata."""
    node = next((n for n in graph_of(name, left.graph).graph.nodes if n.name == left.node), None)
    assert node is not None
    for path, shown in left.observed:
        expected = expectation(node, path)
        if expected is not None:
            assert shown == expected, (left.node, path)


def expectation(node: torch.fx.Node, path: str) -> str | None:
    """What FX metadata says for the paths that the rules of this test use on one-node rules."""
    own = node.meta.get("val")
    if not isinstance(own, torch.Tensor):
        return None
    inputs = [a for a in node.args if isinstance(a, torch.fx.Node)]
    plain = {
        "n.numel": lambda: own.numel(),
        "y.numel": lambda: own.numel(),
        "n.dtype": lambda: own.dtype,
        "x.rank": lambda: inputs[0].meta["val"].dim(),
        "y.shape[0]": lambda: own.shape[0],
        "i.dtype for i in y.inputs": lambda: [i.meta["val"].dtype for i in inputs],
        "o.rank for o in y.outputs": lambda: [own.dim()],
    }.get(path)
    if plain is None:
        return None
    value = plain()
    if isinstance(value, list):
        return "[" + ", ".join(str(v).removeprefix("torch.") for v in value) + "]"
    return str(value).removeprefix("torch.")


def test_the_check_can_fail() -> None:
    """A reason that names another requirement is caught: the replay then gives the same reason again."""
    text = RULES["strict"]
    report = engine.partition(program("doubles"), engine.parse_rules(text, "r.rules")).report
    left = next(r for r in report.left if r.condition == "n.dtype in floats")
    line = next(i for i, one in enumerate(text.split("\n"), 1) if "works on matrices" in one)
    other = without(text, f"r.rules:{line}:3", left)
    after = reason_of(engine.partition(program("doubles"), engine.parse_rules(other, "r.rules")).report, left)
    assert after is not None and after.condition == left.condition
