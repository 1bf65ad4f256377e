"""What several backends do with the program they are given before they compile it."""

from __future__ import annotations

import importlib
from typing import Any

import torch.fx as fx
from torch._export.verifier import Verifier
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from apportion.engine.errors import ProgramError
from apportion.engine.lowering.errors import BackendUnavailableError

__all__ = ["debug_handles", "needed", "portable", "without_writes"]


def needed(extra: str, module: str) -> Any:
    """An optional library. Raises BackendUnavailableError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise BackendUnavailableError(
            f"this backend needs {module}, which can't be imported ({problem}); "
            f"install it with `pip install apportion[{extra}]`"
        ) from problem


def without_writes(program: ExportedProgram, who: str) -> ExportedProgram:
    """The program, if it keeps no buffer of its own. Raises ProgramError for an engine that can't."""
    for spec in program.graph_signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            raise ProgramError(f"{who} keeps no state between calls, and the partition writes {spec.target}; "
                               "leave mutable_buffers off")
    return program


def portable(program: ExportedProgram) -> ExportedProgram:
    """A partition of an Edge program with the ATen ops behind its ops; any other as it is."""
    edge = False
    for module in program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                target = getattr(node.target, "_op", None)
                if node.op == "call_function" and isinstance(target, OpOverload) and not isinstance(
                    node.target, OpOverload
                ):
                    node.target = target
                    edge = True
            module.recompile() if edge else None
    if not edge:
        return program
    return ExportedProgram(
        root=program.graph_module,
        graph=program.graph_module.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[Verifier],
    )


def debug_handles(program: ExportedProgram) -> dict[int, tuple[int, ...]]:
    """For each call of the partition, by its place among them, the debug handles of the nodes it came from."""
    found: dict[int, tuple[int, ...]] = {}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    for place, node in enumerate(calls):
        handle = node.meta.get("debug_handle")
        if isinstance(handle, (tuple, list)):
            found[place] = tuple(handle)
        elif handle is not None:
            found[place] = (int(handle),)
    return found
