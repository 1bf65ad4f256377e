"""Running a program several times and looking at everything that one can see of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import frozen
from torch.utils import _pytree as pytree

__all__ = ["Seen", "differences", "observe"]


@frozen
class Seen:
    """What one call shows: its outputs in order, its inputs afterwards, and the state afterwards."""

    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]
    state: dict[str, Any]


def observe(call: Callable[..., Any], state: Callable[[], dict[str, torch.Tensor]],
            calls: Sequence[Sequence[Any]]) -> list[Seen]:
    """Call with each set of inputs in turn, random numbers starting anew each time."""
    found = []
    for number, inputs in enumerate(calls):
        own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(number)
            outputs = call(*own)
        found.append(Seen(_copied(pytree.tree_leaves(outputs)), _copied(own),
                          {name: value.clone() for name, value in state().items()}))
    return found


def _copied(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in values)


def differences(one: Sequence[Seen], other: Sequence[Seen], exact: bool = True) -> list[str]:
    """Where two observations differ, in words; values may differ a little where not `exact`."""
    found: list[str] = []
    for call, (left, right) in enumerate(zip(one, other, strict=True)):
        for what, a, b in (("output", left.outputs, right.outputs), ("input", left.inputs, right.inputs)):
            if len(a) != len(b):
                found.append(f"call {call}: {len(a)} and {len(b)} {what}s")
            found += [f"call {call}: {what} {place}: {x} and {y}"
                      for place, (x, y) in enumerate(zip(a, b, strict=False)) if not _same(x, y, exact)]
        found += [f"call {call}: state {name}: {left.state[name]} and {right.state[name]}"
                  for name in left.state.keys() & right.state.keys()
                  if not _same(left.state[name], right.state[name], exact)]
    return found


def _same(one: Any, other: Any, exact: bool) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-4, "atol": 1e-4}
    return torch.allclose(one, other, equal_nan=True, **tolerance)
