"""Which units can't all be contracted, and what lies between two partitions that can't be one."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.engine.merge.clusters import Budget, Clusters
from apportion.engine.merge.flow import Flow, Unit, reversed_edges
from apportion.engine.merge.quotient import Quotient, contract, group_edges, topological_order

__all__ = ["interleaved", "path_around", "path_between"]


def interleaved(flow: Flow, units: Sequence[Unit], fixed: Sequence[Sequence[int]] = ()) -> set[int]:
    """The units that must give way, so that each other one and each of `fixed` can be one node.

    Larger units come first, then earlier ones: what makes a cycle with those that are already there gives way, as
    does a unit that is not convex. Raises Cyclic where `fixed` alone makes a cycle.
    """
    groups = [*fixed, *(unit.nodes for unit in units)]
    if all(len(group) < 2 for group in groups):
        return set()
    _, edges = group_edges(flow.predecessors, groups)
    if topological_order(edges) is not None:
        return set()
    quotient = contract(flow.predecessors, fixed)
    member_of = quotient.node_of
    clusters = Clusters(quotient, [0] * len(quotient), Budget(_unbounded(quotient)))
    order = sorted(range(len(units)), key=lambda i: (-len(units[i].nodes), units[i].first, units[i].nodes, i))
    lost: set[int] = set()
    for index in order:
        nodes = units[index].nodes
        clusters.budget.left = _unbounded(quotient)
        if len(nodes) > 1 and not clusters.try_contract(clusters.name(member_of[node]) for node in nodes):
            lost.add(index)
    return lost


def _unbounded(quotient: Quotient) -> int:
    return 4 * (sum(map(len, quotient.predecessors)) + len(quotient)) + 4


def path_between(flow: Flow, partitions: Sequence[Sequence[int]], a: int, b: int) -> list[int] | None:
    """The nodes outside of two partitions on a shortest path from one to the other, in its order; None without one.

    Such a path is why they can't be one partition. Where it goes through a third partition, the node that it
    enters by and the one that it leaves by are named. Raises Cyclic where the partitions are not acyclic together.
    """
    quotient = contract(flow.predecessors, partitions)
    source, target = (quotient.node_of[partitions[number][0]] for number in (a, b))
    if source > target:
        source, target = target, source
    steps = _shortest(reversed_edges(quotient.predecessors), source, target)
    return None if steps is None else _nodes_on(flow, quotient, steps)


def path_around(flow: Flow, partitions: Sequence[Sequence[int]], nodes: Sequence[int]) -> list[int]:
    """The nodes on a shortest way that leads out of `nodes` and back into them, where `partitions` (acyclic together)
    are one piece each; empty without one."""
    own = set(nodes)
    quotient = contract(flow.predecessors, [group for group in partitions if own.isdisjoint(group)])
    after = reversed_edges(quotient.predecessors)
    inside = {quotient.node_of[node] for node in nodes}
    came_from = {user: start for start in inside for user in after[start] if user not in inside}
    queue = list(came_from)
    for step in queue:
        if not inside.isdisjoint(after[step]):
            path = [next(user for user in after[step] if user in inside), step]
            while path[-1] not in inside:
                path.append(came_from[path[-1]])
            return _nodes_on(flow, quotient, path[::-1])
        for user in after[step]:
            if user not in came_from and user not in inside:
                came_from[user] = step
                queue.append(user)
    return []


def _shortest(after: Sequence[Sequence[int]], source: int, target: int) -> list[int] | None:
    """The nodes of a shortest path of at least one node between two, both ends included."""
    came_from = {user: source for user in after[source] if user < target}
    queue = list(came_from)
    for node in queue:
        for user in after[node]:
            if user == target:
                path = [target, node]
                while path[-1] != source:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if user < target and user not in came_from:
                came_from[user] = node
                queue.append(user)
    return None


def _nodes_on(flow: Flow, quotient: Quotient, steps: Sequence[int]) -> list[int]:
    node_of = quotient.node_of
    wanted = set(zip(steps, steps[1:], strict=False))
    edges: dict[tuple[int, int], tuple[int, int]] = {}
    for node, before in enumerate(flow.predecessors):
        for other in before:
            pair = (node_of[other], node_of[node])
            if pair in wanted:
                edges.setdefault(pair, (other, node))
    named: list[int] = []
    for before_step, step, after_step in zip(steps, steps[1:], steps[2:], strict=False):
        for node in (edges[before_step, step][1], edges[step, after_step][0]):
            if node not in named:
                named.append(node)
    return named
