"""`and or not implies`, conditionals and kinds: three-valued logic over conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.engine import facts
from apportion.engine.compile.core import combine, compile_expression, failed, handles, suggest
from apportion.engine.compile.runtime import calculate, compare
from apportion.engine.compile.scope import FAR_SLOT, Compiled, Evaluate, Scope
from apportion.engine.compile.types import BOOL, NUMBER, is_numeric, join, mixable
from apportion.engine.values import Unknown, k_not
from apportion.grammar import tree

__all__ = ["truth"]


def truth(value: Any) -> Any:
    """A value in the place of a condition: what is not true or false is unknown."""
    if isinstance(value, (bool, Unknown)):
        return value
    return Unknown("a condition gave what is neither true nor false")


@handles(tree.BoolOp)
def _bool_op(expr: tree.BoolOp, scope: Scope) -> Compiled:
    parts = [compile_expression(operand, scope, BOOL) for operand in expr.operands]
    evaluate = _BOOL_OPS[expr.op]([part.evaluate for part in parts])
    return combine(expr, scope, BOOL, parts, evaluate)


def _settling(stop: bool) -> Callable[[list[Evaluate]], Evaluate]:
    """`and` stops at the first False, `or` at the first True; an unknown waits for what comes after."""

    def build(readers: list[Evaluate]) -> Evaluate:
        def evaluate(frame: list[Any]) -> Any:
            unknown = None
            for reader in readers:
                value = reader(frame)
                if value is stop:
                    return stop
                if value is not (not stop) and unknown is None:
                    unknown = truth(value)
            return (not stop) if unknown is None else unknown

        return evaluate

    return build


def _implies(readers: list[Evaluate]) -> Evaluate:
    condition, conclusion = readers

    def evaluate(frame: list[Any]) -> Any:
        given = truth(condition(frame))
        if given is False:
            return True
        then = truth(conclusion(frame))
        return then if given is True or then is True else given

    return evaluate


_BOOL_OPS: dict[str, Callable[[list[Evaluate]], Evaluate]] = {
    "and": _settling(False),
    "or": _settling(True),
    "implies": _implies,
}


@handles(tree.Unary)
def _unary(expr: tree.Unary, scope: Scope) -> Compiled:
    if expr.op == "not":
        return _not(expr, scope)
    part = compile_expression(expr.operand, scope)
    if not is_numeric(part.type):
        scope.error("A004", expr.operand.span, f"a number is needed here, this is {part.type.phrase}",
                    label=str(part.type))
        return failed()
    operand, sign = part.evaluate, -1 if expr.op == "-" else 1

    def evaluate(frame: list[Any]) -> Any:
        return calculate("*", sign, operand(frame))

    return combine(expr, scope, part.type if part.type.kind in {"int", "float"} else NUMBER, [part], evaluate)


def _not(expr: tree.Unary, scope: Scope) -> Compiled:
    part = compile_expression(expr.operand, scope, BOOL)
    operand = part.evaluate

    def evaluate(frame: list[Any]) -> Any:
        return k_not(truth(operand(frame)))

    return combine(expr, scope, BOOL, [part], evaluate)


@handles(tree.Conditional)
def _conditional(expr: tree.Conditional, scope: Scope) -> Compiled:
    test = compile_expression(expr.condition, scope, BOOL)
    then, otherwise = compile_expression(expr.then, scope), compile_expression(expr.otherwise, scope)
    if not (then.failed or otherwise.failed) and not mixable(then.type, otherwise.type):
        what = f"this is {otherwise.type.phrase}, and the other branch {then.type.phrase}"
        scope.error("A004", expr.otherwise.span, what, label=str(otherwise.type))
        return failed()
    if test.option_only and not test.failed and isinstance(test.value, bool):
        return then if test.value else otherwise
    condition, yes, no = test.evaluate, then.evaluate, otherwise.evaluate

    def evaluate(frame: list[Any]) -> Any:
        verdict = truth(condition(frame))
        if verdict is True:
            return yes(frame)
        if verdict is False:
            return no(frame)
        first = yes(frame)
        return first if compare("==", first, no(frame)) is True else verdict

    return combine(expr, scope, join(then.type, otherwise.type), [test, then, otherwise], evaluate)


_NO_KINDS = {
    "dtype": "compare it: `x.dtype == float32`, `x.dtype in {int8, uint8}`",
    "op": "compare it: `x.op == aten.relu.default`",
    "opset": None,
    "set": None,
    "range": None,
    "graph": None,
    "device": 'compare it: `x.device == "cpu"`',
}


@handles(tree.IsKind)
def _is_kind(expr: tree.IsKind, scope: Scope) -> Compiled:
    part = compile_expression(expr.value, scope)
    kind = expr.kind
    if kind not in facts.KINDS:
        scope.error("A005", expr.span, f"there is no kind `{kind}`", help=suggest(kind, facts.KINDS))
        return failed(part.names)
    if part.type.kind in _NO_KINDS and kind != "none":
        scope.error("A004", expr.span, f"{part.type.phrase} is never `{kind}`", help=_NO_KINDS[part.type.kind])
        return failed(part.names)
    value, negated = part.evaluate, expr.negated
    is_far = kind not in facts.LOCAL_KINDS

    def evaluate(frame: list[Any]) -> Any:
        if is_far:
            frame[FAR_SLOT] = True
        found = value(frame)
        if isinstance(found, Unknown):
            return found
        verdict = facts.is_kind(found, kind)
        return k_not(verdict) if negated else verdict

    return combine(expr, scope, BOOL, [part], evaluate)


