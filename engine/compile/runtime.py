"""What closures do at run time: comparisons, arithmetic and membership over the values of the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen

from apportion.engine.compile.core import MAX_LENGTH, TOO_LARGE
from apportion.engine.facts import Value
from apportion.engine.ops import Op
from apportion.engine.values import COMPARISONS, Dim, Unknown, arith, k_and, k_any, k_compare, k_in, k_not

__all__ = ["Interval", "bounded", "calculate", "compare", "elements", "is_in", "number"]

_MAX_BITS = 512


@frozen
class Interval:
    """The closed range `low..high`."""

    low: Any
    high: Any


def number(value: Any) -> Any:
    """What to calculate with: a symbolic size that is a node of the graph stands for its size."""
    if not isinstance(value, Value):
        return value
    size = value.size
    return Unknown(f"{value.name} is no number that is known here") if size is None else size


def bounded(value: Any) -> Any:
    """`value` unless it has grown beyond what can be computed with."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return TOO_LARGE
    if isinstance(value, tuple) and len(value) > MAX_LENGTH:
        return TOO_LARGE
    return value


def calculate(op: str, left: Any, right: Any) -> Any:
    """`left op right` over numbers, and `+` over lists."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) + len(right) > MAX_LENGTH:
        return TOO_LARGE
    return bounded(arith(op, number(left), number(right)))


_ORDERED = frozenset({int, float})
_PLAIN = frozenset({int, float, bool, str, torch.dtype})


def compare(op: str, left: Any, right: Any) -> Any:
    """`left op right` of whole values, three-valued."""
    kind = type(left)
    if kind is type(right) and kind in _PLAIN and (kind in _ORDERED or op in {"==", "!="}):
        return COMPARISONS[op](left, right)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if isinstance(left, Op) or isinstance(right, Op):
        return _compare_ops(op, left, right)
    if isinstance(left, torch.device) or isinstance(right, torch.device):
        return _compare_devices(op, left, right)
    if isinstance(left, Value) != isinstance(right, Value) and left is not None and right is not None:
        left, right = number(left), number(right)
    elif op not in {"==", "!="} and isinstance(left, Value):
        left, right = number(left), number(right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _compare_lists(op, left, right)
    if isinstance(left, tuple) != isinstance(right, tuple) and left is not None and right is not None:
        return Unknown("a list is compared with what is no list")
    return k_compare(op, left, right)


def _compare_lists(op: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> Any:
    if op not in {"==", "!="}:
        return Unknown("lists have no order")
    equal: Any = len(left) == len(right)
    if equal:
        equal = k_and(*(compare("==", a, b) for a, b in zip(left, right, strict=True)))
    return equal if op == "==" else k_not(equal)


def _compare_ops(op: str, left: Any, right: Any) -> Any:
    if op not in {"==", "!="}:
        return Unknown("ops have no order")
    if isinstance(left, Op):
        equal = left.name in right if isinstance(right, frozenset) else left.name == getattr(right, "name", None)
    else:
        equal = isinstance(left, frozenset) and right.name in left
    return equal if op == "==" else not equal


def _compare_devices(op: str, left: Any, right: Any) -> Any:
    if op not in {"==", "!="} or left is None or right is None:
        return k_compare(op, left, right)
    one, other = str(left), str(right)
    equal = one.split(":")[0] == other.split(":")[0] if ":" not in one or ":" not in other else one == other
    return equal if op == "==" else not equal


def is_in(item: Any, container: Any) -> Any:
    """Whether `container` (list, set, op set, interval, string) holds `item`, three-valued."""
    if isinstance(item, Unknown):
        return item
    if isinstance(container, Unknown):
        return container
    if isinstance(container, Interval):
        if type(item) is int and type(container.low) is int and type(container.high) is int:
            return container.low <= item <= container.high
        value = number(item)
        return k_and(compare(">=", value, container.low), compare("<=", value, container.high))
    if isinstance(container, frozenset) and not isinstance(item, (Dim, tuple, Value)):
        return (item.name if isinstance(item, Op) else item) in container
    if isinstance(container, tuple) or isinstance(item, tuple):
        if not isinstance(container, (tuple, frozenset)):
            return Unknown("what is searched is no list and no set")
        same_shape = (member for member in container if isinstance(member, tuple) == isinstance(item, tuple))
        return k_any(compare("==", item, member) for member in same_shape)
    return k_in(number(item) if isinstance(item, Value) else item, container)


def elements(value: Any) -> Sequence[Any] | Unknown:
    """What a `for` runs over; sets in an order that is the same in every process."""
    if isinstance(value, (tuple, Unknown)):
        return value
    if isinstance(value, frozenset):
        return sorted(value, key=str)
    if isinstance(value, Value):
        return Unknown(f"{value.name} is no list")
    return Unknown("what is run over is no list")
