"""Cutting a partition that is too big."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apportion.engine.merge.flow import Flow, Unit
from apportion.engine.merge.quotient import Cyclic, topological_order

__all__ = ["split"]


def split(
    flow: Flow, units: Sequence[Unit], fits: Callable[[list[int]], bool], connected: bool = False
) -> tuple[list[list[int]], list[int]]:
    """Cut one partition, given by its units, into pieces that fit.

    `fits` is asked about lists of unit indices. Returns the pieces, in the order in which they can run, and the
    units that do not fit even alone. Pieces are stretches of a topological order of the partition, so they are
    convex and acyclic together, with what is withdrawn, and with all partitions that this one was acyclic with.
    With `connected`, no piece falls into parts without an edge between them. Raises Cyclic where the units make
    a cycle.
    """
    local = _local_edges(flow, units)
    numbered = topological_order(local)
    if numbered is None:
        raise Cyclic("the units of the partition make a cycle")
    pieces: list[list[int]] = []
    withdrawn: list[int] = []
    work = [numbered]
    while work:
        whole = work.pop()
        cut, lost = _stretches(whole, fits)
        withdrawn.extend(lost)
        for piece in cut:
            parts = _parts(piece, local) if connected else [piece]
            if len(parts) == 1:
                pieces.append(piece)
            else:
                work.extend(parts)
    rank = {unit: position for position, unit in enumerate(numbered)}
    if connected:
        pieces = _runnable(pieces, local, rank)
    return pieces, sorted(withdrawn, key=rank.__getitem__)


def _local_edges(flow: Flow, units: Sequence[Unit]) -> list[list[int]]:
    """For each unit the units that it takes something from."""
    unit_of = {node: index for index, unit in enumerate(units) for node in unit.nodes}
    order = sorted(range(len(units)), key=lambda index: units[index].first)
    edges: list[list[int]] = [[] for _ in units]
    for index in order:
        found = {unit_of[other] for node in units[index].nodes for other in flow.predecessors[node] if other in unit_of}
        found.discard(index)
        edges[index] = sorted(found)
    return edges


def _stretches(order: Sequence[int], fits: Callable[[list[int]], bool]) -> tuple[list[list[int]], list[int]]:
    pieces: list[list[int]] = []
    lost: list[int] = []
    start, guess = 0, len(order)
    while start < len(order):
        size = _longest(order, start, min(guess, len(order) - start), fits)
        if size:
            pieces.append(list(order[start:start + size]))
            guess = size
        else:
            lost.append(order[start])
        start += max(size, 1)
    return pieces, lost


def _longest(order: Sequence[int], start: int, guess: int, fits: Callable[[list[int]], bool]) -> int:
    """How many units from `start` on fit together; few questions are asked: sizes halve or grow, then close in."""
    available = len(order) - start

    def suits(size: int) -> bool:
        return fits(list(order[start:start + size]))

    bad = available + 1
    size = guess
    while size and not suits(size):
        bad, size = size, size // 2
    if not size:
        return 0
    good = size
    step = 1
    while bad > available and good < available:
        size = min(good + step, available)
        if suits(size):
            good, step = size, step * 2
        else:
            bad = size
    while bad - good > 1:
        size = (good + bad) // 2
        if suits(size):
            good = size
        else:
            bad = size
    return good


def _parts(piece: Sequence[int], local: Sequence[Sequence[int]]) -> list[list[int]]:
    """The connected parts of a piece, each in the piece's order."""
    inside = set(piece)
    leader = {unit: unit for unit in piece}

    def find(unit: int) -> int:
        while leader[unit] != unit:
            leader[unit] = leader[leader[unit]]
            unit = leader[unit]
        return unit

    for unit in piece:
        for other in local[unit]:
            if other in inside:
                leader[find(other)] = find(unit)
    parts: dict[int, list[int]] = {}
    for unit in piece:
        parts.setdefault(find(unit), []).append(unit)
    return list(parts.values())


def _runnable(pieces: list[list[int]], local: Sequence[Sequence[int]], rank: dict[int, int]) -> list[list[int]]:
    """Pieces sorted so that each follows those it takes something from, the earliest first where that is free."""
    pieces = sorted(pieces, key=lambda piece: rank[piece[0]])
    piece_of = {unit: number for number, piece in enumerate(pieces) for unit in piece}
    edges = [
        sorted({piece_of[other] for unit in piece for other in local[unit] if other in piece_of} - {number})
        for number, piece in enumerate(pieces)
    ]
    order = topological_order(edges)
    if order is None:
        raise Cyclic("the pieces make a cycle")
    return [pieces[number] for number in order]
