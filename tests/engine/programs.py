"""Small programs that tests of the engine share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

__all__ = ["Module", "exported", "header", "tags"]


class Module(torch.nn.Module):
    """A module whose forward is a function; tensors given by name are its buffers, parameters its parameters."""

    def __init__(self, function: Callable[..., Any], **state: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, *args: torch.Tensor) -> Any:
        """Calls the function; with state, its first argument is the module."""
        return self.function(self, *args) if self._buffers or self._parameters else self.function(*args)


def exported(
    function: Callable[..., Any],
    *args: Any,
    dynamic: Any = None,
    decompose: bool = True,
    **state: torch.Tensor,
) -> ExportedProgram:
    """The function as an exported program, decomposed to core ATen unless told otherwise."""
    program = torch.export.export(Module(function, **state), args, dynamic_shapes=dynamic)
    return program.run_decompositions() if decompose else program


def header(body: str) -> str:
    """A rules file for a backend called Test with `body` in it."""
    return f'backend "Test" language 1\n{body}'


def tags(program: Any) -> Mapping[str, str]:
    """The tag of each op node of the main graph that has one, by name."""
    nodes = program.graph_module.graph.nodes
    return {n.name: n.meta["delegation_tag"] for n in nodes if n.op == "call_function" and "delegation_tag" in n.meta}
