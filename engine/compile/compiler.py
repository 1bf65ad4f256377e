"""From a file with all that it uses to a `RuleSet`: the whole of `compile` on one page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from apportion.engine.compile.core import compile_expression
from apportion.engine.compile.patterns import compile_pattern
from apportion.engine.compile.policy import compile_policy, compile_preserve, default_policy
from apportion.engine.compile.requirements import Steps
from apportion.engine.compile.rules import add_emit, compile_invariant, compile_rule, order_rules
from apportion.engine.compile.rulesets import (
    CompiledEmit,
    CompiledInvariant,
    CompiledRule,
    PartitionPolicy,
    PreservePolicy,
    RuleSet,
)
from apportion.engine.compile.scope import Entry, Scope
from apportion.engine.compile.tables import Tables, build_tables
from apportion.engine.compile.types import ANY
from apportion.engine.compile.units import Program
from apportion.engine.errors import RulesError
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Span

__all__ = ["compile_program"]

_WORD = re.compile(r"\w+")

_SHORTEST = 3
"""Shorter names are in too many words by chance, and shorter rests are slips of typing."""

StatementT = TypeVar("StatementT", bound=tree.Node)


def compile_program(program: Program, given: Mapping[str, Any] | None) -> RuleSet:
    """The rules of a backend, or of a library (whose `backend_id` is then empty).

    Raises RulesError with everything that is wrong, OptionError for options that do not fit.
    """
    if program.root is None:
        raise RulesError(program.diagnostics)
    statements = [statement for statement, _ in program.statements]
    tables = build_tables(statements, given if program.complete else None)
    scope = tables.scope
    _check_definitions(statements, scope)
    rules, absent = _rules(program, tables)
    invariants = _invariants(program, scope)
    emits: dict[str, CompiledEmit] = {}
    for clause in _of(tree.Emit, program):
        _file_emit(clause, emits, scope)
    policy = _policy(program, scope)
    preserve = PreservePolicy()
    for block in _of(tree.Preserve, program):
        preserve = compile_preserve(block, scope)
    _raise_errors([*program.diagnostics, *(d for d in scope.diagnostics if not _follows(d, program))])
    header = next((s for s in program.root.file.statements if isinstance(s, tree.BackendDecl)), None)
    return RuleSet(
        backend_id="" if header is None else header.id,
        name=program.root.source.name,
        doc=None if header is None else header.doc,
        language=1 if header is None else header.language,
        options=dict(scope.environment.options),
        option_decls=tables.options,
        rules=rules,
        absent=absent,
        invariants=invariants,
        emits=tuple(emits.values()),
        policy=policy,
        preserve=preserve,
        declared=dict(scope.declared),
        externs=tables.externs,
        disjoint=tables.disjoint,
        sources=tuple(unit.source for unit in program.units),
        warnings=(*program.diagnostics, *tables.warnings, *(d for d in scope.diagnostics if not d.is_error)),
        program=program,
    )


def _raise_errors(diagnostics: list[Diagnostic]) -> None:
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.error]
    if errors:
        raise RulesError(sorted(errors, key=_place))


def _follows(diagnostic: Diagnostic, program: Program) -> bool:
    """Whether an error may be there only because a part of the program could not be read: the error is about a name of
    that part, or about more than a name in a statement that uses one."""
    if program.missing and diagnostic.code in ("A002", "A005", "A006"):
        return True
    span = diagnostic.span
    if span is None or not program.lost:
        return False
    if f"`{span.text}`" not in diagnostic.message:
        statements = (one.span for one, unit in program.statements if unit.source.name == span.source.name)
        span = next((one for one in statements if one.start <= span.start < one.end), span)
    return any(_is_lost(word, program.lost) for word in set(_WORD.findall(span.text)))


def _is_lost(name: str, lost: frozenset[str]) -> bool:
    """Whether a broken part has a name, or a word that it and a neighbour have run together to."""
    return name in lost or len(name) >= _SHORTEST and any(
        len(word) - len(name) >= _SHORTEST and (word.startswith(name) or word.endswith(name)) for word in lost)


def _place(diagnostic: Diagnostic) -> tuple[str, int]:
    span = diagnostic.span
    return ("", 0) if span is None else (span.source.name, span.start)


def _of(kind: type[StatementT], program: Program) -> list[StatementT]:
    return [statement for statement, _ in program.statements if isinstance(statement, kind)]


# --- rules and invariants --------------------------------------------------------------------------------------


def _rules(program: Program, tables: Tables) -> tuple[tuple[CompiledRule, ...], tuple[CompiledRule, ...]]:
    scope = tables.scope
    declared = _unique(_of(tree.Rule, program), "rule", scope)
    over = order_rules(declared, scope)
    present: list[CompiledRule] = []
    absent: list[CompiledRule] = []
    for position, rule in enumerate(declared):
        compiled, holds = compile_rule(rule, position, over[rule.name], tables.options, scope)
        if compiled is not None:
            (present if holds else absent).append(compiled)
    return tuple(present), tuple(absent)


def _invariants(program: Program, scope: Scope) -> tuple[CompiledInvariant, ...]:
    declared = _unique(_of(tree.Invariant, program), "invariant", scope)
    found = [compile_invariant(invariant, scope) for invariant in declared]
    return tuple(invariant for invariant in found if invariant is not None)


NamedT = TypeVar("NamedT", tree.Rule, tree.Invariant)


def _unique(declared: list[NamedT], what: str, scope: Scope) -> list[NamedT]:
    """Those whose name is new; a second one of the same name is an A009."""
    found: dict[str, NamedT] = {}
    for statement in declared:
        other = found.get(statement.name)
        if other is None:
            found[statement.name] = statement
        else:
            scope.error("A009", statement.name_span, f"there are two {what}s `{statement.name}`", label="the second",
                        labels=[Label(other.name_span, "the first one")])
    return list(found.values())


# --- the rest of the file --------------------------------------------------------------------------------------


def _file_emit(clause: tree.Emit, emits: dict[str, CompiledEmit], scope: Scope) -> None:
    before = len(scope.diagnostics)
    add_emit(clause, emits, scope)
    if len(scope.diagnostics) == before and not compile_expression(clause.value, scope.rule_scope()).option_only:
        scope.error("A004", clause.value.span, "what a file emits may depend on options only",
                    help="put it into the rules where it differs")


def _policy(program: Program, scope: Scope) -> PartitionPolicy:
    blocks = _of(tree.PartitionBlock, program)
    return compile_policy(blocks[0], scope) if blocks else default_policy()


def _check_definitions(statements: list[tree.Statement], scope: Scope) -> None:
    """Look into what no rule may use: every set, `let`, function, contract and pattern is checked by itself."""
    entries = scope.environment.entries
    for statement in statements:
        name = getattr(statement, "name", None)
        if name is None or name not in entries or entries[name].declaration is not statement:
            continue
        if isinstance(statement, (tree.OpsDecl, tree.Let)) and getattr(statement, "parameters", None) is None:
            scope.lookup(name)
        elif isinstance(statement, tree.Let):
            with scope.environment.inside(statement):
                compile_expression(statement.value, _with_parameters(statement.parameters or (), statement.span, scope))
        elif isinstance(statement, tree.Contract):
            _check_contract(statement, scope)
        elif isinstance(statement, tree.PatternDecl):
            compile_pattern((_use_of(statement),), scope.rule_scope(), claims=False)


def _with_parameters(parameters: tuple[str, ...], span: Span, scope: Scope) -> Scope:
    """A scope in which the parameters can be anything, optional parts and ends of a `through` too."""
    inner = scope.rule_scope()
    for name in parameters:
        inner.add(Entry(name, "variable", span, ANY, inner.frame.slot(), frozenset({name})), shadows=True)
        inner.declare_presence(name)
        inner.declare_walked(name)
    return inner


def _check_contract(contract: tree.Contract, scope: Scope) -> None:
    inner = _with_parameters(contract.parameters, contract.span, scope)
    steps = Steps()
    with scope.environment.inside(contract):
        for clause in contract.body:
            steps.add(clause, inner)


def _use_of(pattern: tree.PatternDecl) -> tree.Choice:
    """The block `{ NAME(a, b) }` with a variable for each role."""
    span = pattern.span
    arguments = tuple(
        tree.Argument(name=None, term=tree.VariableTerm(name=parameter.name, span=span), span=span)
        for parameter in pattern.parameters
    )
    call = tree.CallTerm(callee=tree.Name(id=pattern.name, span=span), arguments=arguments, span=span)
    return tree.Choice(bindings=(tree.Binding(name=None, term=call, span=span),), span=span)


