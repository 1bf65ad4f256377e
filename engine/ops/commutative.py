"""Ops whose first two operands may change places."""

from __future__ import annotations

from typing import Any, Final

from apportion.engine.ops.op import Op
from apportion.engine.values import Kleene, Unknown, k_compare

__all__ = ["COMMUTATIVE", "is_commutative"]

COMMUTATIVE: Final = frozenset(
    {
        "add",
        "mul",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "eq",
        "ne",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "gcd",
        "lcm",
    }
)
"""Base names of ops whose first two operands may change places (`add` where `alpha` is 1)."""

_COMMUTATIVE_OPERATORS: Final = frozenset({"add", "mul", "eq", "ne", "and_", "or_", "xor"})


def is_commutative(call: Any) -> Kleene:
    """Whether the first two arguments of `call` (a `Value` of an op) may change places."""
    op: Op | None = call.op
    if op is None:
        return False
    if op.namespace == "operator":
        return op.base in _COMMUTATIVE_OPERATORS
    if op.base not in COMMUTATIVE:
        return False
    if op.base != "add":
        return True
    if op.argument("alpha") is None:
        return True
    return k_compare("==", call.arguments.get("alpha", Unknown("no alpha")), 1)
