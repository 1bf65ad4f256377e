"""Why two neighbouring partitions of one backend are two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from apportion.engine.compile.rulesets import PartitionPolicy
from apportion.engine.explain.explanation import Apart
from apportion.engine.facts import GraphFacts, Value
from apportion.engine.merge import Flow, path_between
from apportion.engine.order import flow_of
from apportion.engine.partition import Part
from apportion.engine.settle import border_of

if TYPE_CHECKING:
    from apportion.engine.explain.explaining import Explainer

__all__ = ["neighbours"]

_MOST = 200
"""How many pairs are looked at in one graph."""

_NEAR = 3
"""Partitions with at most so many nodes between them are neighbours."""


def neighbours(explainer: Explainer) -> Iterator[Apart]:
    """Each pair of partitions of one backend that are near each other, and why they are not one."""
    for facts, deciding in explainer.decided.values():
        for graph in facts.graphs:
            parts = deciding.parts_of(graph)
            if len(parts) > 1 and not deciding.dissolved(graph):
                yield from _in_graph(explainer, graph, parts)


def _in_graph(explainer: Explainer, graph: GraphFacts, parts: Sequence[Part]) -> Iterator[Apart]:
    flow = flow_of(graph)
    groups = [[node.position for node in part.group.nodes] for part in parts]
    for a, b in _near_pairs(flow, groups, parts)[:_MOST]:
        yield _why(explainer, graph, flow, parts, groups, a, b)


def _near_pairs(flow: Flow, groups: Sequence[Sequence[int]], parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Pairs of one backend with an edge, or only a few unclaimed nodes, between them, in graph order."""
    owner = {node: index for index, group in enumerate(groups) for node in group}
    reached: list[dict[int, int]] = []
    pairs: dict[tuple[int, int], None] = {}
    for node, before in enumerate(flow.predecessors):
        own = owner.get(node)
        near: dict[int, int] = {}
        for other in before:
            source = owner.get(other)
            found = reached[other] if source is None else {source: 0}
            for index, steps in found.items():
                if own is None:
                    if steps < _NEAR:
                        near[index] = min(steps + 1, near.get(index, _NEAR))
                elif own != index and parts[own].rules is parts[index].rules:
                    pairs[min(own, index), max(own, index)] = None
        reached.append(near)
    return list(pairs)


def _why(
    explainer: Explainer,
    graph: GraphFacts,
    flow: Flow,
    parts: Sequence[Part],
    groups: Sequence[Sequence[int]],
    a: int,
    b: int,
) -> Apart:
    first, second = (_tag(explainer, parts[index]) for index in (a, b))
    path = path_between(flow, groups, a, b)
    if path:
        nodes = [graph.calls[position] for position in path]
        names = ", ".join(f"`{node.name}`" for node in nodes)
        return Apart(
            first, second, f"the way from one to the other leads through {names}",
            tuple(node.name for node in nodes), tuple((n.name, _reason(explainer, n)) for n in nodes),
        )  # fmt: skip
    return Apart(first, second, _other_cause(flow, parts, groups, a, b))


def _other_cause(
    flow: Flow, parts: Sequence[Part], groups: Sequence[Sequence[int]], a: int, b: int
) -> str:
    one, other = parts[a].group, parts[b].group
    policy = parts[a].rules.policy
    if one.blocks[0].emits != other.blocks[0].emits:
        keys = sorted({k for k, v in {*one.blocks[0].emits} ^ {*other.blocks[0].emits}})
        return f"their compile specs differ: {', '.join(keys)}"
    if policy.merge == "none":
        return 'the file says `merge = "none"`'
    limit = _limit(policy, (*one.nodes, *other.nodes), parts, a, b)
    if limit is not None:
        return limit
    members = [set(groups[a]), set(groups[b])]
    touch = any(
        other_node in members[1 - side]
        for side in (0, 1)
        for node in members[side]
        for other_node in flow.predecessors[node]
    )
    if not touch and policy.merge in ("adjacent", "siblings"):
        return f'nothing flows from one to the other directly; `merge = "{policy.merge}"` keeps partitions connected'
    return "together with the other partitions it would make a cycle"


def _limit(policy: PartitionPolicy, nodes: Sequence[Value], parts: Sequence[Part], a: int, b: int) -> str | None:
    border = border_of(nodes, [*parts[a].group.candidates, *parts[b].group.candidates], policy)
    size = sum(v.nbytes for v in border.constants if isinstance(v.nbytes, int))
    for name, found, limit in (
        ("max_nodes", len(nodes), policy.max_nodes),
        ("max_inputs", len(border.inputs), policy.max_inputs),
        ("max_outputs", len(border.outputs), policy.max_outputs),
        ("max_constant_bytes", size, policy.max_constant_bytes),
    ):
        if limit is not None and found > limit:
            return f"together they would have {found}, and {name} is {limit}"
    return None


def _tag(explainer: Explainer, part: Part) -> str:
    return explainer.tag(part.group.nodes[0]) or part.group.nodes[0].name


def _reason(explainer: Explainer, node: Value) -> str:
    owner = next((d.owners(node.graph).get(node) for _, d in explainer.decided.values() if node.graph in d.owned), None)
    if owner is not None:
        return f"it is in another partition of {owner}"
    found = explainer.result.report.reason(node.name)
    return found.message if found is not None else "it is left"
