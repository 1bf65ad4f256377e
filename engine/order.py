"""Who must run before whom in a graph: data edges, and order edges where an effect would be seen."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from apportion.engine.facts import GraphFacts, Value
from apportion.engine.merge import Flow
from apportion.engine.ops import Op

__all__ = ["flow_of", "storage_of", "written_values"]

_MAY_ALIAS = frozenset(
    {"contiguous", "expand_as", "flatten", "narrow", "ravel", "reshape", "reshape_as", "to", "type_as", "unflatten"}
    | {"view_as", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit", "swapaxes", "movedim", "moveaxis"}
)
"""Composite ops that may hand out their input's storage although their schema does not say so."""


def flow_of(graph: GraphFacts, *, reads: bool = True) -> Flow:
    """The graph as a `Flow`: node numbers are positions in `graph.calls`; what each reads only where it is wanted.

    Beside data edges, a node that writes a storage comes after everything before it that reads or writes that storage,
    and before everything after it; random ops keep their order.
    """
    edges = graph.edges
    if any(_may_have_effects(node.op) and node.has_effects for node in graph.calls):
        before = [set(found) for found in edges]
        _add_order(graph, before)
        edges = [sorted(found) for found in before]
    read = [[id(v) for v in node.tensor_inputs if not v.is_constant] for node in graph.calls] if reads else None
    return Flow(edges, read)


def _may_have_effects(op: Op | None) -> bool:
    return op is not None and (op.has_effects or op.style == "higher_order")


@define
class _Storage:
    """The accesses to one storage so far: its last write, and the reads since."""

    last_write: int | None = None
    reads: list[int] = field(factory=list)


def _add_order(graph: GraphFacts, before: list[set[int]]) -> None:
    storages: dict[Value, _Storage] = {}
    cache: dict[Value, tuple[Value, ...]] = {}
    last_random: int | None = None
    for node in graph.calls:
        position = node.position
        written = {s for value in written_values(node) for s in storage_of(value, cache)}
        for value in node.tensor_inputs:
            for storage in storage_of(value, cache):
                found = storages.setdefault(storage, _Storage())
                if found.last_write is not None and found.last_write != position:
                    before[position].add(found.last_write)
                if storage in written:
                    before[position].update(r for r in found.reads if r != position)
                    found.last_write, found.reads = position, []
                else:
                    found.reads.append(position)
        if node.is_random:
            if last_random is not None:
                before[position].add(last_random)
            last_random = position


def written_values(node: Value) -> tuple[Value, ...]:
    """The values that a node writes in place."""
    op = node.op
    if op is None or not op.is_mutable:
        return ()
    return _arguments(node, op.writes) if op.writes else node.tensor_inputs[:1]


def storage_of(value: Value, cache: dict[Value, tuple[Value, ...]]) -> tuple[Value, ...]:
    """The nodes whose storage a value may be, looked up through views and in-place ops; of several that read the same
    stored tensor, the first."""
    chain: list[Value] = []
    node = value.node
    while node not in cache:
        chain.append(node)
        sources = _aliased(node)
        if len(sources) != 1:
            deeper = {s for source in sources for s in storage_of(source, cache)}
            found = sorted(deeper, key=lambda v: (v.position, v.name)) if deeper else node.graph.sharing(node)[:1]
            cache[node] = tuple(found)
            break
        node = sources[0].node
    found = cache[node]
    for passed in chain:
        cache[passed] = found
    return found


def _aliased(node: Value) -> tuple[Value, ...]:
    """The arguments whose storage a node's result may be."""
    op = node.op
    if op is None:
        return ()
    if not op.aliases and (op.base in _MAY_ALIAS or op.style in ("method", "function", "module")):
        return node.tensor_inputs[:1]
    return _arguments(node, op.aliases)


def _arguments(node: Value, names: Iterable[str]) -> tuple[Value, ...]:
    found: list[Value] = []
    for name in names:
        given = node.arguments.get(name)
        found.extend(v for v in (given if isinstance(given, tuple) else (given,)) if isinstance(v, Value))
    return tuple(found)
