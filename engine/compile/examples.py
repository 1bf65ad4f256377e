"""The examples of a rule: that what they name is there. Running them is another module's work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.engine.compile.core import compile_expression, suggest
from apportion.engine.compile.dtypes import ALIASES, DTYPES
from apportion.engine.compile.options import describe, option_value
from apportion.engine.compile.rulesets import CompiledOption
from apportion.engine.compile.scope import Scope
from apportion.engine.errors import OptionError
from apportion.engine.ops import Op
from apportion.grammar import tree

__all__ = ["check_example"]


def check_example(
    example: tree.Example, options: Mapping[str, CompiledOption], scope: Scope
) -> Mapping[str, Any]:
    """Check ops, arguments, dtypes, names of steps and options of an example; its options by name."""
    names: set[str] = set()  # of earlier steps, and of symbolic dims
    for step in example.steps:
        _check_call(step.call, names, scope)
        if step.name is not None:
            if step.name in names:
                scope.error("A009", step.span, f"`{step.name}` is made twice in this example")
            names.add(step.name)
    return _options(example, options, scope)


def _options(example: tree.Example, options: Mapping[str, CompiledOption], scope: Scope) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in example.options:
        option = options.get(name)
        if option is None:
            scope.error("A005", value.span, f"there is no option `{name}`", help=suggest(name, options))
            continue
        compiled = compile_expression(value, scope)
        if compiled.failed:
            continue
        try:
            found[name] = option_value(option, compiled.value if compiled.option_only else object())
        except OptionError:
            scope.error("A004", value.span, f"option `{name}` is {describe(option.type)}",
                        label=f"this is {compiled.type.phrase}")
    return found


def _check_call(call: tree.ExampleCall, names: set[str], scope: Scope) -> None:
    ops = scope.resolve_ops(call.callee)
    op = _the_op(call, ops, scope)
    given: set[str] = set()
    position = 0
    for name, argument in call.arguments:
        _check_argument(argument, names, scope)
        if op is None or not op.arguments:
            continue
        if name is None:
            name = _positional(call, op, position, argument, scope)
            position += 1
        elif op.argument(name) is None:
            known = [a.name for a in op.arguments]
            scope.error("A003", argument.span, f"`{op.name}` has no argument `{name}`", help=suggest(name, known))
        if name is not None and name in given:
            scope.error("A003", argument.span, f"argument `{name}` of `{op.name}` is given twice")
        given.add(name or "")


def _the_op(call: tree.ExampleCall, ops: frozenset[str], scope: Scope) -> Op | None:
    """The one op that an example calls: the name itself, of which the set may also hold the copying twin."""
    text = "".join(call.callee.span.text.split())
    if text in ops:
        return scope.schema_of(text)
    if ops:
        scope.error("A002", call.callee.span, "an example calls one op, this stands for several",
                    help="write one of " + ", ".join(f"`{name}`" for name in sorted(ops)[:5]))
    return None


def _positional(
    call: tree.ExampleCall, op: Op, position: int, argument: tree.ExampleArgument, scope: Scope
) -> str | None:
    plain = [a.name for a in op.arguments if not a.kwarg_only]
    if position < len(plain):
        return plain[position]
    if op.style == "aten":
        many = "argument" if len(plain) == 1 else "arguments"
        scope.error("A003", argument.span, f"`{op.name}` takes {len(plain)} positional {many}",
                    help="its arguments are " + ", ".join(a.name for a in op.arguments))
    return None


def _check_dtype(argument: tree.ExampleTensor, names: set[str], scope: Scope) -> None:
    name = argument.dtype
    if name in DTYPES or (argument.shape is None and name in names):
        return
    help = f"write `{ALIASES[name]}`" if name in ALIASES else suggest(name, [*DTYPES, *names])
    what = f"there is no dtype `{name}`"
    if argument.shape is None:
        what = f"`{name}` is neither an earlier step or symbolic dim of this example nor a dtype"
    scope.error("A005", argument.span, what, help=help)


def _check_argument(argument: tree.ExampleArgument, names: set[str], scope: Scope) -> None:
    if isinstance(argument, tree.ExampleTensor):
        names.update(size for size in argument.shape or () if isinstance(size, str))  # arguments from here on
        _check_dtype(argument, names, scope)
    elif isinstance(argument, tree.ExampleList):
        for item in argument.items:
            _check_argument(item, names, scope)
    elif isinstance(argument, tree.ExampleCall):
        _check_call(argument, names, scope)
    elif isinstance(argument, tree.Index):
        _check_argument(argument.value, names, scope)  # type: ignore[arg-type]
    elif isinstance(argument, tree.Name) and argument.id not in names and argument.id not in DTYPES:
        scope.error("A005", argument.span, f"no earlier step of this example makes `{argument.id}`",
                    help=suggest(argument.id, [*names, *DTYPES]))
