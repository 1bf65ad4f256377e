"""The way from an expression to a closure: one handler for each kind of expression, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from apportion.engine.compile.opsets import did_you_mean
from apportion.engine.compile.scope import Compiled, Evaluate, Scope
from apportion.engine.compile.types import ANY, BOOL, Type, fits
from apportion.engine.values import UNKNOWN, Unknown
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span, nearest

__all__ = [
    "MAX_LENGTH",
    "TOO_LARGE",
    "combine",
    "compile_expression",
    "constant",
    "expect",
    "failed",
    "handles",
    "suggest",
]

MAX_HEIGHT = 120
"""How deeply expressions may nest, functions and lets included."""

MAX_WEIGHT = 100_000
"""How many steps an expression may have, functions written out at every call."""

MAX_LENGTH = 65_536
"""How long a list may get that an expression makes."""

TOO_LARGE = Unknown("too large to compute")

Handler = Callable[[Any, Scope], Compiled]
HandlerT = TypeVar("HandlerT", bound=Handler)

_HANDLERS: dict[type, Handler] = {}


def handles(node: type) -> Callable[[HandlerT], HandlerT]:
    """Register the compiler of one class of expressions."""

    def register(handler: HandlerT) -> HandlerT:
        _HANDLERS[node] = handler
        return handler

    return register


def compile_expression(expr: tree.Expr | tree.Comprehension, scope: Scope, expected: Type | None = None) -> Compiled:
    """Check `expr` and make it executable; what is wrong goes to `scope.diagnostics`, the result is then `failed`."""
    environment = scope.environment
    environment.depth += 1
    try:
        if environment.depth > MAX_HEIGHT:
            scope.error("A011", expr.span, "this expression is nested too deeply", help="name parts of it with `let`")
            return failed()
        compiled = _HANDLERS[type(expr)](expr, scope)
    finally:
        environment.depth -= 1
    if expected is not None:
        return expect(compiled, expected, expr.span, scope)
    return compiled


def expect(compiled: Compiled, expected: Type, span: Span, scope: Scope) -> Compiled:
    """`compiled` if an `expected` can be made of it, else an A004 there."""
    if fits(compiled.type, expected):
        return compiled
    hint = None
    if expected == BOOL and compiled.type.kind == "list" and compiled.type.item.kind == "bool":
        hint = "say whether `all(…)` or `any(…)` of it is meant"
    elif expected == BOOL and compiled.type.kind == "value":
        hint = "ask something of it: `x is not none`, `present(x)`, `x.rank == 4`"
    scope.error("A004", span, f"{expected.phrase} is needed here, this is {compiled.type.phrase}",
                label=str(compiled.type), help=hint)
    return failed()


def failed(names: Iterable[str] = ()) -> Compiled:
    """What stands for an expression that has an error: fits everywhere, so that one mistake gives one message."""
    return Compiled(ANY, _unknown, frozenset(names), pure=False, failed=True)


def _unknown(_: list[Any]) -> Any:
    return UNKNOWN


def constant(type: Type, value: Any, *, by_option: bool = False, height: int = 1) -> Compiled:
    """An expression whose value is known."""

    def evaluate(_: list[Any]) -> Any:
        return value

    return Compiled(type, evaluate, by_option=by_option, value=value, height=height)


def combine(
    expr: tree.Node,
    scope: Scope,
    type: Type,
    parts: Sequence[Compiled],
    evaluate: Evaluate,
    *,
    bound: Iterable[str] = (),
    pure: bool = True,
    names: Iterable[str] = (),
) -> Compiled:
    """An expression made of `parts`; `bound` names are its own. It is evaluated at once where all of it is known."""
    free = frozenset(names).union(*(part.names for part in parts)) - frozenset(bound)
    weight = 1 + sum(part.weight for part in parts)
    height = 1 + max((part.height for part in parts), default=0)
    if weight > MAX_WEIGHT or height > MAX_HEIGHT:
        what = "has too many steps" if weight > MAX_WEIGHT else "is nested too deeply"
        scope.error("A011", expr.span, f"this expression {what}", help="functions count at every place that calls them")
        return failed(free)
    if any(part.failed for part in parts):
        return failed(free)
    pure = pure and all(part.pure for part in parts)
    by_option = any(part.by_option for part in parts)
    if pure and not free:
        value = _at_load(evaluate, scope)
        if value is TOO_LARGE:
            scope.error("A011", expr.span, "this is too large to compute")
            return failed()
        return constant(type, value, by_option=by_option)
    return Compiled(type, evaluate, free, pure, by_option, None, weight, height)


def _at_load(evaluate: Evaluate, scope: Scope) -> Any:
    try:
        return evaluate([None] * scope.frame.size)
    except Exception as error:  # what a table's function cannot do with odd literals is unknown, as it is at run time
        return Unknown(f"it cannot be computed: {type(error).__name__}: {error}")


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """`did you mean …?` with the nearest candidates, or None."""
    return did_you_mean(nearest(name, candidates))
