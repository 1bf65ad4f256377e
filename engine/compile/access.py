"""What stands after a dot or in brackets: attributes, arguments of calls, marks, elements and slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from apportion.engine.attributes import ATTRIBUTES, GROUPS, Reach, attributes_of, read_argument
from apportion.engine.compile.core import combine, compile_expression, constant, failed, handles, suggest
from apportion.engine.compile.opsets import is_op_name, resolve_ops
from apportion.engine.compile.options import conforms, type_of
from apportion.engine.compile.runtime import number
from apportion.engine.compile.scope import FAR_SLOT, NEAR_SLOT, Compiled, Scope
from apportion.engine.compile.types import (
    ANY,
    INT,
    OP,
    Type,
    is_numeric,
    join_all,
    type_of_argument,
    value_of,
)
from apportion.engine.facts import Value
from apportion.engine.ops import Op, UnknownOp, schema_of
from apportion.engine.ops.op import BY_NAME
from apportion.engine.values import Unknown
from apportion.grammar import tree

__all__ = ["argument_type", "ops_behind"]


@handles(tree.Attribute)
def _attribute(expr: tree.Attribute, scope: Scope) -> Compiled:
    if is_op_name(expr, scope) and not _is_reserved_root(expr):
        return _op_literal(expr, scope)
    if isinstance(expr.value, tree.Attribute) and expr.value.name in GROUPS:
        return _grouped(expr, expr.value, scope)
    thing = compile_expression(expr.value, scope)
    if thing.failed:
        return failed(thing.names)
    kind = "any" if thing.type.kind == "none" and expr.name != "op" else thing.type.kind
    if expr.name in GROUPS and kind in {"value", "any"}:
        scope.error("A005", expr.span, f"`{expr.name}` needs a further name", help=f"`.{expr.name}.NAME` reads "
                    + GROUPS[expr.name])
        return failed(thing.names)
    if kind == "any":
        return _attribute_of_any(expr, thing, scope)
    row = ATTRIBUTES.get(("value" if expr.name == "op" and kind in _LITERALS else kind, expr.name))
    if row is None and kind == "value":
        return _argument(expr, thing, scope)
    if row is None:
        return _no_attribute(expr, thing, scope)
    if row.tensor and not _check_single(expr, thing, scope):
        return failed(thing.names)
    if expr.name == "subgraphs":
        scope.frame.speaks_of_subgraphs = True
    return _reader(expr, thing, row.type, row.read, scope, row.reach)


_LITERALS = frozenset({"int", "float", "number", "bool", "str", "none"})
"""What may stand in a pattern instead of a node; its `.op` is none."""


def _reader(
    expr: tree.Node, thing: Compiled, type_: Type, read: Callable[[Any], Any], scope: Scope, reach: Reach
) -> Compiled:
    inner = thing.evaluate

    def evaluate(frame: list[Any]) -> Any:
        return read(inner(frame))

    def evaluate_beyond(frame: list[Any]) -> Any:
        value = inner(frame)
        if reach is Reach.GRAPH or not _is_near(value, frame[NEAR_SLOT]):
            frame[FAR_SLOT] = True
        return read(value)

    return combine(expr, scope, type_, [thing], evaluate if reach is Reach.VALUE else evaluate_beyond)


def _is_near(value: Any, near: Sequence[Value] | None) -> bool:
    return near is not None and type(value) is Value and value.node in near


def _is_reserved_root(expr: tree.Expr) -> bool:
    """`nodes.x` is no op."""
    from apportion.engine.compile.scope import PARTITION_NAMES

    while isinstance(expr, tree.Attribute):
        expr = expr.value
    return isinstance(expr, tree.Name) and expr.id in PARTITION_NAMES


def _op_literal(expr: tree.Attribute, scope: Scope) -> Compiled:
    if _root_is_a_slip(expr, scope):
        return failed()
    names = resolve_ops(expr, scope)
    return constant(OP, names) if names else failed()


def _root_is_a_slip(expr: tree.Attribute, scope: Scope) -> bool:
    """`xx.dtype` where `xx` is nothing: an unknown name, not an unknown op, unless it reads like one."""
    if not isinstance(expr.value, tree.Name):
        return False
    root = expr.value.id
    known = ("value", expr.name) in ATTRIBUTES or expr.name in GROUPS
    if root in _namespaces() or any(name.startswith(root + ".") for name in scope.declared) or not known:
        return False
    scope.error("A005", expr.value.span, f"there is nothing called `{root}` here", help=suggest(root, scope.names()))
    return True


def _namespaces() -> frozenset[str]:
    return frozenset({"higher_order", "Tensor", "nn", "torch", "operator", "aten", "prims"})


# --- values ----------------------------------------------------------------------------------------------------


def ops_behind(type_: Type, scope: Scope) -> list[Op] | None:
    """The ops that can have made a value, by their schemas; None where that is open."""
    if type_.ops is None:
        return None
    found = []
    for name in sorted(type_.ops):
        try:
            found.append(schema_of(name, scope.declared))
        except UnknownOp:
            return None
    return found


def _check_single(expr: tree.Attribute, thing: Compiled, scope: Scope) -> bool:
    ops = ops_behind(thing.type, scope)
    if thing.type.element or not ops or not all(op.is_multi_output for op in ops):
        return True
    what = expr.value.span.text
    scope.error("A004", expr.span, f"`{ops[0].name}` has several outputs, `{what}.{expr.name}` is of none of them",
                help=f"write `{what}[0].{expr.name}`")
    return False


def _argument(expr: tree.Attribute, thing: Compiled, scope: Scope) -> Compiled:
    name = expr.name
    found = argument_type(thing.type, name, scope)
    if found is None:
        ops = ops_behind(thing.type, scope)
        known = [*attributes_of("value"), *sorted(_argument_names(ops) if ops else all_argument_names())]
        if ops:
            what = f"`{ops[0].name}` has" if len(ops) == 1 else "these ops have"
            scope.error("A003", expr.span, f"{what} no argument and values have no attribute `{name}`",
                        help=suggest(name, known))
        else:
            scope.error("A005", expr.span, f"values have no attribute, and no op has an argument `{name}`",
                        help=suggest(name, known))
        return failed(thing.names)

    def read(value: Any) -> Any:
        return read_argument(value, name)

    return _reader(expr, thing, found, read, scope, Reach.CALL)


def argument_type(type_: Type, name: str, scope: Scope) -> Type | None:
    """The type of the argument `name` of the call that makes a value of `type_`; None if no such op has it."""
    ops = ops_behind(type_, scope)
    if ops is None:
        return ANY if _is_argument(name, scope) else None
    found = [argument for op in ops if (argument := op.argument(name)) is not None]
    if not found:
        return ANY if any(op.style != "aten" for op in ops) and not all(op.arguments for op in ops) else None
    return join_all(type_of_argument(argument.type) for argument in found)


def _argument_names(ops: list[Op]) -> set[str]:
    return {argument.name for op in ops for argument in op.arguments}


def _is_argument(name: str, scope: Scope) -> bool:
    """Whether any op has an argument of this name. Those met before are asked first: to list all takes long."""
    met = (op for op in list(BY_NAME.values()) if op.style == "aten")
    return any(op.argument(name) is not None for op in (*scope.declared.values(), *met)) or name in all_argument_names()


@cache
def all_argument_names() -> frozenset[str]:
    """The names of all arguments of all registered ops: what can be read of a value whose op is open."""
    schemas = torch._C._jit_get_all_schemas()
    names = {argument.name for schema in schemas for argument in schema.arguments}
    return frozenset(names | {"pred", "true_fn", "false_fn", "operands", "cond_fn", "body_fn", "carried_inputs",
                              "additional_inputs", "combine_fn", "init", "xs", "f", "pos_args", "subgraph"})


# --- args and meta ---------------------------------------------------------------------------------------------


def _grouped(expr: tree.Attribute, group: tree.Attribute, scope: Scope) -> Compiled:
    thing = compile_expression(group.value, scope)
    if thing.failed:
        return failed(thing.names)
    if thing.type.kind not in {"value", "any"}:
        return _no_attribute(group, thing, scope)
    if group.name == "meta":
        return _mark(expr, thing, scope)
    if thing.type.kind == "any":
        return _reader(expr, thing, ANY, lambda value: read_argument(value, expr.name), scope, Reach.CALL)
    return _argument(expr, thing, scope)


def _mark(expr: tree.Attribute, thing: Compiled, scope: Scope) -> Compiled:
    declaration = scope.environment.metas.get(expr.name)
    if declaration is None:
        help = suggest(expr.name, scope.environment.metas) or f'declare it: `meta {expr.name}: str = "custom.…"`'
        scope.error("A005", expr.span, f"there is no `meta {expr.name}`", help=help)
        return failed(thing.names)
    type_, path = type_of(declaration.type), declaration.path

    def read(value: Any) -> Any:
        if not isinstance(value, Value):
            return value if isinstance(value, Unknown) else Unknown("there is no node that could have this mark")
        found = _frozen(value.node.mark(path))
        if isinstance(found, Unknown) or conforms(found, type_):
            return found
        return Unknown(f"the mark {path} is no {type_}")

    return _reader(expr, thing, type_, read, scope, Reach.GRAPH)


def _frozen(value: Any) -> Any:
    """Plain data as values of the language: lists are tuples, sets frozen."""
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return frozenset(value) if isinstance(value, (set, frozenset)) else value


# --- what is wrong with an attribute ---------------------------------------------------------------------------


def _attribute_of_any(expr: tree.Attribute, thing: Compiled, scope: Scope) -> Compiled:
    """Of something whose type is open: any attribute of anything, or an argument; decided when it is read."""
    rows = [row for (_, name), row in ATTRIBUTES.items() if name == expr.name]
    name = expr.name
    if not rows and not _is_argument(name, scope):
        known = {name for _, name in ATTRIBUTES} | all_argument_names()
        scope.error("A005", expr.span, f"nothing has an attribute `{name}`", help=suggest(name, known))
        return failed(thing.names)
    if name == "subgraphs":
        scope.frame.speaks_of_subgraphs = True

    def read(value: Any) -> Any:
        for row in rows:
            if _is_of(value, row.of):
                return row.read(value)
        return read_argument(value, name) if isinstance(value, Value) or not rows else rows[0].read(value)

    of_value = next((row for row in rows if row.of == "value"), None)
    reach = Reach.CALL if of_value is None else of_value.reach
    return _reader(expr, thing, join_all(row.type for row in rows) if rows else ANY, read, scope, reach)


def _is_of(value: Any, kind: str) -> bool:
    if kind == "value":
        return isinstance(value, Value)
    if kind == "dtype":
        return isinstance(value, torch.dtype)
    if kind == "op":
        return isinstance(value, (Op, frozenset))
    return not isinstance(value, (Value, torch.dtype, Op, frozenset, Unknown)) and hasattr(value, "calls")


def _no_attribute(expr: tree.Attribute, thing: Compiled, scope: Scope) -> Compiled:
    known = attributes_of(thing.type.kind)
    help = suggest(expr.name, known)
    code = "A005" if known else "A004"
    if thing.type.kind == "list":
        help = f"go through it: `all(a.{expr.name} … for a in {expr.value.span.text})`"
    elif known and help is None:
        help = "it has " + ", ".join(f"`{name}`" for name in known)
    what = thing.type.phrase
    scope.error(code, expr.span, f"{what} has no attribute `{expr.name}`", label=str(thing.type), help=help)
    return failed(thing.names)


# --- brackets --------------------------------------------------------------------------------------------------


@handles(tree.Index)
def _index(expr: tree.Index, scope: Scope) -> Compiled:
    thing, index = compile_expression(expr.value, scope), compile_expression(expr.index, scope)
    if thing.failed or index.failed:
        return failed(thing.names | index.names)
    if not is_numeric(index.type) or index.type.kind == "float":
        scope.error("A004", expr.index.span, f"an index is an int, this is {index.type.phrase}", label=str(index.type))
        return failed(thing.names | index.names)
    item = _item_type(expr, thing, index, scope)
    if item is None:
        return failed(thing.names | index.names)
    base, position = thing.evaluate, index.evaluate

    def evaluate(frame: list[Any]) -> Any:
        return _element(base(frame), number(position(frame)))

    return combine(expr, scope, item, [thing, index], evaluate)


def _item_type(expr: tree.Index, thing: Compiled, index: Compiled, scope: Scope) -> Type | None:
    kind = thing.type.kind
    if kind == "list":
        return thing.type.item
    if kind == "tuple":
        parts = thing.type.items
        known = index.value if index.constant and isinstance(index.value, int) else None
        return parts[known] if known is not None and -len(parts) <= known < len(parts) else join_all(parts)
    if kind == "any":
        return ANY
    if kind == "value":
        return _output_type(expr, thing, scope)
    scope.error("A004", expr.value.span, f"{thing.type.phrase} has no elements", label=str(thing.type))
    return None


def _output_type(expr: tree.Index, thing: Compiled, scope: Scope) -> Type | None:
    ops = ops_behind(thing.type, scope)
    what = expr.value.span.text
    single = thing.type.element or (
        ops and all(op.returns and not op.is_multi_output and op.style == "aten" for op in ops)
    )
    if single:
        scope.error("A004", expr.span, f"`{what}` is one tensor, not several outputs",
                    help=f"sizes are `{what}.shape[0]`")
        return None
    return value_of(thing.type.ops, element=True)


def _element(base: Any, position: Any) -> Any:
    if isinstance(base, Unknown):
        return base
    if isinstance(position, Unknown):
        return position
    if not isinstance(position, int):
        return Unknown(f"the index {position} is symbolic")
    if isinstance(base, Value):
        if base.element is not None or not base.is_multi_output:
            return Unknown(f"{base.name} has one output")
        base = base.outputs
    if not isinstance(base, tuple):
        return Unknown("it has no elements")
    if not -len(base) <= position < len(base):
        return Unknown(f"the index {position} is out of range of {len(base)} elements")
    return base[position]


@handles(tree.Slice)
def _slice(expr: tree.Slice, scope: Scope) -> Compiled:
    thing = compile_expression(expr.value, scope)
    bounds = [None if bound is None else compile_expression(bound, scope, INT) for bound in
              (expr.low, expr.high, expr.step)]
    parts = [thing, *(bound for bound in bounds if bound is not None)]
    if not thing.failed and thing.type.kind not in {"list", "any"}:
        scope.error("A004", expr.value.span, f"{thing.type.phrase} cannot be sliced, a list can", label=str(thing.type))
        return failed(thing.names)
    base = thing.evaluate
    readers = [None if bound is None else bound.evaluate for bound in bounds]

    def evaluate(frame: list[Any]) -> Any:
        return _sliced(base(frame), [None if reader is None else number(reader(frame)) for reader in readers])

    return combine(expr, scope, thing.type if thing.type.kind == "list" else ANY, parts, evaluate)


def _sliced(base: Any, bounds: list[Any]) -> Any:
    for value in (base, *bounds):
        if isinstance(value, Unknown):
            return value
    if not isinstance(base, tuple):
        return Unknown("it is no list")
    if not all(isinstance(bound, (int, type(None))) for bound in bounds):
        return Unknown("a bound of this slice is symbolic")
    return Unknown("a slice in steps of 0") if bounds[2] == 0 else base[slice(*bounds)]


