"""Each rule by itself: can it fire, which of its clauses contradict each other, which say nothing, what is dead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from apportion.engine.compile import patterns as p
from apportion.engine.lint.evaluate import Reader
from apportion.engine.lint.formulas import FALSE, TRUE, Formula, negated
from apportion.engine.lint.model import Clause, Instance, RuleModel, add_facts, conditions_of, guards_of, structure
from apportion.engine.lint.overlap import sat
from apportion.engine.lint.report import finding
from apportion.engine.lint.skeleton import Claim, Skeleton, Symbol
from apportion.engine.lint.solve import Condition, Problem
from apportion.engine.lint.terms import Blur, LongList
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label

__all__ = ["check_contract", "check_invariant", "check_rule"]

SPLITS = 600


def check_rule(rule: RuleModel) -> Iterator[Diagnostic]:
    """The findings about one rule that need no other."""
    verdicts = [sat(problem(instance)) for instance in rule.instances]
    if verdicts and all(v is False for v in verdicts) and not rule.is_cut:
        yield _unsatisfiable(rule)
        return
    if not verdicts:
        yield finding("A201", f"rule `{rule.name}` can't match anything", rule.span,
                      label="its pattern contradicts itself")
        return
    yield from _dead_choices(rule, verdicts)
    yield from _dead_disjuncts(rule)
    yield from _saying_nothing(rule)
    yield from _empty_lists(rule)


def problem(
    instance: Instance, clauses: Sequence[Clause] | None = None, *, invariants: bool = True,
    more: Sequence[Condition] = (),
) -> Problem:
    """What an instance asks, with only some of its clauses, and more conditions."""
    skeleton = instance.skeleton
    found = Problem(skeleton, disjoint=instance.rule.file.disjoint)
    if clauses is None and invariants:
        asked = conditions_of(instance, skeleton)
    else:
        chosen = instance.rule.clauses if clauses is None else clauses
        asked = [*guards_of(instance.rule), *(instance.condition(clause) for clause in chosen)]
    found.conditions = [*structure(skeleton), *asked, *more]
    add_facts(found)
    return found


def _holds_nowhere(rule: RuleModel, clauses: Sequence[Clause]) -> bool:
    return all(sat(problem(i, clauses, invariants=False), SPLITS) is False for i in rule.instances)


def _unsatisfiable(rule: RuleModel) -> Diagnostic:
    if not _holds_nowhere(rule, rule.clauses):
        labels = tuple(
            Label(invariant.span, "by this invariant") for invariant in rule.file.invariants if _denies(rule, invariant)
        )
        return finding("A202", f"rule `{rule.name}` never holds: every match of it breaks an invariant", rule.span,
                       label="can't fire", labels=labels[:3],
                       help="remove the rule, or make the invariant let it through")
    core = list(rule.clauses)
    for clause in list(core):  # what is left after deleting all that can be deleted contradicts itself
        fewer = [c for c in core if c is not clause]
        if _holds_nowhere(rule, fewer):
            core = fewer
    labels = tuple(Label(clause.span, "and this" if n else "this") for n, clause in enumerate(core))
    if not core:
        return finding("A201", f"rule `{rule.name}` can't match anything", rule.span,
                       label="its pattern asks for what no call has")
    what = "this can't hold" if len(core) == 1 else "these requirements contradict each other"
    return finding("A201", f"rule `{rule.name}` never fires: {what}", rule.span, label="can't fire", labels=labels,
                   help="see which of them is meant")


def _denies(rule: RuleModel, invariant: RuleModel) -> bool:
    for instance in rule.instances:
        conditions = [c for place in instance.nodes for c in invariant.as_conditions(place)]
        if sat(problem(instance, invariants=False, more=conditions), SPLITS) is not False:
            return False
    return True


# --- dead alternatives -----------------------------------------------------------------------------------------


def _dead_choices(rule: RuleModel, verdicts: list[bool | None]) -> Iterator[Diagnostic]:
    if rule.is_cut or all(v is not False for v in verdicts):
        return
    alive: set[int] = set()
    terms: set[int] = set()
    for instance, verdict in zip(rule.instances, verdicts, strict=True):
        if verdict is not False:
            alive.add(instance.choice)
            terms |= {key[1] for key in instance.claim.slots if isinstance(key, tuple) and key[0] == "term"}
    for index, choice in enumerate(rule.match.choices):
        if index not in alive:
            yield finding("A206", f"this alternative of `{rule.name}` never holds", choice.span, label="dead")
    for term in _op_terms(rule):
        inside = rule.match.span.start <= term.span.start < rule.match.span.end
        if id(term) not in terms and inside and term.span.source == rule.match.span.source:
            dead = [c for i, c in enumerate(rule.match.choices) if i not in alive]
            if not any(_within(term, c) for c in dead):
                yield finding("A206", f"`{term.text}` never holds in `{rule.name}`", term.span, label="dead")


def _within(term: p.OpTerm, choice: tree.Choice) -> bool:
    return choice.span.start <= term.span.start < choice.span.end


def _op_terms(rule: RuleModel) -> Iterator[p.OpTerm]:
    seen: set[int] = set()
    stack: list[p.Term] = [s.term for c in rule.pattern.choices for s in (c.root, *c.others)]
    while stack:
        term = stack.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        if isinstance(term, p.OpTerm):
            yield term
        stack.extend(p.subterms(term))


def _dead_disjuncts(rule: RuleModel) -> Iterator[Diagnostic]:
    for clause in rule.clauses:
        if not isinstance(clause.expr, tree.BoolOp) or clause.expr.op != "or" or clause.post:
            continue
        for operand in clause.expr.operands:
            if all(sat(problem(i, more=[_reads(i, clause, operand)]), SPLITS) is False for i in rule.instances):
                text = " ".join(operand.span.text.split())
                yield finding("A206", f"`{text}` never holds in `{rule.name}`", operand.span, label="dead",
                              help="the other requirements rule it out")


def _reads(instance: Instance, clause: Clause, expr: tree.Expr) -> Condition:
    environment = clause.environment(instance.environment)
    return lambda reader: reader.condition(expr, environment).true


# --- clauses that say nothing ----------------------------------------------------------------------------------


def _saying_nothing(rule: RuleModel) -> Iterator[Diagnostic]:
    if rule.is_cut or len(rule.instances) > 12:
        return
    for clause in rule.clauses:
        if clause.post or clause.applied:
            continue
        if _implied(rule, [], clause):
            yield finding("A204", f"`{clause.text}` is always true", clause.span, label="says nothing",
                          help="remove it, or say what was meant")
        elif _implied(rule, [c for c in rule.clauses if c is not clause], clause):
            yield finding("A203", f"`{clause.text}` follows from the other requirements of `{rule.name}`", clause.span,
                          label="follows from the others")


def _implied(rule: RuleModel, others: list[Clause], clause: Clause) -> bool:
    for instance in rule.instances:
        condition = instance.condition(clause)
        skeleton = instance.skeleton
        whole = Problem(skeleton, disjoint=rule.file.disjoint)
        whole.conditions = [*structure(skeleton), *(instance.condition(c) for c in others), *guards_of(rule),
                            _not(condition)]
        add_facts(whole)
        if sat(whole, SPLITS) is not False:
            return False
    return True


def _not(condition: Condition) -> Condition:
    def reads(reader: Reader) -> Formula:
        from apportion.engine.lint.overlap import _unheld

        formula = condition(reader)
        return _unheld(formula, False) if formula != FALSE else negated(formula)

    return reads


def _empty_lists(rule: RuleModel) -> Iterator[Diagnostic]:
    for clause in rule.clauses:
        expr = clause.expr
        if not isinstance(expr, tree.Call) or expr.function != "all" or len(expr.arguments) != 1:
            continue
        (argument,) = expr.arguments
        if not isinstance(argument, tree.Comprehension) or len(argument.clauses) != 1:
            continue
        iterable = argument.clauses[0].iterable
        if all(sat(problem(i, more=[_not_empty(i, clause, iterable)]), SPLITS) is False for i in rule.instances):
            yield finding("A207", f"`{' '.join(iterable.span.text.split())}` is always empty here, so this `all` says "
                          "nothing", clause.span, label="looks at nothing")


def _not_empty(instance: Instance, clause: Clause, iterable: tree.Expr) -> Condition:
    environment = clause.environment(instance.environment)

    def condition(reader: Reader) -> Formula:
        items: Any = reader.elements(reader.read(iterable, environment))
        return TRUE if isinstance(items, (LongList, Blur)) or (isinstance(items, tuple) and items) else FALSE

    return condition


# --- invariants and contracts ----------------------------------------------------------------------------------


def check_invariant(invariant: RuleModel) -> Iterator[Diagnostic]:
    """An invariant whose requirements contradict each other denies by accident; `require false` says so openly."""
    if any(isinstance(c.expr, tree.Literal) and c.expr.value is False for c in invariant.clauses):
        return
    if len(invariant.clauses) > 1 and invariant.instances and _holds_nowhere(invariant, invariant.clauses):
        yield _contradiction(invariant.clauses, f"invariant `{invariant.name}`", invariant.span,
                             lambda some: _holds_nowhere(invariant, some))


def check_contract(contract: tree.Contract, rule: RuleModel) -> Iterator[Diagnostic]:
    """A contract whose requirements contradict each other, for any arguments; `rule` lends the names of its file."""
    call = tree.Call(
        function=contract.name, name_span=contract.span, span=contract.span,
        arguments=tuple(tree.Name(id=name, span=contract.span) for name in contract.parameters),
    )
    clauses: list[Clause] = []
    collected, rule.clauses = rule.clauses, clauses
    try:
        rule._require(tree.Require(condition=call, because=None, span=contract.span), (), lambda env: env, 0)
    finally:
        rule.clauses = collected
    if len(clauses) < 2:
        return
    instance = _open_arguments(contract, rule)

    def nowhere(some: Sequence[Clause]) -> bool:
        found = Problem(instance.skeleton)
        found.conditions = [instance.condition(clause) for clause in some]
        return sat(found, SPLITS) is False

    if nowhere(clauses):
        yield _contradiction(clauses, f"contract `{contract.name}`", contract.span, nowhere)


def _open_arguments(contract: tree.Contract, rule: RuleModel) -> Instance:
    from apportion.engine.lint.evaluate import Environment

    names: dict[str, Any] = {name: _parameter(name) for name in contract.parameters}
    environment = Environment(rule.file.scope, names, owner=rule.file.owner)
    return Instance(rule, Skeleton(rule.file.declared), Claim(), 0, environment)


def _parameter(name: str) -> Any:
    return lambda reader: Symbol(f"${name}")


def _contradiction(
    clauses: Sequence[Clause], what: str, span: Any, nowhere: Callable[[Sequence[Clause]], bool]
) -> Diagnostic:
    core = list(clauses)
    for clause in list(core):
        fewer = [c for c in core if c is not clause]
        if fewer and nowhere(fewer):
            core = fewer
    labels = tuple(Label(clause.span, "and this" if n else "this") for n, clause in enumerate(core))
    return finding("A202", f"the requirements of {what} contradict each other", span, labels=labels)
