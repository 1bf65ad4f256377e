"""Two rules: can they claim one node, does one lie inside the other; each answer a proof, a witness, or undecided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field, frozen

from apportion.engine.lint import smt
from apportion.engine.lint.confirm import Confirmed, candidates, clash, matches
from apportion.engine.lint.domains import Choice, Domain
from apportion.engine.lint.evaluate import Reader
from apportion.engine.lint.formulas import (
    FALSE,
    TRUE,
    And,
    Formula,
    In,
    Open,
    Or,
    both,
    either,
    equal,
    negated,
    variables,
)
from apportion.engine.lint.model import (
    Instance,
    RuleModel,
    add_facts,
    conditions_of,
    is_torn,
    structure,
    users_of,
)
from apportion.engine.lint.skeleton import Conflict, Skeleton
from apportion.engine.lint.solve import Budget, Condition, Exhausted, Leaf, Problem, solve
from apportion.engine.lint.terms import Box

__all__ = ["Verdict", "covered", "examine", "sat"]

SPLITS = 1_200
PAIRS = 250
LOOSE_SPLITS = 60_000
LOOSE_PAIRS = 20_000
DRAWN = 30
MOST_SOLVED = 16


@frozen(eq=False)
class Verdict:
    """`kind` is disjoint, overlap (with a confirmed witness) or undecided (with the atoms that are open, or budget).

    With `missing` z3 might decide it, but is not installed.
    """

    kind: str
    witness: Confirmed | None = None
    reasons: tuple[str, ...] = ()
    code: str = ""
    missing: bool = False


@define(eq=False)
class _Search:
    """One examination: the budget, and what was left open on the way."""

    one: RuleModel
    other: RuleModel
    budget: Budget = field(factory=lambda: Budget(SPLITS))
    most: int = PAIRS
    pairs: int = 0
    drawn: int = 0
    seen: bool = False
    opens: dict[Open, None] = field(factory=dict)
    relaxed: bool = False
    cut: bool = False
    missing: bool = False


def examine(one: RuleModel, other: RuleModel) -> Verdict:
    """Can both rules want one node?

    First with alternatives put together, which is enough for most proofs that they can't; then way by way for a
    witness.
    """
    if not _may_meet(one, other):
        return Verdict("disjoint")
    search = _Search(one, other)
    simple = one.is_simple and other.is_simple
    if not simple and _loosely_disjoint(one, other):
        return Verdict("disjoint")
    try:
        for problem in _problems(one, other, search):
            found = _witness(problem, search)
            if found is not None:
                return Verdict("overlap", found)
            if search.drawn >= DRAWN:
                search.cut = True
                break
    except Exhausted:
        search.cut = True
        search.seen = True
    if search.cut and (one.is_cut or other.is_cut) and _loosely_disjoint(one, other, ways_kept=True):
        return Verdict("disjoint")
    if not search.seen:
        return Verdict("undecided", reasons=("too many variants",), code="A903") if search.cut else Verdict("disjoint")
    return _undecided(search)


def _loosely_disjoint(one: RuleModel, other: RuleModel, *, ways_kept: bool = False) -> bool:
    """Are the rules disjoint with alternatives put together (with `ways_kept` only those of a rule that has too many)?
    """
    search = _Search(one, other, Budget(LOOSE_SPLITS), most=LOOSE_PAIRS)
    first, second = (rule if ways_kept and not rule.is_cut else rule.loose for rule in (one, other))
    try:
        for problem in _problems(first, second, search):
            if next(solve(problem, search.budget), None) is not None:
                return False
    except Exhausted:
        return False
    return not search.cut


def _undecided(search: _Search) -> Verdict:
    externs = sorted({o.key for o in search.opens if o.reason == "extern"})
    others = sorted({o.key for o in search.opens if o.reason != "extern"})
    if externs:
        return Verdict("undecided", reasons=tuple(externs), code="A901")
    if search.cut and not others and not search.relaxed:
        return Verdict("undecided", reasons=("budget",), code="A903")
    reasons = tuple(others) or ("no candidate was accepted",)
    return Verdict("undecided", reasons=reasons, code="A902", missing=search.missing)


def _may_meet(one: RuleModel, other: RuleModel) -> bool:
    first, second = one.claimed_ops, other.claimed_ops
    return first is None or second is None or not first.isdisjoint(second)


def _problems(one: RuleModel, other: RuleModel, search: _Search) -> Iterator[Problem]:
    """Each alignment of a claimed node of one with a claimed node of the other; equal roots come first."""
    search.cut = search.cut or one.is_cut or other.is_cut
    later: list[tuple[int, int]] = []
    for i, first in enumerate(one.instances):
        for j, second in enumerate(other.instances):
            if not _apart(one.boxes[i], other.boxes[j]):
                problem = joined(first, second, "$", "$", None)
                if problem is not None:
                    yield problem
            if len(first.claim.nodes) > 1 or len(second.claim.nodes) > 1:
                if one.boxes[i] is not None and other.boxes[j] is not None:
                    later.append((i, j))
    for i, j in later:
        first, second = one.instances[i], other.instances[j]
        for mine in first.claim.nodes:
            for theirs in second.claim.nodes:
                if mine == theirs == "$" or not _same_op(first, second, mine, theirs):
                    continue
                if first.claim.nodes[mine] and second.claim.nodes[theirs]:  # both take it along; no conflict
                    continue
                if _apart_at(one.parts_of(i, mine), other.parts_of(j, theirs)):
                    continue
                search.pairs += 1
                search.budget.used += 2
                if search.pairs > search.most:
                    search.cut = True
                    return
                problem = joined(first, second, mine, theirs, other.moved[j])
                if problem is not None:
                    yield problem


def _same_op(first: Instance, second: Instance, mine: str, theirs: str) -> bool:
    one = first.skeleton.ops.get(first.skeleton.find(mine))
    other = second.skeleton.ops.get(second.skeleton.find(theirs))
    return one is None or other is None or not one.isdisjoint(other)


def _apart(one: Box | None, other: Box | None) -> bool:
    """Do the boxes of two ways at one root alone contradict each other?"""
    return one is None or other is None or _apart_at(one.domains, other.domains)


def _apart_at(one: Mapping[str, Domain], other: Mapping[str, Domain]) -> bool:
    """Do two ways contradict each other about the paths of one node, as each calls them from there?"""
    small, large = sorted((one, other), key=len)
    return any((met := large.get(var)) is not None and met.meet(domain).empty  # type: ignore[arg-type]
               for var, domain in small.items())


def joined(first: Instance, second: Instance, mine: str, theirs: str, moved: Instance | None) -> Problem | None:
    """The conjunction of two instances whose nodes `mine` and `theirs` are one; None where that can't be.

    `moved` is the second with a root of its own, for nodes that are not both roots.
    """
    shared = first.claim.nodes.get(mine, False) and second.claim.nodes.get(theirs, False)
    if shared:  # both take it along; no conflict
        return None
    skeleton = first.skeleton.copy()
    laid = second if moved is None else moved
    try:
        _merge(laid.skeleton, skeleton)
        if moved is not None:
            skeleton.unify(mine, "@" + theirs[1:])
    except Conflict:
        return None
    users = users_of(skeleton)
    if is_torn(first, skeleton, users) or is_torn(laid, skeleton, users):
        return None
    problem = Problem(skeleton, disjoint=first.rule.file.disjoint | second.rule.file.disjoint)
    problem.conditions = [
        *structure(skeleton), *conditions_of(first, skeleton, users=users),
        *conditions_of(laid, skeleton, users=users),
    ]
    add_facts(problem)
    return problem


def _merge(source: Skeleton, target: Skeleton) -> None:
    """Add all that one skeleton knows to another. Raises Conflict."""
    for place, (node, index) in source.elements.items():
        known = target.elements.get(target.find(place))
        if known is not None and known[1] != index:
            raise Conflict("different outputs")
        if target.find(place) in target.ops:
            raise Conflict("an output and a node")
        target.elements[target.find(place)] = (target.find(node), index)
    for place, names in source.ops.items():
        target.meet_ops(place, names)
    for place, children in source.children.items():
        target.children.setdefault(target.find(place), {}).update(children)
    for other, one in source.alias.items():
        if other.endswith(tuple(f".out{i}" for i in range(8))):
            target.alias.setdefault(other, one)
        else:
            target.unify(one, other)
    target.conditions.extend(source.conditions)
    target.relaxed = target.relaxed or source.relaxed


def _witness(problem: Problem, search: _Search) -> Confirmed | None:
    """A confirmed overlap; or else what is left open is noted in the search."""
    kept: list[Leaf] = []

    def watched() -> Iterator[Leaf]:
        for leaf in solve(problem, search.budget):
            kept.append(leaf)
            yield leaf

    leaves = watched()
    found = _confirmed(leaves, problem.skeleton, search)
    if found is not None or not kept:
        return found
    left = kept
    if search.drawn < DRAWN and any(leaf.compares for leaf in kept):
        search.missing = search.missing or not smt.is_installed()
        found, left = _solved(kept, leaves, problem.skeleton, search)
        if found is not None:
            return found
    search.seen = search.seen or bool(left)
    for leaf in left:
        search.opens.update(dict.fromkeys(leaf.opens))
        search.relaxed = search.relaxed or problem.skeleton.relaxed or bool(leaf.compares)
    return None


def _solved(
    kept: list[Leaf], others: Iterator[Leaf], skeleton: Skeleton, search: _Search
) -> tuple[Confirmed | None, list[Leaf]]:
    """The last resort, for comparisons that bounds do not decide: a confirmed overlap, and the leaves that stay open.
    """
    while len(kept) < MOST_SOLVED and next(others, None) is not None:
        pass  # the stream adds to `kept`
    left: list[Leaf] = []
    points: list[Leaf] = []
    for leaf in kept[:MOST_SOLVED]:
        answer = smt.values(leaf)
        if answer is not False:
            left.append(leaf)
        if isinstance(answer, Box):
            points.append(Leaf(answer, (), leaf.sames, leaf.opens))
    left.extend(kept[MOST_SOLVED:])
    if len(kept) >= MOST_SOLVED and (more := next(others, None)) is not None:
        left.append(more)
    return (_confirmed(iter(points), skeleton, search) if points else None), left


def _confirmed(leaves: Iterator[Leaf], skeleton: Skeleton, search: _Search) -> Confirmed | None:
    for drawing in candidates(leaves, skeleton, search.one.file, 16, (search.other.file,)):
        search.drawn += 1
        first = matches(search.one, drawing)
        second = matches(search.other, drawing) if first else []
        found = clash(first, second)
        if found is not None:
            text = _with_options(drawing.text, search, drawing.options)
            return Confirmed(text, drawing.module, drawing.options, found)
        if search.drawn >= DRAWN:
            break
    return None


def _with_options(text: str, search: _Search, options: object) -> str:
    changed: list[str] = []
    if isinstance(options, dict):
        for file in {id(search.one.file): search.one.file, id(search.other.file): search.other.file}.values():
            for name, value in file.rules.options.items():
                if options.get(file.owner + name, value) != value:
                    changed.append(f"{file.owner}{name} = {_option_text(options[file.owner + name])}")
    return text + (" with " + ", ".join(dict.fromkeys(changed)) if changed else "")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return "{" + ", ".join(f'"{v}"' for v in sorted(value)) + "}"
    return f'"{value}"' if isinstance(value, str) else str(value)


# --- one rule alone, and cover -------------------------------------------------------------------------------------


def sat(problem: Problem, splits: int = SPLITS) -> bool | None:
    """Is there a leaf? None where the budget did not do."""
    try:
        return next(solve(problem, Budget(splits)), None) is not None
    except Exhausted:
        return None


def covered(inner: RuleModel, outer: Sequence[RuleModel]) -> bool:
    """Is every node that `inner` claims claimed by one of `outer`, at the same root with the same nodes? Only a proof
    gives True."""
    if inner.is_cut or any(rule.is_cut or rule.has_given for rule in outer):
        return False
    for instance in inner.instances:
        if instance.skeleton.relaxed and len(instance.claim.nodes) > 1 and not any(
            _alike(other, instance) for rule in outer for other in rule.instances
        ):
            return False
        problem = Problem(instance.skeleton, disjoint=inner.file.disjoint)
        problem.conditions = [*structure(instance.skeleton), *conditions_of(instance, instance.skeleton)]
        for rule in outer:
            missed = _missed(rule, instance, len(outer) > 1)
            if missed is None:
                return False
            problem.conditions.append(missed)
        add_facts(problem)
        if sat(problem) is not False:
            return False
    return True


def _missed(rule: RuleModel, instance: Instance, several: bool) -> Condition | None:
    """That no way of a rule claims what an instance of another does; None where that can't be said."""
    ways: list[Condition] = []
    for other in rule.instances:
        if other.nodes != instance.nodes or other.skeleton.relaxed and not _alike(other, instance):
            continue
        if any(not p.endswith(tuple(f".out{i}" for i in range(8))) for p in other.skeleton.alias):
            if other.skeleton.alias != instance.skeleton.alias:
                continue
        if other.skeleton.elements != instance.skeleton.elements:
            continue
        ways.append(_holds(other, instance))
    if not ways:
        return None

    asked = conditions_of(instance, instance.skeleton)

    def condition(reader: Reader) -> Formula:
        held = frozenset(part for one in asked for part in _parts(one(reader)))
        return both(*(_unheld(way(reader), several, held) for way in ways))

    return condition


def _alike(one: Instance, other: Instance) -> bool:
    """Are they the same way of patterns that are written alike? Then what is left open of one is that of the other."""
    first, second = one.rule, other.rule
    if first.file is not second.file or first.has_given or second.has_given:
        return False
    return one.way == other.way and _written(first) == _written(second)


def _written(rule: RuleModel) -> list[str]:
    return rule.match.span.text.split()


def _holds(other: Instance, instance: Instance) -> Condition:
    conditions = [*other.skeleton.conditions, *conditions_of(other, other.skeleton)]
    places = {place: names for place, names in other.skeleton.ops.items() if names is not None}

    def condition(reader: Reader) -> Formula:
        guards: list[Formula] = []
        for place, names in places.items():
            domain = reader.box.get(f"{place}/op")
            if isinstance(domain, Choice) and domain.meet(Choice(names)).empty:
                return FALSE
            if not isinstance(domain, Choice) or not domain.within(Choice(names)):
                from apportion.engine.lint.terms import Fork

                raise Fork([In(f"{place}/op", Choice(names)), In(f"{place}/op", Choice(names, True))])
        for place in places:
            guards.append(equal(f"{place}/origin", ["node"]))
        return both(*guards, *(c(reader) for c in conditions))

    return condition


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _unheld(formula: Formula, several: bool, held: frozenset[Formula] = frozenset()) -> Formula:
    """That a formula does not hold. Sizes may be symbols: then a disjunction of conditions on them can be unknown
    although one of them is true of every number, so a value that is symbolic escapes. What is `held` can't be the
    part that does not."""
    parts = [part for part in _parts(formula) if part not in held]
    escapes: list[Formula] = []
    for part in parts:
        if several or isinstance(part, Or):
            sizes = {v for v in variables(part) if "/shape[" in v}
            escapes.extend(equal(f"{v.partition('/')[0]}/symbolic", [True]) for v in sizes)
    left = both(*parts)
    if isinstance(left, Open) or left == TRUE:
        return negated(left)
    return either(negated(left), *escapes)
