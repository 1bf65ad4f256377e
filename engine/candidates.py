"""Candidate matches: where each rule fits, with its requirements, invariants and emitted specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from attrs import define, evolve, field, frozen

from apportion.engine.compile.patterns import Pattern
from apportion.engine.compile.rulesets import CompiledInvariant, CompiledRule, LetStep, Requirement, RuleSet, Step
from apportion.engine.compile.scope import FAR_SLOT, ROOT_SLOT
from apportion.engine.emits import encode_spec_value
from apportion.engine.facts import GraphFacts, Value, counterparts, moved, stays
from apportion.engine.match import SOLUTION_LIMIT, STEP_LIMIT, GaveUp, Mismatch, Search, Solution
from apportion.engine.reasons import Attempt, Cause, Detail, describe
from apportion.engine.values import is_unknown

__all__ = ["Attempts", "Candidate", "Emits", "Match", "Matcher", "run_steps"]

Refusal = Callable[[Value], Attempt | None]
"""Why a node is not on offer in this call, or None."""

Emits = tuple[tuple[str, bytes], ...]


@define(eq=False)
class Match:
    """A rule that holds at a place: the nodes it claims, those of them that other matches may share, its specs.

    Its bindings are its own, or those of the match `like` it at another node, moved here when they are asked for.
    """

    rule: CompiledRule
    root: Value
    _frame: list[Any] | None
    claimed: tuple[Value, ...]
    shared: frozenset[Value]
    emits: Emits
    like: Match | None = None

    @property
    def frame(self) -> list[Any]:
        """What each slot of the rule is bound to."""
        if self._frame is None:
            if self.like is None:
                return []
            places = counterparts(self.like.root, self.root)
            self._frame = [moved(value, places) for value in self.like.frame]
        return self._frame

    def at(self, node: Value) -> Match:
        """The same match of a single node at a node like it."""
        shared = frozenset({node}) if self.shared else self.shared
        return Match(self.rule, node, None, (node,), shared, self.emits, self)

    @property
    def taken(self) -> tuple[Value, ...]:
        """The constants that the rule takes along (`take`)."""
        found: dict[Value, None] = {}
        for slot in self.rule.takes:
            bound = self.frame[slot]
            for value in bound if isinstance(bound, tuple) else (bound,):
                if isinstance(value, Value):
                    found[value] = None
        return tuple(found)

    @property
    def marks(self) -> tuple[tuple[Value, str], ...]:
        """The nodes that the rule marks, each with its key."""
        found: list[tuple[Value, str]] = []
        for slots, key in self.rule.marks:
            for slot in slots:
                bound = self.frame[slot]
                found.extend(
                    (v.node, key) for v in (bound if isinstance(bound, tuple) else (bound,)) if isinstance(v, Value)
                )
        return tuple(found)


@define(eq=False)
class Attempts:
    """For each node the attempt that came furthest; in `every`, where it is a list, all of them."""

    best: dict[Value, Attempt] = field(factory=dict)
    every: list[tuple[Value, Attempt]] | None = None

    def note(self, nodes: tuple[Value, ...], attempt: Attempt) -> None:
        """Keep `attempt` for those of `nodes` that no other attempt came further at."""
        if self.every is not None:
            self.every.extend((node, attempt) for node in nodes)
        for node in nodes:
            known = self.best.get(node)
            if known is None or attempt.progress > known.progress:
                self.best[node] = attempt

    def of(self, node: Value) -> Attempt | None:
        """The attempt that came furthest at a node."""
        found = self.best.get(node)
        return None if found is None else found.at(node)


@define(eq=False)
class Candidate:
    """A rule at a root: its variants in order of preference, found as they are needed.

    A variant that was withdrawn is never offered again; one that only lost comes back when `restart` is called.
    """

    rule: CompiledRule
    root: Value
    _source: Iterator[Match]
    _found: list[Match] = field(factory=list)
    _withdrawn: frozenset[int] = frozenset()
    _index: int = -1

    def current(self) -> Match | None:
        """The variant on offer."""
        return self._found[self._index] if 0 <= self._index < len(self._found) else None

    def advance(self) -> Match | None:
        """Offer the next variant; None when there is none left."""
        while True:
            self._index += 1
            if self._index >= len(self._found):
                following = next(self._source, None)
                if following is None:
                    self._index = len(self._found)
                    return None
                self._found.append(following)
            if self._index not in self._withdrawn:
                return self._found[self._index]

    def withdraw(self) -> None:
        """Take the variant on offer back for good."""
        self._withdrawn |= {self._index}

    def reset(self) -> None:
        """As it was found: nothing withdrawn, the first variant on offer."""
        self._withdrawn = frozenset()
        self._index = -1
        self.advance()

    def restart(self) -> Match | None:
        """Offer the first variant that was not withdrawn."""
        self._index = -1
        return self.advance()


@frozen(eq=False)
class _Outcome:
    """What a rule came to at a node: its first match, else the best attempt.

    Where it looked `far`, beyond the node's own arguments, that says nothing about nodes like it.
    """

    rule: CompiledRule
    match: Match | None
    attempt: Attempt | None
    far: bool


@define(eq=False)
class Matcher:
    """Matches one backend's rules in one graph. A rule is tried once for all nodes that are alike to it."""

    rules: RuleSet
    graph: GraphFacts
    refusal: Refusal
    attempts: Attempts
    branches: Callable[[Value, CompiledRule], str | None]
    _invariants: _ByOp[CompiledInvariant] = field(init=False)
    _verdicts: dict[Value, tuple[Attempt | None, bool]] = field(factory=dict)
    _alike: dict[int, tuple[Attempt | None, bool]] = field(factory=dict)
    _far: bool = False

    @_invariants.default
    def _index(self) -> _ByOp[CompiledInvariant]:
        return _ByOp.index(self.rules.invariants)

    def candidates(self) -> list[Candidate]:
        """A candidate for every rule and root at which the rule fits at all, in file order, then graph order."""
        by_op = _ByOp.index(self.rules.rules)
        found: dict[int, list[Candidate]] = {rule.position: [] for rule in self.rules.rules}
        known: dict[int, list[_Outcome]] = {}
        for node, likeness in zip(self.graph.calls, self.graph.likenesses, strict=True):
            if not self._is_like_others(node):
                for rule in by_op.of(_op_name(node)):
                    self._try(rule, node, found)
            elif likeness not in known:
                known[likeness] = [self._look(rule, node, found) for rule in by_op.of(_op_name(node))]
            else:
                for outcome in known[likeness]:
                    if outcome.far:
                        self._try(outcome.rule, node, found)
                    else:
                        self._repeat(outcome, node, found)
        return [candidate for position in sorted(found) for candidate in found[position]]

    def _is_like_others(self, node: Value) -> bool:
        """Whether a node can stand for others at all; where every attempt is kept, each is tried by itself."""
        return self.attempts.every is None and self.refusal(node) is None

    def _try(self, rule: CompiledRule, node: Value, found: Mapping[int, list[Candidate]]) -> Match | None:
        candidate = Candidate(rule, node, self._variants(rule, node))
        match = candidate.advance()
        if match is not None:
            found[rule.position].append(candidate)
        return match

    def _look(self, rule: CompiledRule, node: Value, found: Mapping[int, list[Candidate]]) -> _Outcome:
        """Try a rule, and see whether what it comes to holds for nodes like this one too."""
        everywhere, self.attempts, self._far = self.attempts, Attempts(), False
        match = self._try(rule, node, found)
        noted, self.attempts = self.attempts.best, everywhere
        for value, one in noted.items():
            everywhere.note((value,), one)
        attempt = noted.get(node)
        far = self._far or _stays(attempt) or (match is not None and any(map(stays, match.frame)))
        return _Outcome(rule, match, attempt and evolve(attempt, root=node), far)

    def _repeat(self, outcome: _Outcome, node: Value, found: Mapping[int, list[Candidate]]) -> None:
        rule, match = outcome.rule, outcome.match
        if match is not None:
            others = islice(self._variants(rule, node), 1, None)
            found[rule.position].append(Candidate(rule, node, others, [match.at(node)], index=0))
        if outcome.attempt is not None:
            self.attempts.note((node,), outcome.attempt)

    def _variants(self, rule: CompiledRule, root: Value) -> Iterator[Match]:
        search = Search(rule.frame_size)
        try:
            for solution in _solutions(rule.pattern, search, root):
                self._far = self._far or search.far
                match = self._holds(rule, root, solution)
                if match is not None:
                    yield match
        except GaveUp:
            detail = f"after {STEP_LIMIT} steps"
            self._note(rule, (root,), Cause.GAVE_UP, (0, 0), detail=detail)
        self._far = self._far or search.far
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
        self.attempts.note(nodes, attempt)

    # --- does it hold? ---------------------------------------------------------------------------------------------

    def _holds(self, rule: CompiledRule, root: Value, solution: Solution) -> Match | None:
        nodes = solution.claimed
        for node in nodes:
            refused = self.refusal(node)
            if refused is not None:
                self.attempts.note((node,), self._refused(rule, refused))
                others = tuple(n for n in nodes if n is not node)
                detail = partial(_kept, node, refused)
                self._note(rule, others, Cause.LOST, (3, 0), detail=detail)
                return None
            wrong = self.branches(node, rule)
            if wrong is not None:
                self._note(rule, nodes, Cause.BRANCHES, (3, 0), detail=wrong)
                return None
        frame = _frame(rule.frame_size, root, solution.bound)
        self._far = self._far or bool(rule.givens)
        for given in rule.givens:
            if not _bind_given(given, frame, solution.bound):
                self._note(rule, nodes, Cause.GIVEN, (1, 0))
                return None
        failed = run_steps(rule.steps, frame)
        self._far = self._far or frame[FAR_SLOT] is True
        if failed is not None:
            index, requirement = failed
            attempt = self._failure(Cause.REQUIREMENT, (2, index), rule.name, requirement, frame)
            self.attempts.note(nodes, attempt)
            return None
        for node in nodes:
            broken = self._breaks_invariant(node)
            if broken is not None:
                self.attempts.note(nodes, evolve(broken, of=rule.name))
                return None
        emits = self._emits(rule, frame, nodes)
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

    def _breaks_invariant(self, node: Value) -> Attempt | None:
        """Why no rule of the file may claim a node; nodes that are alike are asked once."""
        invariants = self._invariants.of(_op_name(node))
        if not invariants:
            return None
        likeness = self.graph.likenesses[node.position]
        known = self._verdicts.get(node) or self._alike.get(likeness)
        if known is None:
            outside, self._far = self._far, False
            checks = (self._check_invariant(invariant, node) for invariant in invariants)
            broken = next((broken for broken in checks if broken is not None), None)
            known = (broken and evolve(broken, root=node), self._far or _stays(broken))
            if known[1]:
                self._verdicts[node] = known
            else:
                self._alike[likeness] = known
            self._far = outside
        attempt, far = known
        self._far = self._far or far
        return attempt and attempt.at(node)

    def _check_invariant(self, invariant: CompiledInvariant, node: Value) -> Attempt | None:
        for choice in invariant.pattern.choices:
            search = Search(invariant.frame_size)
            try:
                bound = search.fits(choice, node)
            except GaveUp:
                detail = f"invariant {invariant.name}: after {STEP_LIMIT} steps"
                return Attempt(Cause.GAVE_UP, (3, 0), invariant.name, invariant.span, detail=detail)
            finally:
                self._far = self._far or search.far or bool(invariant.givens)
            if bound is None:
                continue
            frame = _frame(invariant.frame_size, node, bound)
            if not all(_bind_given(given, frame, bound) for given in invariant.givens):
                return None
            failed = run_steps(invariant.steps, frame)
            self._far = self._far or frame[FAR_SLOT] is True
            if failed is None:
                return None
            return self._failure(Cause.INVARIANT, (3, failed[0]), invariant.name, failed[1], frame)
        return None

    def _emits(self, rule: CompiledRule, frame: list[Any], nodes: tuple[Value, ...]) -> Emits | None:
        emitted: dict[str, bytes] = {}
        for emit, bindings in [(e, _EMPTY_FRAME) for e in self.rules.emits] + [(e, frame) for e in rule.emits]:
            scratch = list(bindings)
            value = emit.evaluate(scratch)
            self._far = self._far or scratch[FAR_SLOT] is True
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
                self.attempts.note(nodes, attempt)
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


def _frame(size: int, root: Value, bound: Mapping[Any, Any]) -> list[Any]:
    frame: list[Any] = [None] * size
    frame[ROOT_SLOT] = root
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
