"""The plainest lowering there is: each partition becomes a submodule of the same FX graph, run by PyTorch.

It believes nothing about partitions: what may run when is worked out here from data edges and from the storages that
nodes really touch when the graph is run, and a partition that cannot run as one call raises `CannotRun`.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import networkx
import torch
from torch import fx
from torch.utils import _pytree as pytree

__all__ = ["CALLS", "CannotRun", "contracted", "lower_plain", "order_edges"]

CALLS = ("call_function", "call_method", "call_module")


class CannotRun(Exception):
    """The partitions can't each be one call."""


def order_edges(module: fx.GraphModule, inputs: Sequence[Any]) -> list[tuple[fx.Node, fx.Node]]:
    """What must stay in order beside data: accesses to one storage where one of them writes, and random ops."""
    watch = _Watch(module)
    watch.run(*pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, list(inputs)))
    return watch.edges


class _Watch(fx.Interpreter):
    """Runs a graph and notes which storages each node reads and writes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.edges: list[tuple[fx.Node, fx.Node]] = []
        self.readers: dict[int, list[fx.Node]] = defaultdict(list)
        self.writer: dict[int, fx.Node] = {}
        self.last_random: fx.Node | None = None
        self.kept: list[Any] = []  # a freed storage's address would be used again

    def run_node(self, n: fx.Node) -> Any:
        if n.op in CALLS:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            self.kept.append((args, kwargs))
            written = {_storage(t) for t in self._written(n, args, kwargs)}
            for tensor in pytree.tree_leaves((args, kwargs)):
                if isinstance(tensor, torch.Tensor):
                    self._access(n, _storage(tensor), _storage(tensor) in written)
            if _is_random(n):
                if self.last_random is not None:
                    self.edges.append((self.last_random, n))
                self.last_random = n
        return super().run_node(n)

    def _access(self, node: fx.Node, storage: int, writes: bool) -> None:
        writer = self.writer.get(storage)
        if writer is not None and writer is not node:
            self.edges.append((writer, node))
        if writes:
            self.edges.extend((reader, node) for reader in self.readers.pop(storage, []) if reader is not node)
            self.writer[storage] = node
        elif node not in self.readers[storage]:
            self.readers[storage].append(node)

    @staticmethod
    def _written(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        if not isinstance(node.target, torch._ops.OpOverload):
            return []
        found = []
        for place, argument in enumerate(node.target._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                found += [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        return found


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def contracted(
    graph: fx.Graph, groups: Mapping[fx.Node, str], more: Sequence[tuple[fx.Node, fx.Node]] = ()
) -> networkx.DiGraph:
    """The graph with the nodes of each group as one node, named by the group."""
    made = networkx.DiGraph()
    for node in graph.nodes:
        made.add_node(groups.get(node, node))
    edges = [(source, node) for node in graph.nodes for source in node.all_input_nodes]
    for source, node in [*edges, *more]:
        one, other = groups.get(source, source), groups.get(node, node)
        if one != other:
            made.add_edge(one, other)
    return made


def lower_plain(module: fx.GraphModule, groups: Mapping[fx.Node, str],
                order: Sequence[tuple[fx.Node, fx.Node]] = (),
                instead: Mapping[str, fx.GraphModule] | None = None) -> fx.GraphModule:
    """A module that calls one submodule for each group, and the other nodes as they are.

    `groups` names the group of each node that is in one; `order` are edges beside those of data; `instead` are
    modules to use in place of attributes (branches that are lowered already). Parameters and buffers are shared
    with `module`. Raises CannotRun where the groups make a cycle or a tuple crosses a border.
    """
    place = {node: number for number, node in enumerate(module.graph.nodes)}
    members: dict[str, list[fx.Node]] = defaultdict(list)
    for node in module.graph.nodes:
        if node in groups and node.op in CALLS:
            members[groups[node]].append(node)
    within = {node: name for name, nodes in members.items() for node in nodes}
    quotient = contracted(module.graph, within, order)
    if not networkx.is_directed_acyclic_graph(quotient):
        raise CannotRun(f"a cycle: {networkx.find_cycle(quotient)}")
    # Neighbours are tried in the graph's own order; where that is free, a group runs as late as its last node.
    last = {item: place[members[item][-1]] if item in members else place[item] for item in quotient}
    source = _Source(module, instead or {})
    made = fx.Graph()
    root: dict[str, Any] = {}
    env: dict[fx.Node, fx.Node] = {}
    for number, item in enumerate(networkx.lexicographical_topological_sort(quotient, key=last.__getitem__)):
        if item in members:
            _call_group(source, made, root, env, members[item], f"part_{number}")
        else:
            env[item] = made.node_copy(item, lambda node: env[node])
            if item.op == "get_attr" or item.op == "call_module":
                root[item.target] = source.attribute(item.target)
    _placeholders_first(made)
    lowered = fx.GraphModule(_Root(root), made)
    for name, value in root.items():
        _set_attribute(lowered, name, value)
    return lowered


class _Root(torch.nn.Module):
    def __init__(self, attributes: Mapping[str, Any]) -> None:
        super().__init__()
        for name, value in attributes.items():
            _set_attribute(self, name, value)


class _Source:
    """Where the attributes of a graph come from."""

    def __init__(self, module: torch.nn.Module, instead: Mapping[str, fx.GraphModule]) -> None:
        self.module = module
        self.instead = instead

    def attribute(self, target: str) -> Any:
        return self.instead[target] if target in self.instead else operator.attrgetter(target)(self.module)


def _set_attribute(module: torch.nn.Module, target: str, value: Any) -> None:
    *path, name = target.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = getattr(module, part)
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(name, value)
    elif isinstance(value, torch.nn.Module):
        module.add_module(name, value)
    elif isinstance(value, torch.Tensor):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _placeholders_first(graph: fx.Graph) -> None:
    first = next(iter(graph.nodes))
    for node in graph.nodes:
        if node.op == "placeholder" and node is not first:
            first.append(node)
            first = node


def _call_group(origin: _Source, made: fx.Graph, root: dict[str, Any], env: dict[fx.Node, fx.Node],
                nodes: Sequence[fx.Node], name: str) -> None:
    inner = fx.Graph()
    own: dict[fx.Node, fx.Node] = {}
    attributes: dict[str, Any] = {}
    inside = set(nodes)
    inputs: list[fx.Node] = []
    for source in dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside):
        if source.op == "get_attr":
            attributes[source.target] = origin.attribute(source.target)
            own[source] = inner.get_attr(source.target)
        else:
            if isinstance(source.meta.get("val"), (tuple, list)):
                raise CannotRun(f"the tuple {source} goes into {name}")
            inputs.append(source)
    for source in inputs:
        own[source] = inner.placeholder(source.name)
    for node in nodes:
        own[node] = inner.node_copy(node, lambda n: own[n])
        if node.op == "call_module":
            attributes[node.target] = origin.attribute(node.target)
    _placeholders_first(inner)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    for node in outputs:
        if isinstance(node.meta.get("val"), (tuple, list)):
            raise CannotRun(f"the tuple {node} comes out of {name}")
    inner.output(tuple(own[node] for node in outputs))
    root[name] = fx.GraphModule(_Root(attributes), inner)
    call = made.call_module(name, tuple(env[source] for source in inputs))
    for number, node in enumerate(outputs):
        env[node] = made.call_function(operator.getitem, (call, number))
