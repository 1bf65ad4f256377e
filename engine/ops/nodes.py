"""The op that a node of a graph calls."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from apportion.engine.ops.op import BY_NAME, Op, made
from apportion.engine.ops.python import (
    class_name,
    function_name,
    function_op,
    higher_order_name,
    higher_order_op,
    method_op,
    module_op,
)
from apportion.engine.ops.schemas import schema_op

__all__ = ["op_of", "op_of_overload"]

_BY_TARGET: Final[dict[Any, Op]] = {}
_WRAPPERS: Final = frozenset({"auto_functionalized", "auto_functionalized_v2"})


def op_of(node: fx.Node) -> Op | None:
    """The op that `node` calls; None for placeholders, `get_attr` and the output.

    A call of `auto_functionalized` is seen as the op it wraps.
    """
    kind = node.op
    if kind == "call_function":
        target = node.target
        try:
            return _BY_TARGET[target]
        except KeyError:
            return _op_of_function(node, target)
        except TypeError:  # a callable that can't be hashed
            return made(function_name(target), lambda: function_op(target))
    if kind == "call_method":
        name = f"Tensor.{node.target}"
        return BY_NAME.get(name) or made(name, lambda: method_op(str(node.target)))
    if kind == "call_module":
        return _module_op_of(node)
    return None


def _op_of_function(node: fx.Node, target: Any) -> Op:
    if isinstance(target, HigherOrderOperator) and higher_order_name(target) in _WRAPPERS:
        wrapped = node.args[0] if node.args else node.kwargs.get("_mutable_op")
        return _op_of_target(wrapped)
    return _op_of_target(target)


def _op_of_target(target: Any) -> Op:
    overload = _overload_of(target)
    if overload is not None:
        op = op_of_overload(overload)
    elif isinstance(target, HigherOrderOperator):
        op = made(f"higher_order.{higher_order_name(target)}", lambda: higher_order_op(target))
    else:
        op = made(function_name(target), lambda: function_op(target))
    _BY_TARGET[target] = op
    return op


def _overload_of(target: Any) -> OpOverload | None:
    """The dispatcher's op behind a target; an Edge op keeps it in `_op`."""
    if isinstance(target, OpOverload):
        return target
    if hasattr(target, "_schema"):
        inner = getattr(target, "_op", None)
        if isinstance(inner, OpOverload):
            return inner
    return None


def op_of_overload(overload: OpOverload) -> Op:
    """The op of a registered overload."""
    name = str(overload)
    known = BY_NAME.get(name)
    if known is not None and known.text == str(overload._schema):
        return known
    op = BY_NAME[name] = schema_op(overload._schema, {t.name for t in overload.tags}, overload.is_view)
    return op


def _module_op_of(node: fx.Node) -> Op:
    owner = node.graph.owning_module
    try:
        module: Any = None if owner is None else owner.get_submodule(str(node.target))
    except AttributeError:
        module = None
    if module is None:
        return made("nn.Module", lambda: module_op(torch.nn.Module))
    kind = type(module)
    return _BY_TARGET.get(kind) or _BY_TARGET.setdefault(kind, made(class_name(kind), lambda: module_op(kind)))
