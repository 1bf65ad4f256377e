"""Candidate matches: where each rule fits, with its requirements, invariants and emitted specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from attrs import define, evolve, field, frozen

from apportion.engine.compile.patterns import Pattern
from apportion.engine.compile.rulesets import CompiledInvariant, CompiledRule, LetStep, Requirement, RuleSet, Step
from apportion.engine.compile.scope import FAR_SLOT, NEAR_SLOT
from apportion.engine.emits import encode_spec_value
from apportion.engine.facts import GraphFacts, Value, stays
from apportion.engine.found import Attempts, Candidate, Emits, Match, Near, Outcome, Recording, here
from apportion.engine.found import Step as Variant
from apportion.engine.match import SOLUTION_LIMIT, STEP_LIMIT, GaveUp, Mismatch, Search, Sight, Solution
from apportion.engine.ops import is_assertion, is_size_query
from apportion.engine.reasons import Attempt, Cause, Detail, describe
from apportion.engine.values import is_unknown

__all__ = ["Attempts", "Candidate", "Emits", "Match", "Matcher", "run_steps"]

Refusal = Callable[[Value], Attempt | None]
"""Why a node is not on offer in this call, or None."""


@define(eq=False)
class _Place:
    """What rules came to at roots that are alike as far as they looked.

    Where `path` is set, they looked into one more node, at that place of one that is known, and `branches` go by what
    that one is like; else `outcomes` has those of rules that fit, or looked too far to say, and `notes` what is known
    of the others, each for one of the nodes `near` that were seen.
    """

    path: tuple[int, int] | None = None
    branches: dict[Any, _Place] = field(factory=dict)
    near: Near = ()
    outcomes: list[Outcome] | None = None
    notes: list[tuple[int, Attempt]] = field(factory=list)

    def keep(self, near: Near, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes; where all hold for places like this one, of attempts only those that came furthest."""
        self.near, self.outcomes = near, list(outcomes)
        if not any(outcome.first.far for outcome in outcomes):
            best = Attempts()
            for outcome in outcomes:
                for nodes, attempt in outcome.first.notes:
                    best.note(nodes, attempt)
            self.notes = [(near.index(node), attempt) for node, attempt in best.best.items()]
            fitting = [outcome.without_notes() for outcome in outcomes if outcome.first.match]
            ordered = any(outcome.rule.over for outcome in outcomes)
            self.outcomes = fitting if ordered else _ranked(fitting)


def _ranked(outcomes: list[Outcome]) -> list[Outcome]:
    """Outcomes, each with its heirs: what has no other variant, and wants nothing but nodes of an outcome that comes
    before it, being larger or of an earlier rule."""
    leaders: dict[int, frozenset[Value]] = {}
    heirs: dict[int, list[Outcome]] = {}
    inherits: set[int] = set()
    for index in sorted(range(len(outcomes)), key=lambda index: -len(_claimed(outcomes[index]))):
        claimed = _claimed(outcomes[index])
        leader = next((one for one, its in leaders.items() if claimed <= its), None)
        if not claimed or (match := outcomes[index].first.match) is None or match.shared:
            continue
        if leader is not None and outcomes[index].is_final:
            heirs.setdefault(leader, []).append(outcomes[index])
            inherits.add(index)
        else:
            leaders[index] = claimed
    return [evolve(outcome, heirs=tuple(heirs.get(index, ())))
            for index, outcome in enumerate(outcomes) if index not in inherits]


def _claimed(outcome: Outcome) -> frozenset[Value]:
    return frozenset() if outcome.first.match is None else frozenset(outcome.first.match.claimed)


@frozen(eq=False)
class _Verdict:
    """Which invariant a node breaks, and whether asking that looked `far`."""

    node: Value
    broken: Attempt | None
    far: bool


@define(eq=False)
class Matcher:
    """Matches one backend's rules in one graph. A rule is tried once for all places that are alike to it."""

    rules: RuleSet
    graph: GraphFacts
    refusal: Refusal
    attempts: Attempts
    branches: Callable[[Value, CompiledRule], str | None]
    _invariants: _ByOp[CompiledInvariant] = field(init=False)
    _verdicts: dict[Value, _Verdict] = field(factory=dict)
    _alike: dict[int, _Verdict] = field(factory=dict)
    _notes: list[tuple[tuple[Value, ...], Attempt]] = field(factory=list)
    _likenesses: Sequence[int] = field(init=False)
    _results: frozenset[Value] = field(init=False)
    _is_plain: bool = field(init=False)

    @_invariants.default
    def _index(self) -> _ByOp[CompiledInvariant]:
        return _ByOp.index(self.rules.invariants)

    @_likenesses.default
    def _of_graph(self) -> Sequence[int]:
        return self.graph.likenesses

    @_results.default
    def _out_of_graph(self) -> frozenset[Value]:
        return self.graph.results

    @_is_plain.default
    def _has_no_queries(self) -> bool:
        """Whether all users of tensors in this graph are users to rules: no call asks for sizes or checks something."""
        return not any(is_size_query(op) or is_assertion(op) for op in {node.op for node in self.graph.calls})

    def candidates(self) -> list[Candidate]:
        """A candidate for every root and rule that fits there at all, in graph order, then file order."""
        by_op = _ByOp.index(self.rules.rules)
        found: list[Candidate] = []
        known: dict[int, _Place] = {}
        alone = self.attempts.every is not None
        for node, likeness in zip(self.graph.calls, self._likenesses, strict=True):
            place = known.get(likeness)
            near: Near | None = (node,)
            if alone or self.refusal(node) is not None:
                near = None
            elif place is not None and place.path is not None:
                place, near = self._follow(place, node)
            if near is None:
                for rule in by_op.of(_op_name(node)):
                    self._try(rule, node, found)
            elif place is None or place.outcomes is None:
                seen, outcomes = self._look(by_op.of(_op_name(node)), node, found)
                self._remember(known.setdefault(likeness, _Place()), seen, outcomes)
            else:
                if place.notes:
                    self.attempts.repeat(place.notes, place.near, near)
                for outcome in place.outcomes:
                    if outcome.first.far:
                        self._try(outcome.rule, node, found)
                    else:
                        self._repeat(outcome, near, found)
        return found

    # --- places that are alike -------------------------------------------------------------------------------------

    def _follow(self, place: _Place, root: Value) -> tuple[_Place | None, Near | None]:
        """Where the way ends that leads on from a root: the place (None: nobody was there yet), the nodes on it.

        No nodes where one of them stands for no other.
        """
        near = [root]
        around: dict[Value, int] = {}
        path = place.path
        while path is not None:
            _surround(near[-1], around)
            node, argument = path
            other = near[node].inputs[argument].node
            key = self._key(around, other)
            if key is None:
                return None, None
            near.append(other)
            following = place.branches.get(key)
            if following is None:
                return None, tuple(near)
            place, path = following, following.path
        return place, tuple(near)

    def _key(self, around: Mapping[Value, int], other: Value) -> Any:
        """What all decides about one more node: what it is like, which of its operands come from nodes `around` the
        others, by how many it is used. None where it can't stand for others."""
        if self.refusal(other) is not None:
            return None
        if self._is_plain and isinstance(other.val, torch.Tensor):
            users = len(other.fx.users)
        elif other.size_queries:
            return None
        else:
            users = len(other.users)
        wiring = [around.get(value.node) for value in other.inputs]
        return self._likenesses[other.position], users, other in self._results, *wiring

    def _remember(self, place: _Place, near: Sequence[Value], outcomes: list[Outcome]) -> None:
        """Keep outcomes where the way over these nodes leads to."""
        around: dict[Value, int] = {}
        for index in range(1, len(near)):
            _surround(near[index - 1], around)
            path = _path(near[:index], near[index])
            key = self._key(around, near[index])
            if path is None or key is None or place.outcomes is not None or place.path not in (None, path):
                return
            place.path = path
            place = place.branches.setdefault(key, _Place())
        if place.path is None:
            place.keep(tuple(near), outcomes)

    def _look(self, rules: Sequence[CompiledRule], root: Value, found: list[Candidate]) -> tuple[Near, list[Outcome]]:
        """Try rules in a way that places like this one can refer to; the nodes that they looked into."""
        outcomes: list[Outcome] = []
        near = [root]
        for rule in rules:
            count = len(near)
            recording = self._record(rule, root, Sight(near))
            first = recording.step(0)
            if first.far:
                del near[count:]
            outcomes.append(Outcome(rule, recording, first))
        seen = tuple(near)
        for outcome in outcomes:
            if not outcome.first.far:
                outcome.recording.near = seen
                if outcome.first.match is not None:
                    outcome.first.match.near = seen
            self._offer(outcome.rule, outcome.recording, outcome.recording.near, found)
        return seen, outcomes

    def _try(self, rule: CompiledRule, node: Value, found: list[Candidate]) -> None:
        """A rule at a node by itself."""
        recording = self._alone(rule, node)
        self._offer(rule, recording, recording.near, found)

    def _offer(self, rule: CompiledRule, recording: Recording, near: Near, found: list[Candidate]) -> None:
        candidate = Candidate(rule, near[0], near, recording, self.attempts)
        if candidate.advance():
            found.append(candidate)

    def _repeat(self, outcome: Outcome, near: Near, found: list[Candidate]) -> None:
        """A rule at a place like one where it was tried."""
        recording, first = outcome.recording, outcome.first
        for nodes, attempt in first.notes:
            self.attempts.note(here(recording.near, nodes, near), attempt, (recording.near, near))
        if first.match is not None:
            found.append(outcome.at(near, self.attempts))

    def _record(self, rule: CompiledRule, root: Value, sight: Sight) -> Recording:
        variants = self._variants(rule, root, sight)
        return Recording((root,), partial(self._pull, variants, sight), partial(self._alone, rule))

    def _alone(self, rule: CompiledRule, root: Value) -> Recording:
        return self._record(rule, root, Sight([root]))

    def _pull(self, variants: Iterator[Match], sight: Sight, recording: Recording) -> Variant:
        """The next variant with what was noted on the way."""
        self._notes = []
        match = next(variants, None)
        notes = tuple(self._notes)
        far = sight.far or (recording.is_begun and len(sight.near) > len(recording.near))
        far = far or any(_stays(attempt) for _, attempt in notes)
        far = far or (match is not None and any(map(stays, match.frame)))
        if match is not None:
            match.near = recording.near
        return Variant(match, notes, far)

    def _variants(self, rule: CompiledRule, root: Value, sight: Sight) -> Iterator[Match]:
        search = Search(rule.frame_size, sight=sight)
        try:
            for solution in _solutions(rule.pattern, search, root):
                match = self._holds(rule, root, solution, sight)
                if match is not None:
                    yield match
        except GaveUp:
            detail = f"after {STEP_LIMIT} steps"
            self._note(rule, (root,), Cause.GAVE_UP, (0, 0), detail=detail)
        if search.furthest is not None:
            nodes = search.furthest.claimed or (root,)
            self._note(rule, nodes, Cause.PATTERN, (0, search.furthest.depth), detail=search.furthest)

    def _note(
        self,
        rule: CompiledRule,
        nodes: tuple[Value, ...],
        cause: Cause,
        progress: tuple[int, int],
        *,
        detail: Detail = None,
    ) -> None:
        attempt = Attempt(cause, progress, rule.name, rule.name_span, detail=detail, backend=self.rules.backend_id)
        self._notes.append((nodes, attempt))

    # --- does it hold? ---------------------------------------------------------------------------------------------

    def _holds(self, rule: CompiledRule, root: Value, solution: Solution, sight: Sight) -> Match | None:
        nodes = solution.claimed
        for node in nodes:
            refused = self.refusal(node)
            if refused is not None:
                self._notes.append(((node,), self._refused(rule, refused)))
                others = tuple(n for n in nodes if n is not node)
                detail = partial(_kept, node, refused)
                self._note(rule, others, Cause.LOST, (3, 0), detail=detail)
                return None
            wrong = self.branches(node, rule)
            if wrong is not None:
                self._note(rule, nodes, Cause.BRANCHES, (3, 0), detail=wrong)
                return None
        frame = _frame(rule.frame_size, sight.near, solution.bound)
        sight.far = sight.far or bool(rule.givens)
        for given in rule.givens:
            if not _bind_given(given, frame, solution.bound):
                self._note(rule, nodes, Cause.GIVEN, (1, 0))
                return None
        failed = run_steps(rule.steps, frame)
        sight.far = sight.far or frame[FAR_SLOT] is True
        if failed is not None:
            index, requirement = failed
            attempt = self._failure(Cause.REQUIREMENT, (2, index), rule.name, requirement, frame)
            self._notes.append((nodes, attempt))
            return None
        for node in nodes:
            broken = self._breaks_invariant(node, sight)
            if broken is not None:
                self._notes.append((nodes, evolve(broken, of=rule.name)))
                return None
        emits = self._emits(rule, frame, nodes, sight)
        return None if emits is None else Match(rule, root, frame, nodes, solution.shared, emits)

    def _refused(self, rule: CompiledRule, refused: Attempt) -> Attempt:
        """That an earlier backend has a node, as the attempt of the rule that wanted it too."""
        if refused.cause is not Cause.LOST:
            return refused
        return evolve(refused, rule=rule.name, span=rule.name_span, backend=self.rules.backend_id)

    def _failure(
        self, cause: Cause, progress: tuple[int, int], name: str, failed: Requirement, frame: list[Any]
    ) -> Attempt:
        return Attempt(
            cause,
            progress,
            name,
            failed.span,
            failed.text,
            failed.because,
            failed.observed,
            list(frame),
            backend=self.rules.backend_id,
            failed=failed,
        )

    def _breaks_invariant(self, node: Value, sight: Sight) -> Attempt | None:
        """Why no rule of the file may claim a node; nodes that are alike are asked once."""
        invariants = self._invariants.of(_op_name(node))
        if not invariants:
            return None
        likeness = self._likenesses[node.position]
        known = self._verdicts.get(node) or self._alike.get(likeness)
        if known is None:
            own = Sight([node])
            checks = (self._check_invariant(invariant, node, own) for invariant in invariants)
            broken = next((broken for broken in checks if broken is not None), None)
            known = _Verdict(node, broken, own.far or len(own.near) > 1 or _stays(broken))
            if known.far:
                self._verdicts[node] = known
            else:
                self._alike[likeness] = known
        sight.far = sight.far or known.far
        broken = known.broken
        return broken if broken is None or known.node is node else broken.moved((known.node,), (node,))

    def _check_invariant(self, invariant: CompiledInvariant, node: Value, sight: Sight) -> Attempt | None:
        sight.far = sight.far or bool(invariant.givens)
        for choice in invariant.pattern.choices:
            search = Search(invariant.frame_size, sight=sight)
            try:
                bound = search.fits(choice, node)
            except GaveUp:
                detail = f"invariant {invariant.name}: after {STEP_LIMIT} steps"
                return Attempt(Cause.GAVE_UP, (3, 0), invariant.name, invariant.span, detail=detail)
            if bound is None:
                continue
            frame = _frame(invariant.frame_size, sight.near, bound)
            if not all(_bind_given(given, frame, bound) for given in invariant.givens):
                return None
            failed = run_steps(invariant.steps, frame)
            sight.far = sight.far or frame[FAR_SLOT] is True
            if failed is None:
                return None
            return self._failure(Cause.INVARIANT, (3, failed[0]), invariant.name, failed[1], frame)
        return None

    def _emits(self, rule: CompiledRule, frame: list[Any], nodes: tuple[Value, ...], sight: Sight) -> Emits | None:
        emitted: dict[str, bytes] = {}
        for emit, bindings in [(e, _EMPTY_FRAME) for e in self.rules.emits] + [(e, frame) for e in rule.emits]:
            scratch = list(bindings)
            value = emit.evaluate(scratch)
            sight.far = sight.far or scratch[FAR_SLOT] is True
            if is_unknown(value):
                attempt = Attempt(
                    Cause.EMIT,
                    (4, 0),
                    rule.name,
                    emit.span,
                    f"{emit.key} = …",
                    f"its value is unknown: {value.reason}",
                    backend=self.rules.backend_id,
                )
                self._notes.append((nodes, attempt))
                return None
            emitted[emit.key] = encode_spec_value(value)
        return tuple(sorted(emitted.items()))


_EMPTY_FRAME: list[Any] = [None] * 8


def _op_name(node: Value) -> str:
    return "" if node.op is None else node.op.name


def _kept(node: Value, refused: Attempt) -> str:
    if refused.cause is Cause.LOST:
        return f"{refused.detail} and took `{node.name}`"
    return f"what keeps `{node.name}`: {describe(refused)}"


def _stays(attempt: Attempt | None) -> bool:
    """Is something in an attempt bound to its node in a way that can't be moved to another?"""
    if attempt is None:
        return False
    found = [attempt.detail.found] if isinstance(attempt.detail, Mismatch) else []
    return any(map(stays, attempt.frame or [])) or any(map(stays, found))


def run_steps(steps: tuple[Step, ...], frame: list[Any]) -> tuple[int, Requirement] | None:
    """Evaluate lets and requirements in file order; the first requirement that is not true, with its index."""
    for index, step in enumerate(steps):
        if isinstance(step, LetStep):
            frame[step.slot] = step.evaluate(frame)
        elif step.evaluate(frame) is not True:
            return index, step
    return None


def _solutions(pattern: Pattern, search: Search, root: Value) -> Iterator[Solution]:
    """All fits at a root, those that claim most nodes first."""
    found: list[Solution] = []
    for choice in pattern.choices:
        head = choice.root.term.head
        if head is not None and (root.op is None or root.op.name not in head):
            continue
        if head is None and (root.op is None or root.op.has_effects):
            continue
        for solution in search.solutions(choice, root):
            if not solution.claimed:
                solution = Solution(solution.bound, (root,), frozenset())
            if pattern.uniform:
                yield solution
                continue
            found.append(solution)
            if len(found) >= SOLUTION_LIMIT:
                break
    found.sort(key=lambda s: -len(s.claimed))
    yield from found


def _surround(node: Value, around: dict[Value, int]) -> None:
    """Add a node and those that make its operands to those around, each with its number."""
    around.setdefault(node, len(around))
    for value in node.inputs:
        around.setdefault(value.node, len(around))


def _path(near: Sequence[Value], other: Value) -> tuple[int, int] | None:
    """At which place of which node another one stands; None where it is no operand of theirs."""
    return next(((i, p) for i, node in enumerate(near) for p, v in enumerate(node.inputs) if v.node is other), None)


def _frame(size: int, near: list[Value], bound: Mapping[Any, Any]) -> list[Any]:
    frame: list[Any] = [None] * size
    frame[NEAR_SLOT] = near
    for key, value in bound.items():
        if type(key) is int:
            frame[key] = value
    return frame


def _bind_given(given: Pattern, frame: list[Any], bound: Mapping[Any, Any]) -> bool:
    """Find what a `given` looks for, and add its names to the frame."""
    known = {k: v for k, v in bound.items() if type(k) is int}
    known.update((i, v) for i, v in enumerate(frame) if v is not None)
    for choice in given.choices:
        search = Search(len(frame), dict(known))
        try:
            found = search.first(choice)
        except GaveUp:
            continue
        if found is not None:
            for key, value in found.items():
                if type(key) is int:
                    frame[key] = value
            return True
    return False


RuleT = TypeVar("RuleT", CompiledRule, CompiledInvariant)


@define(eq=False)
class _ByOp(Generic[RuleT]):
    """Rules or invariants by the op of their root, each list in file order; made once, so that a node costs no more
    where there are many that name other ops."""

    _named: dict[str, list[RuleT]] = field(factory=dict)
    _anywhere: list[RuleT] = field(factory=list)

    @classmethod
    def index(cls, everything: Sequence[RuleT]) -> _ByOp[RuleT]:
        """Sort them by the ops that their roots can be."""
        anywhere = [one for one in everything if one.pattern.ops is None]
        named: dict[str, list[RuleT]] = {op: [] for one in everything for op in one.pattern.ops or ()}
        for one in everything:
            for op in named if one.pattern.ops is None else one.pattern.ops:
                named[op].append(one)
        return cls(named, anywhere)

    def of(self, op: str) -> list[RuleT]:
        """Those whose root can be this op."""
        return self._named.get(op, self._anywhere)
