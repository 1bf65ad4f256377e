"""From tags to cuts: which nodes of a graph go into which delegate, and what crosses each border.

One pass over the nodes and one over the members of each partition; nothing of the graph is changed.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.fx as fx
from attrs import define, field
from torch.export.graph_signature import InputSpec

from apportion.engine.lowering.errors import TagError
from apportion.engine.lowering.owner import Owner
from apportion.engine.ops import op_of
from apportion.engine.tag import TAG

__all__ = ["NO_COPY", "Cut", "cut_graph"]

logger = logging.getLogger("apportion")

NO_COPY = "no_copy"
"""The key in `node.meta` of a constant that must not be copied into several delegates."""

_CALLS = frozenset({"call_function", "call_method", "call_module"})


@define(eq=False)
class Cut:
    """One partition of one graph.

    `nodes` in graph order; `constants` the placeholders that move in, `attributes` the `get_attr` nodes copied in,
    `inputs` and `outputs` the nodes whose values cross the border; `repeated` the nodes inside that make sizes which
    are needed outside: a delegate gives tensors, so they are computed there again; `writes` the buffers it takes over,
    each with the node that computes what it holds afterwards.
    """

    tag: str
    path: str
    module: fx.GraphModule
    nodes: list[fx.Node] = field(factory=list)
    constants: dict[fx.Node, InputSpec] = field(factory=dict)
    attributes: dict[fx.Node, Any] = field(factory=dict)
    inputs: dict[fx.Node, None] = field(factory=dict)
    outputs: list[fx.Node] = field(factory=list)
    repeated: list[fx.Node] = field(factory=list)
    writes: list[tuple[fx.Node, InputSpec]] = field(factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its nodes."""
        return tuple(node.name for node in self.nodes)


def cut_graph(module: fx.GraphModule, owner: Owner, tags: Iterable[str], path: str = "") -> list[Cut]:
    """The cuts of one graph, in the order of `tags`; a tag without nodes gives none.

    Raises TagError for a tag that is not listed, on the output, on an input of the caller's, or on nodes whose tuple
    would cross the border.
    """
    main = path == ""
    cuts = {tag: Cut(tag, path, module) for tag in tags}
    constants, output = _collect(module, owner if main else None, cuts)
    belongs = {node: cut for cut in cuts.values() for node in cut.nodes}
    _keep_tuples_inside(cuts, belongs)
    written: dict[int, tuple[fx.Node, InputSpec]] = {}
    movable = _movable(constants, belongs, output, owner, written)
    slots = _slots(output)
    owned = _owned(output, belongs, movable, written)
    for cut in cuts.values():
        _find_inputs(cut, belongs, movable)
        _find_outputs(cut, belongs, output, slots, owned)
    return [cut for cut in cuts.values() if cut.nodes and _has_use(cut)]


def _collect(module: fx.GraphModule, owner: Owner | None, cuts: Mapping[str, Cut]) -> tuple[list[fx.Node], fx.Node]:
    """Sort the tagged nodes; gives the tagged constants and the output node."""
    constants: list[fx.Node] = []
    output: fx.Node | None = None
    for node in module.graph.nodes:
        if node.op == "output":
            output = node
        tag = node.meta.get(TAG)
        if not tag:
            continue
        if tag not in cuts:
            raise TagError(f"the node {node.name} is tagged {tag!r}, which partition_tags does not list")
        if node.op in _CALLS:
            cuts[tag].nodes.append(node)
        elif node.op == "placeholder":
            if owner is None or owner.constant_spec(node) is None:
                raise TagError(
                    f"the placeholder {node.name} is no parameter, buffer or constant; it must not be tagged")
            constants.append(node)
        elif node.op == "output":
            raise TagError(f"the output node {node.name} must not be tagged")
    if output is None:
        raise TagError("the graph has no output node")
    return constants, output


def _keep_tuples_inside(cuts: Mapping[str, Cut], belongs: dict[fx.Node, Cut]) -> None:
    """A getitem is where its producer is, whatever its own tag."""
    for cut in cuts.values():
        stray = {n for n in cut.nodes if _is_getitem(n) and belongs.get(n.all_input_nodes[0]) is not cut}
        for node in stray:
            del belongs[node]
        if stray:
            cut.nodes = [n for n in cut.nodes if n not in stray]
        getitems = [u for n in cut.nodes if _is_tuple(n) for u in n.users if _is_getitem(u)]
        missing = [node for node in getitems if belongs.get(node) is not cut]
        if missing:
            _add(cut, missing, belongs)


def _add(cut: Cut, nodes: list[fx.Node], belongs: dict[fx.Node, Cut]) -> None:
    """Add getitems right behind the nodes they belong to."""
    behind: dict[Any, list[fx.Node]] = {}
    for node in nodes:
        other = belongs.get(node)
        if other is not None:
            other.nodes = [n for n in other.nodes if n is not node]
        behind.setdefault(node.args[0], []).append(node)
        belongs[node] = cut
    cut.nodes = [one for node in cut.nodes for one in (node, *behind.get(node, ()))]


def _is_getitem(node: fx.Node) -> bool:
    return node.target is operator.getitem and isinstance(node.args[0], fx.Node) and _is_tuple(node.args[0])


def _is_tuple(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (tuple, list))


def _movable(
    constants: Iterable[fx.Node],
    belongs: Mapping[fx.Node, Cut],
    output: fx.Node,
    owner: Owner,
    written: dict[int, tuple[fx.Node, InputSpec]],
) -> dict[fx.Node, InputSpec]:
    """The tagged constants that move into the delegates that use them; `written` gets those that are written back."""
    movable: dict[fx.Node, InputSpec] = {}
    for node in constants:
        spec = owner.constant_spec(node)
        if spec is None:
            continue
        users = {id(belongs.get(user)) for user in node.users}
        shared = len(users) > 1 or id(None) in users
        if shared and node.meta.get(NO_COPY):
            names = ", ".join(user.name for user in node.users)
            logger.warning("the constant %s stays an input of its delegates: it must not be copied, and %s use it",
                           node.name, names)
            continue
        place = owner.write_back(spec)
        if place is not None:
            source = output.args[0][place]  # type: ignore[index]
            cut = belongs.get(source)  # type: ignore[arg-type]
            if cut is None or any(belongs.get(user) is not cut for user in node.users):
                logger.warning("the buffer %s stays an input of its delegate: what is written to it is not all inside",
                               node.name)
                continue
            written[place] = (node, spec)
        movable[node] = spec
    return movable


def _slots(output: fx.Node) -> dict[fx.Node, list[int]]:
    """The places at which the graph returns each node."""
    slots: dict[fx.Node, list[int]] = {}
    results = output.args[0]
    for place, node in enumerate(results if isinstance(results, (tuple, list)) else (results,)):
        if isinstance(node, fx.Node):
            slots.setdefault(node, []).append(place)
    return slots


def _owned(
    output: fx.Node,
    belongs: Mapping[fx.Node, Cut],
    movable: Mapping[fx.Node, InputSpec],
    written: Mapping[int, tuple[fx.Node, InputSpec]],
) -> set[int]:
    """The places of the output that delegates take over, noted in the cuts that do."""
    for place, (node, spec) in written.items():
        source = output.args[0][place]  # type: ignore[index]
        cut = belongs[source]  # type: ignore[index]
        cut.writes.append((source, spec))  # type: ignore[arg-type]
        cut.constants[node] = spec  # also where nothing reads the buffer
    return set(written)


def _find_inputs(cut: Cut, belongs: Mapping[fx.Node, Cut], movable: Mapping[fx.Node, InputSpec]) -> None:
    """What the nodes read from outside, in the order in which they read it first."""
    owned = cut.constants
    cut.constants = {}
    for node in cut.nodes:
        for source in node.all_input_nodes:
            if belongs.get(source) is cut:
                continue
            if source.op == "get_attr":
                cut.attributes[source] = _attribute(cut.module, str(source.target))
            elif source in movable:
                cut.constants[source] = movable[source]
            elif _is_tuple(source):
                raise TagError(f"the tuple {source.name} would go into the delegate {cut.tag}; tag its getitems, too")
            else:
                cut.inputs[source] = None
    for constant, spec in owned.items():
        cut.constants.setdefault(constant, spec)


def _find_outputs(
    cut: Cut, belongs: Mapping[fx.Node, Cut], output: fx.Node, slots: Mapping[fx.Node, list[int]], owned: set[int]
) -> None:
    needed: set[fx.Node] = set()
    for node in reversed(cut.nodes):
        read = node in needed or any(user is not output and belongs.get(user) is not cut for user in node.users)
        if not read and all(place in owned for place in slots.get(node, ())):
            continue
        if _is_tuple(node):
            raise TagError(f"the tuple {node.name} would come out of the delegate {cut.tag}")
        if _is_scalar(node):
            cut.repeated.append(node)
            needed.update(source for source in node.all_input_nodes if belongs.get(source) is cut)
        else:
            cut.outputs.append(node)
    cut.outputs.reverse()
    cut.repeated.reverse()


def _is_scalar(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def _has_use(cut: Cut) -> bool:
    """Dead code and sizes alone stay where they are; what has effects is worth a call without outputs."""
    if cut.outputs or cut.writes:
        return True
    return any((op := op_of(node)) is not None and op.has_effects for node in cut.nodes)


def _attribute(module: torch.nn.Module, target: str) -> Any:
    return operator.attrgetter(target)(module)
