"""One backend in one graph: match, resolve, merge, settle, until a round withdraws nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field, frozen

from apportion.engine.candidates import Attempts, Candidate, Matcher
from apportion.engine.compile.rulesets import CompiledRule, RuleSet
from apportion.engine.facts import GraphFacts, Value
from apportion.engine.merge import Cyclic, Flow, Unit, interleaved, merge, path_around
from apportion.engine.reasons import Attempt, Cause
from apportion.engine.resolve import Loss, resolve
from apportion.engine.settle import Block, Group, in_order, settle

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
        units = list(map(_unit, blocks))
        try:
            merged = merge(flow, units, rules.policy.merge, fixed)
        except Cyclic:
            _withdraw_interleaved(this, blocks, units)
            continue
        groups = [Group([blocks[index] for index in sorted(part)]) for part in merged]
        claims.groups, again = settle(groups, rules, graph, flow, attempts.note)
        if not again:
            break
    return claims


def _unit(block: Block) -> Unit:
    return Unit(tuple([node.position for node in block.nodes]), block.emits)


def _blocks(winners: list[Candidate]) -> list[Block]:
    """Matches that share nodes, together; by their first nodes."""
    blocks = [Block([candidate], candidate.emits, candidate.claimed) for candidate in winners if not candidate.shares]
    sharing = [candidate for candidate in winners if candidate.shares]
    for members in _together(sharing):
        nodes = in_order({node for candidate in members for node in candidate.claimed})
        blocks.append(Block(members, members[0].emits, nodes))
    blocks.sort(key=lambda block: block.nodes[0].position)
    return blocks


def _together(candidates: list[Candidate]) -> list[list[Candidate]]:
    """Candidates that have nodes in common, each group in their order."""
    leader = list(range(len(candidates)))
    first: dict[Value, int] = {}
    for index, candidate in enumerate(candidates):
        for node in candidate.claimed:
            one, other = _root(leader, first.setdefault(node, index)), _root(leader, index)
            leader[max(one, other)] = min(one, other)
    groups: dict[int, list[Candidate]] = {}
    for index, candidate in enumerate(candidates):
        groups.setdefault(_root(leader, index), []).append(candidate)
    return list(groups.values())


def _root(leader: list[int], index: int) -> int:
    while leader[index] != index:
        leader[index] = index = leader[leader[index]]
    return index


def _withdraw_interleaved(this: _Round, blocks: list[Block], units: list[Unit]) -> None:
    losers = interleaved(this.flow, units, this.fixed)
    standing = [*this.fixed, *(unit.nodes for index, unit in enumerate(units) if index not in losers)]
    for index in sorted(losers):
        for candidate in blocks[index].candidates:
            attempt = Attempt(
                Cause.INTERLEAVED,
                (5, 0),
                candidate.rule.name,
                candidate.rule.name_span,
                detail=partial(_way_around, this, standing, units[index].nodes),
                backend=this.rules.backend_id,
            )
            this.attempts.note(candidate.claimed, attempt)
            candidate.withdraw()


def _way_around(this: _Round, standing: Sequence[Sequence[int]], nodes: Sequence[int]) -> str:
    """Why nodes can't be one piece beside what stands: the way that leads out of them and back."""
    path = path_around(this.flow, standing, nodes)
    inside, outside = (", ".join(f"`{this.graph.calls[position].name}`" for position in some) for some in (nodes, path))
    return f"as one piece {inside} would wait for itself, by way of {outside}"


def _note_losses(this: _Round, losses: list[Loss]) -> None:
    for rule, claimed, winner, taken, node in losses:
        if this.attempts.every is None and set(claimed) <= set(taken):
            continue  # what becomes of its nodes is up to the winner
        attempt = Attempt(
            Cause.LOST,
            (4, 0),
            rule.name,
            rule.name_span,
            detail=partial(_winner, winner, node),
            backend=this.rules.backend_id,
        )
        this.attempts.note(claimed, attempt)


def _winner(winner: CompiledRule, node: Value) -> str:
    return f"{winner.name} ({winner.name_span}), which takes `{node.name}`"
