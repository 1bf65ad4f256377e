"""The names of dtypes, as PyTorch spells them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

__all__ = ["ALIASES", "DTYPES", "dtype_name"]


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype without `torch.`."""
    return str(dtype).removeprefix("torch.")


def _all_dtypes() -> dict[str, torch.dtype]:
    found = {name: getattr(torch, name) for name in sorted(dir(torch))}
    return {name: value for name, value in found.items() if isinstance(value, torch.dtype)}


DTYPES: Mapping[str, torch.dtype] = {dtype_name(dtype): dtype for dtype in _all_dtypes().values()}
"""Every dtype by its full name (`float32`, `bool`, `float8_e4m3fn`, …)."""

ALIASES: Mapping[str, str] = {
    name: dtype_name(dtype) for name, dtype in _all_dtypes().items() if name != dtype_name(dtype)
}
"""Short names that are no names here (`half`, `float`, `long`), with the full name to write instead."""
