"""A condition that failed, taken apart: which pieces of it decide, and what would have to be seen there instead.

A condition is read as a tree of `and`, `or`, `not`, `implies`, `all` and `any` over comparisons. Every piece is
evaluated by the engine itself, in the bindings that the condition was evaluated in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from apportion.engine.compile.core import compile_expression
from apportion.engine.compile.forms import compile_listing
from apportion.engine.compile.requirements import guarded, text_of
from apportion.engine.compile.rulesets import Cutoff, Requirement
from apportion.engine.compile.scope import Scope
from apportion.engine.explain.ranges import proof_of
from apportion.engine.reasons import show
from apportion.engine.values import Dim, Unknown, is_unknown
from apportion.grammar import tree

__all__ = ["remedies"]

_MOST = 4
"""How many elements of a list are named one by one."""

_NEGATED: Mapping[str, str] = {
    "==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "in": "not in", "not in": "in",
}  # fmt: skip


@frozen(eq=False)
class _Place:
    """Where a piece of a condition is evaluated: the bindings, and inside a comprehension which element."""

    scope: Scope
    frame: list[Any]
    loop: tree.Comprehension | None = None
    index: int = 0
    names: Mapping[str, str] = field(factory=dict)

    def value(self, expr: tree.Expr) -> Any:
        """What the engine gives for a piece; unknown where it has no meaning of its own."""
        scope = self.scope.muted()
        if self.loop is None:
            compiled = compile_expression(expr, scope)
            if compiled.failed:
                return Unknown("it has no value of its own")
            return guarded(compiled.evaluate)(self._room(scope))
        found = self.values(evolve(self.loop, element=expr))
        return found[self.index] if self.index < len(found) else Unknown("it has no value of its own")

    def values(self, loop: tree.Comprehension) -> tuple[Any, ...]:
        """The element of a comprehension, for everything that it runs over."""
        scope = self.scope.muted()
        compiled = compile_listing(loop, scope)
        found = () if compiled is None else guarded(compiled.evaluate)(self._room(scope))
        return found if isinstance(found, tuple) else ()

    def is_fixed(self, expr: tree.Expr) -> bool:
        """Is it known when the file is loaded, whatever the program is?"""
        if self.loop is not None and any(name in text_of(expr) for name in self.names):
            return False
        compiled = compile_expression(expr, self.scope.muted())
        return not compiled.failed and compiled.option_only

    def _room(self, scope: Scope) -> list[Any]:
        return [*self.frame, *[None] * max(0, scope.frame.size - len(self.frame))]


def remedies(failed: Requirement | Cutoff, frame: list[Any], target: bool = True) -> tuple[str, ...]:
    """What would make a condition come out as `target`: each piece that stands in the way, with what would do.

    Several entries are needed together. Empty where the condition cannot be taken apart.
    """
    if failed.expr is None or failed.scope is None:
        return ()
    place = _Place(failed.scope, frame)
    return tuple(dict.fromkeys(_wanted(failed.expr, place, target)))


def _wanted(expr: tree.Expr, place: _Place, target: bool) -> Iterator[str]:
    handler = _HANDLERS.get(type(expr))
    if handler is None:
        yield f"{_text(expr, place)} is {str(target).lower()}"
    else:
        yield from handler(expr, place, target)


def _bool_op(expr: tree.BoolOp, place: _Place, target: bool) -> Iterator[str]:
    if expr.op == "implies":
        premise, conclusion = expr.operands
        yield from _join([(premise, not target), (conclusion, target)], place, together=not target)
        return
    together = (expr.op == "and") is target
    yield from _join([(operand, target) for operand in expr.operands], place, together)


def _join(parts: list[tuple[tree.Expr, bool]], place: _Place, together: bool) -> Iterator[str]:
    """Wishes that are all needed, or of which one is enough."""
    if together:
        for expr, target in parts:
            if place.value(expr) is not target:
                yield from _wanted(expr, place, target)
        return
    ways = [" and ".join(_wanted(expr, place, target)) for expr, target in parts]
    yield " or ".join(dict.fromkeys(way for way in ways if way))


def _unary(expr: tree.Unary, place: _Place, target: bool) -> Iterator[str]:
    yield from _wanted(expr.operand, place, not target)


def _conditional(expr: tree.Conditional, place: _Place, target: bool) -> Iterator[str]:
    verdict = place.value(expr.condition)
    if is_unknown(verdict):
        yield f"`{_text(expr.condition, place)}` is known ({verdict.reason})"
        return
    yield from _wanted(expr.then if verdict is True else expr.otherwise, place, target)


def _is_kind(expr: tree.IsKind, place: _Place, target: bool) -> Iterator[str]:
    negation = "not " if expr.negated is target else ""
    yield f"{_text(expr.value, place)} is {negation}{expr.kind}"


def _compare(expr: tree.Compare, place: _Place, target: bool) -> Iterator[str]:
    operands = (expr.left, *expr.rights)
    pairs = list(zip(operands, expr.ops, operands[1:], strict=False))
    if len(pairs) == 1:
        yield _pair(*pairs[0], place, target)
        return
    if not target:
        yield " or ".join(_pair(left, op, right, place, False) for left, op, right in pairs)
        return
    for left, op, right in pairs:
        one = tree.Compare(left=left, ops=(op,), rights=(right,), span=expr.span)
        if place.value(one) is not True:
            yield _pair(left, op, right, place, True)


def _pair(left: tree.Expr, op: str, right: tree.Expr, place: _Place, target: bool) -> str:
    wanted = op if target else _NEGATED[op]
    value = place.value(left)
    if isinstance(right, tree.RangeExpr):
        low, high = place.value(right.low), place.value(right.high)
        text = f"{_text(left, place)} {wanted} {show(low)}..{show(high)}"
        proof = proof_of(value, ">=", low) or proof_of(value, "<=", high) if wanted == "in" else None
        return f"{text} ({proof})" if proof else text
    other = place.value(right)
    text = f"{_operand(left, value, place)} {wanted} {_operand(right, other, place)}"
    proof = proof_of(value, wanted, other) if isinstance(value, Dim) or isinstance(other, Dim) else None
    if proof is None and isinstance(value, (tuple, frozenset)) and isinstance(other, tuple) and wanted == "==":
        proof = next((p for a, b in zip(value, other, strict=False) if (p := proof_of(a, "==", b))), None)
    if proof is None and is_unknown(value) and value.reason:
        proof = f"{_text(left, place)} is not known: {value.reason}"
    return f"{text} ({proof})" if proof else text


def _operand(expr: tree.Expr, value: Any, place: _Place) -> str:
    """A side of a comparison: its value where the file fixes it, else what is written, with the value beside it."""
    text = _text(expr, place)
    if isinstance(expr, tree.Literal) or is_unknown(value):
        return text
    if place.is_fixed(expr):
        return show(value)
    shown = show(value)
    return text if shown == text else f"{text} [{shown}]"


def _call(expr: tree.Call, place: _Place, target: bool) -> Iterator[str]:
    if expr.function == "possible" and not isinstance(expr.arguments[0], tree.Comprehension):
        yield from _wanted(expr.arguments[0], place, target)
        return
    argument = expr.arguments[0] if expr.arguments else None
    if expr.function in ("all", "any") and isinstance(argument, tree.Comprehension) and place.loop is None:
        yield from _quantifier(expr, argument, place, target)
        return
    yield f"{_text(expr, place)} is {str(target).lower()}"


def _quantifier(expr: tree.Call, loop: tree.Comprehension, place: _Place, target: bool) -> Iterator[str]:
    verdicts = place.values(loop)
    each = (expr.function == "all") is target
    failing = [k for k, verdict in enumerate(verdicts) if verdict is not target]
    if not each and not verdicts:
        yield f"{_text(expr, place)} is {str(target).lower()} (there is nothing to look at)"
        return
    ways: list[str] = []
    for k in failing[:_MOST]:
        names = {name: _bound(name, loop, place, k) for clause in loop.clauses for name in clause.targets}
        inner = evolve(place, loop=loop, index=k, names=names)
        ways.append(" and ".join(_wanted(loop.element, inner, target)))
    more = f" and so for {len(failing) - _MOST} more" if len(failing) > _MOST else ""
    if each:
        yield from ways[:-1]
        if ways:
            yield ways[-1] + more
    else:
        yield " or ".join(dict.fromkeys(ways)) + more


def _bound(name: str, loop: tree.Comprehension, place: _Place, k: int) -> str:
    """What a name of a comprehension stands for at one element."""
    found = place.values(evolve(loop, element=tree.Name(id=name, span=loop.span)))
    return show(found[k]) if k < len(found) else name


def _text(expr: tree.Expr, place: _Place) -> str:
    """What is written there; inside a comprehension, with the element it means."""
    text = text_of(expr)
    named = [f"{name} = {value}" for name, value in place.names.items() if _mentions(text, name)]
    return f"{text} ({', '.join(named)})" if named else text


def _mentions(text: str, name: str) -> bool:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    return name in words


_HANDLERS: Mapping[type, Callable[[Any, _Place, bool], Iterator[str]]] = {
    tree.BoolOp: _bool_op,
    tree.Unary: _unary,
    tree.Conditional: _conditional,
    tree.IsKind: _is_kind,
    tree.Compare: _compare,
    tree.Call: _call,
}
