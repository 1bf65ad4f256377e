"""Evaluates single expressions over values of a small exported program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from attrs import frozen

from apportion.engine.compile.expressions import compile_expression
from apportion.engine.compile.scope import Environment, Scope
from apportion.engine.compile.types import ANY, VALUE, Type, list_of, type_of_literal, value_of
from apportion.engine.facts import GraphFacts, ProgramFacts, Value
from apportion.engine.load import load_rules
from apportion.grammar.diagnostics import Diagnostic
from apportion.grammar.parse import parse_expression

__all__ = ["Result", "evaluate", "graph", "node", "open_node"]

load_rules  # noqa: B018 - importing it registers the compilers of all expressions


class Model(torch.nn.Module):
    """A convolution, a relu of it, top values of that, and a product with a size that is symbolic."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(8, 4, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`rows` has a first dim that varies."""
        y = torch.relu(self.convolution(x))
        top = torch.topk(y.flatten(1), 3)
        return top[0], top[1], torch.cat([rows, rows], 1) * 2.5


@cache
def graph() -> GraphFacts:
    """The graph of `Model`, with rows of 2 to 64."""
    dynamic = {"x": None, "rows": {0: torch.export.Dim("n", min=2, max=64)}}
    inputs = (torch.randn(2, 8, 16, 16), torch.randn(4, 6))
    program = torch.export.export(Model(), inputs, dynamic_shapes=dynamic).run_decompositions()
    return ProgramFacts.of(program).main


def node(op: str) -> Value:
    """The first node of an op, by a part of its name."""
    return next(value for value in graph().calls if value.op is not None and op in value.op.name)


@frozen
class Result:
    """What an expression came to, its type, and what was wrong with it."""

    value: Any
    type: Type
    diagnostics: tuple[Diagnostic, ...]


@frozen
class Open:
    """A value whose op the checker shall not know."""

    value: Value


def open_node(op: str) -> Open:
    """`node(op)` as a pattern binds it that leaves the op open."""
    return Open(node(op))


def evaluate(text: str, /, **names: Any) -> Result:
    """Compile and run `text` with these names bound to values."""
    expression, problems = parse_expression(text)
    assert expression is not None, "\n".join(map(str, problems))
    scope = Scope(Environment()).rule_scope()
    values: dict[int, Any] = {}
    for name, value in names.items():
        plain = value.value if isinstance(value, Open) else value
        values[scope.declare(name, _type_of(value), expression.span)] = plain
    compiled = compile_expression(expression, scope)
    frame: list[Any] = [None] * scope.frame_size
    for slot, plain in values.items():
        frame[slot] = plain
    found = compiled.evaluate(frame)
    return Result(found, compiled.type, tuple(scope.diagnostics))


def _type_of(value: Any) -> Type:
    if isinstance(value, Open):
        return VALUE
    if isinstance(value, Value):
        return value_of(None if value.op is None else {value.op.name}, element=value.element is not None)
    if isinstance(value, tuple):
        return list_of(_type_of(value[0]) if value else ANY)
    if isinstance(value, Mapping):
        return ANY
    return type_of_literal(value)
