"""One backend in one graph: match, resolve, merge, settle, until a round withdraws nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from apportion.engine.candidates import Attempts, Candidate, Match, Matcher
from apportion.engine.compile.rulesets import CompiledRule, RuleSet
from apportion.engine.facts import GraphFacts, Value
from apportion.engine.merge import Flow, Unit, interleaved, merge
from apportion.engine.reasons import Attempt, Cause
from apportion.engine.resolve import Loss, resolve
from apportion.engine.settle import Block, Group, settle

__all__ = ["Claims", "claim"]


@define(eq=False)
class Claims:
    """What a backend got in a graph: its partitions, and in how many rounds."""

    groups: list[Group] = field(factory=list)
    rounds: int = 0

    @property
    def nodes(self) -> set[Value]:
        """All nodes it claimed."""
        return {node for group in self.groups for node in group.nodes}


@frozen(eq=False)
class _Round:
    rules: RuleSet
    graph: GraphFacts
    flow: Flow
    fixed: Sequence[Sequence[int]]
    attempts: Attempts


def claim(
    graph: GraphFacts,
    rules: RuleSet,
    flow: Flow,
    fixed: Sequence[Sequence[int]],
    refusal: Callable[[Value], Attempt | None],
    branches: Callable[[Value, CompiledRule], str | None],
    attempts: Attempts,
    candidates: list[Candidate] | None = None,
) -> Claims:
    """The partitions of one backend in one graph.

    `fixed` are the partitions of earlier backends as node positions; `refusal` says why a node is not on offer,
    `branches` why a control-flow op can't be claimed; reasons go to `attempts`. `candidates` are given where they are
    known already.
    """
    matcher = Matcher(rules, graph, refusal, attempts, branches)
    if candidates is None:
        candidates = matcher.candidates()
    this = _Round(rules, graph, flow, fixed, attempts)
    claims = Claims()
    while candidates:
        claims.rounds += 1
        resolution = resolve(candidates)
        _note_losses(this, resolution.losses)
        blocks = _blocks(resolution.winners)
        if _withdraw_interleaved(this, blocks):
            continue
        units = [_unit(block) for block in blocks]
        merged = merge(flow, units, rules.policy.merge, fixed)
        groups = [Group([blocks[index] for index in sorted(part)]) for part in merged]
        claims.groups, again = settle(groups, rules, graph, flow, attempts.note)
        if not again:
            break
    return claims


def _unit(block: Block) -> Unit:
    return Unit(tuple([node.position for node in block.nodes]), block.emits)


def _blocks(winners: list[Candidate]) -> list[Block]:
    """Matches that share nodes, together."""
    leader: dict[int, int] = {}
    owner: dict[Value, int] = {}

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    matches: list[Match] = []
    for index, candidate in enumerate(winners):
        leader[index] = index
        match = candidate.current()
        if match is None:
            continue
        matches.append(match)
        for node in match.claimed:
            if node in owner:
                first, second = sorted((find(owner[node]), find(index)))
                leader[second] = first
            else:
                owner[node] = index
    members: dict[int, list[Candidate]] = {}
    for index, candidate in enumerate(winners):
        members.setdefault(find(index), []).append(candidate)
    blocks = [Block(group, group[0].current().emits) for group in members.values()]  # type: ignore[union-attr]  # winners have a match
    return sorted(blocks, key=lambda b: b.nodes[0].position)


def _withdraw_interleaved(this: _Round, blocks: list[Block]) -> bool:
    if all(len(block.nodes) == 1 for block in blocks):
        return False
    losers = interleaved(this.flow, [_unit(block) for block in blocks], this.fixed)
    for index in sorted(losers):
        for candidate in blocks[index].candidates:
            match = candidate.current()
            if match is None:
                continue
            names = ", ".join(f"`{node.name}`" for node in match.claimed)
            attempt = Attempt(
                Cause.INTERLEAVED,
                (5, 0),
                candidate.rule.name,
                candidate.rule.name_span,
                detail=f"as one piece {names} would wait for itself",
                backend=this.rules.backend_id,
            )
            this.attempts.note(match.claimed, attempt)
            candidate.withdraw()
    return bool(losers)


def _note_losses(this: _Round, losses: list[Loss]) -> None:
    for loss in losses:
        attempt = Attempt(
            Cause.LOST,
            (4, 0),
            loss.match.rule.name,
            loss.match.rule.name_span,
            detail=f"{loss.winner.rule.name} ({loss.winner.rule.name_span}), which takes `{loss.node.name}`",
            backend=this.rules.backend_id,
        )
        this.attempts.note(loss.match.claimed, attempt)
