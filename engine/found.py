"""What matching finds: candidates with their variants, and for each node the attempt that came furthest.

Networks repeat themselves, so what a rule comes to is recorded where it was tried first, and every place like that one
refers to the recording: `near` are the nodes that the rule looked into there, and those that stand for them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Union

from attrs import define, evolve, field, frozen

from apportion.engine.compile.rulesets import CompiledRule
from apportion.engine.facts import Value, counterparts, moved
from apportion.engine.reasons import Attempt

__all__ = ["Attempts", "Candidate", "Emits", "Match", "Near", "Outcome", "Recording", "Step", "here"]

Emits = tuple[tuple[str, bytes], ...]

Near = tuple[Value, ...]
"""The nodes that a rule looked into, its root first."""


@define(eq=False)
class Match:
    """A rule that holds at a place: the nodes it claims, those of them that other matches may share, its specs.

    Its bindings are its own, or those of the match `like` it elsewhere, moved here when they are asked for.
    """

    rule: CompiledRule
    root: Value
    _frame: list[Any] | None
    claimed: tuple[Value, ...]
    shared: frozenset[Value]
    emits: Emits
    near: Near = ()
    _like: Match | None = None
    _pick: Callable[[Near], tuple[Value, ...]] | None = None
    _taken: tuple[_Spot, ...] | None = None
    _marks: tuple[tuple[_Spot, str], ...] | None = None

    @property
    def frame(self) -> list[Any]:
        """What each slot of the rule is bound to."""
        if self._frame is None:
            if self._like is None:
                return []
            places = counterparts(self._like.near, self.near)
            self._frame = [moved(value, places) for value in self._like.frame]
        return self._frame

    def claimed_at(self, near: Near) -> tuple[Value, ...]:
        """The nodes that it would claim at nodes like those here, in graph order."""
        if len(near) == 1:
            return near
        if len(self.claimed) == 1:
            return (near[self.near.index(self.claimed[0])],)
        if self._pick is None:
            self._pick = itemgetter(*map(self.near.index, self.claimed))
        return tuple(sorted(self._pick(near), key=_position))

    def at(self, near: Near, claimed: tuple[Value, ...]) -> Match:
        """The same match at nodes like those here."""
        shared = self.shared
        if shared:
            places = dict(zip(self.near, near, strict=True))
            shared = frozenset([places[node] for node in shared])
        return Match(self.rule, near[0], None, claimed, shared, self.emits, near, self)

    def taken_at(self, near: Near) -> tuple[Value, ...]:
        """The constants that the rule takes along (`take`), at nodes like those here."""
        if not self.rule.takes:
            return ()
        if self._taken is None:
            bound = dict.fromkeys(_values([self.frame[slot] for slot in self.rule.takes]))
            self._taken = _places(self.near, tuple(bound))
        return tuple([_found(near, place) for place in self._taken])

    def marks_at(self, near: Near) -> tuple[tuple[Value, str], ...]:
        """The nodes that the rule marks, each with its key, at nodes like those here."""
        if not self.rule.marks:
            return ()
        if self._marks is None:
            bound = [(value, key) for slots, key in self.rule.marks
                     for value in _values([self.frame[slot] for slot in slots])]
            places = _places(self.near, [value for value, _ in bound])
            self._marks = tuple(zip(places, [key for _, key in bound], strict=True))
        return tuple([(_found(near, place).node, key) for place, key in self._marks])


_Spot = Union[Value, tuple[int, int | None]]
"""Where a value is found: as which of the nodes near, or at which place of its inputs; or the value, if nowhere."""


def _values(bound: Iterable[Any]) -> list[Value]:
    """The values that slots are bound to."""
    several = [one if isinstance(one, tuple) else (one,) for one in bound]
    return [value for some in several for value in some if isinstance(value, Value)]


def _places(near: Near, values: Iterable[Value]) -> tuple[_Spot, ...]:
    at: dict[Value, tuple[int, int | None]] = {}
    for index, node in enumerate(near):
        at.setdefault(node, (index, None))
        for place, value in enumerate(node.inputs):
            at.setdefault(value, (index, place))
    return tuple([at[value] if value in at else at.get(value.node, value) for value in values])


def _found(near: Near, spot: _Spot) -> Value:
    if isinstance(spot, Value):
        return spot
    index, place = spot
    return near[index] if place is None else near[index].inputs[place]


@define(eq=False)
class Attempts:
    """For each node the attempt that came furthest; in `every`, where it is a list, all of them.

    An attempt that was made elsewhere is kept as it is, with the nodes there and here, and moved when it is asked for.
    """

    best: dict[Value, Attempt] = field(factory=dict)
    every: list[tuple[Value, Attempt]] | None = None
    _moves: dict[Value, tuple[Near, Near]] = field(factory=dict)

    def note(self, nodes: Sequence[Value], attempt: Attempt, move: tuple[Near, Near] | None = None) -> None:
        """Keep `attempt` for those of `nodes` that no other attempt came further at."""
        if self.every is not None:
            self.every.extend((node, attempt if move is None else attempt.moved(*move)) for node in nodes)
        for node in nodes:
            known = self.best.get(node)
            if known is None or attempt.progress > known.progress:
                self.best[node] = attempt
                if move is not None:
                    self._moves[node] = move
                elif known is not None:
                    self._moves.pop(node, None)

    def repeat(self, notes: Sequence[tuple[int, Attempt]], recorded: Near, near: Near) -> None:
        """Keep attempts that were made elsewhere, each for the node at its place among those there and here."""
        best, move = self.best, (recorded, near)
        for spot, attempt in notes:
            node = near[spot]
            known = best.get(node)
            if known is None or attempt.progress > known.progress:
                best[node] = attempt
                self._moves[node] = move

    def of(self, node: Value) -> Attempt | None:
        """The attempt that came furthest at a node."""
        found, move = self.best.get(node), self._moves.get(node)
        return found if found is None or move is None else found.moved(*move)

    def fork(self) -> Attempts:
        """The same store, for another backend."""
        return Attempts(self.best, self.every, self._moves)


@frozen(eq=False)
class Step:
    """One variant of a rule: its match (None: there is no further one), and the attempts on the way to it.

    Where it looked `far`, the same may not hold elsewhere.
    """

    match: Match | None
    notes: tuple[tuple[tuple[Value, ...], Attempt], ...]
    far: bool


@define(eq=False)
class Recording:
    """The variants of a rule at one place, found as they are asked for.

    `pull` finds the next one, `again` makes a recording of its own for another root.
    """

    near: Near
    pull: Callable[[Recording], Step]
    again: Callable[[Value], Recording]
    _steps: list[Step] = field(factory=list)

    @property
    def is_begun(self) -> bool:
        """Whether it has a first variant already."""
        return bool(self._steps)

    def step(self, index: int) -> Step:
        """A variant; behind the last one a step without a match."""
        steps = self._steps
        while len(steps) <= index:
            if steps and steps[-1].match is None:
                return steps[-1]
            steps.append(self.pull(self))
        return steps[index]


@frozen(eq=False)
class Outcome:
    """What a rule came to at a root: its recording, its first variant.

    Where it looked `far`, that says nothing about roots like it. Its `heirs` want nothing but nodes that it wants.
    """

    rule: CompiledRule
    recording: Recording
    first: Step
    heirs: tuple[Outcome, ...] = ()

    def without_notes(self) -> Outcome:
        """The same, its attempts being noted already."""
        return evolve(self, first=evolve(self.first, notes=()))

    def at(self, near: Near, attempts: Attempts) -> Candidate:
        """The rule at nodes like those where it was tried and matched."""
        claimed = () if self.first.match is None else self.first.match.claimed_at(near)
        return Candidate(self.rule, near[0], near, self.recording, attempts, claimed, self, self.first, 0, 1)

    @property
    def size(self) -> int:
        """How many nodes the first variant claims."""
        return 0 if self.first.match is None else len(self.first.match.claimed)

    @property
    def is_final(self) -> bool:
        """Whether the first variant, all of it the match's own, is the only one."""
        match, second = self.first.match, self.recording.step(1)
        return match is not None and not match.shared and not (second.match or second.notes or second.far)


def here(recorded: Near, nodes: tuple[Value, ...], near: Near) -> tuple[Value, ...]:
    """What stands among `near` for nodes of a recording, in graph order."""
    if near is recorded:
        return nodes
    if len(near) == 1:
        return near
    places = dict(zip(recorded, near, strict=True))
    return tuple(sorted([places[node] for node in nodes], key=_position))


_END = 1 << 30
_position = attrgetter("position")


@define(eq=False)
class Candidate:
    """A rule at a root: its variants in order of preference, found as they are needed.

    A variant that was withdrawn is never offered again; one that only lost comes back when `restart` is called. The
    nodes that the variant on offer claims are in `claimed`. Where it stands for an `outcome` with heirs, these count
    once its first variant lost or was withdrawn.
    """

    rule: CompiledRule
    root: Value
    near: Near
    _recording: Recording
    _attempts: Attempts
    claimed: tuple[Value, ...] = ()
    _outcome: Outcome | None = None
    _step: Step | None = None
    _index: int = -1
    _noted: int = 0
    _withdrawn: frozenset[int] = frozenset()
    _match: Match | None = None
    _heirs: list[Candidate] | None = None

    def current(self) -> Match | None:
        """The variant on offer."""
        step = self._step
        if step is None or step.match is None:
            return None
        if self._match is None:
            same = self.near is self._recording.near
            self._match = step.match if same else step.match.at(self.near, self.claimed)
        return self._match

    @property
    def emits(self) -> Emits:
        """The specs of the variant on offer."""
        return () if self._step is None or self._step.match is None else self._step.match.emits

    @property
    def shares(self) -> bool:
        """Whether other matches may have some of its nodes, too."""
        return self._step is not None and self._step.match is not None and bool(self._step.match.shared)

    def advance(self) -> bool:
        """Offer the next variant; false when there is none left."""
        while True:
            self._index += 1
            step = self._next()
            if self._index >= self._noted:
                self._noted = self._index + 1
                self._note(step)
            if step.match is None:
                self._offer(None)
                self._index = _END
                return False
            if self._index not in self._withdrawn:
                self._offer(step)
                return True

    def _next(self) -> Step:
        step = self._recording.step(self._index)
        if step.far and self.near is not self._recording.near:
            self._heirs = self.heirs  # they stand at the nodes that are near as yet
            self._recording = self._recording.again(self.root)
            self.near = self._recording.near
            step = self._recording.step(self._index)
        return step

    def _note(self, step: Step) -> None:
        recorded, near = self._recording.near, self.near
        move = None if recorded is near else (recorded, near)
        for nodes, attempt in step.notes:
            self._attempts.note(here(recorded, nodes, near), attempt, move)

    def _offer(self, step: Step | None) -> None:
        self._step, self._match = step, None
        match = None if step is None else step.match
        recorded = self._recording.near
        if match is None:
            self.claimed = ()
        else:
            self.claimed = match.claimed if self.near is recorded else match.claimed_at(self.near)

    @property
    def taken(self) -> tuple[Value, ...]:
        """The constants that the variant on offer takes along."""
        return () if self._step is None or self._step.match is None else self._step.match.taken_at(self.near)

    @property
    def marks(self) -> tuple[tuple[Value, str], ...]:
        """The nodes that the variant on offer marks, each with its key."""
        return () if self._step is None or self._step.match is None else self._step.match.marks_at(self.near)

    @property
    def heirs(self) -> list[Candidate]:
        """Those that want nothing but nodes of its first variant, and come after it."""
        if self._heirs is None:
            outcomes = () if self._outcome is None else self._outcome.heirs
            self._heirs = [outcome.at(self.near, self._attempts) for outcome in outcomes]
        return self._heirs

    def heirs_without(self, node: Value) -> list[Candidate]:
        """Those of its heirs that can do without a node of its first variant."""
        heirs = () if self._outcome is None else self._outcome.heirs
        size = len(self.claimed)
        if self._heirs is None and all(heir.size == size for heir in heirs):
            return []  # they want what it wants
        return [heir for heir in self.heirs if node not in heir.claimed]

    @property
    def is_last(self) -> bool:
        """Whether there is no other variant than the one on offer, as far as is known."""
        return self._index == 0 and self._outcome is not None and self._outcome.is_final

    @property
    def offers_first(self) -> bool:
        """Whether the variant on offer is the first."""
        return self._index == 0

    def withdraw(self) -> None:
        """Take the variant on offer back for good."""
        self._withdrawn |= {self._index}

    def reset(self) -> None:
        """As it was found: nothing withdrawn, the first variant on offer."""
        self._withdrawn = frozenset()
        for heir in self._heirs or ():
            heir.reset()
        self.restart()

    def restart(self) -> bool:
        """Offer the first variant that was not withdrawn; false when there is none."""
        if self._index == 0 and not self._withdrawn:
            return True
        self._index = -1
        return self.advance()
