"""A rules file as the linter sees it: each rule's pattern compiled, its requirements kept as trees that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any

from attrs import evolve, field, frozen

from apportion.engine.compile.patterns import Choice as PatternChoice
from apportion.engine.compile.patterns import Pattern, compile_pattern
from apportion.engine.compile.requirements import Steps
from apportion.engine.compile.rulesets import CompiledRule, RuleSet
from apportion.engine.compile.scope import PARTITION_NAMES, Scope
from apportion.engine.compile.tables import build_tables
from apportion.engine.lint.domains import Choice, Domain, Numbers
from apportion.engine.lint.evaluate import Environment, Reader, passed_flags
from apportion.engine.lint.formulas import FALSE, TRUE, Formula, In, Open, both, either, equal, negated
from apportion.engine.lint.opfacts import facts_of, is_mixed
from apportion.engine.lint.place import _Inputs, _Item, lay
from apportion.engine.lint.remember import Condition, Remembered
from apportion.engine.lint.skeleton import Claim, Conflict, Skeleton, Symbol
from apportion.engine.lint.solve import Budget, Contradiction, Exhausted, Problem, solve
from apportion.engine.lint.terms import Box, Fork
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span
from apportion.grammar.walk import walk

__all__ = ["Clause", "Instance", "RuleFile", "RuleModel", "is_torn", "node_conditions", "structure", "users_of"]


@frozen(eq=False)
class Clause:
    """One requirement: its condition as read in an environment, its place, and what it is written as."""

    expr: tree.Expr
    span: Span
    applied: tuple[Span, ...]
    environment: Callable[[Environment], Environment]
    post: bool = False

    @property
    def text(self) -> str:
        """The condition on one line."""
        return " ".join(self.expr.span.text.split())


@frozen(eq=False)
class Instance:
    """One way in which a rule's pattern fits a skeleton, with the environment in which its clauses are read."""

    rule: RuleModel
    skeleton: Skeleton
    claim: Claim
    choice: int
    environment: Environment
    way: int = -1
    _conditions: dict[int, Condition] = field(factory=dict, init=False, repr=False)

    @property
    def nodes(self) -> frozenset[str]:
        """The places of the nodes that it claims, as the skeleton names them now."""
        return frozenset(self.skeleton.find(place) for place in self.claim.nodes)

    def condition(self, clause: Clause) -> Condition:
        """When a clause holds, as a condition to be solved."""
        found = self._conditions.get(id(clause))
        if found is None:
            found = self._conditions[id(clause)] = Remembered(self._read(clause))
        return found

    def _read(self, clause: Clause) -> Condition:
        if clause.post:
            key = f"{self.rule.file.owner}{self.rule.name}: {clause.text}"
            return lambda reader: Open(key, True, "post")
        environment = clause.environment(self.environment)
        return lambda reader: reader.condition(clause.expr, environment).true


class RuleModel:
    """One rule (or invariant) of a file."""

    def __init__(self, file: RuleFile, node: tree.Rule | tree.Invariant, compiled: CompiledRule | None) -> None:
        self.file = file
        self.tree = node
        self.compiled = compiled
        self.name = node.name
        self.span = node.name_span
        self.scope = file.scope.rule_scope()
        match = next(clause for clause in node.body if isinstance(clause, tree.Match))
        self.pattern: Pattern = compile_pattern(match.choices, self.scope, claims=isinstance(node, tree.Rule))
        self.match = match
        self.has_given = any(isinstance(clause, tree.Given) for clause in node.body)
        for clause in node.body:
            if isinstance(clause, tree.Given):
                compile_pattern(clause.choices, self.scope, claims=False)
        self._kept: list[int] = []
        self._at: dict[str, tuple[Instance, ...] | None] = {}
        self._held: dict[str, list[Condition]] = {}
        self._parts: dict[tuple[int, str], Mapping[str, Domain]] = {}
        self._slots, self._flags = self._names()
        steps = Steps()
        self.clauses: list[Clause] = []
        self._lets: list[tree.Let] = []
        for clause in node.body:
            if isinstance(clause, (tree.Let, tree.Require)):
                steps.add(clause, self.scope)
                self._add(clause)
        self.guards = [clause.condition for clause in node.body if isinstance(clause, tree.When)]
        self.over: tuple[str, ...] = node.over if isinstance(node, tree.Rule) else ()

    def __repr__(self) -> str:
        return f"<rule {self.name}>"

    @property
    def position(self) -> int:
        """Where it stands among the rules of its file."""
        return -1 if self.compiled is None else self.compiled.position

    def _names(self) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
        slots: dict[str, int] = {}
        flags: dict[tuple[str, str], int] = {}
        for name in self.scope.names():
            entry = self.scope.lookup(name) if name not in self.file.scope.environment.entries else None
            if entry is not None and entry.kind == "variable" and entry.slot is not None:
                slots[name] = entry.slot
                for flag in ("presence", "walked"):
                    slot = self.scope.flag(name, flag)
                    if slot is not None:
                        flags[name, flag] = slot
        return slots, flags

    # --- clauses ---------------------------------------------------------------------------------------------------

    def _add(self, clause: tree.Let | tree.Require) -> None:
        if isinstance(clause, tree.Let):
            self._lets.append(clause)
            return
        lets = tuple(self._lets)
        self._require(clause, (), lambda env: _with_lets(env, lets), 0)

    def _require(
        self, clause: tree.Require, applied: tuple[Span, ...], prepare: Callable[[Environment], Environment], depth: int
    ) -> None:
        call = clause.condition
        entry = self.file.scope.environment.entries.get(call.function) if isinstance(call, tree.Call) else None
        if isinstance(call, tree.Call) and entry is not None and entry.kind == "contract" and depth < 40:
            contract: tree.Contract = entry.declaration
            inner = (*applied, clause.span)

            def enter(env: Environment) -> Environment:
                return _entered(contract, call, prepare(env), self.file.scope)

            lets: list[tree.Let] = []
            for part in contract.body:
                if isinstance(part, tree.Let):
                    lets.append(part)
                else:
                    known = tuple(lets)
                    self._require(part, inner, lambda env, known=known: _with_lets(enter(env), known), depth + 1)  # type: ignore[misc]
            return
        post = any(isinstance(n, tree.Name) and n.id in PARTITION_NAMES for n, _ in walk(clause.condition))
        self.clauses.append(Clause(clause.condition, clause.span, applied, prepare, post))

    # --- instances -------------------------------------------------------------------------------------------------

    def lay(self, skeleton: Skeleton, root: str, *, loose: bool = False) -> Iterator[Instance]:
        """Every way in which the pattern fits with its root at `root`; `loose` as `place.lay` has it."""
        way = 0
        for index, choice in enumerate(self.pattern.choices):
            for laid, claim in self._laid(choice, skeleton, root, loose):
                yield Instance(self, laid, claim, index, self.environment(laid, claim), way)
                way += 1

    def _laid(
        self, choice: PatternChoice, skeleton: Skeleton, root: str, loose: bool
    ) -> Iterator[tuple[Skeleton, Claim]]:
        for laid, claim in lay(choice, skeleton, root, Claim(), loose=loose):
            if not claim.nodes and isinstance(self.tree, tree.Rule):  # a bare name or `_` claims its root
                try:
                    laid.meet_ops(root, None)
                except Conflict:
                    continue
                claim.nodes[root] = False
            yield laid, claim

    def environment(self, skeleton: Skeleton, claim: Claim) -> Environment:
        """What the names of the rule mean in one instance."""
        names: dict[str, Any] = {name: _meaning(claim.slots.get(slot)) for name, slot in self._slots.items()}
        flags = {key: bool(claim.slots.get(slot, False)) for key, slot in self._flags.items()}
        return Environment(self.scope, names, flags, self.file.owner, self.name)

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """The instances at the root `$`, up to a limit (`is_cut` tells whether there are more)."""
        found: list[Instance] = []
        for tried, instance in enumerate(self.lay(Skeleton(self.file.declared), "$")):
            if len(found) == MOST_INSTANCES or tried == MOST_TRIED:
                self.is_cut = True
                break
            if tried < FIRST_TRIED or _box_of(instance) is not None:
                found.append(instance)
                self._kept.append(tried)
        return tuple(found)

    is_cut: bool = False

    def at(self, place: str) -> tuple[Instance, ...] | None:
        """How an invariant fits a node, whatever is around it; None where it looks at more than that node."""
        if place not in self._at:
            laid = list(islice(self.lay(Skeleton(self.file.declared), place), 17))
            alone = all(
                len(i.skeleton.ops) <= 1 and not i.skeleton.conditions and not i.skeleton.alias for i in laid
            )
            self._at[place] = tuple(laid) if alone and len(laid) <= 16 else None
        return self._at[place]

    def as_conditions(self, place: str) -> list[Condition]:
        """That an invariant holds of the node at a place."""
        if place not in self._held:
            self._held[place] = list(_invariant(self, place))
        return self._held[place]

    def is_about(self, ops: frozenset[str] | None) -> bool:
        """Can the root of an invariant be a node that is one of these ops?"""
        mine = self.root_ops
        return mine is None or ops is None or not mine.isdisjoint(ops)

    @cached_property
    def moved(self) -> tuple[Instance, ...]:
        """The same instances with the root at `@`, for patterns that meet elsewhere than at their roots."""
        kept = set(self._kept if self.instances else ())
        laid = islice(self.lay(Skeleton(self.file.declared), "@"), max(kept, default=-1) + 1)
        return tuple(instance for index, instance in enumerate(laid) if index in kept)

    @cached_property
    def loose(self) -> RuleModel:
        """The rule with alternatives put together: it allows more, in fewer ways. What it excludes is excluded."""
        found = copy(self)
        for name in ("instances", "moved", "boxes", "claimed_ops", "loose"):
            found.__dict__.pop(name, None)
        found._parts = {}
        laid = list(islice(self.lay(Skeleton(self.file.declared), "$", loose=True), MOST_LOOSE + 1))
        found.is_cut = len(laid) > MOST_LOOSE
        found.__dict__["instances"] = tuple(laid[:MOST_LOOSE])
        moved = islice(self.lay(Skeleton(self.file.declared), "@", loose=True), MOST_LOOSE)
        found.__dict__["moved"] = tuple(moved)
        return found

    @cached_property
    def boxes(self) -> tuple[Box | None, ...]:
        """What each instance alone narrows its paths to; None where it can't hold."""
        return tuple(_hull_of(instance) for instance in self.instances)

    def parts_of(self, index: int, place: str) -> Mapping[str, Domain]:
        """What an instance alone says of the node at a place and of what goes into it, by the way from there."""
        key = (index, place)
        if key not in self._parts:
            box, start = self.boxes[index], self.instances[index].skeleton.find(place)
            domains = {} if box is None else box.domains
            self._parts[key] = {var[len(start):]: domain for var, domain in domains.items()
                                if var.startswith(start) and var[len(start)] in "/.["}
        return self._parts[key]

    @cached_property
    def guard_conditions(self) -> list[Condition]:
        """That the options are such that the rule is there."""

        environment = Environment(self.scope, owner=self.file.owner)

        def reads(guard: tree.Expr) -> Condition:
            return Remembered(lambda reader: reader.condition(guard, environment).true)

        return [reads(guard) for guard in self.guards]

    @cached_property
    def root_ops(self) -> frozenset[str] | None:
        """The ops that its root can be."""
        return self.pattern.ops

    @cached_property
    def claimed_ops(self) -> frozenset[str] | None:
        """The ops of all nodes that it can claim; None where any."""
        found: frozenset[str] = frozenset()
        for instance in self.instances:
            for place in instance.claim.nodes:
                names = instance.skeleton.ops.get(instance.skeleton.find(place))
                if names is None:
                    return None
                found |= names
        return found

    @property
    def is_simple(self) -> bool:
        """Does it claim one node, and never more?"""
        return all(len(i.claim.nodes) == 1 and not i.skeleton.alias for i in self.instances) and not self.is_cut


MOST_INSTANCES = 48
MOST_LOOSE = 600
MOST_TRIED = 240
FIRST_TRIED = 12
"""How many ways of a pattern are looked at, at most; after the first few only those that can hold at all."""


class RuleFile:
    """A rules file with the models of all its rules, absent ones (by their `when`) too.

    Options and externs of two files are two, whatever they are called: where files are held against each other, each
    is given an `owner` before anything of it is read. Versions of one file have the same.
    """

    owner: str = ""

    def __init__(self, rules: RuleSet) -> None:
        if rules.program is None:
            raise ValueError("rules without their text")
        self.rules = rules
        self.name = rules.name
        statements = [statement for statement, _ in rules.program.statements]
        self.statements = statements
        self.scope: Scope = build_tables(statements, rules.options).scope
        self.declared = rules.declared
        compiled = {rule.name: rule for rule in (*rules.rules, *rules.absent)}
        self.models = [RuleModel(self, s, compiled[s.name]) for s in statements
                       if isinstance(s, tree.Rule) and s.name in compiled]  # fmt: skip
        self.models.sort(key=lambda m: m.position)
        self.invariants = [RuleModel(self, s, None) for s in statements if isinstance(s, tree.Invariant)]
        for invariant in self.invariants:
            invariant.is_cut = False
        self.by_name = {model.name: model for model in self.models}

    @property
    def disjoint(self) -> frozenset[tuple[str, str]]:
        """The externs that exclude each other."""
        return frozenset((self.owner + one, self.owner + other) for one, other in self.rules.disjoint)

    @cached_property
    def over(self) -> Mapping[str, frozenset[str]]:
        """For each rule all rules that it is `over`."""
        return {rule.name: rule.over for rule in (*self.rules.rules, *self.rules.absent)}


def _meaning(target: Any) -> Any:
    """A slot's value as a name's meaning: places are looked up when they are read, arguments read then."""
    if isinstance(target, Symbol):
        return lambda reader: Symbol(reader.skeleton.find(target.place), target.kind)
    if isinstance(target, (_Item, _Inputs)):
        return target
    if isinstance(target, tuple):
        items = tuple(map(_meaning, target))
        return lambda reader: tuple(item(reader) if callable(item) else item for item in items)
    return target


def _with_lets(env: Environment, lets: tuple[tree.Let, ...]) -> Environment:
    """The environment after some lets; each is read where it is used."""
    for let in lets:
        if let.parameters is None:
            env = _with_let(env, let)
    return env


def _with_let(env: Environment, let: tree.Let) -> Environment:
    inner = env.child(**{let.name: lambda reader: reader.read(let.value, env)})
    if isinstance(let.value, tree.Name):
        for flag in ("presence", "walked"):
            if (let.value.id, flag) in env.flags:
                inner = evolve(inner, flags={**inner.flags, (let.name, flag): env.flags[let.value.id, flag]})
    return inner


def _entered(contract: tree.Contract, call: tree.Call, outer: Environment, scope: Scope) -> Environment:
    """The environment of a contract's body: its parameters stand for the arguments, read in the outer one."""

    def reads(argument: tree.Expr) -> Callable[[Reader], Any]:
        return lambda reader: reader.read(argument, outer)

    names = {
        name: reads(argument)
        for name, argument in zip(contract.parameters, call.arguments, strict=False)
        if not isinstance(argument, tree.Comprehension)
    }
    return evolve(outer, scope=scope, names=names, flags=passed_flags(contract.parameters, call, outer))


# --- what an instance asks -----------------------------------------------------------------------------------------


def structure(skeleton: Skeleton) -> list[Condition]:
    """That the op nodes of a skeleton are what it says, and what their kernels insist on."""
    formulas: list[Formula] = []
    for place, names in skeleton.ops.items():
        formulas.append(equal(f"{place}/origin", ["node"]))
        formulas.append(equal(f"{place}/present", [True]))
        if place.rpartition(".")[2] in ("other", "exponent"):
            formulas.append(equal(f"{place}/number", [False]))
        if names is not None:
            formulas.append(In(f"{place}/op", Choice(names)))
    for _, (node, _) in skeleton.elements.items():
        formulas.append(equal(f"{skeleton.find(node)}/origin", ["node"]))
    whole = both(*formulas)
    return [lambda reader: whole, *skeleton.conditions]


def users_of(skeleton: Skeleton) -> dict[str, set[str]]:
    """For each place the op nodes that use it, as far as the skeleton shows."""
    found: dict[str, set[str]] = {}
    for node, children in skeleton.children.items():
        if node not in skeleton.ops:
            continue
        for name, type_ in children.items():
            if not type_ or "Tensor" in type_:
                found.setdefault(skeleton.find(f"{node}.{name}"), set()).add(node)
    for place, (node, _) in list(skeleton.elements.items()):
        if place in found:
            found.setdefault(skeleton.find(node), set()).update(found[place])
    for place in list(found):
        base, bracket, _ = place.rpartition(".[")
        if bracket and base in found:
            found[place] |= found[base]
    for place in skeleton.ops:
        base, bracket, _ = place.rpartition(".[")
        if bracket and base in found:
            found.setdefault(place, set()).update(found[base])
    return found


def is_torn(instance: Instance, skeleton: Skeleton, users: Mapping[str, set[str]]) -> bool:
    """Is an inner value used by a node of the skeleton that the instance does not claim?"""
    claimed = {skeleton.find(place): shared for place, shared in instance.claim.nodes.items()}
    return any(
        not shared and users.get(place, _NOBODY) & claimed.keys() and users[place] - claimed.keys()
        for place, shared in claimed.items()
    )


_NOBODY: set[str] = set()


def _may_use(place: str, nodes: Set[str], skeleton: Skeleton) -> list[str]:
    """Which of the nodes may use the value at a place, too: through an input that no pattern says more of."""
    return [node for node in nodes if node != place and not node.startswith((f"{place}.", f"{place}["))
            and _has_free_input(node, skeleton)]


def _has_free_input(node: str, skeleton: Skeleton) -> bool:
    names = skeleton.ops.get(node)
    ops = [] if names is None else [skeleton.schema(name) for name in names]
    if not ops or None in ops:
        return True
    return any(
        argument.type.endswith("]") or skeleton.find(f"{node}.{argument.name}") not in skeleton.ops
        for op in ops if op is not None for argument in op.arguments if "Tensor" in argument.type
    )


def node_conditions(instance: Instance, skeleton: Skeleton, users: Mapping[str, set[str]]) -> list[Condition]:
    """Single use of inner values, and the invariants of the file for each claimed node."""
    claimed = {skeleton.find(place): shared for place, shared in instance.claim.nodes.items()}
    formulas: list[Formula] = [FALSE] if is_torn(instance, skeleton, users) else []
    for place, shared in claimed.items():
        inside = users.get(place, set()) & set(claimed)
        if not inside or shared:
            continue
        formulas.append(equal(f"{place}/returned", [False]))
        more = len(_may_use(place, claimed.keys() - inside, skeleton))
        formulas.append(In(f"{place}/users", Numbers.of(len(inside), len(inside) + more)))
    whole = both(*formulas)
    found: list[Condition] = [lambda reader: whole]
    for invariant in instance.rule.file.invariants:
        for place in claimed:
            if not invariant.is_about(skeleton.ops.get(place)):
                continue
            found.extend(invariant.as_conditions(place))
    return found


def _invariant(invariant: RuleModel, place: str) -> Iterator[Condition]:
    """That an invariant holds of the node at a place, a condition for each of its requirements."""
    laid = invariant.at(place)
    if laid is None:
        return  # it looks further than this node: the matcher decides
    for instance in laid:
        names = next(iter(instance.skeleton.ops.values()), None)
        for clause in invariant.clauses:
            yield Remembered(_held(place, names, invariant.guard_conditions, instance.condition(clause)))


def _held(place: str, names: frozenset[str] | None, guards: list[Condition], holds: Condition) -> Condition:
    def condition(reader: Reader) -> Formula:
        domain = reader.box.get(f"{place}/op")
        if names is not None and isinstance(domain, Choice):
            if domain.meet(Choice(names)).empty:
                return TRUE
            if not domain.within(Choice(names)):
                raise Fork([In(f"{place}/op", Choice(names)), In(f"{place}/op", Choice(names, True))])
        off = negated(both(*(guard(reader) for guard in guards))) if guards else FALSE
        return either(off, holds(reader))

    return condition


def guards_of(rule: RuleModel) -> list[Condition]:
    """That the options are such that the rule is there."""

    return rule.guard_conditions


def problem_of(instance: Instance, skeleton: Skeleton | None = None, *, skip: Clause | None = None) -> Problem:
    """All that must hold for an instance to claim, in its own skeleton or one that it was laid into."""
    chosen = instance.skeleton if skeleton is None else skeleton
    problem = Problem(chosen, disjoint=instance.rule.file.disjoint)
    problem.conditions = [*structure(chosen), *conditions_of(instance, chosen, skip=skip)]
    add_facts(problem)
    return problem


def conditions_of(
    instance: Instance, skeleton: Skeleton, *, skip: Clause | None = None,
    users: Mapping[str, set[str]] | None = None,
) -> list[Condition]:
    """What a rule itself asks: guards, clauses, single use, invariants. `users` are those of the skeleton."""
    if users is None:
        users = users_of(skeleton)
    clauses = [instance.condition(clause) for clause in instance.rule.clauses if clause is not skip]
    given: list[Condition] = []
    if instance.rule.has_given:
        key = f"{instance.rule.file.owner}{instance.rule.name}: given"
        given.append(lambda reader: Open(key, True, "given"))
    return [*guards_of(instance.rule), *given, *clauses, *node_conditions(instance, skeleton, users)]


def _box_of(instance: Instance) -> Box | None:
    problem = problem_of(instance)
    try:
        problem.settle()
    except Contradiction:
        return None
    return problem.box


_HULL = 24
"""How many splits are made for the bounds of one instance."""


def _hull_of(instance: Instance) -> Box | None:
    """For each path all values that it has in some leaf; None where there is none."""
    try:
        leaves = list(solve(problem_of(instance), Budget(_HULL)))
    except Exhausted:
        return _box_of(instance)
    if not leaves:
        return None
    hull = leaves[0].box.copy()
    for leaf in leaves[1:]:
        for var, domain in list(hull.domains.items()):
            other = leaf.box.domains.get(var)
            if other is None:
                del hull.domains[var]
            else:
                hull.domains[var] = domain.hull(other)  # type: ignore[arg-type]  # one kind of domain for a path
    return hull


def add_facts(problem: Problem) -> None:
    """What the kernels of the op nodes insist on."""
    problem.mixed = tuple(place for place, names in problem.skeleton.ops.items() if is_mixed(names))
    for place in problem.skeleton.ops:
        for triggers, condition in facts_of(problem.skeleton, place):
            if triggers:
                problem.lazy.append((triggers, condition))
            else:
                problem.conditions.append(condition)

