"""The public names of lowering, and the modules they come from: `apportion.engine` imports these when they are used,
so that partitioning alone does not wait for what running programs needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["EXPORTS", "exported", "load"]

_LOWERING: Final = "apportion.engine.lowering"
_REGISTRY: Final = "apportion.engine.registry"

EXPORTS: Final[Mapping[str, str]] = {
    "BackendDetails": f"{_LOWERING}.details",
    "BackendNotFoundError": f"{_LOWERING}.errors",
    "BackendUnavailableError": f"{_LOWERING}.errors",
    "ChangedGraphError": f"{_LOWERING}.errors",
    "DelegateError": f"{_LOWERING}.errors",
    "FormatError": f"{_LOWERING}.errors",
    "LoweredBackendModule": f"{_LOWERING}.module",
    "MethodError": f"{_LOWERING}.errors",
    "MethodProgramsPartitionerSpec": f"{_LOWERING}.backend",
    "PartitionerError": f"{_LOWERING}.errors",
    "PreprocessError": f"{_LOWERING}.errors",
    "PreprocessResult": f"{_LOWERING}.details",
    "TagError": f"{_LOWERING}.errors",
    "compile_backend": f"{_LOWERING}.compiling",
    "disable_validation": f"{_LOWERING}.backend",
    "lower": f"{_LOWERING}.whole",
    "save": f"{_LOWERING}.saving",
    "size_report": f"{_LOWERING}.sizes",
    "to_backend": f"{_LOWERING}.backend",
    "validation_disabled": f"{_LOWERING}.backend",
    "CompiledFn": _REGISTRY,
    "CompilerFn": _REGISTRY,
    "InvalidBackend": _REGISTRY,
    "list_backends": _REGISTRY,
    "lookup_backend": _REGISTRY,
    "register_backend": _REGISTRY,
    "register_debug_backend": _REGISTRY,
    "register_experimental_backend": _REGISTRY,
}
"""The module of each public name."""


def exported(name: str) -> Any:
    """The public thing of that name; AttributeError where there is none."""
    module = EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'apportion.engine' has no attribute {name!r}")
    return getattr(import_module(module), name)


def load(path: str | os.PathLike[str]) -> ExportedProgram | dict[str, ExportedProgram]:
    """Read a lowered program that `engine.save` wrote: an exported program, or the dict of methods that was saved.

    Raises FileNotFoundError, FormatError for a file that is damaged, of another kind or of a newer version, and
    BackendNotFoundError where the backend of a delegate is not installed.
    """
    from apportion.engine.lowering.saving import load as read

    return read(path)
