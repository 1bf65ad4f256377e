"""Copies of programs for partitioners, and the check that they left the graph as it was."""

from __future__ import annotations

import copy
import logging
import operator
from typing import Any

import torch
import torch.fx as fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram

__all__ = ["copied", "difference", "fake_copy", "keep_name", "own_copy"]

logger = logging.getLogger("apportion")


def fake_copy(program: ExportedProgram) -> ExportedProgram:
    """The same program over a graph of its own, its weights fake tensors: shapes and dtypes, no values.

    Where that fails it is a deep copy, with a warning.
    """
    try:
        return _fake_copy(program)
    except Exception as problem:
        logger.warning("no copy with fake weights could be made (%s: %s); the program is copied as a whole",
                       type(problem).__name__, problem)
        return own_copy(program)


def _fake_copy(program: ExportedProgram) -> ExportedProgram:
    mode = _mode_of(program)
    known: dict[int, Any] = {}

    def faked(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        if id(value) not in known:
            known[id(value)] = mode.from_tensor(value, static_shapes=True)
        return known[id(value)]

    module = copied(program.graph_module)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict={name: faked(value) for name, value in program.state_dict.items()},
        range_constraints=dict(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants={name: faked(value) for name, value in program.constants.items()},
        verifiers=[program.verifier],
    )


def _mode_of(program: ExportedProgram) -> FakeTensorMode:
    values = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and "val" in node.meta]
    found = detect_fake_mode(values)
    return found if found is not None else FakeTensorMode(allow_non_fake_inputs=True)


def copied(module: fx.GraphModule) -> fx.GraphModule:
    """The module with a graph of its own, those of its branches too; attributes that are no graphs are shared."""
    return _copied(module, {})


def _copied(module: fx.GraphModule, done: dict[int, fx.GraphModule]) -> fx.GraphModule:
    if id(module) in done:
        return done[id(module)]
    graph = fx.Graph()
    nodes: dict[fx.Node, fx.Node] = {}
    output = graph.graph_copy(module.graph, nodes)
    nodes[module.graph.output_node()] = made_output = graph.output(output)
    made_output.meta = copy.copy(module.graph.output_node().meta)
    for old, new in nodes.items():
        keep_name(new, old.name)
    root = torch.nn.Module()
    for node in graph.nodes:
        if node.op == "get_attr":
            _carry(module, root, str(node.target), done)
    made = fx.GraphModule(root, graph)
    made.meta.update(module.meta)
    done[id(module)] = made
    return made


def keep_name(node: fx.Node, name: str) -> None:
    """Give a copied node the name of the old one, also where FX would avoid it (`input` is a name of Python's)."""
    if node.name != name:
        node.name = name
        node.graph._graph_namespace._used_names.add(name)


def own_copy(program: ExportedProgram) -> ExportedProgram:
    """A copy that its owner may change, weights included."""
    memo: dict[int, Any] = {}
    module = copied(program.graph_module)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict={name: copy.deepcopy(value, memo) for name, value in program.state_dict.items()},
        range_constraints=dict(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        constants={name: copy.deepcopy(value, memo) for name, value in program.constants.items()},
        verifiers=[program.verifier],
    )


def _carry(module: torch.nn.Module, root: torch.nn.Module, target: str, done: dict[int, fx.GraphModule]) -> None:
    value = operator.attrgetter(target)(module)
    if isinstance(value, fx.GraphModule):
        value = _copied(value, done)
    *path, name = target.split(".")
    for part in path:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        if name not in root._buffers:
            root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def difference(one: fx.GraphModule, other: fx.GraphModule) -> str | None:
    """How two graphs differ, in words; None where they are the same but for names and metadata."""
    left, right = list(one.graph.nodes), list(other.graph.nodes)
    place = {node: index for index, node in enumerate(right)}
    same = {node: index for index, node in enumerate(left)}
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        if a.op != b.op or not _same_target(a, b, one, other):
            return f"node {number} was {b.op} {b.target}, and is {a.op} {a.target}"
        if not _same_arguments((a.args, a.kwargs), (b.args, b.kwargs), same, place):
            return f"the arguments of node {number} ({b.name}) were {b.args} {b.kwargs}, and are {a.args} {a.kwargs}"
    if len(left) != len(right):
        return f"it had {len(right)} nodes, and has {len(left)}"
    return None


def _same_target(a: fx.Node, b: fx.Node, one: fx.GraphModule, other: fx.GraphModule) -> bool:
    if a.op == "placeholder" or a.op == "output":
        return True
    if a.op != "get_attr":
        return bool(a.target == b.target)
    mine, theirs = (operator.attrgetter(str(n.target))(m) for n, m in ((a, one), (b, other)))
    if isinstance(mine, fx.GraphModule) and isinstance(theirs, fx.GraphModule):
        return mine is theirs or difference(mine, theirs) is None
    return str(a.target) == str(b.target)


def _same_arguments(a: Any, b: Any, mine: dict[fx.Node, int], theirs: dict[fx.Node, int]) -> bool:
    if isinstance(a, fx.Node):
        return isinstance(b, fx.Node) and mine[a] == theirs[b]
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(
            _same_arguments(x, y, mine, theirs) for x, y in zip(a, b, strict=False))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(
            _same_arguments(a[k], b[k], mine, theirs) for k in a)
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    return type(a) is type(b) and bool(a is b or a == b)
