"""The names of ops in a rules file. Looking one up imports nothing: an op is known when its library is there."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from apportion.engine.ops.nodes import op_of_overload
from apportion.engine.ops.op import Op, OpSchemaDecl, UnknownOp, made
from apportion.engine.ops.python import (
    class_name,
    function_name,
    function_op,
    higher_order_op,
    method_op,
    module_op,
    python_name,
)
from apportion.engine.ops.schemas import is_functional, is_view_schema, schema_op, schemas_of

__all__ = ["resolve_op", "schema_of", "twin_of"]


def resolve_op(name: str, declared: Mapping[str, OpSchemaDecl] | None = None) -> frozenset[str]:
    """The names of the ops that `name` stands for in a rules file.

    `aten.view.default` is that op and its functional `*_copy` twin, `aten.view_copy.default` the twin alone,
    `aten.add` every functional overload of it (with their twins). `declared` holds the ops of `declare` statements
    by name. Raises `UnknownOp`.
    """
    declared = declared or {}
    if name in declared:
        return frozenset({name}) | _declared_twin(name, declared)
    overloads = {n for n in declared if n.rpartition(".")[0] == name and not declared[n].is_mutable}
    parts = name.split(".")
    if len(parts) == 2:
        schemas = _for_tensors(schemas_of(parts[0], parts[1]))
        functional = [o for o, s in schemas.items() if is_functional(s)]
        found = {f"{name}.{o}" for o in functional or schemas} | overloads
        if found:
            return frozenset(found).union(*(_twin_set(n) for n in found))
        if parts[0] == "higher_order" and parts[1] in _higher_order():
            return frozenset({name})
    elif len(parts) == 3 and parts[2] in schemas_of(parts[0], parts[1]):
        return frozenset({name}) | _twin_set(name)
    if overloads:
        return frozenset(overloads)
    target = _python_op(parts)
    if target is not None:
        return frozenset({name if parts[0] == "Tensor" else python_name(target)})
    raise UnknownOp(name, *_nearest(name, parts, declared))


def _for_tensors(schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the overloads for Python numbers and strings that only TorchScript has; all if there are no others."""
    kept = {o: s for o, s in schemas.items() if "Tensor" in str(s) or "SymInt" in str(s)}
    return kept or schemas


def twin_of(name: str) -> str | None:
    """The functional `*_copy` twin of a view op, by name; None where it is no view or has none."""
    return next(iter(_twin_set(name)), None)


def _twin_set(name: str) -> frozenset[str]:
    namespace, base, overload = name.split(".")
    original = schemas_of(namespace, base).get(overload)
    if original is None or base.endswith("_copy") or not is_view_schema(original):
        return frozenset()
    twin = schemas_of(namespace, f"{base}_copy").get(overload)
    if twin is None or [a.name for a in twin.arguments] != [a.name for a in original.arguments]:
        return frozenset()
    return frozenset({f"{namespace}.{base}_copy.{overload}"})


def _declared_twin(name: str, declared: Mapping[str, OpSchemaDecl]) -> frozenset[str]:
    op = declared[name]
    twin = f"{op.namespace}.{op.base}_copy.{op.overload}"
    return frozenset({twin}) if op.is_view and twin in declared else frozenset()


def _higher_order() -> Mapping[str, Any]:
    return torch._ops._higher_order_ops


def schema_of(name: str, declared: Mapping[str, OpSchemaDecl] | None = None) -> Op:
    """The op of one concrete name, for checking arguments. A declared op is judged by its text. Raises `UnknownOp`."""
    if declared and name in declared:
        return declared[name]
    parts = name.split(".")
    if len(parts) == 3:
        schema = schemas_of(parts[0], parts[1]).get(parts[2])
        if schema is not None:
            return _registered(name, parts, schema)
    if len(parts) == 2 and parts[0] == "higher_order" and parts[1] in _higher_order():
        return made(name, lambda: higher_order_op(_higher_order()[parts[1]]))
    target = _python_op(parts)
    if target is None:
        raise UnknownOp(name, *_nearest(name, parts, declared or {}))
    if parts[0] == "Tensor":
        return made(name, lambda: method_op(parts[1]))
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        return made(class_name(target), lambda: module_op(target))
    return made(function_name(target), lambda: function_op(target))


def _registered(name: str, parts: Sequence[str], schema: Any) -> Op:
    """Through `torch.ops` where the dispatcher has it (tags are kept there); JIT-only ops by their schema alone."""
    overload = getattr(getattr(getattr(torch.ops, parts[0]), parts[1], None), parts[2], None)
    if isinstance(overload, OpOverload):
        return op_of_overload(overload)
    return made(name, lambda: schema_op(schema, (), is_view_schema(schema)))


def _python_op(parts: Sequence[str]) -> Any | None:
    """A function, method or module class by its dotted name, in what is imported already; None where there is none."""
    if len(parts) < 2:
        return None
    if parts[0] == "Tensor":
        return getattr(torch.Tensor, parts[1], None) if len(parts) == 2 else None
    start: Any = torch.nn if parts[0] == "nn" else sys.modules.get(parts[0])
    for part in parts[1:]:
        # In the dictionary first: an attribute made on demand would import something.
        start = getattr(start, "__dict__", {}).get(part)
        if start is None:
            return None
    return start if callable(start) else None


def _nearest(name: str, parts: Sequence[str], declared: Mapping[str, OpSchemaDecl]) -> tuple[list[str], str]:
    """Real names like a wrong one, and what is wrong about it."""
    if len(parts) == 3:
        overloads = _for_tensors(schemas_of(parts[0], parts[1]))
        if overloads:
            near = difflib.get_close_matches(parts[2], overloads, 3, 0.6)
            ordered = sorted(overloads, key=lambda o: (o not in near, not is_functional(overloads[o]), o))
            return [f"{parts[0]}.{parts[1]}.{o}" for o in ordered], f"{parts[0]}.{parts[1]} has no overload {parts[2]}"
    pool = _names_like(parts) | set(declared)
    namespaces = {schema.name.split("::")[0] for schema in torch._C._jit_get_all_schemas()}
    hint = ""
    if len(parts) >= 2 and parts[0] not in namespaces | {"higher_order", "Tensor", "nn"} | set(sys.modules):
        hint = f"the library {parts[0]} is not loaded; `declare` its schema to speak of it without"
        pool |= {".".join([n, *parts[1:]]) for n in difflib.get_close_matches(parts[0], namespaces, 2, 0.7)}
    elif len(parts) == 1:
        hint = "an op's name starts with its library, as in aten.relu.default"
    return _closest(name, parts, pool), hint


def _names_like(parts: Sequence[str]) -> set[str]:
    """Names of the same namespace, with the overload that a three-part name asks for where there is one."""
    namespace = parts[0]
    if namespace == "higher_order":
        return {f"higher_order.{n}" for n in _higher_order()}
    if namespace == "Tensor":
        return {f"Tensor.{n}" for n in dir(torch.Tensor) if not n.startswith("__")}
    if namespace == "nn":
        return {f"nn.{n}" for n, c in vars(torch.nn).items() if isinstance(c, type)}
    if namespace in ("torch", "operator") and len(parts) > 1:
        module = sys.modules.get(".".join(parts[:-1]))
        return {".".join([*parts[:-1], n]) for n in vars(module or torch) if not n.startswith("_")}
    names: set[str] = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, base = schema.name.partition("::")
        if len(parts) == 1:
            names.add(f"{space}.{base}")
        elif space == namespace and is_functional(schema):
            names.add(f"{space}.{base}" + (f".{schema.overload_name or 'default'}" if len(parts) > 2 else ""))
    return names


def _closest(name: str, parts: Sequence[str], pool: set[str]) -> list[str]:
    """The three best, compared by the op's own name: the namespace is common and would drown the difference."""
    if len(parts) == 1:
        by_base: dict[str, str] = {}
        for full in sorted(pool):
            if full.startswith("aten.") or full.split(".")[1] not in by_base:
                by_base[full.split(".")[1]] = full
        return [by_base[b] for b in difflib.get_close_matches(name, by_base, 3, 0.6)]
    tails = {full.partition(".")[2]: full for full in sorted(pool)}
    wanted = name.partition(".")[2]
    found = [tails[t] for t in difflib.get_close_matches(wanted, tails, 3, 0.6)]
    same = [full for full in sorted(pool) if full.partition(".")[2] == wanted]
    return list(dict.fromkeys([*same, *found]))[:3]
