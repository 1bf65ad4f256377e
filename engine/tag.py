"""Tags on nodes: written last, over a program that is otherwise left alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.fx as fx

from apportion.engine.facts import GraphFacts, Value
from apportion.engine.merge import Flow, Unit, interleaved
from apportion.engine.settle import Border, Group

__all__ = ["TAG", "clear_tags", "foreign_groups", "foreign_tag", "tag_name", "tagged", "write_tags"]

TAG = "delegation_tag"
"""The key in `node.meta` where ExecuTorch's lowering and ours look for tags."""

_PREFIX = "apportion_"


def tag_name(backend_id: str, number: int, method: str = "") -> str:
    """A tag: our prefix, the method of a program with several, the backend, a number unique in the program."""
    words = [re.sub(r"\W", "_", word) for word in (method, backend_id) if word]
    return _PREFIX + "_".join([*words, str(number)])


def foreign_tag(node: fx.Node) -> str | None:
    """The tag that another partitioner put on a node."""
    tag = node.meta.get(TAG)
    return tag if isinstance(tag, str) and not tag.startswith(_PREFIX) else None


def foreign_groups(tags: Sequence[Value], flow: Flow) -> list[list[int]]:
    """The partitions that other partitioners made in a graph, whose nodes with `tags` are given, as positions of their
    nodes; not those that can't run."""
    groups: dict[str, list[int]] = {}
    for call in tags:
        tag = foreign_tag(call.fx)
        if tag is not None:
            groups.setdefault(tag, []).append(call.position)
    found = list(groups.values())
    lost = interleaved(flow, [Unit(tuple(group)) for group in found])
    return [group for index, group in enumerate(found) if index not in lost]


def tagged(graph: GraphFacts) -> list[Value]:
    """The op nodes that carry any tag."""
    return [call for call in graph.calls if TAG in call.fx.meta]


def clear_tags(graph: GraphFacts) -> None:
    """Remove the tags of an earlier run."""
    for node in graph.module.graph.nodes:
        meta = node.meta
        if TAG in meta and isinstance(meta[TAG], str) and meta[TAG].startswith(_PREFIX):
            del meta[TAG]


def write_tags(group: Group, border: Border, tag: str, graph: GraphFacts) -> tuple[fx.Node, ...]:
    """Tag a partition: its nodes, their getitems, the constants that go along. Gives the op nodes and getitems in graph
    order.

    A constant that several partitions take gets the smallest of their tags; it is copied when they are lowered.
    """
    tagged = [value.fx for value in group.nodes]
    several = [value for value in group.nodes if not isinstance(value.val, torch.Tensor)]
    getitems = [node for value in several for node in value.getitems]
    if getitems:
        tagged.extend(getitems)
        tagged.sort(key=graph.places.__getitem__)
    for node in tagged:
        node.meta[TAG] = tag
    if not graph.path:
        for value in border.constants:
            known = value.fx.meta.get(TAG)
            if value.fx.op in ("placeholder", "get_attr") and (known is None or tag < known):
                value.fx.meta[TAG] = tag
    return tuple(tagged)
