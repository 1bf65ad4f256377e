"""`merge`: units in, partitions out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, get_args

from apportion.engine.merge.connected import connected_groups
from apportion.engine.merge.flow import Flow, Unit
from apportion.engine.merge.quotient import Quotient, contract
from apportion.engine.merge.stages import UNCLAIMED, stage_groups

__all__ = ["MERGE_MODES", "Mode", "merge"]

Mode = Literal["adjacent", "all", "siblings", "none"]
MERGE_MODES: tuple[str, ...] = get_args(Mode)


def merge(
    flow: Flow, units: Sequence[Unit], mode: str = "adjacent", fixed: Sequence[Sequence[int]] = ()
) -> list[list[int]]:
    """Merge units into partitions: lists of unit indices, each and all of them ordered by first node.

    `mode`: "all" gives as few as there can be; "adjacent" keeps each partition connected; "siblings" as adjacent,
    but reading a common value connects, too; "none" leaves every unit alone. `fixed` are partitions that others
    own already: they stay as they are, and the result is acyclic with them. Units and `fixed` are disjoint.

    Raises Cyclic where the units and `fixed` are interleaved (see `interleaved`), ValueError for another mode.
    """
    if mode not in MERGE_MODES:
        raise ValueError(f"merge mode {mode!r} is none of {', '.join(MERGE_MODES)}")
    if not units:
        return []
    quotient = contract(flow.predecessors, [*fixed, *(unit.nodes for unit in units)])
    owner = {quotient.node_of[unit.nodes[0]]: index for index, unit in enumerate(units)}
    firsts = [unit.first for unit in units]
    colours = _colours(quotient, units, sorted(range(len(units)), key=firsts.__getitem__))
    if mode == "none":
        groups = [[node] for node in owner]
    elif mode == "all":
        groups = stage_groups(quotient, colours)
    else:
        reads = _reads(flow, quotient, colours) if mode == "siblings" else None
        groups = connected_groups(quotient, colours, reads)
    partitions = [sorted((owner[node] for node in group), key=firsts.__getitem__) for group in groups]
    return sorted(partitions, key=lambda partition: firsts[partition[0]])


def _colours(quotient: Quotient, units: Sequence[Unit], order: Sequence[int]) -> list[int]:
    """The colour of each node as a small number, numbered as they come in the graph."""
    numbers: dict[Hashable, int] = {}
    colours = [UNCLAIMED] * len(quotient)
    for index in order:
        unit = units[index]
        colours[quotient.node_of[unit.nodes[0]]] = numbers.setdefault(unit.colour, len(numbers))
    return colours


def _reads(flow: Flow, quotient: Quotient, colours: Sequence[int]) -> list[list[Hashable]]:
    """The values that each claimed node of the quotient reads."""
    source = flow.predecessors if flow.reads is None else flow.reads
    reads: list[list[Hashable]] = [[] for _ in range(len(quotient))]
    for node, values in enumerate(source):
        number = quotient.node_of[node]
        if colours[number] != UNCLAIMED:
            reads[number].extend(values)
    return reads
