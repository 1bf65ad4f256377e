"""Rules and invariants: from their clauses to what the matcher runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import define, field

from apportion.engine.compile.core import compile_expression, suggest
from apportion.engine.compile.examples import check_example
from apportion.engine.compile.patterns import Pattern, compile_pattern
from apportion.engine.compile.requirements import Steps, guarded, option_value
from apportion.engine.compile.rulesets import CompiledEmit, CompiledInvariant, CompiledOption, CompiledRule
from apportion.engine.compile.scope import Scope
from apportion.engine.compile.types import BOOL, fits
from apportion.engine.values import Unknown
from apportion.grammar import tree
from apportion.grammar.diagnostics import Label

__all__ = ["compile_emit", "compile_invariant", "compile_rule", "order_rules"]

ClauseT = TypeVar("ClauseT", bound=tree.Node)

_SPEC_KINDS = frozenset({"str", "bool", "int", "float", "number", "bytes", "any"})


def _of(kind: type[ClauseT], body: Sequence[tree.Node]) -> list[ClauseT]:
    return [clause for clause in body if isinstance(clause, kind)]


def _patterns(rule: tree.Rule | tree.Invariant, scope: Scope, *, claims: bool) -> tuple[Pattern, list[Pattern]] | None:
    """The one `match` and all `given`, whose names are then bound in `scope`."""
    what = "rule" if isinstance(rule, tree.Rule) else "invariant"
    matches = _of(tree.Match, rule.body)
    if not matches:
        scope.error("A010", rule.name_span, f"{what} `{rule.name}` has no `match`",
                    help="say which ops it is about: `match y = aten.relu.default(x)`")
        return None
    for extra in matches[1:]:
        scope.error("A010", extra.span, f"{what} `{rule.name}` has more than one `match`",
                    labels=[Label(matches[0].span, "the first one")],
                    help="alternatives are written `match {…} | {…}`; nodes that are only looked at go into `given`")
    pattern = compile_pattern(matches[0].choices, scope, claims=claims)
    givens = [compile_pattern(given.choices, scope, claims=False) for given in _of(tree.Given, rule.body)]
    return pattern, givens


def _guard_holds(body: Sequence[tree.Node], scope: Scope) -> bool:
    """Do all `when` guards hold with the options of this load? One that is not known does not."""
    holds = True
    for when in _of(tree.When, body):
        compiled = option_value(when.condition, scope, "a `when` guard")
        if not compiled.failed and not fits(compiled.type, BOOL):
            scope.error("A004", when.condition.span, f"a `when` guard is a condition, this is {compiled.type.phrase}",
                        label=str(compiled.type))
        holds = holds and compiled.option_only and compiled.value is True
    return holds


def compile_rule(
    rule: tree.Rule, position: int, over: frozenset[str], options: Mapping[str, CompiledOption], file: Scope
) -> tuple[CompiledRule | None, bool]:
    """The rule, None where it has errors (which are in the diagnostics), and whether its guard holds."""
    before = len(file.diagnostics)
    scope = file.rule_scope()
    patterns = _patterns(rule, scope, claims=True)
    if patterns is None:
        return None, False
    holds = _guard_holds(rule.body, scope.child())
    parts = _Clauses(rule, options, scope)
    for clause in rule.body:
        parts.add(clause)
    if len(file.diagnostics) > before:
        return None, holds
    pattern, givens = patterns
    compiled = CompiledRule(
        name=rule.name,
        position=position,
        over=over,
        doc=rule.doc,
        span=rule.span,
        name_span=rule.name_span,
        pattern=pattern,
        givens=tuple(givens),
        steps=tuple(parts.steps.steps),
        post=tuple(parts.steps.post),
        takes=tuple(dict.fromkeys(parts.takes)),
        marks=tuple(parts.marks),
        emits=tuple(parts.emits.values()),
        frame_size=scope.frame_size,
        examples=tuple(_of(tree.Example, rule.body)),
        example_options=tuple(parts.example_options),
        source_name=rule.span.source.name,
        speaks_of_subgraphs=scope.frame.speaks_of_subgraphs,
    )
    return compiled, holds


@define
class _Clauses:
    """Collects what the clauses of one rule come to."""

    rule: tree.Rule
    options: Mapping[str, CompiledOption]
    scope: Scope
    steps: Steps = field(factory=Steps)
    takes: list[int] = field(factory=list)
    marks: list[tuple[tuple[int, ...], str]] = field(factory=list)
    emits: dict[str, CompiledEmit] = field(factory=dict)
    example_options: list[Mapping[str, Any]] = field(factory=list)

    def add(self, clause: tree.RuleClause) -> None:
        """Compile one clause; `match`, `given` and `when` are done already."""
        if isinstance(clause, (tree.Let, tree.Require)):
            self.steps.add(clause, self.scope)
        elif isinstance(clause, tree.Take):
            self._take(clause)
        elif isinstance(clause, tree.Mark):
            slots = tuple(slot for name in clause.names if (slot := self._bound(name, clause, "mark")) is not None)
            self.marks.append((slots, clause.key))
        elif isinstance(clause, tree.Emit):
            add_emit(clause, self.emits, self.scope)
        elif isinstance(clause, tree.Example):
            self.example_options.append(check_example(clause, self.options, self.scope.child()))

    def _take(self, clause: tree.Take) -> None:
        wanted = True
        if clause.condition is not None:
            compiled = option_value(clause.condition, self.scope, "the condition of `take`")
            if not compiled.failed and not fits(compiled.type, BOOL):
                what = f"a condition is needed here, this is {compiled.type.phrase}"
                self.scope.error("A004", clause.condition.span, what)
            wanted = compiled.option_only and compiled.value is True
        slots = [slot for name in clause.names if (slot := self._bound(name, clause, "take")) is not None]
        if wanted:
            self.takes.extend(slots)

    def _bound(self, name: str, clause: tree.Node, what: str) -> int | None:
        """The slot of a name that the pattern binds; any other name is an A006."""
        entry = self.scope.lookup(name)
        if entry is not None and entry.kind == "variable" and entry.slot is not None:
            return entry.slot
        bound = [n for n in self.scope.names() if (e := self.scope.lookup(n)) is not None and e.kind == "variable"]
        self.scope.error("A006", clause.span, f"`{what}` speaks of `{name}`, which the pattern does not bind",
                         help=suggest(name, bound) or "it binds " + ", ".join(f"`{n}`" for n in sorted(bound)))
        return None


def add_emit(clause: tree.Emit, emits: dict[str, CompiledEmit], scope: Scope) -> None:
    """Compile an `emit` into `emits`; the same key twice is an A009."""
    if clause.key in emits:
        scope.error("A009", clause.span, f"`{clause.key}` is emitted twice",
                    labels=[Label(emits[clause.key].span, "it is emitted here")])
        return
    emits[clause.key] = compile_emit(clause, scope)


def compile_emit(clause: tree.Emit, scope: Scope) -> CompiledEmit:
    """The closure of an emitted value: a string, number, boolean or bytes, else unknown."""
    compiled = compile_expression(clause.value, scope)
    if not compiled.failed and compiled.type.kind not in _SPEC_KINDS:
        help = "a dtype's name is no value; write a string" if compiled.type.kind == "dtype" else None
        scope.error("A004", clause.value.span, "a compile spec is a string, a number, a boolean or bytes, this is "
                    + compiled.type.phrase, label=str(compiled.type), help=help)
    if compiled.post:
        scope.error("A004", clause.value.span, "what is emitted is settled before partitions exist",
                    label="speaks of the partition")
    inner = compiled.evaluate

    def evaluate(frame: list[Any]) -> Any:
        value = inner(frame)
        if isinstance(value, (str, bool, int, float, bytes, Unknown)):
            return value
        return Unknown(f"{value} is no value of a compile spec")

    if compiled.option_only:
        return CompiledEmit(clause.key, evaluate, clause.span)
    return CompiledEmit(clause.key, guarded(evaluate), clause.span)


def compile_invariant(invariant: tree.Invariant, file: Scope) -> CompiledInvariant | None:
    """The invariant, or None where its guard is false or it has errors (which are in the diagnostics)."""
    before = len(file.diagnostics)
    scope = file.rule_scope()
    patterns = _patterns(invariant, scope, claims=False)
    if patterns is None:
        return None
    holds = _guard_holds(invariant.body, scope.child())
    steps = Steps()
    for clause in invariant.body:
        if isinstance(clause, (tree.Let, tree.Require)):
            steps.add(clause, scope)
    for step in steps.post:
        span = getattr(step, "span", invariant.name_span)
        scope.error("A004", span, "an invariant speaks of nodes, not of partitions",
                    help="put this into the rule, or into the `partition` block as `reject`")
    if not holds or len(file.diagnostics) > before:
        return None
    pattern, givens = patterns
    return CompiledInvariant(
        invariant.name, invariant.doc, invariant.span, pattern, tuple(givens), tuple(steps.steps), scope.frame_size
    )


def order_rules(rules: Sequence[tree.Rule], scope: Scope) -> Mapping[str, frozenset[str]]:
    """For each rule all rules that it is `over`, directly or through others. Unknown names and circles are errors."""
    by_name = {rule.name: rule for rule in rules}
    for rule in rules:
        for name in rule.over:
            if name not in by_name:
                scope.error("A005", rule.name_span, f"rule `{rule.name}` is over `{name}`, which does not exist",
                            help=suggest(name, by_name))
    found = {rule.name: _reached(rule, by_name) for rule in rules}
    reported: set[str] = set()
    for name, reached in found.items():
        if name in reached and name not in reported:
            reported |= reached
            scope.error("A008", by_name[name].name_span, f"rule `{name}` comes to be over itself",
                        labels=[Label(by_name[other].name_span, "and this one is over it again")
                                for other in sorted(reached) if other != name and name in found[other]],
                        help="`over` must not go round in a circle")
    return found


def _reached(rule: tree.Rule, by_name: Mapping[str, tree.Rule]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = list(rule.over)
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            waiting.extend(by_name[name].over)
    return frozenset(reached)
