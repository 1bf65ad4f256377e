"""Sets of ops: which concrete op names an expression over op names stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import product
from typing import Any, Protocol

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.ops import Op, UnknownOp, resolve_op
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span, nearest

__all__ = ["dotted_name", "is_op_name", "resolve_ops", "resolve_name"]


_LISTED = 5
_ALIKE = 0.8


class Names(Protocol):
    """What is needed of a scope."""

    @property
    def declared(self) -> Mapping[str, Op]: ...

    def lookup(self, name: str) -> Any: ...

    def names(self) -> set[str]: ...

    def error(self, code: str, span: Span, message: str, *, label: str = "", help: str | None = None) -> None: ...


def dotted_name(expr: tree.Expr) -> str | None:
    """`aten.relu.default` as text if `expr` is a name with attributes and nothing else."""
    parts: list[str] = []
    while isinstance(expr, tree.Attribute):
        parts.append(expr.name)
        expr = expr.value
    if not isinstance(expr, tree.Name) or not parts:
        return None
    return ".".join([expr.id, *reversed(parts)])


def is_op_name(expr: tree.Expr, names: Names) -> bool:
    """Is it a dotted name whose first part means nothing else here?"""
    dotted = dotted_name(expr)
    root = "" if dotted is None else dotted.split(".", 1)[0]
    return dotted is not None and root not in DTYPES and names.lookup(root) is None


def resolve_ops(expr: tree.Expr, names: Names) -> frozenset[str]:
    """The names of the ops that `expr` stands for; what is wrong with it is reported, and left out."""
    if isinstance(expr, tree.SetExpr):
        return frozenset().union(*(resolve_ops(item, names) for item in expr.items))
    if isinstance(expr, tree.OpExpansion):
        return frozenset().union(*(resolve_name(name, expr.span, names) for name in expansions(expr)))
    if isinstance(expr, tree.Binary) and expr.op in {"|", "-"}:
        return _chain(expr, names)
    if isinstance(expr, tree.Name):
        return _named_set(expr, names)
    dotted = dotted_name(expr)
    if dotted is not None:
        return resolve_name(dotted, expr.span, names)
    names.error("A004", expr.span, "this is no set of ops", label="neither an op's name nor a set of them")
    return frozenset()


def _chain(expr: tree.Expr, names: Names) -> frozenset[str]:
    rights: list[tuple[str, tree.Expr]] = []
    while isinstance(expr, tree.Binary) and expr.op in {"|", "-"}:
        rights.append((expr.op, expr.right))
        expr = expr.left
    found = resolve_ops(expr, names)
    for op, right in reversed(rights):
        other = resolve_ops(right, names)
        found = found | other if op == "|" else found - other
    return found


def _named_set(expr: tree.Name, names: Names) -> frozenset[str]:
    entry = names.lookup(expr.id)
    if entry is not None and entry.kind == "ops":
        return entry.compiled.value if entry.compiled is not None else frozenset()
    if entry is None:
        names.error("A005", expr.span, f"there is no op set `{expr.id}`", help=did_you_mean(_near_ops(expr.id, names)))
    else:
        names.error("A004", expr.span, f"`{expr.id}` is no set of ops", label=f"it is a {entry.kind}")
    return frozenset()


def expansions(expr: tree.OpExpansion) -> Iterator[str]:
    """Every op name that the braces of `expr` stand for, in order."""
    return (".".join(parts) for parts in product(*expr.segments))


def resolve_name(name: str, span: Span, names: Names) -> frozenset[str]:
    """The concrete names that one op name stands for; an unknown one is an A002."""
    try:
        return resolve_op(name, names.declared)
    except UnknownOp as error:
        label = error.hint or "neither registered nor declared"
        names.error("A002", span, f"there is no op `{name}`", label=label, help=did_you_mean(error.nearest))
        return frozenset()


def _near_ops(name: str, names: Names) -> list[str]:
    near = nearest(name, names.names())
    try:
        resolve_op(name, names.declared)
    except UnknownOp as error:
        near += [op for op in error.nearest if SequenceMatcher(None, name, op.split(".")[1]).ratio() > _ALIKE]
    return near[:_LISTED]


def did_you_mean(near: Sequence[str]) -> str | None:
    """The hint that lists near names, or None if there are none."""
    if not near:
        return None
    names = [f"`{name}`" for name in near]
    more = f" ({len(names) - _LISTED} more)" if len(names) > _LISTED else ""
    return "did you mean " + " or ".join(names[:_LISTED]) + "?" + more
