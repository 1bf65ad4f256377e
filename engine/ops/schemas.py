"""Ops by their schema: the registered ones and those that rules declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch

from apportion.engine.ops.op import ASSERTION_PREFIXES, ASSERTIONS, Op, OpArgument

__all__ = ["is_functional", "is_view_schema", "parse_schema", "schema_difference", "schema_op", "schemas_of"]

_SCALARS: Final = {"number": "Scalar", "Stream": "Stream"}


def _type_text(type_: Any) -> str:
    """A JIT type in the words of a schema."""
    kind = type_.kind()
    if kind == "OptionalType":
        return _type_text(type_.getElementType()) + "?"
    if kind == "ListType":
        return _type_text(type_.getElementType()) + "[]"
    text = str(type_)
    return _SCALARS.get(text, text)


def _default(argument: Any) -> Any:
    value = argument.default_value
    return tuple(value) if isinstance(value, list) else value


def schema_op(schema: Any, tags: Iterable[str], is_view: bool) -> Op:
    """The op of a schema; `is_view` is what its dispatcher says of it."""
    namespace, _, base = schema.name.rpartition("::")
    overload = schema.overload_name or "default"
    tags = frozenset(tags)
    returns = tuple(_type_text(r.real_type) for r in schema.returns)
    writes = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    aliased = tuple(a.name for a in schema.arguments if a.alias_info is not None)
    name = f"{namespace}.{base}.{overload}"
    is_random = "nondeterministic_seeded" in tags
    effects = bool(writes) or is_random or not returns or base in ASSERTIONS or base.startswith(ASSERTION_PREFIXES)
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload=overload,
        style="aten",
        schema=schema,
        arguments=tuple(
            OpArgument(a.name, _type_text(a.real_type), a.kwarg_only, a.has_default_value(), _default(a))
            for a in schema.arguments
        ),
        returns=returns,
        is_view=(is_view and not writes) or _is_copy_of_view(namespace, base, overload),
        is_mutable=bool(writes),
        is_random=is_random,
        has_effects=effects,
        tags=tags,
        writes=writes,
        aliases=aliased if any(r.alias_info is not None for r in schema.returns) else (),
        text=str(schema),
    )


def _is_copy_of_view(namespace: str, base: str, overload: str) -> bool:
    if not base.endswith("_copy"):
        return False
    original = schemas_of(namespace, base.removesuffix("_copy")).get(overload)
    return original is not None and is_view_schema(original)


def is_view_schema(schema: Any) -> bool:
    """Whether the outputs share memory with an argument that is not written."""
    infos = [a.alias_info for a in schema.arguments if a.alias_info is not None]
    return bool(infos) and not any(i.is_write for i in infos)


def schemas_of(namespace: str, base: str) -> dict[str, Any]:
    """The registered overloads of an op by overload name ("default" for the one without)."""
    found = torch._C._jit_get_schemas_for_operator(f"{namespace}::{base}")
    return {schema.overload_name or "default": schema for schema in found}


def is_functional(schema: Any) -> bool:
    """Whether the op writes to none of its arguments (no in-place op, no `.out`)."""
    return not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def parse_schema(text: str) -> Op:
    """The op that a schema's text declares, `ns::op.overload(Tensor a, int b=1) -> Tensor`.

    Raises ValueError with one sentence where the text is no schema or has no namespace.
    """
    try:
        schema = torch._C.parse_schema(text)
    except RuntimeError as error:
        raise ValueError(f"not a schema: {_first_sentence(error)}") from None
    if "::" not in schema.name:
        raise ValueError(f"the op {schema.name!r} has no namespace: write `library::{schema.name}(…)`")
    return schema_op(schema, (), is_view_schema(schema) and any(r.alias_info for r in schema.returns))


def _first_sentence(error: Exception) -> str:
    return next((line.strip().rstrip(":") for line in str(error).splitlines() if line.strip()), "unreadable")


def schema_difference(declared: Op, real: Op) -> str | None:
    """In what a declared schema differs from the registered one, as a sentence; None where it doesn't."""
    ours, theirs = declared.arguments, real.arguments
    for a, b in zip(ours, theirs, strict=False):
        if a.name != b.name:
            return f"argument {a.name} is called {b.name} in the registered {real.text}"
        if _loose(a.type) != _loose(b.type):
            return f"argument {a.name} is {a.type}, and {b.type} in the registered {real.text}"
        if a.kwarg_only != b.kwarg_only:
            return f"argument {a.name} is {'' if b.kwarg_only else 'not '}keyword-only in the registered {real.text}"
        if (a.has_default, a.default) != (b.has_default, b.default):
            return f"argument {a.name} has another default in the registered {real.text}"
    if len(ours) != len(theirs):
        return f"it has {len(ours)} arguments, and {len(theirs)} in the registered {real.text}"
    if declared.returns != real.returns:
        return f"it returns {', '.join(declared.returns)}, and {', '.join(real.returns)} in the registered {real.text}"
    return None


def _loose(type_: str) -> str:
    return type_.replace("SymInt", "int")
