"""After merging: what conditions on whole partitions take back, step by step, each step on a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import torch
import torch.fx as fx
from attrs import define, field, frozen

from apportion.engine.candidates import Candidate, Emits, Match, run_steps
from apportion.engine.compile.rulesets import Cutoff, PartitionPolicy, RuleSet
from apportion.engine.facts import GraphFacts, Value, is_kind
from apportion.engine.merge import Flow, Unit, split
from apportion.engine.order import storage_of, written_values
from apportion.engine.reasons import Attempt, Cause, show_value

__all__ = ["Block", "Border", "Group", "border_of", "in_order", "settle"]


@define(eq=False)
class Block:
    """Matches that share nodes (mostly one): what stays together whatever happens."""

    candidates: list[Candidate]
    emits: Emits
    nodes: tuple[Value, ...]

    def keep(self, candidates: list[Candidate]) -> None:
        """Go on with some of its matches."""
        if len(candidates) != len(self.candidates):
            self.candidates = candidates
            self.nodes = in_order({node for candidate in candidates for node in candidate.claimed})


@define(eq=False)
class Group:
    """A partition in the making. What is worked out of its blocks is kept until they change."""

    blocks: list[Block]
    _nodes: tuple[Value, ...] | None = None
    _border: Border | None = None

    @property
    def nodes(self) -> tuple[Value, ...]:
        """Its op nodes in graph order."""
        if self._nodes is None:
            if len(self.blocks) == 1:
                self._nodes = self.blocks[0].nodes
            else:
                self._nodes = in_order([node for block in self.blocks for node in block.nodes])
        return self._nodes

    @property
    def candidates(self) -> list[Candidate]:
        """The matches in it, as the candidates that offer them."""
        return [candidate for block in self.blocks for candidate in block.candidates]

    @property
    def matches(self) -> list[Match]:
        """The matches in it."""
        return [match for candidate in self.candidates if (match := candidate.current()) is not None]

    def border(self, policy: PartitionPolicy) -> Border:
        """What crosses its border under the policy for constants."""
        if self._border is None:
            self._border = border_of(self.nodes, self.candidates, policy)
        return self._border

    def changed(self, blocks: list[Block]) -> None:
        """Go on with these blocks."""
        self.blocks, self._nodes, self._border = blocks, None, None


def in_order(nodes: Iterable[Value]) -> tuple[Value, ...]:
    """Op nodes in graph order."""
    return tuple(sorted(nodes, key=attrgetter("position")))


@frozen(eq=False)
class Border:
    """What crosses the border of a set of nodes: values in and out, and the constants that go along."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: tuple[Value, ...]


def border_of(nodes: Sequence[Value], candidates: Iterable[Candidate], policy: PartitionPolicy) -> Border:
    """The border of a partition of these nodes and matches under the policy for constants."""
    inside = set(nodes)
    calls = {node.fx for node in nodes}
    taken = _taken(candidates) if policy.constants == "none" else set()
    inputs: dict[Value, None] = {}
    constants: dict[Value, None] = {}
    outputs: dict[Value, None] = {}
    for node in nodes:
        for value in node.inputs:
            if value.position < 0:
                (constants if _goes_along(value, inside, calls, taken, policy) else inputs)[value] = None
            elif value.node not in inside:
                inputs[value] = None
        if isinstance(node.val, torch.Tensor):  # one output, which calls read
            if not calls.issuperset(node.fx.users):
                outputs[node] = None
            continue
        for value in node.outputs:
            if value.leaves(inside):
                outputs[value] = None
    return Border(tuple(inputs), tuple(outputs), tuple(constants))


def _taken(candidates: Iterable[Candidate]) -> set[Value]:
    found: set[Value] = set()
    for candidate in candidates:
        if candidate.rule.takes:
            found.update(candidate.taken)
    return found


def _goes_along(
    value: Value, inside: set[Value], calls: set[fx.Node], taken: set[Value], policy: PartitionPolicy
) -> bool:
    if not value.is_constant:
        return policy.mutable_buffers and is_kind(value, "mutable_buffer") is True and set(value.users) <= inside
    if policy.constants == "none":
        return value in taken
    return policy.constants == "all" or calls.issuperset(value.fx.users) or set(value.users) <= inside


@define(eq=False)
class _Settling:
    """One round over the partitions of one graph and backend."""

    rules: RuleSet
    flow: Flow
    checks_matches: bool
    withdrawn: list[Candidate] = field(factory=list)
    note: Callable[[tuple[Value, ...], Attempt], None] = field(kw_only=True)

    @property
    def policy(self) -> PartitionPolicy:
        """The partition block."""
        return self.rules.policy

    def take_back(self, group: Group, failed: Iterable[tuple[Candidate, Attempt]]) -> None:
        """Withdraw matches of a group together, and note why."""
        reasons = {id(candidate): (candidate, attempt) for candidate, attempt in failed}
        for candidate, attempt in reasons.values():
            self.note(candidate.claimed, attempt)
        for block in group.blocks:
            block.keep([c for c in block.candidates if id(c) not in reasons])
        for candidate, _ in reasons.values():
            candidate.withdraw()
            self.withdrawn.append(candidate)
        group.changed([b for b in group.blocks if b.candidates])

    def border(self, group: Group) -> Border:
        """The border of a group as it is now."""
        return group.border(self.policy)

    def attempt(self, cause: Cause, candidate: Candidate, **details: Any) -> Attempt:
        """A reason for the nodes of a match."""
        return Attempt(
            cause,
            (5, 0),
            candidate.rule.name,
            details.pop("span", candidate.rule.name_span),
            backend=self.rules.backend_id,
            **details,
        )

    # --- the steps -------------------------------------------------------------------------------------------------

    def trim(self, group: Group) -> None:
        """Drop the nodes for which a `trim` holds, until none does."""
        while self.policy.trims and group.blocks:
            frame = self._frame(group)
            dropped: dict[Value, tuple[Cutoff, list[Any]]] = {}
            for node in group.nodes:
                frame[self.policy.slots["n"]] = node
                self._lets(frame)
                cutoff = next((t for t in self.policy.trims if t.evaluate(frame) is True), None)
                if cutoff is not None:
                    dropped[node] = (cutoff, list(frame))
            if not dropped:
                return
            self.take_back(group, self._trimmed(group, dropped))

    def _trimmed(self, group: Group, dropped: dict[Value, tuple[Cutoff, list[Any]]]) -> list[tuple[Candidate, Attempt]]:
        failed = []
        for block in group.blocks:
            for candidate in block.candidates:
                node = next((n for n in candidate.claimed if n in dropped), None)
                if node is not None:
                    failed.append((candidate, self._cutoff(Cause.TRIMMED, candidate, *dropped[node])))
        return failed

    def _cutoff(self, cause: Cause, candidate: Candidate, cutoff: Cutoff, frame: list[Any]) -> Attempt:
        return self.attempt(
            cause,
            candidate,
            span=cutoff.span,
            condition=cutoff.text,
            because=cutoff.because,
            observed=cutoff.observed,
            frame=frame,
            failed=cutoff,
        )

    def post_conditions(self, group: Group) -> None:
        """Withdraw the matches whose requirements on their partition are not met."""
        if not self.checks_matches or not any(
            c.rule.post or any(map(_writes, c.claimed)) for b in group.blocks for c in b.candidates
        ):
            return
        border: Border | None = None
        failed: list[tuple[Candidate, Attempt]] = []
        for block in group.blocks:
            for candidate in block.candidates:
                match = candidate.current()
                if match is None:
                    continue
                if match.rule.post:
                    border = border or self.border(group)
                    frame = list(match.frame)
                    frame[:4] = [group.nodes, border.inputs, border.outputs, border.constants]
                    broken = run_steps(match.rule.post, frame)
                    if broken is not None:
                        requirement = broken[1]
                        failed.append(
                            (
                                candidate,
                                self.attempt(
                                    Cause.POST_CONDITION,
                                    candidate,
                                    span=requirement.span,
                                    condition=requirement.text,
                                    because=requirement.because,
                                    observed=requirement.observed,
                                    frame=frame,
                                    failed=requirement,
                                ),
                            )
                        )
                        continue
                stray = self._foreign_write(match, group)
                if stray is not None:
                    failed.append((candidate, self.attempt(Cause.MUTATION, candidate, detail=stray)))
        if failed:
            self.take_back(group, failed)

    def _foreign_write(self, match: Match, group: Group) -> str | None:
        """A delegate can't write what it does not own: storage made outside its partition."""
        cache: dict[Value, tuple[Value, ...]] = {}
        inside: set[Value] | None = None
        for node in match.claimed:
            for value in written_values(node):
                inside = inside or set(group.nodes)
                for storage in storage_of(value, cache):
                    owned = storage in inside or (
                        self.policy.mutable_buffers
                        and is_kind(storage, "mutable_buffer") is True
                        and {user for one in storage.graph.sharing(storage) for user in one.users} <= inside
                    )
                    if not owned:
                        return f"`{node.name}` writes `{show_value(storage)}`, which its partition does not own"
        return None

    def reject(self, group: Group) -> None:
        """Drop a whole partition for which a `reject` holds, or that computes nothing anybody uses."""
        if not group.blocks:
            return
        self._drop_unused(group)
        if not group.blocks or not self.policy.rejects:
            return
        everyone = [c for b in group.blocks for c in b.candidates]
        frame = self._frame(group)
        self._lets(frame)
        cutoff = next((r for r in self.policy.rejects if r.evaluate(frame) is True), None)
        if cutoff is not None:
            self.take_back(group, [(c, self._cutoff(Cause.REJECTED, c, cutoff, frame)) for c in everyone])

    def _drop_unused(self, group: Group) -> None:
        """Dead code alone makes no delegate."""
        if not self.border(group).outputs and not any(n.op is not None and n.op.has_effects for n in group.nodes):
            everyone = [c for b in group.blocks for c in b.candidates]
            self.take_back(group, [(c, self.attempt(Cause.UNUSED, c)) for c in everyone])

    def _frame(self, group: Group) -> list[Any]:
        policy = self.policy
        border = self.border(group)
        frame: list[Any] = [None] * policy.frame_size
        seen = {"nodes": group.nodes, "inputs": border.inputs, "outputs": border.outputs, "constants": border.constants}
        for name, value in seen.items():
            frame[policy.slots[name]] = value
        return frame

    def _lets(self, frame: list[Any]) -> None:
        for step in self.policy.steps:
            frame[step.slot] = step.evaluate(frame)

    # --- limits ----------------------------------------------------------------------------------------------------

    def limits(self, groups: list[Group]) -> list[Group]:
        """Split what is too big at legal cuts, reject what is too small, keep the largest `max_partitions`."""
        policy = self.policy
        groups = [g for g in groups if g.blocks]
        if any(
            limit is not None
            for limit in (policy.max_nodes, policy.max_inputs, policy.max_outputs, policy.max_constant_bytes)
        ):
            groups = [piece for group in groups for piece in self._split(group)]
            for group in groups:
                if group.blocks:
                    self._drop_unused(group)
        least = policy.min_nodes or 0
        for group in groups:
            size = len(group.nodes)
            if size < least:
                self._drop(group, f"it has {size} nodes, min_nodes is {least}")
        groups = [g for g in groups if g.blocks]
        most = policy.max_partitions
        if most is not None and len(groups) > most:
            ranked = sorted(groups, key=lambda g: (-len(g.nodes), g.nodes[0].position))
            for group in ranked[most:]:
                self._drop(group, f"max_partitions is {most}, and as many others are larger or earlier")
        return [g for g in groups if g.blocks]

    def _drop(self, group: Group, detail: str) -> None:
        everyone = [c for b in group.blocks for c in b.candidates]
        self.take_back(group, [(c, self.attempt(Cause.LIMIT, c, detail=detail)) for c in everyone])

    def _split(self, group: Group) -> list[Group]:
        blocks = group.blocks

        def too_big(indices: Sequence[int]) -> str | None:
            return self._over_limit([blocks[i] for i in indices])

        if too_big(range(len(blocks))) is None:
            return [group]
        units = [Unit(tuple([n.position for n in b.nodes])) for b in blocks]
        connected = self.policy.merge == "adjacent"
        pieces, misfits = split(self.flow, units, lambda indices: too_big(indices) is None, connected)
        for index in misfits:
            lone = Group([blocks[index]])
            self._drop(lone, too_big([index]) or "")
        return [Group([blocks[i] for i in piece]) for piece in pieces]

    def _over_limit(self, blocks: list[Block]) -> str | None:
        policy = self.policy
        group = Group(blocks)
        if policy.max_nodes is not None and len(group.nodes) > policy.max_nodes:
            return f"it has {len(group.nodes)} nodes, max_nodes is {policy.max_nodes}"
        border = self.border(group)
        if policy.max_inputs is not None and len(border.inputs) > policy.max_inputs:
            return f"it has {len(border.inputs)} inputs, max_inputs is {policy.max_inputs}"
        if policy.max_outputs is not None and len(border.outputs) > policy.max_outputs:
            return f"it has {len(border.outputs)} outputs, max_outputs is {policy.max_outputs}"
        if policy.max_constant_bytes is not None:
            size = sum(v.nbytes for v in border.constants if isinstance(v.nbytes, int))
            if size > policy.max_constant_bytes:
                return f"its constants have {size} bytes, max_constant_bytes is {policy.max_constant_bytes}"
        return None


def _writes(node: Value) -> bool:
    return node.op is not None and node.op.is_mutable


def settle(
    groups: list[Group],
    rules: RuleSet,
    graph: GraphFacts,
    flow: Flow,
    note: Callable[[tuple[Value, ...], Attempt], None],
) -> tuple[list[Group], bool]:
    """One round: trim, post-conditions, reject, limits; what a step takes back is gone before the next.

    Gives the partitions that are left and whether anything was withdrawn (then matches must be resolved and merged
    again).
    """
    checks = any(rule.post for rule in rules.rules) or any(map(_writes, graph.calls))
    settling = _Settling(rules, flow, checks, note=note)
    for step in (settling.trim, settling.post_conditions, settling.reject):
        for group in groups:
            step(group)
    return settling.limits(groups), bool(settling.withdrawn)
