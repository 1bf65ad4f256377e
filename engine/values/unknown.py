"""What is not known, and why."""

from __future__ import annotations

from typing import Final, Union

from attrs import frozen

__all__ = ["UNKNOWN", "Kleene", "Unknown", "is_unknown"]


@frozen
class Unknown:
    """What is not known, and why. It satisfies no requirement.

    Asking for its truth is a mistake of the caller (`x is True` asks whether something holds), so `bool` raises
    TypeError.
    """

    reason: str = ""

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of an unknown value was asked for ({self.reason or 'no reason given'})")

    def __str__(self) -> str:
        return f"unknown ({self.reason})" if self.reason else "unknown"


UNKNOWN: Final = Unknown()

Kleene = Union[bool, Unknown]
"""True, False, or not known."""


def is_unknown(value: object) -> bool:
    """Whether `value` is an `Unknown`."""
    return isinstance(value, Unknown)
