"""From a model to a lowered program in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from apportion.engine.errors import ProgramError
from apportion.engine.lowering.backend import to_backend
from apportion.engine.lowering.preprocess import Fallback
from apportion.engine.mixed import is_partitioner
from apportion.engine.ops import op_of
from apportion.engine.partition import check_strict, partition
from apportion.engine.partitioner import Partitioner, rules_partitioner
from apportion.engine.preserve import ops_present
from apportion.engine.report import Report
from apportion.engine.result import PartitionResult

__all__ = ["decompose", "lower", "prepare"]


def lower(
    model: Any,
    rules: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    decompose: bool = True,
    fallback: Fallback = (),
    on_decision: Callable[[PartitionResult], None] | None = None,
    **arguments: Any,
) -> ExportedProgram:
    """Export (where the model is no program yet), decompose but for what the rules want whole, partition, and lower.

    `model` is an `nn.Module` (with `example_inputs`, and `dynamic_shapes` as for `torch.export.export`) or an
    `ExportedProgram`, which `decompose=False` takes as it is; `rules` as for `partition`, or a `Partitioner`.
    `fallback` is `to_backend`'s; all other keywords are `partition`'s (`options`, `exclude`, `strict`, ...).
    `on_decision` is told what the rules decided before anything is compiled; a second time where ops were kept whole
    for a backend that left them, and what they decompose to is offered again.

    Gives the lowered program. Raises what those steps raise, and ProgramError for a model without example inputs and
    for a program that torch can't decompose.
    """
    program = _exported(model, example_inputs, example_kwargs, dynamic_shapes)
    lowered = _lowered_whole if decompose else _lowered_as_it_is
    if is_partitioner(rules):
        program = rules.transform_for_pre_decomposition(program)
        return lowered(program, rules, lambda one: to_backend(one, rules, fallback=fallback))
    options = arguments.pop("options", None) or {}
    strict = arguments.pop("strict", False)
    asked = {key: arguments[key] for key in ("with_rules", "without_rules", "exclude", "only") if key in arguments}
    partitioner = rules_partitioner(rules, **options, **asked)
    program = partitioner.transform_for_pre_decomposition(program)
    chosen = partitioner.rules
    reports: list[Report] = []

    def decided(one: ExportedProgram) -> ExportedProgram:
        decision = partition(one, chosen, **arguments)
        reports.append(decision.report)
        if on_decision is not None:
            on_decision(decision)
        made: ExportedProgram = to_backend(one, decision, fallback=fallback)
        return made

    made = lowered(program, partitioner, decided)
    if strict:
        check_strict(reports[-1])
    return made


_Step = Callable[[ExportedProgram], ExportedProgram]


def _lowered_whole(program: ExportedProgram, partitioner: Partitioner, step: _Step) -> ExportedProgram:
    """Decomposed, lowered, and once more where an op was kept whole for a backend and not taken in the end."""
    kept = _kept_whole(program, partitioner)
    lowered = step(decompose(program, kept))
    rest = _rest_decomposed(lowered, kept)
    return lowered if rest is lowered else step(rest)


def _lowered_as_it_is(program: ExportedProgram, _: Partitioner, step: _Step) -> ExportedProgram:
    return step(program)


def _exported(
    model: Any, inputs: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        return model
    if not isinstance(model, torch.nn.Module):
        raise ProgramError(f"a {type(model).__qualname__} is neither a model nor an exported program")
    if inputs is None and kwargs is None:
        raise ProgramError("a model needs example_inputs to be exported: engine.lower(model, rules, (x,))")
    return torch.export.export(model, tuple(inputs or ()), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)


def prepare(program: ExportedProgram, partitioner: Partitioner) -> ExportedProgram:
    """The program decomposed to core ATen, but for the ops that the partitioner will take whole, and without checks of
    tensor types that always hold."""
    return decompose(program, _kept_whole(program, partitioner))


def decompose(program: ExportedProgram, kept: Sequence[OpOverload] = ()) -> ExportedProgram:
    """The program decomposed to core ATen, but for the ops to keep. Raises ProgramError where torch can't."""
    table = torch.export.default_decompositions()
    for op in kept:
        table.pop(op, None)
    try:
        decomposed: ExportedProgram = program.run_decompositions(table)
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise ProgramError(f"torch can't decompose this program: {lines[0]} (--as-it-is, in Python decompose=False, "
                           "goes on without)") from problem
    for module in decomposed.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            _drop_proven_checks(module)
    return decomposed


def _rest_decomposed(lowered: ExportedProgram, kept: Sequence[OpOverload]) -> ExportedProgram:
    """A lowered program without those ops that were kept whole for a backend and are in no delegate; the very same
    program where none is left."""
    left = ops_present(lowered.graph_module)
    table = torch.export.default_decompositions()
    wanted = {op: table[op] for op in kept if str(op) in left and op in table}
    if not wanted:
        return lowered
    rest: ExportedProgram = lowered.run_decompositions(wanted)
    return rest


def _drop_proven_checks(module: fx.GraphModule) -> None:
    """Take out the checks of a tensor's type that its metadata proves: nothing is left of them to run."""
    checks = [n for n in module.graph.nodes if n.target is torch.ops.aten._assert_tensor_metadata.default]
    for node in checks:
        if _is_proven(node):
            module.graph.erase_node(node)
    if checks:
        module.recompile()


def _is_proven(node: fx.Node) -> bool:
    value = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    known = {"dtype": value.dtype, "device": value.device, "layout": value.layout}
    asked = {**dict(zip(("size", "stride", "dtype"), node.args[1:], strict=False)), **node.kwargs}
    return all(expected is None or known.get(name) == expected for name, expected in asked.items())


def _kept_whole(program: ExportedProgram, partitioner: Partitioner) -> list[OpOverload]:
    """The ops that decomposition would take apart and of which the partitioner wants some node."""
    ops, keep = partitioner.ops_to_not_decompose(program)
    present = {
        op.name
        for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes if (op := op_of(node)) is not None and (keep is None or keep(node))
    }
    return [op for op in ops if str(op) in present]
