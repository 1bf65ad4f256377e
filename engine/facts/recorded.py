"""What exporters and quantizers recorded in a node's metadata."""

from __future__ import annotations

import re
from typing import Any, Final

import torch
from torch import fx

from apportion.engine.ops import python_name
from apportion.engine.values import Unknown

__all__ = ["mark_of", "module_path", "source_name"]

_NO_STACK: Final = "_empty_nn_module_stack_from_metadata_hook"
# How torch.compile writes the outermost module.
_ROOT: Final = re.compile(r"^L\['\w+'\]\.?|^L__self___")


def module_path(node: fx.Node) -> str:
    """The path of the `nn.Module` whose code a node comes from; "" for the outermost, or if nobody recorded it."""
    stack = node.meta.get("nn_module_stack") or {}
    entries = [v for v in stack.values() if isinstance(v, tuple) and v and v[0] != _NO_STACK]
    if node.op == "call_module" and not entries:
        return str(node.target)
    return _ROOT.sub("", str(entries[-1][0])) if entries else ""


def source_name(node: fx.Node) -> str:
    """The torch function or module class that a node was exported from; "" if nobody recorded it."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        target = stack[-1][1]
        return target if isinstance(target, str) else python_name(target)
    recorded = node.meta.get("torch_fn")
    if isinstance(recorded, tuple) and len(recorded) == 2:
        return str(recorded[1]).partition(".")[2] or str(recorded[1])
    return ""


def mark_of(node: fx.Node, path: str) -> Any:
    """Plain data under a dotted path of a node's metadata; unknown where there is none, or something else."""
    found = _lookup(node.meta, path.split("."))
    if found is _MISSING:
        return Unknown(f"{node.name} has no mark {path}")
    plain = _plain(found)
    return Unknown(f"{path}: {plain.reason}") if isinstance(plain, Unknown) else plain


_MISSING = object()


def _lookup(mapping: Any, parts: list[str]) -> Any:
    """The item under a dotted path, the longest key first: keys may have dots themselves."""
    if not parts:
        return mapping
    if not isinstance(mapping, dict):
        return _MISSING
    for end in range(len(parts), 0, -1):
        key = ".".join(parts[:end])
        if key in mapping:
            found = _lookup(mapping[key], parts[end:])
            if found is not _MISSING:
                return found
    return _MISSING


def _plain(found: Any) -> Any:
    if isinstance(found, (bool, int, float, str, bytes, torch.dtype)) or found is None:
        return found
    if isinstance(found, (tuple, list)):
        items = tuple(_plain(i) for i in found)
        return next((i for i in items if isinstance(i, Unknown)), items)
    if isinstance(found, (set, frozenset)) and all(isinstance(i, (int, float, str)) for i in found):
        return frozenset(found)
    return Unknown(f"a {type(found).__name__} is no plain data")
