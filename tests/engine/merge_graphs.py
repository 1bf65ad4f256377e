"""Random graphs for the tests of merging, and judges that share no code with it."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence

import networkx
import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from apportion.engine.merge import Flow, Unit

Predecessors = list[list[int]]


def random_predecessors(rng: random.Random, size: int, density: float | None = None, reach: int = 99) -> Predecessors:
    """A random graph in topological order; each node takes from 0 to 3 of the `reach` nodes before it."""
    if density is not None:
        return [[u for u in range(max(0, v - reach), v) if rng.random() < density] for v in range(size)]
    return [sorted(rng.sample(range(max(0, v - reach), v), min(v, rng.choice((0, 1, 1, 1, 2, 2, 3)), reach)))
            for v in range(size)]


def singles(nodes: Sequence[int], colours: Sequence[object] | None = None) -> list[Unit]:
    if colours is None:
        return [Unit((node,)) for node in nodes]
    return [Unit((node,), colour) for node, colour in zip(nodes, colours, strict=True)]


def contracted(predecessors: Predecessors, groups: Sequence[Sequence[int]]) -> networkx.DiGraph:
    """The graph with each group as one node (`("group", i)`)."""
    name: dict[int, object] = {node: ("group", i) for i, group in enumerate(groups) for node in group}
    graph = networkx.DiGraph()
    for node, before in enumerate(predecessors):
        graph.add_node(name.get(node, node))
        for other in before:
            if name.get(other, other) != name.get(node, node):
                graph.add_edge(name.get(other, other), name.get(node, node))
    return graph


def is_acyclic(predecessors: Predecessors, groups: Sequence[Sequence[int]]) -> bool:
    return bool(networkx.is_directed_acyclic_graph(contracted(predecessors, groups)))


def is_convex(predecessors: Predecessors, group: Sequence[int]) -> bool:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(predecessors)))
    graph.add_edges_from((other, node) for node, before in enumerate(predecessors) for other in before)
    below = set().union(*(networkx.descendants(graph, node) for node in group)) - set(group)
    above = set().union(*(networkx.ancestors(graph, node) for node in group)) - set(group)
    return not below & above


def is_connected(predecessors: Predecessors, units: Sequence[Unit], partition: Sequence[int],
                 reads: Sequence[Sequence[object]] = ()) -> bool:
    """Whether the units of a partition hang together by edges (and by values they read, where given)."""
    unit_of = {node: unit for unit in partition for node in units[unit].nodes}
    graph = networkx.Graph()
    graph.add_nodes_from(partition)
    graph.add_edges_from((unit_of[other], unit) for node, unit in unit_of.items() for other in predecessors[node]
                         if other in unit_of)
    if reads:
        graph.add_edges_from((("value", value), unit) for node, unit in unit_of.items() for value in reads[node])
    return bool(networkx.is_connected(graph))


def set_partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    head, rest = items[0], items[1:]
    for smaller in set_partitions(rest):
        yield [[head], *smaller]
        for i, group in enumerate(smaller):
            yield [*smaller[:i], [head, *group], *smaller[i + 1:]]


def fewest_by_enumeration(predecessors: Predecessors, claimed: Sequence[int]) -> int:
    """The minimum over every way to group the claimed nodes."""
    return min(len(groups) for groups in set_partitions(claimed) if is_acyclic(predecessors, groups))


def fewest_by_schedule(predecessors: Predecessors, units: Sequence[Unit], fixed: Sequence[Sequence[int]] = ()) -> int:
    """The minimum for coloured units: breadth first over what has run, one colour at a time."""
    groups = [*(unit.nodes for unit in units), *fixed]
    graph = contracted(predecessors, groups)
    colour = {("group", i): unit.colour for i, unit in enumerate(units)}
    nodes = list(networkx.topological_sort(graph))

    def run(done: frozenset[object], wanted: object, free: bool) -> frozenset[object]:
        more = set(done)
        for node in nodes:
            fits = node not in colour if free else node in colour and colour[node] == wanted
            if node not in more and fits and all(other in more for other in graph.pred[node]):
                more.add(node)
        return frozenset(more)

    states = {run(frozenset(), None, True)}
    for count in range(len(units) + 1):
        if any(len(state) == len(nodes) for state in states):
            return count
        states = {run(run(state, wanted, False), None, True) for state in states for wanted in set(colour.values())}
    raise ValueError("the graph does not run to its end")


class _Supported(OperatorSupportBase):
    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return bool(node.meta.get("claimed"))


def capability_partitions(predecessors: Predecessors, claimed: Sequence[int], skip: bool = True) -> list[list[int]]:
    """What torch's own partitioner makes of the same graph as a real FX graph."""
    graph = torch.fx.Graph()
    root = graph.placeholder("x")
    nodes: list[torch.fx.Node] = []
    chosen = set(claimed)
    for number, before in enumerate(predecessors):
        node = graph.call_function(_takes, tuple(nodes[other] for other in before) or (root,))
        node.meta.update(claimed=number in chosen, number=number)
        nodes.append(node)
    graph.output(tuple(node for node in nodes if not node.users))
    module = torch.fx.GraphModule({}, graph)
    partitioner = CapabilityBasedPartitioner(
        module, _Supported(), allows_single_node_partition=True, skip_horizontal_fusion=skip)
    return [[node.meta["number"] for node in partition.nodes] for partition in partitioner.propose_partitions()]


def _takes(*values: object) -> object:
    return operator.itemgetter(0)(values)


def check(flow: Flow, units: Sequence[Unit], partitions: Sequence[Sequence[int]],
          fixed: Sequence[Sequence[int]] = ()) -> None:
    """What holds of every merge: each unit once, one colour each, convex, acyclic with `fixed`, in order."""
    predecessors = [list(before) for before in flow.predecessors]
    assert sorted(unit for partition in partitions for unit in partition) == list(range(len(units)))
    groups = [[node for unit in partition for node in units[unit].nodes] for partition in partitions]
    for partition, group in zip(partitions, groups, strict=True):
        assert len({units[unit].colour for unit in partition}) == 1
        assert is_convex(predecessors, group)
        assert [units[unit].first for unit in partition] == sorted(units[unit].first for unit in partition)
    assert is_acyclic(predecessors, [*groups, *fixed])
    firsts = [min(group) for group in groups]
    assert firsts == sorted(firsts)
