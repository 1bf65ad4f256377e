"""Ops that must reach the partitioner whole: derived from the same rules that claim."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch._ops import OpOverload

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.ops import op_named, op_of

__all__ = ["Preserved", "preserved_ops", "target_named"]

logger = logging.getLogger("apportion")

Preserved = tuple[list[OpOverload], Callable[[fx.Node], bool] | None]
"""The ops that decomposition must leave alone, and which of their nodes (None: all)."""


def target_named(name: str) -> OpOverload | None:
    """The registered op of a name such as `aten.relu.default`; None where its library is not loaded."""
    parts = name.split(".")
    if len(parts) != 3:
        return None
    found: Any = torch.ops
    for part in parts:
        found = getattr(found, part, None)
        if found is None:
            return None
    return found if isinstance(found, OpOverload) else None


def _decomposes(op: OpOverload) -> bool:
    """Would `run_decompositions` take this op apart?"""
    from torch._decomp import core_aten_decompositions

    if op in core_aten_decompositions():
        return True
    return bool(op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def preserved_ops(rules: Sequence[RuleSet], present: set[str]) -> list[OpOverload]:
    """The ops of a program (`present`, by name) that the rules name and decomposition would take apart.

    An op that a rules file asks for with `preserve` and that can't be kept whole (a view, an op that writes) is left
    out with a warning.
    """
    wanted: dict[str, bool] = {}
    for one in rules:
        if one.preserve.claimed:
            for rule in one.rules:
                wanted.update(dict.fromkeys(rule.pattern.mentioned - one.preserve.removed, False))
        for name in one.preserve.added:
            wanted[name] = True
    found: list[OpOverload] = []
    for name in sorted(wanted):
        target = target_named(name) if name in present else None
        if target is None or not (wanted[name] or _decomposes(target)):
            continue
        known = op_named(name)
        if known is not None and (known.is_view or known.is_mutable):
            if wanted[name]:
                logger.warning("`%s` can't be preserved: it is a view or writes its input", name)
            continue
        found.append(target)
    return found


def ops_present(module: fx.GraphModule) -> set[str]:
    """The names of all ops in a module, branches of control flow included."""
    names: set[str] = set()
    for submodule in module.modules():
        if isinstance(submodule, fx.GraphModule):
            for node in submodule.graph.nodes:
                op = op_of(node)
                if op is not None:
                    names.add(op.name)
    return names
