"""What the statements of a file declare: names, ops, options, marks, externs; each completed when first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, frozen

from apportion.engine.compile.core import compile_expression, constant, failed, suggest
from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.options import check_options, describe, option_value, type_of
from apportion.engine.compile.requirements import check_parameters
from apportion.engine.compile.requirements import option_value as known_at_load
from apportion.engine.compile.rulesets import CompiledExtern, CompiledOption
from apportion.engine.compile.scope import PARTITION_NAMES, Entry, Environment, Scope
from apportion.engine.compile.types import BOOL, OPSET
from apportion.engine.errors import OptionError
from apportion.engine.functions import function_names
from apportion.engine.ops import Op, UnknownOp, parse_schema, schema_difference, schema_of
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity

__all__ = ["Tables", "build_tables"]


@frozen
class Tables:
    """The declarations of a load; `scope` is the file's, in which every name is found."""

    scope: Scope
    options: Mapping[str, CompiledOption]
    externs: Mapping[str, CompiledExtern]
    disjoint: tuple[tuple[str, str], ...]
    warnings: tuple[Diagnostic, ...]


_KINDS: Mapping[type, str] = {
    tree.OpsDecl: "ops",
    tree.Let: "let",
    tree.PatternDecl: "pattern",
    tree.Contract: "contract",
    tree.ExternDecl: "extern",
}


def build_tables(statements: Sequence[tree.Statement], given: Mapping[str, Any] | None) -> Tables:
    """Enter every declaration; `given` are the options of the caller. Raises OptionError for those that do not fit."""
    environment = Environment()
    scope = Scope(environment)
    for statement in statements:
        kind = _KINDS.get(type(statement))
        if kind is not None:
            _enter(statement, kind, scope)
    warnings = _declare_ops([s for s in statements if isinstance(s, tree.DeclareOp)], scope)
    environment.resolve = _Resolver(scope)
    options = _options([s for s in statements if isinstance(s, tree.OptionDecl)], scope)
    environment.options.update(check_options(options, given))
    _metas([s for s in statements if isinstance(s, tree.MetaDecl)], scope)
    externs = _externs([s for s in statements if isinstance(s, tree.ExternDecl)])
    disjoint = _disjoint([s for s in statements if isinstance(s, tree.DisjointDecl)], externs, scope)
    return Tables(scope, options, externs, disjoint, tuple(warnings))


# --- names -----------------------------------------------------------------------------------------------------


def _enter(statement: Any, kind: str, scope: Scope) -> None:
    name = statement.name
    if kind == "let" and statement.parameters is not None:
        kind = "function"
    if not _is_free(statement, kind, scope):
        return
    parameters = getattr(statement, "parameters", None) or ()
    check_parameters([getattr(p, "name", p) for p in parameters], statement.span, scope)
    scope.environment.entries[name] = Entry(name, kind, statement.span, declaration=statement, scope=scope)
    if kind == "pattern":
        scope.environment.patterns[name] = statement


def _is_free(statement: Any, kind: str, scope: Scope) -> bool:
    name = statement.name
    other = scope.environment.entries.get(name)
    if other is not None:
        labels = () if other.span is None else (Label(other.span, "it is given a meaning here"),)
        scope.error("A009", statement.span, f"the name `{name}` is already taken", label="given again", labels=labels)
        return False
    what = None
    if name in DTYPES:
        what = "is a dtype"
    elif name in PARTITION_NAMES and kind in {"ops", "let"}:
        what = "is what a partition binds"
    elif name in function_names() and kind in {"function", "contract", "extern"}:
        what = "is a function of the language"
    if what is not None:
        scope.error("A009", statement.span, f"`{name}` {what} and cannot be given another meaning",
                    help="choose another name")
    return what is None


_MOST_OP_SETS = 60


class _Resolver:
    """Gives a `let` or `ops` its value when it is first asked for, so that the order of statements does not matter.

    A `let` whose value is not known at load (it asks the host program, or speaks of partitions) becomes a macro.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def __call__(self, entry: Entry) -> Entry:
        if entry.compiled is not None or entry.kind not in {"let", "ops"}:
            return entry
        environment = self.scope.environment
        if any(active is entry.declaration for active in environment.active):
            self._circle(entry)
            return evolve(entry, compiled=constant(OPSET, frozenset()) if entry.kind == "ops" else failed())
        with environment.inside(entry.declaration):
            found = self._ops(entry) if entry.kind == "ops" else self._let(entry)
        environment.entries[entry.name] = found
        return found

    def _circle(self, entry: Entry) -> None:
        active = self.scope.environment.active
        first = next(i for i, node in enumerate(active) if node is entry.declaration)
        others = [Label(node.span, "through this") for node in active[first + 1 :]]
        self.scope.error("A008", entry.declaration.span, f"`{entry.name}` is defined by itself", labels=others)

    def _ops(self, entry: Entry) -> Entry:
        depth = self.scope.environment.depth
        if depth > _MOST_OP_SETS:
            self.scope.error("A011", entry.declaration.span, "sets of ops refer to each other too deeply")
            return evolve(entry, compiled=constant(OPSET, frozenset()))
        self.scope.environment.depth = depth + 1
        try:
            names = self.scope.resolve_ops(entry.declaration.value)
        finally:
            self.scope.environment.depth = depth
        return evolve(entry, type=OPSET, compiled=constant(OPSET, names))

    def _let(self, entry: Entry) -> Entry:
        compiled = compile_expression(entry.declaration.value, self.scope)
        if compiled.option_only or compiled.failed:
            return evolve(entry, type=compiled.type, names=compiled.names, compiled=compiled)
        return evolve(entry, kind="macro")


# --- ops, options, marks, externs ------------------------------------------------------------------------------


def _declare_ops(statements: Sequence[tree.DeclareOp], scope: Scope) -> list[Diagnostic]:
    warnings: list[Diagnostic] = []
    seen: dict[str, tree.DeclareOp] = {}
    for statement in statements:
        try:
            op = parse_schema(statement.schema)
        except (ValueError, RuntimeError) as error:
            scope.error("A001", statement.span, f"this declares no op: {error}",
                        help='write `declare "library::op(Tensor a, int b=1) -> Tensor"`')
            continue
        other = seen.get(op.name)
        if other is not None and scope.environment.declared[op.name].text != op.text:
            scope.error("A009", statement.span, f"`{op.name}` is declared differently elsewhere",
                        labels=[Label(other.span, "it is declared here")])
            continue
        seen.setdefault(op.name, statement)
        scope.environment.declared[op.name] = op
        difference = _difference(op)
        if difference is not None:
            message = f"the declared `{op.name}` is not the registered one"
            warnings.append(Diagnostic("A502", Severity.warning, message, statement.span, notes=(difference,)))
    return warnings


def _difference(op: Op) -> str | None:
    if not torch._C._jit_get_schemas_for_operator(f"{op.namespace}::{op.base}"):
        return None  # the library is not loaded: nothing to compare with
    try:
        return schema_difference(op, schema_of(op.name))
    except UnknownOp:
        return f"the registered {op.namespace}.{op.base} has no overload {op.overload}"


def _options(statements: Sequence[tree.OptionDecl], scope: Scope) -> dict[str, CompiledOption]:
    found: dict[str, CompiledOption] = {}
    for statement in statements:
        if statement.name in found:
            scope.error("A009", statement.span, f"there are two options `{statement.name}`",
                        labels=[Label(found[statement.name].span, "the first one")])
            continue
        type_ = type_of(statement.type)
        option = CompiledOption(statement.name, type_, None, statement.doc, statement.span)
        scope.environment.option_types[statement.name] = type_
        default = known_at_load(statement.default, scope, "the default of an option")
        if default.by_option:
            scope.error("A004", statement.default.span, "the default of an option cannot depend on options")
        elif default.option_only:
            option = evolve(option, default=_default(statement, option, default.value, scope))
        found[statement.name] = option
    return found


def _default(statement: tree.OptionDecl, option: CompiledOption, value: Any, scope: Scope) -> Any:
    try:
        return option_value(option, value)
    except OptionError:
        scope.error("A004", statement.default.span, f"option `{option.name}` is {describe(option.type)}",
                    label="its default is something else")
        return value


def _metas(statements: Sequence[tree.MetaDecl], scope: Scope) -> None:
    metas = scope.environment.metas
    for statement in statements:
        if statement.name in metas:
            scope.error("A009", statement.span, f"there are two marks `{statement.name}`",
                        labels=[Label(metas[statement.name].span, "the first one")])
        else:
            metas[statement.name] = statement


def _externs(statements: Sequence[tree.ExternDecl]) -> dict[str, CompiledExtern]:
    found: dict[str, CompiledExtern] = {}
    for statement in statements:
        type_ = BOOL if statement.type is None else type_of(statement.type)
        extern = CompiledExtern(statement.name, statement.parameters, type_, statement.doc, statement.span)
        found.setdefault(statement.name, extern)
    return found


def _disjoint(
    statements: Sequence[tree.DisjointDecl], externs: Mapping[str, CompiledExtern], scope: Scope
) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    promised = scope.environment.disjoint
    for statement in statements:
        for name in (statement.left, statement.right):
            extern = externs.get(name)
            if extern is None:
                scope.error("A005", statement.span, f"there is no extern `{name}`", help=suggest(name, externs))
            elif extern.type != BOOL:
                message = f"`{name}` gives {extern.type.phrase}, and only conditions can be disjoint"
                scope.error("A004", statement.span, message)
        for one, other in ((statement.left, statement.right), (statement.right, statement.left)):
            promised[one] = promised.get(one, frozenset()) | {other}
        pairs.append((statement.left, statement.right))
    return tuple(pairs)
