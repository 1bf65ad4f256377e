"""Which values a graph writes to. Before functionalisation a buffer may be written through a chain of views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from apportion.engine.facts.arguments import nodes_in

if TYPE_CHECKING:
    from apportion.engine.facts.graph import GraphFacts
    from apportion.engine.facts.value import Value

__all__ = ["written_values"]


def written_values(graph: GraphFacts) -> frozenset[Value]:
    """The values written by the graph's ops, with everything they share memory with on the way to a placeholder."""
    found: set[Value] = set()
    calls = graph.calls if graph.branches else [c for c in graph.calls if c.op is not None and c.op.is_mutable]
    pending = [v for call in calls for v in _directly_written(call)]
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            found.add(value.node)
            pending.extend(_shares_memory_with(value.node))
    return frozenset(found)


def _directly_written(call: Value) -> Iterator[Value]:
    op = call.op
    if op is not None and op.is_mutable and not str(call.fx.target).startswith("auto_functionalized"):
        yield from _values_of(call, op.writes or tuple(call.raw_arguments)[:1])
    for branch in call.subgraphs:
        for placeholder in branch.placeholders:
            if placeholder in branch.written:
                yield from (v for v in branch.operands(placeholder) if v.graph is call.graph)


def _shares_memory_with(value: Value) -> Iterator[Value]:
    op = value.op
    if op is not None and op.aliases:
        yield from _values_of(value, op.aliases)


def _values_of(call: Value, names: Iterable[str]) -> Iterator[Value]:
    for name in names:
        for node in nodes_in(call.raw_arguments.get(name)):
            yield call.graph.value(node)
