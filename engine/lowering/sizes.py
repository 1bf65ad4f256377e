"""How large the delegates of a lowered program are, and which constants are in several of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx as fx
from attrs import frozen
from torch.export import ExportedProgram

from apportion.engine.lowering.assemble import graphs_of
from apportion.engine.lowering.call import apportion_call_delegate
from apportion.engine.lowering.module import LoweredBackendModule
from apportion.engine.lowering.owner import CONSTANT_KINDS

__all__ = ["DelegateSize", "SizeReport", "delegates_of", "size_report"]


@frozen
class DelegateSize:
    """A delegate: its name, backend, the bytes that the backend made, and its constants with the bytes of each."""

    name: str
    backend_id: str
    processed_bytes: int
    constants: dict[str, int]


@frozen
class SizeReport:
    """The delegates of a program, the constants that stay inputs of it (with their bytes), and the bytes of constants
    beyond the first copy of each. `str()` gives a few lines to read."""

    delegates: tuple[DelegateSize, ...]
    kept: dict[str, int]
    duplicated: dict[str, int]

    @property
    def duplicated_bytes(self) -> int:
        """The bytes that copies of constants take beyond the first."""
        return sum(self.duplicated.values())

    def __str__(self) -> str:
        lines = [f"{one.name} ({one.backend_id}): {_size(one.processed_bytes)}, of it {len(one.constants)} constants "
                 f"with {_size(sum(one.constants.values()))}" for one in self.delegates]
        lines.append(f"constants outside: {len(self.kept)} with {_size(sum(self.kept.values()))}")
        if self.duplicated:
            names = ", ".join(sorted(self.duplicated))
            lines.append(f"in several delegates: {names}; {_size(self.duplicated_bytes)} more than once")
        return "\n".join(lines)


def delegates_of(program: ExportedProgram) -> list[tuple[str, LoweredBackendModule]]:
    """The delegates that a program calls, branches of control flow included, in the order of their first calls."""
    found: dict[int, tuple[str, LoweredBackendModule]] = {}
    for path, module in graphs_of(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target is apportion_call_delegate:
                holder: Any = node.args[0]
                lowered = getattr(module, str(holder.target))
                found.setdefault(id(lowered), (f"{path}.{holder.target}".lstrip("."), lowered))
    return list(found.values())


def size_report(program: ExportedProgram) -> SizeReport:
    """The sizes of a lowered program."""
    sizes = [
        DelegateSize(name, one.backend_id, len(one.processed_bytes), _constants(one.original_module))
        for name, one in delegates_of(program)
    ]
    seen: set[str] = set()
    duplicated: dict[str, int] = {}
    kept = _constants(program)
    for held in (*(one.constants for one in sizes), kept):
        for name, size in held.items():
            if name in seen:
                duplicated[name] = duplicated.get(name, 0) + size
            seen.add(name)
    return SizeReport(tuple(sizes), kept, duplicated)


def _constants(program: ExportedProgram) -> dict[str, int]:
    found: dict[str, int] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in CONSTANT_KINDS and spec.target is not None:
            value = program.state_dict.get(spec.target, program.constants.get(spec.target))
            if isinstance(value, torch.Tensor):
                found[spec.target] = value.numel() * value.element_size()
    for node in program.graph.nodes:
        held = getattr(program.graph_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(held, torch.Tensor) and isinstance(node, fx.Node):
            found[str(node.target)] = held.numel() * held.element_size()
    return found


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024 or unit == "MiB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number = number / 1024
    return f"{number} B"
