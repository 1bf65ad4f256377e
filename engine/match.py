"""Finding where a pattern fits: one search that walks compiled terms over the values of a graph.

The search keeps its goals in a list of its own, so neither deep patterns nor deep graphs meet a recursion limit, and
counts its steps, so that an adversarial pattern ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from apportion.engine.compile import patterns as p
from apportion.engine.compile.scope import FAR_SLOT, NEAR_SLOT
from apportion.engine.facts import Value, normalise_literal
from apportion.engine.ops import is_commutative
from apportion.engine.values import is_unknown, k_compare

__all__ = ["GaveUp", "Mismatch", "Search", "Sight", "Solution", "same"]

STEP_LIMIT = 20_000
"""How many steps the search for one root may take before it gives up."""

SOLUTION_LIMIT = 1_024
"""How many ways one root may fit before the search gives up."""


class GaveUp(Exception):
    """The search for one root took more than `STEP_LIMIT` steps."""


@frozen(eq=False)
class Solution:
    """One way in which a pattern fits: what each slot is bound to, the nodes claimed, those of them `shared`."""

    bound: dict[Any, Any]
    claimed: tuple[Value, ...]
    shared: frozenset[Value]


@frozen(eq=False)
class Mismatch:
    """Where the search came furthest: the term that did not fit, what stood there, the nodes matched until then.

    `argument` names the argument where a literal differs or nothing stands there, or says that a user is not there.
    """

    term: p.Term
    found: Any
    claimed: tuple[Value, ...]
    depth: int
    extra_user: Value | None = None
    argument: str | None = None


@frozen(eq=False)
class _Set:
    slot: int
    value: Any


@frozen(eq=False)
class _Claim:
    value: Value
    shared: bool


@frozen(eq=False)
class _Close:
    slots: tuple[int, ...]
    count: int


@frozen(eq=False)
class _Evaluate:
    computed: tuple[tuple[Callable[[list[Any]], Any], p.Term], ...]


@frozen(eq=False)
class _Look:
    sink: p.Sink


Goals = Any
"""A linked list of (term, argument, star index, rest), or None where nothing is left to show."""

_FAIL = object()


@define(eq=False)
class Sight:
    """What was looked at: `near` are the nodes whose arguments were seen, the root first; `far` is set once anything
    else was, so that the outcome says nothing about places like this one."""

    near: list[Value] = field(factory=list)
    far: bool = False

    def enter(self, node: Value) -> None:
        """Look into the arguments of a node."""
        if node not in self.near:
            self.near.append(node)


@define(eq=False)
class Search:
    """The state of one search: bindings and claims with an undo trail, the steps taken, how far it came, what it
    looked at."""

    frame_size: int
    bound: dict[Any, Any] = field(factory=dict)
    sight: Sight = field(factory=Sight)
    claims: list[tuple[Value, bool]] = field(factory=list)
    trail: list[Any] = field(factory=list)
    steps: int = 0
    furthest: Mismatch | None = None

    def solutions(self, choice: p.Choice, root: Value) -> Iterator[Solution]:
        """Every way in which a block of a `match` fits with `root` as its root; raises `GaveUp`."""
        self.sight.enter(root)
        start = _root_value(choice.root.term, root)
        goals: Goals = None
        for sink in reversed(choice.others):
            goals = (_Look(sink), None, None, goals)
        goals = (choice.root.term, start, None, goals)
        for _ in self._run(goals):
            solution = self._solution()
            stray = _stray_user(solution, self.sight)
            if stray is None:
                yield solution
            elif self.furthest is None or self.furthest.extra_user is None:
                inner, user = stray
                self.furthest = Mismatch(p.AnyTerm(), inner, solution.claimed, 1 << 30, user)

    def fits(self, choice: p.Choice, root: Value) -> dict[Any, Any] | None:
        """The bindings of the first fit at `root` of a block that claims nothing (an `invariant`)."""
        self.sight.enter(root)
        goals: Goals = (choice.root.term, _root_value(choice.root.term, root), None, None)
        for _ in self._run(goals):
            return dict(self.bound)
        return None

    def first(self, choice: p.Choice) -> dict[Any, Any] | None:
        """The bindings of the first fit, in graph order, of a block that claims nothing (`given`)."""
        goals: Goals = None
        for sink in reversed((choice.root, *choice.others)):
            goals = (_Look(sink), None, None, goals)
        for _ in self._run(goals):
            return dict(self.bound)
        return None

    def _solution(self) -> Solution:
        nodes = dict.fromkeys(value for value, _ in self.claims)
        shared = frozenset(value for value, is_shared in self.claims if is_shared)
        return Solution(dict(self.bound), tuple(sorted(nodes, key=lambda v: v.position)), shared)

    # --- the machine -----------------------------------------------------------------------------------------------

    def _run(self, goals: Goals) -> Iterator[None]:
        pending: list[tuple[Iterator[Goals], int, int]] = []
        while True:
            if goals is None:
                yield None
                goals = _FAIL
            elif goals is not _FAIL:
                self.steps += 1
                if self.steps > STEP_LIMIT:
                    raise GaveUp
                term, argument, k, rest = goals
                outcome = _STEPS[type(term)](self, term, argument, k, rest)
                if type(outcome) is list:
                    pending.append((iter(outcome), len(self.trail), len(self.claims)))
                    goals = _FAIL
                else:
                    if outcome is _FAIL:
                        self._note(term, argument)
                    goals = outcome
                    if goals is not _FAIL:
                        continue
            # take the next branch of the youngest open choice
            while pending:
                branches, trail, claims = pending[-1]
                self._undo(trail, claims)
                goals = next(branches, _FAIL)
                if goals is not _FAIL:
                    break
                pending.pop()
            else:
                self._undo(0, 0)
                return

    def _note(self, term: p.Term, argument: Any, name: str | int | None = None) -> None:
        depth = len(self.trail) + len(self.claims)
        if self.furthest is None or depth > self.furthest.depth:
            claimed = tuple(dict.fromkeys(value for value, _ in self.claims))
            shown = name if isinstance(name, str) else None
            self.furthest = Mismatch(term, argument, claimed, depth, argument=shown)

    def _undo(self, trail: int, claims: int) -> None:
        while len(self.trail) > trail:
            del self.bound[self.trail.pop()]
        del self.claims[claims:]

    def bind(self, key: Any, value: Any) -> bool:
        """Bind a slot, or tell whether it is already bound to the same value."""
        if key in self.bound:
            return same(self.bound[key], value)
        self.bound[key] = value
        self.trail.append(key)
        return True

    def frame(self, k: int | None = None) -> list[Any]:
        """The bindings as the list that expressions read; unbound slots are None."""
        frame: list[Any] = [None] * self.frame_size
        frame[NEAR_SLOT] = self.sight.near
        for key, value in self.bound.items():
            if type(key) is int:
                frame[key] = value
            elif k is not None and key[1] == k:
                frame[key[0]] = value
        return frame


def same(left: Any, right: Any) -> bool:
    """Are two bound things one value? Nodes by identity, literals by value, unknown never."""
    if isinstance(left, Value) or isinstance(right, Value):
        return left is right
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return k_compare("==", left, right) is True


def _root_value(term: p.Term, node: Value) -> Value:
    """What a root term stands for at a node: one of its outputs where the pattern says `T[i]`."""
    while isinstance(term, p.BindTerm | p.ComputeTerm):
        term = term.term
    if isinstance(term, p.ElementTerm) and term.index < len(node.outputs):
        return node.outputs[term.index]
    return node


def _stray_user(solution: Solution, sight: Sight) -> tuple[Value, Value | None] | None:
    """An inner value that someone outside the match uses, and who; None where every inner value is used once."""
    if len(solution.claimed) < 2:
        return None
    claimed = set(solution.claimed)
    for node in solution.claimed:
        if node in solution.shared:
            continue
        users = node.users
        if not any(user in claimed for user in users):
            continue
        for user in users:
            if user not in claimed:
                sight.far = True  # that user is somewhere
                return node, user
        if any(v.returned or v.written_back for v in (node, *node.outputs)):
            return node, None
        for query in node.size_queries:
            sight.far = True
            if query not in claimed and not _size_from_border(query, solution, claimed):
                return node, query
    return None


def _size_from_border(query: Value, solution: Solution, claimed: set[Value]) -> bool:
    """Can the size that is asked for be had from another value at the border of the match?"""
    size = query.val
    if is_unknown(size):
        return False
    border: list[Value] = []
    for node in solution.claimed:
        border.extend(v for v in node.tensor_inputs if v.node not in claimed)
        if not any(user in claimed for user in node.users):
            border.extend(node.outputs)
    wanted = str(size)
    return any(wanted == str(dim) for value in border if isinstance(value.shape, tuple) for dim in value.shape)


def _can(term: p.Term, argument: Any) -> bool:
    """A quick look whether a term can fit, by the op of the argument alone."""
    head = term.head
    if head is None or not isinstance(argument, Value):
        return True
    op = argument.node.op
    return op is not None and op.name in head


# --- one step for each kind of term --------------------------------------------------------------------------------


def _any(search: Search, term: p.AnyTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    return rest


def _variable(search: Search, term: p.VariableTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    key = term.slot if k is None else (term.slot, k)
    return rest if search.bind(key, argument) else _FAIL


def _literal(search: Search, term: p.LiteralTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    if isinstance(argument, Value):
        return _FAIL
    return rest if same(term.value, argument) else _FAIL


def _bind(search: Search, term: p.BindTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    key = term.slot if k is None else (term.slot, k)
    if key in search.bound:
        return rest if same(search.bound[key], argument) else _FAIL
    if not _can(term, argument):
        return _FAIL
    search.bind(key, argument)
    return (term.term, argument, k, rest)


def _op(search: Search, term: p.OpTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    if not isinstance(argument, Value) or argument.element is not None:
        return _FAIL
    op = argument.op
    if op is None or (op.has_effects if term.ops is None else op.name not in term.ops):
        return _FAIL
    search.sight.enter(argument)
    search.claims.append((argument, term.shared))
    layout = term.layouts.get(op.name, term.layout)
    pairs = _arguments(search, argument, layout)
    if pairs is None:
        return _FAIL
    goals = rest
    if term.rest is not None:
        remaining = list(argument.tensor_inputs)
        for _, found in pairs:
            if isinstance(found, Value) and found in remaining:
                remaining.remove(found)
        goals = (term.rest, tuple(remaining), k, goals)
    if len(pairs) >= 2 and _operands(layout) and is_commutative(argument):
        orders = _orders(pairs, k, goals)
        if orders is _FAIL:
            search._note(*_unfit(pairs))
        return orders
    for sub, found in pairs:
        if not _can(sub, found):
            search._note(sub, found)
            return _FAIL
    return _push(pairs, k, goals)


def _arguments(
    search: Search, node: Value, layout: tuple[tuple[str | int, p.Term], ...]
) -> list[tuple[p.Term, Any]] | None:
    """The terms of a layout with what stands there; None where a literal differs or an argument is missing."""
    arguments = node.arguments
    pairs: list[tuple[p.Term, Any]] = []
    for key, sub in layout:
        if isinstance(key, int):
            values = list(arguments.values())
            if key >= len(values):
                search._note(sub, None)
                return None
            found = values[key]
        elif key in arguments:
            found = arguments[key]
        else:
            search._note(sub, None, key)
            return None
        if isinstance(sub, p.LiteralTerm) and isinstance(key, str) and node.op is not None:
            if isinstance(found, Value) or not same(normalise_literal(node.op, key, sub.value, _rank(node)), found):
                search._note(sub, found, key)
                return None
        elif not isinstance(sub, p.AnyTerm):
            pairs.append((sub, found))
        elif key in (0, 1, "self", "input", "other"):
            pairs.append((sub, found))
    return pairs


def _rank(node: Value) -> int | None:
    for value in node.tensor_inputs:
        return value.rank if isinstance(value.rank, int) else None
    return None


def _operands(layout: tuple[tuple[str | int, p.Term], ...]) -> bool:
    """Are the first two things of a layout the operands of a binary op?"""
    first, second = layout[0][0], layout[1][0]
    return first in (0, "self", "input") and second in (1, "other")


def _orders(pairs: list[tuple[p.Term, Any]], k: int | None, goals: Goals) -> Any:
    (left, a), (right, b), *others = pairs
    orders = []
    for x, y in ((a, b), (b, a)):
        if _can(left, x) and _can(right, y):
            orders.append(_push([(left, x), (right, y), *others], k, goals))
        if a is b:
            break
    if not orders:
        return _FAIL
    return orders[0] if len(orders) == 1 else orders


def _unfit(pairs: list[tuple[p.Term, Any]]) -> tuple[p.Term, Any]:
    """Of two operands that fit in no order: the term that neither fits, with the operand that is nearest to it."""
    (left, a), (right, b), *_ = pairs
    term = next((t for t in (left, right) if not _can(t, a) and not _can(t, b)), left)
    return term, next((x for x in (a, b) if isinstance(x, Value) and x.node.op is not None), a)


def _push(pairs: Iterable[tuple[p.Term, Any]], k: int | None, goals: Goals) -> Goals:
    for sub, found in reversed(list(pairs)):
        goals = (sub, found, k, goals)
    return goals


def _optional(search: Search, term: p.OptionalTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    key = term.present if k is None else (term.present, k)
    branches = []
    if _can(term.term, argument):
        branches.append((_Set(0, (key, True)), None, k, (term.term, argument, k, rest)))
    if _can(term.bypass, argument):
        branches.append((_Set(0, (key, False)), None, k, (term.bypass, argument, k, rest)))
    return branches or _FAIL


def _alternatives(search: Search, term: p.AlternativesTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    fitting = [(sub, argument, k, rest) for sub in term.terms if _can(sub, argument)]
    if not fitting:
        return _FAIL
    return fitting[0] if len(fitting) == 1 else fitting


def _element(search: Search, term: p.ElementTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    if not isinstance(argument, Value) or argument.element != term.index:
        return _FAIL
    return (term.term, argument.node, k, rest)


def _list(search: Search, term: p.ListTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    if not isinstance(argument, tuple):
        return _FAIL
    count = len(term.items)
    if len(argument) < count or (term.rest is None and len(argument) != count):
        return _FAIL
    goals = rest if term.rest is None else (term.rest, argument[count:], k, rest)
    return _push(zip(term.items, argument[:count], strict=True), k, goals)


def _each(search: Search, term: p.EachTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    if not isinstance(argument, tuple):
        return _FAIL
    inner = term.term
    if isinstance(inner, p.VariableTerm):
        return rest if search.bind(inner.slot, argument) else _FAIL
    goals: Goals = (_Close(term.slots, len(argument)), None, None, rest)
    for index in range(len(argument) - 1, -1, -1):
        if not _can(inner, argument[index]):
            search._note(inner, argument[index])
            return _FAIL
        goals = (inner, argument[index], index, goals)
    return goals


def _through(search: Search, term: p.ThroughTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    key = term.walked if k is None else (term.walked, k)
    steps: list[Any] = [argument]
    while len(steps) <= p.THROUGH_LIMIT:
        node = steps[-1]
        if not isinstance(node, Value) or node.element is not None or node.op is None or node.op.name not in term.ops:
            break
        search.sight.enter(node)
        inputs = node.tensor_inputs
        if not inputs:
            break
        steps.append(inputs[0])
    branches: list[Goals] = []
    for count in range(len(steps) - 1, -1, -1):
        if not _can(term.term, steps[count]):
            continue
        goals: Goals = (_Set(0, (key, count > 0)), None, k, (term.term, steps[count], k, rest))
        for node in steps[:count]:
            goals = (_Claim(node, term.shared), None, k, goals)
        branches.append(goals)
    return branches or _FAIL


def _compute(search: Search, term: p.ComputeTerm, argument: Any, k: int | None, rest: Goals) -> Any:
    return (term.term, argument, k, (_Evaluate(term.computed), None, k, rest))


def _evaluate(search: Search, term: _Evaluate, argument: Any, k: int | None, rest: Goals) -> Any:
    frame = search.frame(k)
    pairs = []
    for evaluate, role in term.computed:
        value = evaluate(frame)
        if is_unknown(value):
            search.sight.far = True
            return _FAIL
        pairs.append((role, value))
    if frame[FAR_SLOT] is True:
        search.sight.far = True
    return _push(pairs, k, rest)


def _set(search: Search, term: _Set, argument: Any, k: int | None, rest: Goals) -> Any:
    key, value = term.value
    return rest if search.bind(key, value) else _FAIL


def _claim(search: Search, term: _Claim, argument: Any, k: int | None, rest: Goals) -> Any:
    search.claims.append((term.value, term.shared))
    return rest


def _close(search: Search, term: _Close, argument: Any, k: int | None, rest: Goals) -> Any:
    for slot in term.slots:
        values = tuple(search.bound.get((slot, index)) for index in range(term.count))
        if not search.bind(slot, values):
            return _FAIL
    return rest


def _look(search: Search, term: _Look, argument: Any, k: int | None, rest: Goals) -> Any:
    """Start at a further sink: at the value its name is bound to, or among the users of a value bound already."""
    search.sight.far = True
    sink = term.sink
    if sink.slot is not None and sink.slot in search.bound:
        inner = sink.term.term if isinstance(sink.term, p.BindTerm) else sink.term
        return (inner, search.bound[sink.slot], None, rest)
    found: dict[Value, None] = {}
    for slot in sink.anchors:
        value = search.bound.get(slot)
        for start in value if isinstance(value, tuple) else (value,):
            if isinstance(start, Value):
                _users_within(start, sink.depth, found)
    nodes = sorted(found, key=lambda v: v.position)
    starts = [(sink.term, _root_value(sink.term, node), None, rest) for node in nodes if _can(sink.term, node)]
    if not starts:
        search._note(sink.term, None, "a user")
    return starts or _FAIL


def _users_within(start: Value, depth: int, found: dict[Value, None]) -> None:
    level: list[Value] = [start]
    if depth == 0:
        found[start] = None
    for _ in range(depth):
        following: dict[Value, None] = {}
        for value in level:
            following.update(dict.fromkeys(value.users))
        following = {v: None for v in following if v not in found}
        found.update(following)
        level = list(following)


_STEPS: dict[type, Callable[[Search, Any, Any, int | None, Goals], Any]] = {
    p.AnyTerm: _any,
    p.VariableTerm: _variable,
    p.LiteralTerm: _literal,
    p.BindTerm: _bind,
    p.OpTerm: _op,
    p.OptionalTerm: _optional,
    p.AlternativesTerm: _alternatives,
    p.ElementTerm: _element,
    p.ListTerm: _list,
    p.EachTerm: _each,
    p.ThroughTerm: _through,
    p.ComputeTerm: _compute,
    _Evaluate: _evaluate,
    _Set: _set,
    _Claim: _claim,
    _Close: _close,
    _Look: _look,
}
