"""Calls: functions of the table, functions that the file defines, and functions of the host program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.engine.compile.core import combine, compile_expression, failed, handles, suggest
from apportion.engine.compile.forms import FORM_COMPILERS
from apportion.engine.compile.options import type_of
from apportion.engine.compile.runtime import number
from apportion.engine.compile.scope import FAR_SLOT, Compiled, Entry, Scope
from apportion.engine.compile.types import BOOL, VALUE, Type, fits, is_numeric, opened
from apportion.engine.externs import Promises, call_predicate
from apportion.engine.functions import FUNCTIONS, Function, function_names
from apportion.engine.values import Unknown
from apportion.grammar import tree
from apportion.grammar.diagnostics import Label

__all__ = ["check_count"]


@handles(tree.Call)
def _call(expr: tree.Call, scope: Scope) -> Compiled:
    entry = scope.lookup(expr.function)
    if entry is not None and entry.kind == "variable":
        entry = scope.environment.entries.get(expr.function)
    if entry is not None and entry.kind in {"function", "extern"}:
        return _ENTRIES[entry.kind](expr, entry, scope)
    if expr.function in FORM_COMPILERS:
        return FORM_COMPILERS[expr.function](expr, scope)
    if expr.function in FUNCTIONS:
        return _builtin(expr, FUNCTIONS[expr.function], scope)
    _report_unknown(expr, entry, scope)
    for argument in expr.arguments:
        if not isinstance(argument, tree.Comprehension):
            compile_expression(argument, scope)
    return failed()


@handles(tree.Comprehension)
def _comprehension(expr: tree.Comprehension, scope: Scope) -> Compiled:
    scope.error("A004", expr.span, "`… for … in …` stands only in `all any count sum min max`")
    return failed()


def _report_unknown(expr: tree.Call, entry: Entry | None, scope: Scope) -> None:
    name = expr.function
    if entry is None:
        callables = [n for n in scope.names() if (e := scope.lookup(n)) is not None and e.kind in _ENTRIES]
        scope.error("A005", expr.name_span, f"there is no function `{name}`",
                    help=suggest(name, [*function_names(), *callables]))
        return
    helps = {
        "contract": f"a contract is applied by a line of its own: `require {name}(…)`",
        "pattern": "patterns are used in `match` and `given`",
        "ops": f"to ask whether a node is one of them write `x.op in {name}`",
    }
    what = f"a {entry.kind}" if entry.kind != "ops" else "a set of ops"
    scope.error("A004", expr.name_span, f"`{name}` is {what}, no function", help=helps.get(entry.kind))


def check_count(expr: tree.Call, least: int, most: int | None, scope: Scope) -> bool:
    """Is the number of arguments right? Else an A004."""
    given = len(expr.arguments)
    if least <= given and (most is None or given <= most):
        return True
    wanted = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
    scope.error("A004", expr.span, f"`{expr.function}` takes {wanted} argument{'s' if wanted != '1' else ''}, "
                f"{given} {'is' if given == 1 else 'are'} given")
    return False


# --- functions of the table ------------------------------------------------------------------------------------


def _builtin(expr: tree.Call, function: Function, scope: Scope) -> Compiled:
    wanted = function.parameters
    most = None if function.variadic else len(wanted)
    if not check_count(expr, len(wanted) - function.optional, most, scope):
        return failed()
    parts = []
    for position, argument in enumerate(expr.arguments):
        expected = wanted[min(position, len(wanted) - 1)]
        parts.append(_argument(expr, argument, expected, scope))
    if any(part.failed for part in parts):
        return failed(frozenset().union(*(part.names for part in parts)))
    if function.name == "len" and not _has_length(expr, parts[0], scope):
        return failed(parts[0].names)
    wanted_each = [wanted[min(i, len(wanted) - 1)] for i in range(len(parts))]
    numeric = [is_numeric(one) and one.kind not in {"any", "value"} and wanted[0].kind != "any" for one in wanted_each]
    readers = [part.evaluate for part in parts]
    compute = function.compute
    is_far = VALUE in wanted

    def evaluate(frame: list[Any]) -> Any:
        if is_far:
            frame[FAR_SLOT] = True
        values = []
        for reader, calculates in zip(readers, numeric, strict=True):
            value = reader(frame)
            value = number(value) if calculates else value
            if isinstance(value, Unknown):
                return value
            values.append(value)
        return _guarded(compute, values)

    return combine(expr, scope, function.result_of([part.type for part in parts]), parts, evaluate)


def _guarded(compute: Any, values: list[Any]) -> Any:
    try:
        return compute(*values)
    except (ArithmeticError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        return Unknown(f"it cannot be computed: {error}")


def _argument(expr: tree.Call, argument: tree.Expr | tree.Comprehension, expected: Type, scope: Scope) -> Compiled:
    part = compile_expression(argument, scope)
    if part.failed or fits(part.type, expected):
        return part
    scope.error("A004", argument.span, f"`{expr.function}` takes {expected.phrase} here, this is {part.type.phrase}",
                label=str(part.type))
    return failed(part.names)


def _has_length(expr: tree.Call, part: Compiled, scope: Scope) -> bool:
    if part.type.kind in {"list", "set", "any", "tuple"}:
        return True
    help = "the number of dims is `.rank`, of elements `.numel`" if part.type.kind == "value" else None
    scope.error("A004", expr.arguments[0].span, f"`len` takes a list or a set, this is {part.type.phrase}",
                label=str(part.type), help=help)
    return False


# --- functions of the file -------------------------------------------------------------------------------------


def _defined(expr: tree.Call, entry: Entry, scope: Scope) -> Compiled:
    """The body is compiled once for each combination of argument types; no function can be in use twice at a time."""
    declaration: tree.Let = entry.declaration
    parameters = declaration.parameters or ()
    if not check_count(expr, len(parameters), len(parameters), scope):
        return failed()
    arguments = [compile_expression(argument, scope) for argument in expr.arguments]
    if any(argument.failed for argument in arguments):
        return failed(frozenset().union(*(argument.names for argument in arguments)))
    if any(active is declaration for active in scope.environment.active):
        _report_recursion(expr, declaration, scope)
        return failed()
    if any(known is declaration for known in scope.environment.overflowing):
        return failed()
    slots, bound, body = _body(entry, expr, arguments, scope)
    if body.failed:
        scope.environment.overflowing.append(declaration)
        return failed(frozenset().union(*(argument.names for argument in arguments)))
    readers = [argument.evaluate for argument in arguments]
    run = body.evaluate

    def evaluate(frame: list[Any]) -> Any:
        values = [reader(frame) for reader in readers]
        for slot, value in zip(slots, values, strict=True):
            frame[slot] = value
        return run(frame)

    return combine(expr, scope, body.type, [*arguments, body], evaluate, bound=bound)


def _report_recursion(expr: tree.Call, declaration: tree.Let, scope: Scope) -> None:
    scope.error("A008", expr.span, f"`{expr.function}` comes to call itself", label="calls it again",
                labels=[Label(declaration.span, "it is defined here")],
                help="functions may not call themselves, directly or through others")


def _body(
    entry: Entry, expr: tree.Call, arguments: Sequence[Compiled], scope: Scope
) -> tuple[tuple[int, ...], frozenset[str], Compiled]:
    declaration: tree.Let = entry.declaration
    flags = tuple(_flags(node, scope) for node in expr.arguments)
    types = [opened(argument.type) for argument in arguments]
    key = (id(declaration), tuple(types), flags)
    known: tuple[tuple[int, ...], frozenset[str], Compiled] | None = scope.frame.functions.get(key)
    if known is not None:
        return known
    inner = (entry.scope or scope).for_call_from(scope)
    slots, bound = [], set()
    for name, type_, node in zip(declaration.parameters or (), types, expr.arguments, strict=True):
        slot = scope.frame.slot()
        hidden = f"{name}@{slot}"
        inner.add(Entry(name, "variable", declaration.span, type_, slot, frozenset({hidden})), shadows=True)
        if isinstance(node, tree.Name):
            inner.pass_flags(scope, node.id, name)
        slots.append(slot)
        bound.add(hidden)
    with scope.environment.inside(declaration, expr.span):
        body = compile_expression(declaration.value, inner)
    found = (tuple(slots), frozenset(bound), body)
    scope.frame.functions[key] = found
    return found


def _flags(node: tree.Expr | tree.Comprehension, scope: Scope) -> tuple[int | None, int | None]:
    if not isinstance(node, tree.Name):
        return None, None
    return scope.flag(node.id, "presence"), scope.flag(node.id, "walked")


# --- functions of the host program -----------------------------------------------------------------------------

_PROMISES = Promises()


def _extern(expr: tree.Call, entry: Entry, scope: Scope) -> Compiled:
    declaration: tree.ExternDecl = entry.declaration
    count = len(declaration.parameters)
    if not check_count(expr, count, count, scope):
        return failed()
    parts = [compile_expression(argument, scope) for argument in expr.arguments]
    type_ = BOOL if declaration.type is None else type_of(declaration.type)
    others = scope.environment.disjoint.get(expr.function, frozenset())
    readers = [part.evaluate for part in parts]
    name = expr.function

    def evaluate(frame: list[Any]) -> Any:
        frame[FAR_SLOT] = True
        arguments = tuple([reader(frame) for reader in readers])
        unknown = next((argument for argument in arguments if isinstance(argument, Unknown)), None)
        if unknown is not None:
            return unknown
        found = call_predicate(name, type_, arguments)
        return _PROMISES.check(name, others, arguments, found) if others else found

    return combine(expr, scope, type_, parts, evaluate, pure=False)


_ENTRIES = {"function": _defined, "extern": _extern}
