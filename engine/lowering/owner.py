"""What the signature of a program says about the nodes of its graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.fx as fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

__all__ = ["CONSTANT_KINDS", "Owner"]

CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)
"""The inputs that a program brings itself, in the order in which signatures list them."""


class Owner:
    """The program that a graph belongs to; `main` tells its own graph from those of branches."""

    def __init__(self, program: ExportedProgram, state: ExportedProgram | None = None) -> None:
        real = state if state is not None else program
        self.program = program
        self.state_dict: Mapping[str, Any] = real.state_dict
        self.constants: Mapping[str, Any] = real.constants
        signature = program.graph_signature
        self._inputs = {spec.arg.name: spec for spec in signature.input_specs}
        self._written = {
            spec.target: index
            for index, spec in enumerate(signature.output_specs)
            if spec.kind == OutputKind.BUFFER_MUTATION and spec.target is not None
        }

    def constant_spec(self, node: fx.Node) -> InputSpec | None:
        """The spec of a placeholder of the main graph that is a parameter, buffer or constant; None for any other."""
        spec = self._inputs.get(node.name) if node.op == "placeholder" else None
        return spec if spec is not None and spec.kind in CONSTANT_KINDS else None

    def write_back(self, spec: InputSpec) -> int | None:
        """The place among the outputs of what a buffer is to hold afterwards; None for one that stays as it is."""
        return self._written.get(spec.target) if spec.target is not None else None

    def value_of(self, spec: InputSpec) -> Any:
        """The real tensor or object of a constant input."""
        target = str(spec.target)
        return self.state_dict[target] if target in self.state_dict else self.constants[target]

    def in_state(self, spec: InputSpec) -> bool:
        """Whether it is in the state dict rather than among the constants."""
        return str(spec.target) in self.state_dict
