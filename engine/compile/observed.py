"""The values that decide a condition: what a report shows beside a requirement that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve

from apportion.engine.compile.core import compile_expression
from apportion.engine.compile.forms import compile_listing
from apportion.engine.compile.scope import Compiled, Evaluate, Scope
from apportion.grammar import tree

__all__ = ["observe"]

_MOST = 12

Leaf = tuple[tree.Expr, "tree.Comprehension | None"]


def observe(condition: tree.Expr, scope: Scope) -> tuple[tuple[str, Evaluate], ...]:
    """(text, closure) of each value that `condition` looks at, in the order of the text, each once.

    Inside a comprehension the closure gives the values for all elements: `i.dtype for i in n.inputs`.
    """
    found: dict[str, Evaluate] = {}
    for expr, loop in _leaves(condition, None):
        text = _text(expr) if loop is None else _loop_text(expr, loop)
        if text in found or len(found) == _MOST:
            continue
        compiled = _compiled(expr, loop, scope.muted())
        if compiled is not None and not compiled.failed and not compiled.option_only:
            found[text] = compiled.evaluate
    return tuple(found.items())


def _compiled(expr: tree.Expr, loop: tree.Comprehension | None, scope: Scope) -> Compiled | None:
    if loop is None:
        return compile_expression(expr, scope)
    return compile_listing(evolve(loop, element=expr, condition=None), scope)


def _text(node: tree.Node) -> str:
    return " ".join(node.span.text.split())


def _loop_text(expr: tree.Expr, loop: tree.Comprehension) -> str:
    clauses = (f"for {', '.join(clause.targets)} in {_text(clause.iterable)}" for clause in loop.clauses)
    return f"{_text(expr)} {' '.join(clauses)}"


def _leaves(expr: tree.Expr, loop: tree.Comprehension | None) -> Iterator[Leaf]:
    inner = _INNER.get(type(expr))
    if inner is not None:
        for part in inner(expr):
            yield from _leaves(part, loop)
    elif isinstance(expr, tree.Call) and expr.function in {"all", "any", "possible"}:
        yield from _quantified(expr, loop)
    elif isinstance(expr, (tree.Name, tree.Attribute, tree.Index, tree.Slice, tree.Call)):
        names = set() if loop is None else {name for clause in loop.clauses for name in clause.targets}
        yield expr, loop if loop is not None and _mentions(expr, names) else None


def _quantified(expr: tree.Call, loop: tree.Comprehension | None) -> Iterator[Leaf]:
    for argument in expr.arguments:
        if isinstance(argument, tree.Comprehension):
            merged = argument if loop is None else evolve(argument, clauses=(*loop.clauses, *argument.clauses))
            for clause in argument.clauses:
                if not isinstance(clause.iterable, (tree.Name, tree.Attribute, tree.Call)):
                    yield from _leaves(clause.iterable, loop)
            yield from _leaves(argument.element, merged)
            if argument.condition is not None:
                yield from _leaves(argument.condition, merged)
        else:
            yield from _leaves(argument, loop)


def _mentions(expr: Any, names: set[str]) -> bool:
    if isinstance(expr, tree.Name):
        return expr.id in names
    if isinstance(expr, tree.Call):
        return any(_mentions(argument, names) for argument in expr.arguments)
    if isinstance(expr, tree.Comprehension):
        parts: list[Any] = [expr.element, expr.condition, *(clause.iterable for clause in expr.clauses)]
        return any(_mentions(part, names) for part in parts)
    if isinstance(expr, (tree.Attribute, tree.Index, tree.Slice)):
        others = [getattr(expr, name, None) for name in ("index", "low", "high", "step")]
        return any(_mentions(part, names) for part in (expr.value, *others))
    inner = _INNER.get(type(expr))
    return inner is not None and any(_mentions(part, names) for part in inner(expr))


def _binary(expr: tree.Binary) -> list[tree.Expr]:
    found: list[tree.Expr] = []
    current: tree.Expr = expr
    while isinstance(current, tree.Binary):
        found.append(current.right)
        current = current.left
    return [current, *reversed(found)]


_INNER: Mapping[type, Callable[[Any], Any]] = {
    tree.BoolOp: lambda expr: expr.operands,
    tree.Unary: lambda expr: (expr.operand,),
    tree.Binary: _binary,
    tree.Compare: lambda expr: (expr.left, *expr.rights),
    tree.IsKind: lambda expr: (expr.value,),
    tree.Conditional: lambda expr: (expr.condition, expr.then, expr.otherwise),
    tree.RangeExpr: lambda expr: (expr.low, expr.high),
    tree.ListExpr: lambda expr: expr.items,
    tree.SetExpr: lambda expr: expr.items,
}
