"""Requirements and lets in file order, contracts written out where they are applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from apportion.engine.compile.calls import check_count
from apportion.engine.compile.core import compile_expression
from apportion.engine.compile.logic import truth
from apportion.engine.compile.observed import observe
from apportion.engine.compile.rulesets import LetStep, Requirement, Step
from apportion.engine.compile.scope import BUDGET_SLOT, Compiled, Entry, Evaluate, Scope
from apportion.engine.compile.types import BOOL, opened
from apportion.engine.values import Unknown
from apportion.grammar import tree
from apportion.grammar.diagnostics import Label, Span

__all__ = ["Steps", "condition", "define_let", "guarded", "option_value"]

_MOST_STEPS = 1_000
_MOST_NESTED = 40


def guarded(evaluate: Evaluate) -> Evaluate:
    """The outermost closure: sets the budget, and turns what should not happen into an unknown with its reason."""

    def run(frame: list[Any]) -> Any:
        frame[BUDGET_SLOT] = None
        try:
            return evaluate(frame)
        except Exception as error:  # a fact that PyTorch cannot give is unknown, never a crash
            return Unknown(f"it cannot be computed: {type(error).__name__}: {error}")

    return run


def _verdict(evaluate: Evaluate) -> Evaluate:
    def run(frame: list[Any]) -> Any:
        return truth(evaluate(frame))

    return guarded(run)


def text_of(node: tree.Node) -> str:
    """What is written there, on one line."""
    return " ".join(node.span.text.split())


def condition(expr: tree.Expr, scope: Scope) -> tuple[Compiled, Evaluate, tuple[tuple[str, Evaluate], ...]]:
    """A condition: what is known of it, its guarded closure, and the values that decide it."""
    compiled = compile_expression(expr, scope, BOOL)
    if compiled.failed:
        return compiled, compiled.evaluate, ()
    observed = tuple((text, guarded(evaluate)) for text, evaluate in observe(expr, scope))
    return compiled, _verdict(compiled.evaluate), observed


def option_value(expr: tree.Expr, scope: Scope, what: str) -> Compiled:
    """An expression that must be known at load; else an A004 that says so of `what`."""
    compiled = compile_expression(expr, scope)
    if not compiled.failed and not compiled.option_only:
        names = ", ".join(f"`{name.split('@')[0]}`" for name in sorted(compiled.names))
        because = f"it depends on {names}" if names else "it calls the host program"
        scope.error("A004", expr.span, f"{what} may depend on options only", label=because)
    return compiled


def define_let(let: tree.Let, scope: Scope) -> LetStep | None:
    """Give `let` its meaning in `scope`; a step where its value must be computed for each match."""
    if let.parameters is not None:
        check_parameters(let.parameters, let.span, scope)
        scope.add(Entry(let.name, "function", let.span, declaration=let, scope=scope))
        return None
    compiled = compile_expression(let.value, scope)
    if compiled.option_only or compiled.failed:
        scope.add(Entry(let.name, "let", let.span, compiled.type, names=compiled.names, compiled=compiled))
        return None
    slot = scope.frame.slot()
    scope.add(Entry(let.name, "let", let.span, compiled.type, slot, compiled.names))
    if isinstance(let.value, tree.Name):
        scope.pass_flags(scope, let.value.id, let.name)
    return LetStep(slot, guarded(compiled.evaluate), let.name)


def check_parameters(parameters: Iterable[str], span: Span, scope: Scope) -> None:
    """The same parameter twice is an A009."""
    seen: set[str] = set()
    for name in parameters:
        if name in seen:
            scope.error("A009", span, f"the parameter `{name}` is given twice")
        seen.add(name)


@define
class Steps:
    """The steps of one rule, invariant or contract: `steps` on nodes, `post` on the partition."""

    steps: list[Step] = field(factory=list)
    post: list[Step] = field(factory=list)
    full: bool = False

    def add(self, clause: tree.Let | tree.Require, scope: Scope, applied: tuple[Span, ...] = ()) -> None:
        """Compile one clause in `scope`; `applied` are the places where contracts around it are applied."""
        if self.full or len(self.steps) + len(self.post) > _MOST_STEPS:
            self._overflow(clause, scope, applied)
            return
        if isinstance(clause, tree.Let):
            self._let(clause, scope)
        else:
            self._require(clause, scope, applied)

    def _overflow(self, clause: tree.Let | tree.Require, scope: Scope, applied: tuple[Span, ...]) -> None:
        """Report it once, and leave the contracts that lead here out from now on."""
        if not self.full:
            scope.error("A011", applied[0] if applied else clause.span, "this comes to more than "
                        f"{_MOST_STEPS} requirements", help="contracts count at every place that applies them")
        self.full = True
        scope.environment.overflowing.extend(scope.environment.active)

    def _let(self, clause: tree.Let, scope: Scope) -> None:
        step = define_let(clause, scope)
        if step is not None:
            entry = scope.lookup(clause.name)
            post = entry is not None and _is_post(entry.names)
            (self.post if post else self.steps).append(step)

    def _require(self, clause: tree.Require, scope: Scope, applied: tuple[Span, ...]) -> None:
        call = clause.condition
        entry = scope.environment.entries.get(call.function) if isinstance(call, tree.Call) else None
        if isinstance(call, tree.Call) and entry is not None and entry.kind == "contract":
            self._contract(call, clause, entry, scope, applied)
            return
        compiled, evaluate, observed = condition(clause.condition, scope)
        if compiled.failed:
            return
        requirement = Requirement(
            evaluate, clause.span, text_of(clause.condition), clause.because, observed, compiled.post, applied,
            clause.condition, scope,
        )
        (self.post if compiled.post else self.steps).append(requirement)

    def _contract(
        self, call: tree.Call, clause: tree.Require, entry: Entry, scope: Scope, applied: tuple[Span, ...]
    ) -> None:
        contract: tree.Contract = entry.declaration
        if any(known is contract for known in scope.environment.overflowing):
            self.full = True
            scope.environment.overflowing.extend(scope.environment.active)
            return
        if any(active is contract for active in scope.environment.active):
            scope.error("A008", call.span, f"contract `{contract.name}` comes to apply itself", label="applied again",
                        labels=[Label(contract.span, "it is defined here")])
            return
        if len(applied) > _MOST_NESTED:
            scope.error("A011", call.span, "contracts apply contracts too deeply")
            return
        if not check_count(call, len(contract.parameters), len(contract.parameters), scope):
            return
        inner = (entry.scope or scope).for_call_from(scope)
        for name, argument in zip(contract.parameters, call.arguments, strict=True):
            self._bind(name, argument, contract, scope, inner)
        with scope.environment.inside(contract, call.span):
            for step in contract.body:
                self.add(step, inner, (*applied, clause.span))

    def _bind(
        self,
        name: str,
        argument: tree.Expr | tree.Comprehension,
        contract: tree.Contract,
        scope: Scope,
        inner: Scope,
    ) -> None:
        """A parameter is another name of what is known or in a slot already; anything else is computed first."""
        compiled = compile_expression(argument, scope)
        if isinstance(argument, tree.Name):
            inner.pass_flags(scope, argument.id, name)
            entry = scope.lookup(argument.id)
            if entry is not None and entry.slot is not None:
                type_ = opened(entry.type)
                inner.add(Entry(name, "variable", contract.span, type_, entry.slot, entry.names), shadows=True)
                return
        if compiled.option_only or compiled.failed:
            inner.add(Entry(name, "let", contract.span, compiled.type, names=compiled.names, compiled=compiled),
                      shadows=True)
            return
        slot = scope.frame.slot()
        inner.add(Entry(name, "variable", contract.span, opened(compiled.type), slot, compiled.names), shadows=True)
        step = LetStep(slot, guarded(compiled.evaluate), name)
        (self.post if compiled.post else self.steps).append(step)


def _is_post(names: frozenset[str]) -> bool:
    return Compiled(BOOL, truth, names).post
