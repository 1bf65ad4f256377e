"""The facts of a whole program: its graphs, what its inputs are, what it proves about its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from apportion.engine.facts.control_flow import CONTROL_FLOW
from apportion.engine.facts.graph import GraphFacts
from apportion.engine.facts.lazy import lazy
from apportion.engine.facts.value import Value
from apportion.engine.values import Ranges

__all__ = ["Program", "ProgramFacts"]

Program = Union[ExportedProgram, fx.GraphModule]

_WRITE_BACKS = frozenset(
    kind
    for name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")
    if (kind := getattr(OutputKind, name, None)) is not None
)


class ProgramFacts:
    """The facts of a program: `main`, its own graph, and `graphs`, all of them with branches before their owners.

    Nothing is changed in the program, and no guard is added to its shape environment.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.exported: ExportedProgram | None = None
        self.ranges = Ranges()
        module: Any = program
        if isinstance(program, ExportedProgram):
            self.exported = program
            self.ranges = Ranges(program.range_constraints)
            module = program.graph_module
        self.main = GraphFacts(self, module)
        graphs: list[GraphFacts] = []
        self._add(self.main, graphs, {})
        self.graphs: tuple[GraphFacts, ...] = tuple(graphs)

    @classmethod
    def of(cls, program: Program) -> ProgramFacts:
        """The facts of an `ExportedProgram` (an Edge program too) or a `GraphModule`; TypeError for anything else."""
        if not isinstance(program, (ExportedProgram, fx.GraphModule)):
            raise TypeError(f"no program but a {type(program).__name__}: an ExportedProgram or an fx.GraphModule is")
        return cls(program)

    def _add(self, graph: GraphFacts, graphs: list[GraphFacts], known: dict[int, GraphFacts]) -> None:
        """Adds the graph's branches, then itself. A module that several calls share is one branch."""
        if graph.modules:
            for call in graph.calls:
                self._add_branches(call, graphs, known)
        graphs.append(graph)

    def _add_branches(self, call: Value, graphs: list[GraphFacts], known: dict[int, GraphFacts]) -> None:
        op = call.op
        if op is None or op.style != "higher_order" or op.base not in CONTROL_FLOW:
            return
        table = CONTROL_FLOW[op.base]
        operands = [
            call.graph.value(item) if isinstance(item, fx.Node) else None for item in table.operands(call.raw_arguments)
        ]
        for name in table.branches:
            node: Any = call.raw_arguments.get(name)
            module = call.graph.modules.get(node)
            if not isinstance(module, fx.GraphModule):
                continue
            branch = known.get(id(module))
            if branch is None:
                path = f"{call.graph.path}.{node.target}".lstrip(".")
                branch = known[id(module)] = GraphFacts(self, module, path)
                branch.add_caller(call, operands)
                self._add(branch, graphs, known)
            else:
                branch.add_caller(call, operands)
            call.graph.branches[node] = branch

    # --- the signature -----------------------------------------------------------------------------------------

    @lazy
    def _inputs(self) -> Mapping[str, tuple[InputKind, str | None]]:
        """Kind and target of each placeholder by name."""
        if self.exported is None:
            return {}
        specs = self.exported.graph_signature.input_specs
        return {s.arg.name: (s.kind, s.target) for s in specs}

    @lazy
    def _written_targets(self) -> frozenset[str]:
        """The buffers and parameters that the signature says are written."""
        if self.exported is None:
            return frozenset()
        specs = self.exported.graph_signature.output_specs
        return frozenset(s.target for s in specs if s.kind in _WRITE_BACKS and s.target is not None)

    @lazy
    def written_back_outputs(self) -> frozenset[int]:
        """The places in the main graph's output of what is written back rather than returned."""
        if self.exported is None:
            return frozenset()
        specs = self.exported.graph_signature.output_specs
        return frozenset(i for i, s in enumerate(specs) if s.kind in _WRITE_BACKS)

    def input_kind(self, value: Value) -> str:
        """What a placeholder or `get_attr` of the program is: "user", "parameter", "buffer", "constant" or "other".

        `value` is of the main graph, or a `get_attr` of any.
        """
        if value.fx.op == "get_attr":
            return self._attribute_kind(value)
        spec = self._inputs.get(value.name)
        if spec is not None:
            return _KINDS.get(spec[0], "other")
        # Without a signature, what a placeholder holds is the caller's to change, a parameter too.
        return "user"

    def _attribute_kind(self, value: Value) -> str:
        target = str(value.fx.target)
        owner_path, _, name = target.rpartition(".")
        owner = value.graph.attribute(owner_path) if owner_path else value.graph.module
        if isinstance(owner, torch.nn.Module):
            if name in owner._parameters:
                return "parameter"
            if name in owner._buffers:
                return "buffer"
        found = value.graph.attribute(target)
        if isinstance(found, torch.nn.Parameter):
            return "parameter"
        return "other" if isinstance(found, torch.nn.Module) else "constant"

    def is_written(self, value: Value) -> bool:
        """Whether the program writes to a placeholder or constant of it, by its signature or by an op."""
        spec = self._inputs.get(value.name) if value.fx.op == "placeholder" else None
        if spec is not None and spec[1] is not None and spec[1] in self._written_targets:
            return True
        if value in value.graph.written:
            return True
        return bool(self._written_storages) and self.memory_of(value) in self._written_storages

    @lazy
    def _written_storages(self) -> frozenset[int]:
        """The memory of the stored tensors that some op writes: a tracer may keep a view of a buffer as a constant."""
        written = [v for g in self.graphs for v in g.written if not v.is_call]
        found = {self.memory_of(o) for v in written for o in v.graph.origins(v)}
        return frozenset(s for s in found if s is not None)

    def memory_of(self, value: Value) -> int | None:
        """What tells the memory of a stored tensor from any other; None where nothing is stored for `value`."""
        return _storage(self.tensor_of(value))

    def tensor_of(self, value: Value) -> torch.Tensor | None:
        """The stored tensor of a placeholder of the main graph, or of a `get_attr`; None where there is none."""
        if value.fx.op == "get_attr":
            found = value.graph.attribute(str(value.fx.target))
        else:
            spec = self._inputs.get(value.name)
            if self.exported is None or spec is None or spec[1] is None or value.graph.owners:
                return None
            found = self.exported.state_dict.get(spec[1])
            if found is None:
                found = self.exported.constants.get(spec[1])
        return found if isinstance(found, torch.Tensor) else None


def _storage(tensor: torch.Tensor | None) -> int | None:
    """What tells one piece of memory from another; None where there is none."""
    if tensor is None or tensor.layout is not torch.strided:
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # tensor subclasses that wrap others
        return None


_KINDS: Mapping[InputKind, str] = {
    InputKind.USER_INPUT: "user",
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.CUSTOM_OBJ: "constant",
}
