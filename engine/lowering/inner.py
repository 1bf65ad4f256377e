"""A cut as a program of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from apportion.engine.lowering.copies import keep_name
from apportion.engine.lowering.cut import NO_COPY, Cut
from apportion.engine.lowering.owner import CONSTANT_KINDS, Owner
from apportion.engine.tag import TAG

__all__ = ["argument_of", "call_graph", "program_of", "ranges_in", "without_outputs", "writable"]

_SCRATCH = (TAG, NO_COPY)


def program_of(cut: Cut, owner: Owner, marks: Mapping[fx.Node, Sequence[str]]) -> ExportedProgram:
    """The partition as an exported program: constants first (parameters, buffers, constants), then the values that
    come in, in the order of their first use; buffers that it takes over first among its outputs, then the values that
    go out in graph order.

    `marks` are keys that its nodes get in their metadata.
    """
    return _Builder(cut, owner, marks).program()


class _Builder:
    def __init__(self, cut: Cut, owner: Owner, marks: Mapping[fx.Node, Sequence[str]]) -> None:
        self.cut = cut
        self.owner = owner
        self.marks = marks
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.env: dict[fx.Node, fx.Node] = {}
        self.inputs: list[InputSpec] = []
        self.state: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}

    def program(self) -> ExportedProgram:
        """Build it."""
        cut = self.cut
        for node, spec in sorted(cut.constants.items(), key=lambda item: CONSTANT_KINDS.index(item[1].kind)):
            self._constant(node, spec)
        modules = [node for node in cut.attributes if not self._lift(node)]
        for node in cut.inputs:
            made = self._placeholder(node)
            self.inputs.append(InputSpec(InputKind.USER_INPUT, argument_of(made), None))
        for node in modules:
            self.root.add_module(str(node.target), _own(cut.attributes[node]))
            self._copied(node)
        for node in cut.nodes:
            self._copied(node)
        signature = self._finish()
        user_inputs = [spec for spec in self.inputs if spec.kind == InputKind.USER_INPUT]
        return ExportedProgram(
            root=self.root,
            graph=self.graph,
            graph_signature=signature,
            state_dict=self.state,
            range_constraints=ranges_in(self.root, self.graph, self.owner.program.range_constraints),
            module_call_graph=call_graph(len(user_inputs), len(cut.outputs)),
            constants=self.constants,
            verifiers=[self.owner.program.verifier],
        )

    def _placeholder(self, node: fx.Node) -> fx.Node:
        made = self.graph.placeholder(node.name)
        keep_name(made, node.name)
        made.meta = _meta(node)
        self.env[node] = made
        return made

    def _constant(self, node: fx.Node, spec: InputSpec) -> None:
        made = self._placeholder(node)
        target = str(spec.target)
        held = self.state if self.owner.in_state(spec) else self.constants
        held[target] = self.owner.value_of(spec)
        self.inputs.append(InputSpec(spec.kind, _named(spec.arg, made.name), target, spec.persistent))

    def _lift(self, node: fx.Node) -> bool:
        """A tensor attribute becomes a constant of the program; a module stays an attribute."""
        value = self.cut.attributes[node]
        if isinstance(value, torch.nn.Module):
            return False
        made = self._placeholder(node)
        if "val" not in made.meta and isinstance(value, torch.Tensor):
            made.meta["val"] = value
        target = str(node.target).replace(".", "_")
        self.constants[target] = value
        self.inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(made.name), target))
        return True

    def _copied(self, node: fx.Node) -> None:
        made = self.graph.node_copy(node, self.env.__getitem__)
        for key in _SCRATCH:
            made.meta.pop(key, None)
        for key in self.marks.get(node, ()):
            made.meta[key] = True
        self.env[node] = made

    def _finish(self) -> ExportGraphSignature:
        cut = self.cut
        specs = [
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(self.env[node].name), spec.target)
            for node, spec in cut.writes
        ]
        specs += [OutputSpec(OutputKind.USER_OUTPUT, argument_of(self.env[node]), None) for node in cut.outputs]
        returned = tuple(self.env[node] for node in (*(n for n, _ in cut.writes), *cut.outputs))
        made = self.graph.output(returned)
        made.meta["val"] = tuple(node.meta.get("val") for node in returned)
        return ExportGraphSignature(input_specs=self.inputs, output_specs=specs)


def _meta(node: fx.Node) -> dict[str, Any]:
    return {key: value for key, value in node.meta.items() if key not in _SCRATCH}


def _named(argument: Any, name: str) -> Any:
    made = copy.copy(argument)
    made.name = name
    return made


def _own(module: Any) -> Any:
    """The branches of a control-flow op go with it; the backend must not change those of the caller's program."""
    return copy.deepcopy(module) if isinstance(module, fx.GraphModule) else module


def ranges_in(root: torch.nn.Module, graph: fx.Graph, ranges: Mapping[Any, Any]) -> dict[Any, Any]:
    """The constraints on the symbols that occur in a graph and its branches."""
    if not ranges:
        return {}
    inner = [one.graph for one in root.modules() if isinstance(one, fx.GraphModule)]
    found: set[Any] = set()
    for one in (graph, *inner):
        for node in one.nodes:
            for value in pytree.tree_leaves(node.meta.get("val")):
                sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
                for size in sizes:
                    if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                        found |= size.node.expr.free_symbols
    return {symbol: bounds for symbol, bounds in ranges.items() if symbol in found}


def argument_of(node: fx.Node) -> Any:
    """How a signature speaks of a node's value."""
    value = node.meta.get("val")
    for kind, argument in (
        (torch.SymInt, SymIntArgument),
        (torch.SymFloat, SymFloatArgument),
        (torch.SymBool, SymBoolArgument),
    ):
        if isinstance(value, kind):
            return argument(name=node.name)
    if isinstance(value, (int, float, bool)) and node.op == "placeholder":
        return ConstantArgument(name=node.name, value=value)
    if isinstance(value, int):
        return SymIntArgument(name=node.name)
    return TensorArgument(name=node.name)


def call_graph(inputs: int, outputs: int) -> list[ModuleCallEntry]:
    """The calling convention of a program with so many flat arguments and a tuple of so many results."""
    in_spec = pytree.tree_structure((tuple(range(inputs)), {}))
    out_spec = pytree.tree_structure(tuple(range(outputs)))
    signature = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    return [ModuleCallEntry("", signature)]


def writable(program: ExportedProgram) -> ExportedProgram:
    """The program as PyTorch can write it: one that gives nothing gives None instead. Changes the graph it is given."""
    if program.graph_signature.output_specs:
        return program
    return _giving(program, (None,), [OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument(name="", value=None), None)])


def without_outputs(program: ExportedProgram) -> ExportedProgram:
    """What `writable` was given, for a program that gave nothing."""
    return _giving(program, (), [])


def _giving(program: ExportedProgram, results: tuple[Any, ...], specs: list[OutputSpec]) -> ExportedProgram:
    program.graph.output_node().args = (results,)
    signature = ExportGraphSignature(input_specs=program.graph_signature.input_specs, output_specs=specs)
    return ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=call_graph(len(signature.user_inputs), len(results)),
        constants=program.constants,
        verifiers=[program.verifier],
    )
