"""Which matches win where several want one node: `over`, then most nodes, then position in file and graph."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from attrs import define, field

from apportion.engine.compile.rulesets import CompiledRule
from apportion.engine.facts import Value
from apportion.engine.found import Candidate

__all__ = ["Loss", "Resolution", "resolve"]


_LARGEST = 1 << 20
"""No match has more nodes, and no file more rules."""


Loss = tuple[CompiledRule, tuple[Value, ...], CompiledRule, tuple[Value, ...], Value]
"""A match that gave way: its rule and its nodes, the rule and the nodes of the match that won, the node both wanted."""


@define(eq=False)
class Resolution:
    """The candidates that won, with the variants that are theirs, and who lost to whom."""

    winners: list[Candidate] = field(factory=list)
    losses: list[Loss] = field(factory=list)


_INDEX = 32
"""Bits for the index of a candidate."""
_INDEXES = (1 << _INDEX) - 1


@define(eq=False)
class _Board:
    """Who owns each node, which outstanding candidates of rules that stand over others want it, who is in line.

    Matches whose nodes nobody else wants are kept `aside`, by each of their nodes: they have won, unless somebody
    comes to want one before their `turn`. In line are those of `line`, from its end, and those that came `later`.
    """

    everyone: list[Candidate]
    owners: dict[Value, list[Candidate]] = field(factory=dict)
    wanted: dict[Value, set[int]] = field(factory=dict)
    line: list[int] = field(factory=list)
    later: list[int] = field(factory=list)
    aside: dict[Value, int] = field(factory=dict)
    won: list[int] = field(factory=list)
    turn: int = -1
    _roots: int = 1

    def __attrs_post_init__(self) -> None:
        self._roots = 1 + max([c.root.position for c in self.everyone], default=0)

    def place(self, index: int) -> int:
        """Where a candidate stands with the variant it offers now, as one number: most nodes first, then by rule, then
        by root; below that its index."""
        candidate = self.everyone[index]
        rank = (_LARGEST - len(candidate.claimed)) * _LARGEST + candidate.rule.position
        return (rank * self._roots + candidate.root.position) << _INDEX | index

    def next(self) -> int | None:
        """The candidate whose turn it is; None when all had theirs."""
        line, later = self.line, self.later
        if line and not (later and later[0] < line[-1]):
            place = line.pop()
        elif later:
            place = heapq.heappop(later)
        else:
            return None
        if place > self.turn:
            self.turn = place
        return place & _INDEXES

    def conflict(self, candidate: Candidate) -> Loss | None:
        """The owner that a candidate has to give way to."""
        owners = self.owners
        if owners.keys().isdisjoint(candidate.claimed):
            return None
        for node in candidate.claimed:
            for owner in owners.get(node, ()):
                if not _compatible(candidate, owner, node):
                    return candidate.rule, candidate.claimed, owner.rule, owner.claimed, node
        return None

    def win(self, index: int) -> None:
        """Give a candidate its nodes."""
        self.won.append(index)
        candidate = self.everyone[index]
        owners = self.owners
        for node in candidate.claimed:
            if node not in owners:
                owners[node] = [candidate]
            elif not _compatible(candidate, owners[node][-1], node):  # else one stands for all that share it
                owners[node].append(candidate)


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
    stronger = _stronger(candidates)
    everyone = []
    for candidate in candidates:
        if candidate.restart():
            everyone.append(candidate)
        if not candidate.offers_first:
            everyone += [heir for heir in candidate.heirs if heir.restart()]
    board = _Board(everyone)
    result = Resolution()
    waiting: dict[int, list[int]] = {}
    _line_up(board)
    if not board.line:
        result.winners = everyone
        return result
    while (index := board.next()) is not None:
        candidate = everyone[index]
        if stronger:
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
            for heir in candidate.heirs_without(loss[-1]) if candidate.offers_first else ():
                if heir.restart():
                    everyone.append(heir)
                    _offer(len(everyone) - 1, board)
            if not candidate.is_last and candidate.advance():
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
    board.line = sorted(map(board.place, contested), reverse=True)
    for index in contested:
        _wish(index, board)


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
    if board.everyone[index].claimed:
        heapq.heappush(board.later, board.place(index))
        _wish(index, board)


def _wish(index: int, board: _Board) -> None:
    candidate = board.everyone[index]
    if candidate.rule.over:
        for node in candidate.claimed:
            board.wanted.setdefault(node, set()).add(index)


def _stronger(candidates: Sequence[Candidate]) -> dict[str, set[str]]:
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
