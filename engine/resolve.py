"""Which matches win where several want one node: `over`, then most nodes, then position in file and graph."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import NamedTuple

from attrs import define, field

from apportion.engine.compile.rulesets import CompiledRule
from apportion.engine.facts import Value
from apportion.engine.found import Candidate

__all__ = ["Loss", "Resolution", "resolve"]


_MOST = sys.maxsize


class Loss(NamedTuple):
    """A match that gave way: to the rule of which match, and on which node."""

    rule: CompiledRule
    claimed: tuple[Value, ...]
    winner: CompiledRule
    taken: tuple[Value, ...]
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

    Matches whose nodes nobody else wants are kept `aside`, by each of their nodes: they have won, unless somebody
    comes to want one before their `turn`.
    """

    everyone: Sequence[Candidate]
    owners: dict[Value, list[Candidate]] = field(factory=dict)
    wanted: dict[Value, set[int]] = field(factory=dict)
    queue: list[Place] = field(factory=list)
    aside: dict[Value, int] = field(factory=dict)
    won: list[int] = field(factory=list)
    turn: Place = (-_MOST, 0, 0, 0)

    def place(self, index: int) -> Place:
        """Where a candidate stands with the variant it offers now."""
        candidate = self.everyone[index]
        return -len(candidate.claimed), candidate.rule.position, candidate.root.position, index

    def conflict(self, candidate: Candidate) -> Loss | None:
        """The owner that a candidate has to give way to."""
        for node in candidate.claimed:
            for owner in self.owners.get(node, ()):
                if not _compatible(candidate, owner, node):
                    return Loss(candidate.rule, candidate.claimed, owner.rule, owner.claimed, node)
        return None

    def win(self, index: int) -> None:
        """Give a candidate its nodes."""
        self.won.append(index)
        candidate = self.everyone[index]
        for node in candidate.claimed:
            self.owners.setdefault(node, []).append(candidate)


def _compatible(one: Candidate, other: Candidate, node: Value) -> bool:
    """Nodes that both matches share may be in both, if they ask for the same specs."""
    if not (one.shares and other.shares):
        return False
    mine, theirs = one.current(), other.current()
    if mine is None or theirs is None:
        return False
    return node in mine.shared and node in theirs.shared and mine.emits == theirs.emits


def resolve(candidates: Sequence[Candidate]) -> Resolution:
    """Give every node at most one owner, greedily; a loser tries its next variant.

    Every candidate starts at its first variant that was not withdrawn. The order is total, so the outcome depends on
    nothing but the candidates; the winners come in the order of the candidates.
    """
    everyone = [c for c in candidates if c.restart()]
    stronger = _stronger(everyone)
    board = _Board(everyone)
    result = Resolution()
    waiting: dict[int, list[int]] = {}
    _line_up(board)
    if not board.queue:
        result.winners = everyone
        return result
    while board.queue:
        place = heapq.heappop(board.queue)
        board.turn = max(board.turn, place)
        index = place[-1]
        candidate = everyone[index]
        rival = _rival(candidate, board, stronger)
        if rival is not None:
            waiting.setdefault(rival, []).append(index)
            continue
        _withdraw_wish(index, board)
        loss = board.conflict(candidate)
        if loss is None:
            board.win(index)
        else:
            result.losses.append(loss)
            candidate.advance()
            _offer(index, board)
        for blocked in waiting.pop(index, ()):
            _offer(blocked, board)
    result.winners = [everyone[index] for index in sorted({*board.won, *board.aside.values()})]
    return result


def _line_up(board: _Board) -> None:
    """Put each candidate in line, or aside."""
    aside = board.aside
    contested: set[int] = set()
    for index, candidate in enumerate(board.everyone):
        for node in candidate.claimed:
            other = aside.setdefault(node, index)
            if other != index:
                contested.add(other)
                contested.add(index)
    for index in contested:
        for node in board.everyone[index].claimed:
            aside.pop(node, None)
    for index in sorted(contested):
        _stand_in_line(index, board)


def _offer(index: int, board: _Board) -> None:
    """Put a candidate in line again with the variant it offers now; those aside that it comes in the way of, too."""
    for node in board.everyone[index].claimed:
        other = board.aside.get(node)
        if other is None:
            continue
        uncontested = board.everyone[other]
        for its in uncontested.claimed:
            del board.aside[its]
        if board.place(other) > board.turn:
            _stand_in_line(other, board)
        else:  # its turn is over: it won
            board.win(other)
    _stand_in_line(index, board)


def _stand_in_line(index: int, board: _Board) -> None:
    candidate = board.everyone[index]
    if not candidate.claimed:
        return
    heapq.heappush(board.queue, board.place(index))
    if candidate.rule.over:
        for node in candidate.claimed:
            board.wanted.setdefault(node, set()).add(index)


def _stronger(candidates: list[Candidate]) -> dict[str, set[str]]:
    """For each rule the rules that stand over it."""
    found: dict[str, set[str]] = {}
    for rule in {id(c.rule): c.rule for c in candidates}.values():
        for weaker in rule.over:
            found.setdefault(weaker, set()).add(rule.name)
    return found


def _withdraw_wish(index: int, board: _Board) -> None:
    if board.wanted:
        for node in board.everyone[index].claimed:
            if node in board.wanted:
                board.wanted[node].discard(index)


def _rival(candidate: Candidate, board: _Board, stronger: dict[str, set[str]]) -> int | None:
    """An outstanding candidate of a rule over this one that wants one of its nodes for itself."""
    above = stronger.get(candidate.rule.name)
    if not above:
        return None
    for node in candidate.claimed:
        for index in sorted(board.wanted.get(node, ())):
            other = board.everyone[index]
            if other.rule.name in above and other.claimed and not _compatible(candidate, other, node):
                return index
    return None
