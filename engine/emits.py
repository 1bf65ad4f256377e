"""Compile specs: what an emitted value is in bytes."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["encode_spec_value"]


def encode_spec_value(value: Any) -> bytes:
    """The bytes of a compile spec: strings in UTF-8, numbers and booleans as JSON text, bytes as they are.

    Raises TypeError for anything else; the checker lets nothing else through.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, (bool, int, float)):
        return json.dumps(value).encode("ascii")
    raise TypeError(f"a compile spec is a string, a number, a boolean or bytes, not {type(value).__name__}")
