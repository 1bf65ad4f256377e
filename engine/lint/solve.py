"""Is there a way to make all conditions hold? Boxes narrowed by propagation, split only where something asks for it.

`Problem` is a conjunction: conditions still to be read (closures over a reader), disjunctions, comparisons, and a box.
Its `leaves` are boxes in which everything holds that the formulas can express; `Open` conditions are kept beside.
No leaf is a proof that nothing fits. A budget on splits bounds the time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping

from attrs import define, field

from apportion.engine.lint.domains import Choice, Domain, Numbers
from apportion.engine.lint.formulas import (
    FALSE,
    TRUE,
    And,
    Compare,
    Formula,
    In,
    Open,
    Or,
    Poly,
    Same,
    Truth,
    either,
    negated,
    variables,
)
from apportion.engine.lint.opfacts import facts_of, is_mixed
from apportion.engine.lint.remember import Condition, Forked, remembered
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.lint.terms import Box, bounds

__all__ = ["Budget", "Condition", "Contradiction", "Exhausted", "Leaf", "Problem", "solve"]

_ROUNDS = 12

_TURNS = 64
"""Bounds that push each other up step by step are left where they are after so many turns: what holds is then seen by
trying, and what does not is left undecided."""

_ONLY_NONE = Choice(frozenset({None}))
_NOT_NONE = Choice(frozenset({None}), True)
_TRUE, _FALSE = Choice(frozenset({True})), Choice(frozenset({False}))
_NODE = Choice(frozenset({"node"}))
_STATE = Choice(frozenset({"parameter", "buffer", "constant", "attribute"}))

_IMPLIED: Mapping[str, tuple[tuple[Domain, str, Domain], ...]] = {
    "op": ((_NOT_NONE, "origin", _NODE), (_ONLY_NONE, "origin", Choice(frozenset({"node"}), True))),
    "origin": (
        (Choice(frozenset({"node"}), True), "op", _ONLY_NONE),
        (_NODE, "op", _NOT_NONE),
        (_STATE, "symbolic", _FALSE),
        (_STATE, "frozen", _TRUE),
        (Choice(frozenset({"user", "mutable_buffer"})), "frozen", _FALSE),
    ),
    "symbolic": ((_FALSE, "unbacked", _FALSE),),
    "unbacked": ((_TRUE, "symbolic", _TRUE),),
    "channels_last": ((_TRUE, "rank", Numbers.of(4, 5)),),
}
"""Where a path lies within the first domain, another path of the same place lies within the second."""


class Exhausted(Exception):
    """The budget on splits is used up."""


@define
class Budget:
    """How many splits may be made."""

    splits: int = 2_000
    used: int = 0

    def spend(self) -> None:
        """Count one split. Raises Exhausted."""
        self.used += 1
        if self.used > self.splits:
            raise Exhausted


@define(eq=False)
class Leaf:
    """A box in which all holds but `compares` (checked by bounds alone), `sames` and `opens`, which are open."""

    box: Box
    compares: tuple[Compare, ...]
    sames: tuple[Same, ...]
    opens: tuple[Open, ...]


class Contradiction(Exception):
    """Nothing can hold here."""


@define(eq=False)
class Problem:
    """A conjunction on its way to leaves."""

    skeleton: Skeleton
    box: Box = field(factory=Box)
    conditions: list[Condition] = field(factory=list)
    disjunctions: list[Or] = field(factory=list)
    compares: dict[Compare, None] = field(factory=dict)
    sames: dict[Same, None] = field(factory=dict)
    opens: dict[Open, None] = field(factory=dict)
    disjoint: frozenset[tuple[str, str]] = frozenset()
    asserted: frozenset[Formula] = frozenset()
    lazy: list[tuple[frozenset[str], Condition]] = field(factory=list)
    mixed: tuple[str, ...] = ()
    signature: Hashable = None

    def __attrs_post_init__(self) -> None:
        if self.signature is None:
            self.signature = self.skeleton.signature()

    def copy(self) -> Problem:
        """An independent copy (of the same skeleton)."""
        return Problem(
            self.skeleton, self.box.copy(), list(self.conditions), list(self.disjunctions), dict(self.compares),
            dict(self.sames), dict(self.opens), self.disjoint, self.asserted, list(self.lazy), self.mixed,
            self.signature,
        )

    def variables(self) -> frozenset[str]:
        """The paths that something open speaks of."""
        parts: list[Formula] = [*self.disjunctions, *self.compares, *self.sames]
        return frozenset().union(*map(variables, parts)) if parts else frozenset()

    # --- asserting -------------------------------------------------------------------------------------------------

    def add(self, formula: Formula) -> None:
        """Assert a formula. Raises Contradiction."""
        match formula:
            case Truth():
                if not formula.value:
                    raise Contradiction
            case In():
                moved = self.box.narrow(formula.var, formula.domain)
                if moved is None:
                    raise Contradiction
                if moved:
                    self._follow(formula.var)
            case And():
                for part in formula.parts:
                    self.add(part)
            case Or():
                self.disjunctions.append(formula)
            case Compare():
                self.compares[formula] = None
            case Same():
                self._add_same(formula)
            case Open():
                self._add_open(formula)

    def _follow(self, var: str) -> None:
        """What a narrowed path says about others of the same place."""
        place, _, attribute = var.rpartition("/")
        for domain, other, implied in _IMPLIED.get(attribute, ()):
            if self.box.get(var).within(domain):  # type: ignore[arg-type]  # one kind of domain for a path
                self.add(In(f"{place}/{other}", implied))

    def _add_same(self, formula: Same) -> None:
        if Same(formula.left, formula.right, not formula.positive) in self.sames:
            raise Contradiction
        self.sames[formula] = None

    def _add_open(self, formula: Open) -> None:
        if Open(formula.key, not formula.positive) in self.opens:
            raise Contradiction
        if formula.positive and formula.name:
            arguments = formula.key.partition("(")[2]
            for other in self.opens:
                pair = (formula.name, other.name)
                same = other.positive and other.key.partition("(")[2] == arguments
                if same and (pair in self.disjoint or pair[::-1] in self.disjoint):
                    raise Contradiction
        self.opens[formula] = None

    # --- propagating -----------------------------------------------------------------------------------------------

    def settle(self) -> Forked | None:
        """Read and narrow until nothing changes. The cases of a condition that can't be read yet, or None.

        Raises Contradiction where nothing can hold. Bounds that still move after many turns stay as they are: they are
        right, only not the narrowest.
        """
        for turn in itertools.count(1):
            fork = self._read()
            changed = self._wake()
            changed = self._simplify() or changed
            narrowed = self._narrow_sames()
            narrowed = self._narrow_compares() or narrowed
            if not changed and (not narrowed or turn >= _TURNS):
                break
            if turn % 8 == 0:  # `a < b` and `b < a` push each other up a step at a time; their difference tells at once
                self._check_differences()
        self._check_differences()
        self._check_sums()
        return fork

    def _wake(self) -> bool:
        """Facts that are worth reading once one of their paths matters, or once the op of a node is known."""
        woken = self._told_apart()
        waiting = []
        for triggers, condition in self.lazy:
            if triggers and triggers.isdisjoint(self.box.domains):
                waiting.append((triggers, condition))
            else:
                self.conditions.append(condition)
                woken = True
        self.lazy = waiting
        return woken

    def _told_apart(self) -> bool:
        """Nodes of which the ops that are left have facts in common."""
        known = [place for place in self.mixed if not is_mixed(self.ops_of(place))]
        for place in known:
            self.lazy.extend(facts_of(self.skeleton, place, self.ops_of(place)))
        if known:
            self.mixed = tuple(place for place in self.mixed if place not in known)
        return bool(known)

    def ops_of(self, place: str) -> frozenset[str]:
        """The ops that the node at a place can still be, of those that the patterns name."""
        domain = self.box.get(f"{place}/op")
        names = self.skeleton.ops.get(place) or frozenset()
        return frozenset(name for name in names if domain.has(name))

    def _read(self) -> Forked | None:
        fork: Forked | None = None
        progress = True
        while progress and self.conditions:
            progress = False
            fork = None
            waiting: list[Condition] = []
            for condition in map(remembered, self.conditions):
                outcome = condition.read(self.skeleton, self.signature, self.box, self.asserted)
                if isinstance(outcome, Forked):
                    waiting.append(condition)
                    if fork is None or len(outcome.alternatives) < len(fork.alternatives):
                        fork = outcome
                    continue
                for fact in outcome.facts:
                    self.add(fact)
                self.add(outcome.formula)
                progress = True
            self.conditions = waiting
        return fork if self.conditions else None

    def _simplify(self) -> bool:
        changed = False
        kept: list[Or] = []
        pending, self.disjunctions = self.disjunctions, []
        for disjunction in pending:
            simple = self.under_box(disjunction)
            if isinstance(simple, Or):
                changed = changed or len(simple.parts) < len(disjunction.parts)
                kept.append(simple)
            else:
                self.add(simple)
                changed = True
        self.disjunctions = kept + self.disjunctions
        return changed

    def under_box(self, formula: Formula) -> Formula:
        """What is left of a formula in the box."""
        match formula:
            case In():
                domain = self.box.get(formula.var)
                if domain.within(formula.domain):  # type: ignore[arg-type]  # one kind of domain for a path
                    return TRUE
                return FALSE if domain.meet(formula.domain).empty else formula  # type: ignore[arg-type]
            case Or():
                parts = [self.under_box(part) for part in formula.parts]
                return _merged(either(*parts))
            case And():
                found: list[Formula] = []
                for part in formula.parts:
                    simple = self.under_box(part)
                    if simple == FALSE:
                        return FALSE
                    if simple != TRUE:
                        found.append(simple)
                return found[0] if len(found) == 1 else And(tuple(found)) if found else TRUE
            case Compare():
                return self._compare_under_box(formula)
            case Same():
                return self._same_under_box(formula)
            case Open():
                if formula in self.opens:
                    return TRUE
                return FALSE if Open(formula.key, not formula.positive) in self.opens else formula
            case _:
                return formula

    def _compare_under_box(self, formula: Compare) -> Formula:
        low, high = bounds(self.box, formula.poly)
        if formula.op == "<=":
            return TRUE if high <= 0 else FALSE if low > 0 else formula
        if low > 0 or high < 0:
            return FALSE if formula.op == "==" else TRUE
        if low == high == 0:
            return TRUE if formula.op == "==" else FALSE
        return formula

    def _same_under_box(self, formula: Same) -> Formula:
        left, right = self.box.get(formula.left), self.box.get(formula.right)
        if left.meet(right).empty:  # type: ignore[arg-type]
            return FALSE if formula.positive else TRUE
        if left.single and right.single and left == right:
            return TRUE if formula.positive else FALSE
        if formula in self.sames:
            return TRUE
        return FALSE if Same(formula.left, formula.right, not formula.positive) in self.sames else formula

    def _narrow_sames(self) -> bool:
        changed = False
        leader: dict[str, str] = {}

        def find(var: str) -> str:
            while leader.get(var, var) != var:
                var = leader[var]
            return var

        for same in self.sames:
            if same.positive:
                leader[find(same.left)] = find(same.right)
                met = self.box.get(same.left).meet(self.box.get(same.right))  # type: ignore[arg-type]
                for var in (same.left, same.right):
                    moved = self.box.narrow(var, met)
                    if moved is None:
                        raise Contradiction
                    changed = changed or moved
        for same in self.sames:
            if not same.positive:
                if find(same.left) == find(same.right):
                    raise Contradiction
                changed = self._exclude(same.left, same.right) or self._exclude(same.right, same.left) or changed
        return changed

    def _exclude(self, var: str, other: str) -> bool:
        single = self.box.get(other).single
        if not single:
            return False
        domain = self.box.get(var)
        rest = Choice(frozenset(single), True) if isinstance(domain, Choice) else Numbers(
            excluded=frozenset({float(single[0])}), whole=domain.whole)  # type: ignore[arg-type]
        moved = self.box.narrow(var, rest)
        if moved is None:
            raise Contradiction
        return moved

    def _narrow_compares(self) -> bool:
        changed = False
        for _ in range(_ROUNDS):
            moved = False
            for compare in list(self.compares):
                simple = self._compare_under_box(compare)
                if simple == FALSE:
                    raise Contradiction
                if simple == TRUE:
                    del self.compares[compare]
                    continue
                moved = self._narrow_one(compare) or moved
            changed = changed or moved
            if not moved:
                break
        return changed

    def _narrow_one(self, compare: Compare) -> bool:
        if compare.op == "!=":
            return self._exclude_value(compare.poly)
        moved = self._narrow_bound(compare.poly)
        if compare.op == "==":
            moved = self._narrow_bound(Poly().plus(compare.poly, -1)) or moved
            moved = self._narrow_residues(compare.poly) or moved
        return moved

    def _narrow_bound(self, poly: Poly) -> bool:
        """`poly <= 0`: each path of a linear term against the least that the others can be."""
        low, _ = bounds(self.box, poly)
        moved = False
        for monomial, coefficient in poly.terms:
            term = Poly(((monomial, coefficient),))
            least = bounds(self.box, term)[0]
            if low == -math.inf and least != -math.inf:
                continue
            rest = low - least if low != -math.inf else bounds(self.box, poly.plus(term, -1))[0]
            if rest == -math.inf:
                continue
            for var in dict.fromkeys(monomial):
                moved = self._narrow_factor(var, monomial, coefficient, rest) or moved
        return moved

    def _narrow_factor(self, var: str, monomial: tuple[str, ...], coefficient: float, rest: float) -> bool:
        """`coefficient * var * others + rest <= 0`, with others none of which is negative: the weakest bound that holds
        for all of them."""
        others = list(monomial)
        others.remove(var)
        domain = self.box.get(var)
        if var in others or not isinstance(domain, Numbers):
            return False
        least = most = 1.0
        for other in others:
            factor = self.box.get(other)
            if not isinstance(factor, Numbers) or factor.low < 0:
                return False
            least, most = least * factor.low, most * factor.high if factor.high else 0.0
        target = -rest / coefficient  # what `var * others` is at most, or at least where the coefficient is negative
        by = least if (target >= 0 if coefficient > 0 else target <= 0) else most
        if by == 0 or math.isnan(by):
            return False
        bound = target / by
        limit = Numbers(high=bound, whole=False) if coefficient > 0 else Numbers(low=bound, whole=False)
        moved = self.box.narrow(var, Numbers.of(limit.low, limit.high, whole=domain.whole))
        if moved is None:
            raise Contradiction
        return moved

    def _exclude_value(self, poly: Poly) -> bool:
        """`poly != 0` with all but one path fixed."""
        free = [v for v in poly.variables if not self.box.get(v).single]
        if len(free) != 1:
            return False
        var = free[0]
        total, factor = poly.constant, 0.0
        for monomial, coefficient in poly.terms:
            for other in monomial:
                if other != var:
                    coefficient *= float(self.box.get(other).single[0])  # type: ignore[arg-type]
            if monomial.count(var) > 1:
                return False
            if var in monomial:
                factor += coefficient
            else:
                total += coefficient
        domain = self.box.get(var)
        if factor == 0 or not isinstance(domain, Numbers):
            return False
        moved = self.box.narrow(var, Numbers(excluded=frozenset({-total / factor}), whole=domain.whole))
        if moved is None:
            raise Contradiction
        return moved

    def _narrow_residues(self, poly: Poly) -> bool:
        """`a == b * 8 + 3` gives a its residue."""
        if any(len(m) > 1 or c != math.floor(c) for m, c in poly.terms) or poly.constant != math.floor(poly.constant):
            return False
        moved = False
        constant = int(poly.constant)
        fixed: dict[str, int] = {}
        for (var,), coefficient in poly.terms:
            domain = self.box.get(var)
            if not isinstance(domain, Numbers) or not domain.whole:
                return False
            if domain.single:
                fixed[var] = int(domain.single[0])
                constant += int(coefficient) * fixed[var]
        free = [(m[0], int(c)) for m, c in poly.terms if m[0] not in fixed]
        for var, coefficient in free:
            others = math.gcd(*(abs(c) for v, c in free if v != var)) if len(free) > 1 else 0
            if others > 1 and abs(coefficient) == 1:
                residue = (-constant * coefficient) % others
                found = self.box.narrow(var, Numbers.of(-math.inf, math.inf, modulus=others, residue=residue))
                if found is None:
                    raise Contradiction
                moved = moved or found
        shared = math.gcd(*(abs(c) for _, c in free)) if free else 0
        if shared > 1 and constant % shared:
            raise Contradiction
        return moved

    def _check_differences(self) -> None:
        """`a - b <= c` all together: a cycle of negative weight is a contradiction (bounds alone would not end)."""
        edges: list[tuple[str, str, float]] = []
        for compare in self.compares:
            if compare.op == "!=" or len(compare.poly.terms) != 2:
                continue
            (one, a), (two, b) = compare.poly.terms
            if len(one) != 1 or len(two) != 1 or {a, b} != {1, -1}:
                continue
            left, right = (one[0], two[0]) if a == 1 else (two[0], one[0])
            edges.append((right, left, -compare.poly.constant))  # left - right <= -constant
            if compare.op == "==":
                edges.append((left, right, compare.poly.constant))
        distance: dict[str, float] = {}
        for _ in range(len(edges) + 1):
            changed = False
            for source, target, weight in edges:
                if distance.get(source, 0) + weight < distance.get(target, 0):
                    distance[target] = distance.get(source, 0) + weight
                    changed = True
            if not changed:
                return
        if edges:
            raise Contradiction


    def _check_sums(self) -> None:
        """Comparisons of one sum of paths, or of its negative, with different numbers: they must leave some value."""
        left: dict[tuple[tuple[tuple[str, ...], float], ...], Numbers] = {}
        for compare in self.compares:
            terms, constant = compare.poly.terms, compare.poly.constant
            sign = 1 if terms[0][1] > 0 else -1
            if sign < 0:
                terms = tuple((monomial, -coefficient) for monomial, coefficient in terms)
            met = left.get(terms, _ANY_NUMBER).meet(_values(compare.op, sign, -sign * constant))
            if met.empty:
                raise Contradiction
            left[terms] = met


def _values(op: str, sign: int, bound: float) -> Numbers:
    """The values of a sum that `op` allows against `bound`."""
    if op == "!=":
        return Numbers(excluded=frozenset({bound}), whole=False)
    low, high = (bound, bound) if op == "==" else (-math.inf, bound) if sign > 0 else (bound, math.inf)
    return Numbers(low, high, whole=False)


_ANY_NUMBER = Numbers(whole=False)


def _merged(formula: Formula) -> Formula:
    """A disjunction of choices of one path is one choice."""
    if not isinstance(formula, Or) or not all(isinstance(part, In) for part in formula.parts):
        return formula
    parts = [part for part in formula.parts if isinstance(part, In)]
    first = parts[0].var
    if any(part.var != first or not isinstance(part.domain, Choice) for part in parts):
        return formula
    rest = parts[0].domain.complement()[0]
    for part in parts[1:]:
        rest = rest.meet(part.domain.complement()[0])  # type: ignore[arg-type]
    return In(first, rest.complement()[0])


# --- searching -------------------------------------------------------------------------------------------------


def solve(problem: Problem, budget: Budget) -> Iterator[Leaf]:
    """The leaves of a problem, found as they are asked for. Raises Exhausted."""
    try:
        fork = problem.settle()
    except Contradiction:
        return
    if fork is not None:
        yield from _split(problem, list(fork.alternatives), budget)
        return
    if not problem.disjunctions:
        yield Leaf(problem.box, tuple(problem.compares), tuple(problem.sames), tuple(problem.opens))
        return
    parts = _components(problem)
    if len(parts) > 1:
        yield from _joined(problem, parts, budget)
        return
    chosen = min(problem.disjunctions, key=_cost)
    problem.disjunctions.remove(chosen)
    yield from _split(problem, _exclusive(list(chosen.parts)), budget)


def _cost(disjunction: Or) -> tuple[int, int]:
    return len(disjunction.parts), sum(not isinstance(p, In) for p in disjunction.parts)


def _exclusive(parts: list[Formula]) -> list[Formula]:
    """The same cases, each without the simple ones before it, so that no leaf is found twice."""
    found: list[Formula] = []
    before: list[Formula] = []
    for part in parts:
        found.append(And((part, *before)) if before else part)
        if isinstance(part, In) and isinstance(part.domain, Choice):
            before.append(negated(part))
    return found


def _split(problem: Problem, alternatives: list[Formula], budget: Budget) -> Iterator[Leaf]:
    for alternative in sorted(alternatives, key=lambda a: _remote(a, problem.skeleton)):
        budget.spend()
        branch = problem.copy()
        try:
            branch.add(alternative)
            branch.asserted = branch.asserted | {alternative}
        except Contradiction:
            continue
        yield from solve(branch, budget)


def _remote(formula: Formula, skeleton: Skeleton) -> bool:
    """Does it ask for one more node than the patterns do? Such cases come last: they make larger witnesses."""
    if not isinstance(formula, In) or not isinstance(formula.domain, Choice):
        return False
    place, _, attribute = formula.var.rpartition("/")
    if place in skeleton.ops:
        return False
    return attribute == "op" and not formula.domain.has(None) or attribute == "origin" and formula.domain == _NODE


def _components(problem: Problem) -> list[list[Or]]:
    """Disjunctions that share paths, directly or through comparisons, together."""
    leader: dict[str, str] = {}

    def find(var: str) -> str:
        while leader.setdefault(var, var) != var:
            var = leader[var]
        return var

    def join(names: frozenset[str]) -> None:
        if names:
            first, *others = names
            for other in others:
                leader[find(other)] = find(first)

    tied: list[Formula] = [*problem.compares, *problem.sames, *problem.disjunctions]
    for formula in tied:
        join(variables(formula))
    keys: dict[str, list[Or]] = {}
    for disjunction in problem.disjunctions:
        names = variables(disjunction)
        # An open condition may meet its opposite in any component.
        opened = any(isinstance(p, Open) for p in _atoms(disjunction))
        keys.setdefault("" if opened or not names else find(min(names)), []).append(disjunction)
    return list(keys.values())


def _atoms(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, And | Or):
        for part in formula.parts:
            yield from _atoms(part)
    else:
        yield formula


def _joined(problem: Problem, parts: list[list[Or]], budget: Budget) -> Iterator[Leaf]:
    """Each component is solved by itself; a component without a leaf ends it all."""
    streams: list[tuple[Iterator[Leaf], list[Leaf]]] = []
    for disjunctions in parts:
        branch = problem.copy()
        branch.disjunctions = disjunctions
        stream = solve(branch, budget)
        first = next(stream, None)
        if first is None:
            return
        streams.append((stream, [first]))
    yield _combined([leaves[0] for _, leaves in streams])
    for index, (stream, leaves) in enumerate(streams):  # vary one component at a time
        for leaf in stream:
            chosen = [others[0] for _, others in streams]
            chosen[index] = leaf
            leaves.append(leaf)
            yield _combined(chosen)


def _combined(leaves: list[Leaf]) -> Leaf:
    box = leaves[0].box.copy()
    for leaf in leaves[1:]:
        for var, domain in leaf.box.domains.items():
            box.narrow(var, domain)
    return Leaf(
        box,
        tuple(dict.fromkeys(c for leaf in leaves for c in leaf.compares)),
        tuple(dict.fromkeys(s for leaf in leaves for s in leaf.sames)),
        tuple(dict.fromkeys(o for leaf in leaves for o in leaf.opens)),
    )
