"""Ops that are PyTorch's own, but that it registers only once a module of its is imported."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

__all__ = ["register_held_back"]

_MODULES: Final[Mapping[str, str]] = {"quantized_decomposed": "torch.ao.quantization.fx._decomposed"}


def register_held_back(namespace: str) -> bool:
    """Register the ops of a namespace that PyTorch brings along but holds back; says whether it is such a one."""
    if namespace not in _MODULES:
        return False
    import_module(_MODULES[namespace])
    return True
