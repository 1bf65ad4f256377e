"""Names and literals: what a bare name, an option, a literal or the name of an op stands for."""

from __future__ import annotations

from typing import Any

from apportion.engine.compile.core import combine, compile_expression, constant, failed, handles, suggest
from apportion.engine.compile.dtypes import ALIASES, DTYPES
from apportion.engine.compile.opsets import resolve_ops
from apportion.engine.compile.runtime import Interval
from apportion.engine.compile.scope import PARTITION_NAMES, Compiled, Entry, Scope
from apportion.engine.compile.types import (
    DTYPE,
    NUMBER,
    OPSET,
    Type,
    join_all,
    list_of,
    mixable,
    set_of,
    type_of_literal,
)
from apportion.grammar import tree

__all__ = ["slot_reader"]

_MAX_BITS = 512


@handles(tree.Literal)
def _literal(expr: tree.Literal, scope: Scope) -> Compiled:
    if isinstance(expr.value, int) and expr.value.bit_length() > _MAX_BITS:
        scope.error("A011", expr.span, "this number is too large")
        return failed()
    return constant(type_of_literal(expr.value), expr.value)


def slot_reader(slot: int) -> Any:
    """The closure that reads a slot."""

    def evaluate(frame: list[Any]) -> Any:
        return frame[slot]

    return evaluate


@handles(tree.Name)
def _name(expr: tree.Name, scope: Scope) -> Compiled:
    entry = scope.lookup(expr.id)
    if entry is not None:
        return _entry(expr, entry, scope)
    if expr.id in PARTITION_NAMES:
        return _partition_name(expr)
    if expr.id in DTYPES:
        return constant(DTYPE, DTYPES[expr.id])
    if expr.id in ALIASES:
        scope.error("A005", expr.span, f"`{expr.id}` is no name of a dtype here", help=f"write `{ALIASES[expr.id]}`")
        return failed()
    help = suggest(expr.id, [*scope.names(), *DTYPES])
    scope.error("A005", expr.span, f"there is nothing called `{expr.id}` here", help=help)
    return failed()


def _entry(expr: tree.Name, entry: Entry, scope: Scope) -> Compiled:
    if entry.compiled is not None:
        return entry.compiled
    if entry.slot is not None:
        return Compiled(entry.type, slot_reader(entry.slot), entry.names)
    if entry.kind == "macro":
        return _written_out(entry, scope)
    uses = {
        "contract": f"apply it with `require {expr.id}(…)`",
        "pattern": "patterns are used in `match` and `given`",
    }
    help = uses.get(entry.kind, f"call it: `{expr.id}(…)`")
    article = "an" if entry.kind == "extern" else "a"
    scope.error("A004", expr.span, f"`{expr.id}` is {article} {entry.kind}, no value", help=help)
    return failed()


def _written_out(entry: Entry, scope: Scope) -> Compiled:
    """A `let` of the file that is not known at load, compiled once for each rule that uses it."""
    declaration: tree.Let = entry.declaration
    known: Compiled | None = scope.frame.functions.get(id(declaration))
    if known is None:
        known = compile_expression(declaration.value, (entry.scope or scope).for_call_from(scope))
        scope.frame.functions[id(declaration)] = known
    return known


def _partition_name(expr: tree.Name) -> Compiled:
    slot = list(PARTITION_NAMES).index(expr.id)
    return Compiled(PARTITION_NAMES[expr.id], slot_reader(slot), frozenset({expr.id}))


@handles(tree.OptionRef)
def _option(expr: tree.OptionRef, scope: Scope) -> Compiled:
    environment = scope.environment
    if expr.name not in environment.option_types:
        help = suggest(expr.name, environment.option_types)
        scope.error("A005", expr.span, f"there is no option `{expr.name}`", help=help)
        return failed()
    if expr.name not in environment.options:
        return failed()
    return constant(environment.option_types[expr.name], environment.options[expr.name], by_option=True)


@handles(tree.OpExpansion)
def _expansion(expr: tree.OpExpansion, scope: Scope) -> Compiled:
    return constant(OPSET, resolve_ops(expr, scope))


@handles(tree.ListExpr)
def _list(expr: tree.ListExpr, scope: Scope) -> Compiled:
    parts = [compile_expression(item, scope) for item in expr.items]
    if not _check_alike(expr, parts, scope):
        return failed()
    readers = [part.evaluate for part in parts]

    def evaluate(frame: list[Any]) -> Any:
        return tuple([reader(frame) for reader in readers])

    return combine(expr, scope, list_of(join_all(part.type for part in parts)), parts, evaluate)


@handles(tree.SetExpr)
def _set(expr: tree.SetExpr, scope: Scope) -> Compiled:
    parts = [compile_expression(item, scope) for item in expr.items]
    kinds = {part.type.kind for part in parts if not part.failed}
    if kinds & {"op", "opset"} and all(part.option_only for part in parts if not part.failed):
        return _op_set(expr, parts, kinds, scope)
    item = join_all(part.type for part in parts)
    if not _check_alike(expr, parts, scope):
        return failed()
    readers = [part.evaluate for part in parts]
    known = all(part.option_only for part in parts)

    def evaluate(frame: list[Any]) -> Any:
        items = tuple([reader(frame) for reader in readers])
        return frozenset(items) if known else items

    return combine(expr, scope, set_of(item), parts, evaluate)


def _op_set(expr: tree.SetExpr, parts: list[Compiled], kinds: set[str], scope: Scope) -> Compiled:
    for item, part in zip(expr.items, parts, strict=True):
        if part.type.kind not in {"op", "opset", "any"}:
            scope.error("A004", item.span, f"this is {part.type.phrase} in a set of ops", label=str(part.type))
            return failed()
    if any(part.failed for part in parts):
        return failed()
    by_option = any(part.by_option for part in parts)
    return constant(OPSET, frozenset().union(*(part.value for part in parts)), by_option=by_option)


def _check_alike(expr: tree.SetExpr | tree.ListExpr, parts: list[Compiled], scope: Scope) -> bool:
    """A dtype and a number side by side are a slip, whatever the list or set is used for."""
    first: Type | None = None
    for item, part in zip(expr.items, parts, strict=True):
        if part.type.kind in {"any", "none"}:
            continue
        if first is None:
            first = part.type
        elif not mixable(first, part.type):
            what = "set" if isinstance(expr, tree.SetExpr) else "list"
            scope.error("A004", item.span, f"this is {part.type.phrase} in a {what} of {first}", label=str(part.type))
            return False
    return True


@handles(tree.RangeExpr)
def _range(expr: tree.RangeExpr, scope: Scope) -> Compiled:
    parts = [compile_expression(bound, scope, NUMBER) for bound in (expr.low, expr.high)]
    low, high = parts[0].evaluate, parts[1].evaluate

    def evaluate(frame: list[Any]) -> Any:
        return Interval(low(frame), high(frame))

    return combine(expr, scope, Type("range", (NUMBER,)), parts, evaluate)
