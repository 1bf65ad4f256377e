"""Which matches win where several want one node: `over`, then most nodes, then position in file and graph."""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from attrs import define, field, frozen

from apportion.engine.candidates import Candidate, Match
from apportion.engine.facts import Value

__all__ = ["Loss", "Resolution", "resolve"]


_MOST = sys.maxsize


@frozen(eq=False)
class Loss:
    """A match that gave way: to whom, and on which node."""

    match: Match
    winner: Match
    node: Value


@define(eq=False)
class Resolution:
    """The candidates that won, with the variants that are theirs, and who lost to whom."""

    winners: list[Candidate] = field(factory=list)
    losses: list[Loss] = field(factory=list)


Place = tuple[int, int, int, int]
"""Where a candidate stands in line: most nodes first, then by rule, then by root; its index."""


@define(eq=False)
class _Board:
    """Who owns each node, which outstanding candidates of rules that stand over others want it, who is in line.

    Matches of one node that nobody else wants are kept `aside`: they have won, unless somebody comes to want it before
    their `turn`.
    """

    owners: dict[Value, list[Match]] = field(factory=dict)
    wanted: dict[Value, set[int]] = field(factory=dict)
    queue: list[Place] = field(factory=list)
    aside: dict[Value, Place] = field(factory=dict)
    turn: Place = (-_MOST, 0, 0, 0)

    def conflict(self, match: Match) -> Loss | None:
        for node in match.claimed:
            for owner in self.owners.get(node, ()):
                if not _compatible(match, owner, node):
                    return Loss(match, owner, node)
        return None


def _compatible(match: Match, owner: Match, node: Value) -> bool:
    """Nodes that both matches share may be in both, if they ask for the same specs."""
    return node in match.shared and node in owner.shared and match.emits == owner.emits


def resolve(candidates: Iterable[Candidate]) -> Resolution:
    """Give every node at most one owner, greedily; a loser tries its next variant.

    Every candidate starts at its first variant that was not withdrawn. The order is total, so the outcome depends on
    nothing but the candidates.
    """
    everyone = [c for c in candidates if c.restart() is not None]
    stronger = _stronger(everyone)
    board = _Board()
    result = Resolution()
    waiting: dict[int, list[int]] = {}
    _line_up(everyone, board)
    while board.queue:
        place = heapq.heappop(board.queue)
        board.turn = max(board.turn, place)
        index = place[-1]
        candidate = everyone[index]
        match = candidate.current()
        if match is None:
            continue
        rival = _rival(everyone, candidate, match, board, stronger)
        if rival is not None:
            waiting.setdefault(rival, []).append(index)
            continue
        _withdraw_wish(match, index, board)
        loss = board.conflict(match)
        if loss is None:
            result.winners.append(candidate)
            for node in match.claimed:
                board.owners.setdefault(node, []).append(match)
        else:
            result.losses.append(loss)
            candidate.advance()
            _offer(everyone, index, board, result)
        for blocked in waiting.pop(index, ()):
            _offer(everyone, blocked, board, result)
    result.winners.extend([everyone[place[-1]] for place in board.aside.values()])
    result.winners.sort(key=attrgetter("root.position", "rule.position"))
    return result


def _line_up(everyone: list[Candidate], board: _Board) -> None:
    """Put each candidate in line, or aside."""
    wishes = Counter([node for candidate in everyone for node in _claimed(candidate)])
    for index, candidate in enumerate(everyone):
        claimed = _claimed(candidate)
        if len(claimed) == 1 and wishes[claimed[0]] == 1:
            board.aside[claimed[0]] = (-1, candidate.rule.position, candidate.root.position, index)
        else:
            _stand_in_line(everyone, index, board)


def _claimed(candidate: Candidate) -> tuple[Value, ...]:
    match = candidate.current()
    return () if match is None else match.claimed


def _offer(everyone: list[Candidate], index: int, board: _Board, result: Resolution) -> None:
    """Put a candidate in line again with the variant it offers now; those aside that it comes in the way of, too."""
    for node in _claimed(everyone[index]):
        place = board.aside.pop(node, None)
        if place is None:
            continue
        single = everyone[place[-1]]
        match = single.current()
        if place > board.turn or match is None:
            _stand_in_line(everyone, place[-1], board)
        else:  # its turn is over: it won
            result.winners.append(single)
            board.owners[node] = [match]
    _stand_in_line(everyone, index, board)


def _stand_in_line(everyone: list[Candidate], index: int, board: _Board) -> None:
    candidate = everyone[index]
    match = candidate.current()
    if match is None:
        return
    heapq.heappush(board.queue, (-len(match.claimed), candidate.rule.position, candidate.root.position, index))
    if candidate.rule.over:
        for node in match.claimed:
            board.wanted.setdefault(node, set()).add(index)


def _stronger(candidates: list[Candidate]) -> dict[str, set[str]]:
    """For each rule the rules that stand over it."""
    found: dict[str, set[str]] = {}
    for rule in {id(c.rule): c.rule for c in candidates}.values():
        for weaker in rule.over:
            found.setdefault(weaker, set()).add(rule.name)
    return found


def _withdraw_wish(match: Match, index: int, board: _Board) -> None:
    for node in match.claimed:
        if node in board.wanted:
            board.wanted[node].discard(index)


def _rival(
    everyone: list[Candidate], candidate: Candidate, match: Match, board: _Board, stronger: dict[str, set[str]]
) -> int | None:
    """An outstanding candidate of a rule over this one that wants one of its nodes for itself."""
    above = stronger.get(candidate.rule.name)
    if not above:
        return None
    for node in match.claimed:
        for index in sorted(board.wanted.get(node, ())):
            other = everyone[index].current()
            if everyone[index].rule.name in above and other is not None and not _compatible(match, other, node):
                return index
    return None
