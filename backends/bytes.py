"""How the bytes of delegates are laid out: what they are, how long each part is, and a checksum over all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from apportion.engine.lowering.errors import DelegateError

__all__ = ["pack", "unpack"]

_MAGIC = b"APDL"
_VERSION = 1
_DIGEST = 32
_HEAD = len(_MAGIC) + 2 + 4


def pack(kind: str, parts: Mapping[str, bytes]) -> bytes:
    """Parts by name as one piece; `kind` names the backend and the version of its parts, as in `"eager/1"`."""
    header = json.dumps({"kind": kind, "parts": [[name, len(data)] for name, data in parts.items()]}).encode()
    body = b"".join([_VERSION.to_bytes(2, "little"), len(header).to_bytes(4, "little"), header, *parts.values()])
    return b"".join([_MAGIC, body, hashlib.sha256(body).digest()])


def unpack(data: bytes, kind: str) -> dict[str, bytes]:
    """The parts that `pack` was given.

    Raises DelegateError for bytes that are damaged or cut, of another kind, or of a newer version.
    """
    if not data.startswith(_MAGIC) or len(data) < _HEAD + _DIGEST:
        raise DelegateError(f"these {len(data)} bytes are no delegate of kind {kind}")
    version = int.from_bytes(data[4:6], "little")
    if version > _VERSION:
        raise DelegateError(f"the delegate was written in format {version}; this version reads up to {_VERSION}")
    body, digest = data[len(_MAGIC):-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise DelegateError(f"the delegate's bytes are damaged: their checksum is wrong ({kind})")
    size = int.from_bytes(data[6:10], "little")
    header = json.loads(data[_HEAD:_HEAD + size])
    if header["kind"] != kind:
        raise DelegateError(f"the delegate is of kind {header['kind']}, and {kind} is needed")
    parts: dict[str, bytes] = {}
    start = _HEAD + size
    for name, length in header["parts"]:
        parts[name] = data[start:start + length]
        start += length
    return parts
