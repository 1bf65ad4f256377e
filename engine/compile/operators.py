"""Arithmetic and comparisons, of whole values and, inside `all(…)` and `any(…)`, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.engine.compile.core import combine, compile_expression, failed, handles, suggest
from apportion.engine.compile.runtime import calculate, compare, is_in
from apportion.engine.compile.scope import Compiled, Scope
from apportion.engine.compile.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    OPSET,
    Type,
    comparable,
    is_numeric,
    join,
    list_of,
    mixable,
)
from apportion.engine.values import Unknown, k_and, k_not
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span

__all__ = ["compile_elementwise"]

# --- arithmetic ------------------------------------------------------------------------------------------------


@handles(tree.Binary)
def _binary(expr: tree.Binary, scope: Scope) -> Compiled:
    """A long `a + b + c + …` is compiled from the left in a loop: its length is no depth."""
    chain: list[tree.Binary] = []
    first: tree.Expr = expr
    while isinstance(first, tree.Binary):
        chain.append(first)
        first = first.left
    types: Type
    parts = [compile_expression(first, scope)]
    types = parts[0].type
    steps: list[tuple[Callable[[Any, Any], Any], Callable[[list[Any]], Any]]] = []
    for node in reversed(chain):
        right = compile_expression(node.right, scope)
        parts.append(right)
        result = _arithmetic_type(node, types, right.type, scope)
        if result is None:
            return failed(frozenset().union(*(part.names for part in parts)))
        steps.append((_operation(node.op, types, right.type), right.evaluate))
        types = result
    start = parts[0].evaluate

    def evaluate(frame: list[Any]) -> Any:
        value = start(frame)
        for operation, reader in steps:
            value = operation(value, reader(frame))
        return value

    return combine(expr, scope, types, parts, evaluate)


def _arithmetic_type(node: tree.Binary, left: Type, right: Type, scope: Scope) -> Type | None:
    kinds = {left.kind, right.kind}
    if kinds <= {"op", "opset", "set", "any"} and node.op in {"|", "-"} and kinds != {"any"}:
        sets = join(left, right)
        if kinds & {"op", "opset"}:
            if "set" in kinds and not {left, right} & {Type("set", (ANY,))}:
                _mismatch(node, left, right, scope)
                return None
            return OPSET
        if kinds == {"set"} and not mixable(left.item, right.item):
            _mismatch(node, left, right, scope)
            return None
        return sets if sets.kind == "set" else ANY
    if node.op == "|":
        _mismatch(node, left, right, scope)
        return None
    if node.op == "+" and kinds <= {"list", "any"} and "list" in kinds:
        return join(left, right) if kinds == {"list"} else ANY
    if is_numeric(left) and is_numeric(right):
        return _number_type(node.op, left, right)
    _mismatch(node, left, right, scope)
    return None


def _number_type(op: str, left: Type, right: Type) -> Type:
    if "any" in (left.kind, right.kind):
        return ANY if op in {"+", "-"} else NUMBER
    if op == "/":
        return FLOAT
    if left == right == INT:
        return INT
    return FLOAT if "float" in (left.kind, right.kind) else NUMBER


def _mismatch(node: tree.Binary, left: Type, right: Type, scope: Scope) -> None:
    help = None
    if "list" in (left.kind, right.kind):
        help = "go through the list: `all(f(a) for a in xs)`, or take an element: `xs[0]`"
    elif "str" in (left.kind, right.kind):
        help = "strings can be compared and put in sets, nothing else"
    elif "value" in (left.kind, right.kind):
        help = "to calculate with a tensor's sizes write `x.shape[0]`, `x.rank`, `x.numel`"
    bad = node.left if not is_numeric(left) else node.right
    scope.error("A004", bad.span, f"`{node.op}` does not take {left.phrase} and {right.phrase}",
                label=str(left if bad is node.left else right), help=help)


def _operation(op: str, left: Type, right: Type) -> Callable[[Any, Any], Any]:
    if op == "|" or (op == "-" and {left.kind, right.kind} & {"set", "op", "opset"}):
        return _union if op == "|" else _difference

    def operation(a: Any, b: Any) -> Any:
        return calculate(op, a, b)

    return operation


def _union(left: Any, right: Any) -> Any:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left | right
    if isinstance(left, (tuple, frozenset)) and isinstance(right, (tuple, frozenset)):
        return (*left, *right)
    return Unknown("what is joined is no set")


def _difference(left: Any, right: Any) -> Any:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left - right
    if not isinstance(left, (tuple, frozenset)):
        return calculate("-", left, right)
    kept = []
    for item in left:
        verdict = is_in(item, right)
        if isinstance(verdict, Unknown):
            return verdict
        if not verdict:
            kept.append(item)
    return tuple(kept)


# --- comparisons -----------------------------------------------------------------------------------------------


@handles(tree.Compare)
def _compare(expr: tree.Compare, scope: Scope) -> Compiled:
    return _comparison(expr, scope, elementwise=False)


def compile_elementwise(expr: tree.Compare, scope: Scope) -> Compiled:
    """A comparison that is the argument of `all` or `any`: a list of verdicts where lists are compared."""
    return _comparison(expr, scope, elementwise=True)


def _comparison(expr: tree.Compare, scope: Scope, *, elementwise: bool) -> Compiled:
    operands = [expr.left, *expr.rights]
    parts = [compile_expression(operand, scope) for operand in operands]
    pairs = []
    lists = False
    for position, op in enumerate(expr.ops):
        left, right = parts[position], parts[position + 1]
        spread = elementwise and _spreads(op, left.type, right.type)
        lists = lists or spread
        if not (left.failed or right.failed):
            sides = _elements_of(op, left.type, right.type) if spread else (left.type, right.type)
            if not _check(op, sides, (operands[position], operands[position + 1]), (left, right), scope, elementwise):
                return failed(frozenset().union(*(part.names for part in parts)))
        pairs.append(_pair(op, spread))
    readers = [part.evaluate for part in parts]

    def evaluate(frame: list[Any]) -> Any:
        left = readers[0](frame)
        verdict: Any = True
        for pair, reader in zip(pairs, readers[1:], strict=True):
            right = reader(frame)
            found = pair(left, right)
            verdict = found if verdict is True else _both(verdict, found)
            if verdict is False:
                return False
            left = right
        return verdict

    closure = _single(pairs[0], readers[0], readers[1]) if len(pairs) == 1 else evaluate
    return combine(expr, scope, list_of(BOOL) if lists else BOOL, parts, closure)


def _single(pair: Callable[[Any, Any], Any], left: Any, right: Any) -> Callable[[list[Any]], Any]:
    def evaluate(frame: list[Any]) -> Any:
        return pair(left(frame), right(frame))

    return evaluate


def _both(left: Any, right: Any) -> Any:
    """`and` of two verdicts, of lists of them element by element."""
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _spread(k_and, left, right)
    return k_and(left, right)


def _spreads(op: str, left: Type, right: Type) -> bool:
    """Is this pair compared element by element inside `all(…)` and `any(…)`?"""
    if op in {"in", "not in"}:
        if right.kind == "any" or left.kind == "any":
            return left.kind in {"list", "any"} and right.kind in {"set", "range", "opset"}
        return left.kind == "list" and (right.kind == "range" or right.item.kind not in {"list", "any", "tuple"})
    return "list" in (left.kind, right.kind) or "any" in (left.kind, right.kind)


def _elements_of(op: str, left: Type, right: Type) -> tuple[Type, Type]:
    first = left.item if left.kind == "list" else left
    if op in {"in", "not in"}:
        return first, right
    return first, right.item if right.kind == "list" else right


def _pair(op: str, spread: bool) -> Callable[[Any, Any], Any]:
    if op == "in":
        whole: Callable[[Any, Any], Any] = is_in
    elif op == "not in":

        def whole(left: Any, right: Any) -> Any:
            return k_not(is_in(left, right))

    else:

        def whole(left: Any, right: Any) -> Any:
            return compare(op, left, right)

    if not spread:
        return whole

    def each(left: Any, right: Any) -> Any:
        if op in {"in", "not in"}:
            return tuple([whole(item, right) for item in left]) if isinstance(left, tuple) else whole(left, right)
        return _spread(whole, left, right)

    return each


def _spread(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return Unknown(f"lists of unequal lengths ({len(left)} and {len(right)}) are compared")
        return tuple([function(a, b) for a, b in zip(left, right, strict=True)])
    if isinstance(left, tuple):
        return tuple([function(a, right) for a in left])
    if isinstance(right, tuple):
        return tuple([function(left, b) for b in right])
    return function(left, right)


# --- what can be compared --------------------------------------------------------------------------------------

_HOLDERS = frozenset({"list", "set", "range", "opset", "op", "any", "str"})


def _check(
    op: str,
    sides: tuple[Type, Type],
    operands: tuple[tree.Expr, tree.Expr],
    parts: tuple[Compiled, Compiled],
    scope: Scope,
    elementwise: bool,
) -> bool:
    left, right = sides
    span = operands[0].span.to(operands[1].span)
    if op in {"in", "not in"}:
        return _check_in(left, right, operands, parts, scope)
    if "list" in (left.kind, right.kind) and not elementwise and not _lists_alike(op, left, right):
        whole = span.text if "\n" not in span.text else "…"
        scope.error("A004", span, f"{left.phrase} is compared with {right.phrase}", label=f"{left} and {right}",
                    help=f"write `all({whole})` or `any({whole})` to compare the elements")
        return False
    if op in {"==", "!="}:
        return _check_equal(op, left, right, span, parts, scope)
    if is_numeric(left) and is_numeric(right):
        return True
    bad = 0 if not is_numeric(left) else 1
    scope.error("A004", operands[bad].span, f"`{op}` compares numbers, this is {sides[bad].phrase}",
                label=str(sides[bad]), help=_size_hint(sides[bad]))
    return False


def _size_hint(type_: Type) -> str | None:
    return "ask for something of it, such as `.rank` or `.shape[0]`" if type_.kind == "value" else None


def _lists_alike(op: str, left: Type, right: Type) -> bool:
    others = {left.kind, right.kind}
    return op in {"==", "!="} and (others <= {"list", "any", "none"} or (others == {"list"}))


def _check_equal(
    op: str, left: Type, right: Type, span: Span, parts: tuple[Compiled, Compiled], scope: Scope
) -> bool:
    if {left.kind, right.kind} == {"op", "opset"}:
        scope.error("A004", span, "an op is compared with a set of ops", help="write `in`, or `not in`")
        return False
    if not comparable(left, right):
        verdict = "never equal" if op == "==" else "never the same"
        scope.error("A004", span, f"{left.phrase} and {right.phrase} are {verdict}", label=f"{left} and {right}",
                    help=_equal_hint(left, right))
        return False
    return _check_choice(left, parts[1], right, parts[0], span, scope)


def _equal_hint(left: Type, right: Type) -> str | None:
    kinds = {left.kind, right.kind}
    if kinds == {"dtype", "str"}:
        return "names of dtypes are written without quotes: `float32`"
    if kinds == {"op", "str"}:
        return "names of ops are written without quotes: `aten.relu.default`"
    if kinds == {"op", "dtype"} or kinds == {"value", "dtype"}:
        return "did you mean `.dtype`?" if "value" in kinds else None
    if kinds == {"value", "op"}:
        return "did you mean `.op`?"
    if "value" in kinds:
        return "ask for something of it, such as `.dtype`, `.rank` or `.shape[0]`"
    return None


def _check_choice(left: Type, right_part: Compiled, right: Type, left_part: Compiled, span: Span, scope: Scope) -> bool:
    """A word that an enumeration does not have is a slip of the pen."""
    for type_, part in ((left, right_part), (right, left_part)):
        if type_.kind == "set" and not _check_members(type_.item, part, span, scope):
            return False
        if type_.choices is not None and part.constant and isinstance(part.value, str):
            if part.value not in type_.choices:
                known = ", ".join(sorted(type_.choices))
                scope.error("A004", span, f'"{part.value}" is not one of {{{known}}}',
                            help=suggest(part.value, type_.choices))
                return False
    return True


def _check_in(
    left: Type,
    right: Type,
    operands: tuple[tree.Expr, tree.Expr],
    parts: tuple[Compiled, Compiled],
    scope: Scope,
) -> bool:
    if right.kind not in _HOLDERS or (right.kind == "str" and left.kind not in {"str", "any"}):
        help = "write the set in braces: `in {a, b}`, or a range: `in 1..4`"
        scope.error("A004", operands[1].span, f"`in` looks into a list, a set or a range, this is {right.phrase}",
                    label=str(right), help=help)
        return False
    item = right.item
    if right.kind in {"op", "opset"}:
        fine = left.kind in {"op", "any", "none"}
    elif right.kind == "range":
        fine = is_numeric(left)
    else:
        fine = right.kind in {"any", "str"} or comparable(left, item)
    if not fine:
        _report_in(left, right, operands, scope)
        return False
    members = Compiled(item, parts[1].evaluate)
    if not _check_choice(item, parts[0], ANY, members, operands[0].span, scope):
        return False
    return _check_members(left, parts[1], operands[1].span, scope)


def _report_in(left: Type, right: Type, operands: tuple[tree.Expr, tree.Expr], scope: Scope) -> None:
    inside = "ops" if right.kind in {"op", "opset"} else "numbers" if right.kind == "range" else str(right.item)
    help = None
    if right.kind in {"op", "opset"} and left.kind == "value":
        help = "did you mean `.op`?"
    elif right.item.kind == "dtype" and left.kind == "value":
        help = "did you mean `.dtype`?"
    elif {right.item.kind, left.kind} == {"dtype", "str"}:
        help = "names of dtypes are written without quotes: `{float32, int8}`"
    elif left.kind == "list":
        text = operands[0].span.to(operands[1].span).text
        help = f"write `all({text})` or `any({text})` to look for each element"
    scope.error("A004", operands[0].span, f"{left.phrase} is never in a {right} that holds {inside}"
                if right.kind not in {"list", "set"} else f"{left.phrase} is never in a {right}",
                label=str(left), help=help)


def _check_members(left: Type, container: Compiled, span: Span, scope: Scope) -> bool:
    if left.choices is None or not container.constant or not isinstance(container.value, (frozenset, tuple)):
        return True
    for member in sorted(item for item in container.value if isinstance(item, str)):
        if member not in left.choices:
            known = ", ".join(sorted(left.choices))
            scope.error("A004", span, f'"{member}" is not one of {{{known}}}',
                        help=suggest(member, left.choices))
            return False
    return True


