"""From a model to a lowered program in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch.export import ExportedProgram

from apportion.engine.errors import ProgramError
from apportion.engine.lowering.backend import to_backend
from apportion.engine.lowering.preprocess import Fallback
from apportion.engine.ops import op_of
from apportion.engine.partition import partition
from apportion.engine.partitioner import Partitioner, RulesPartitioner

__all__ = ["kept_whole", "lower", "prepare"]


def lower(
    model: Any,
    rules: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    fallback: Fallback = (),
    **arguments: Any,
) -> ExportedProgram:
    """Export (where the model is no program yet), decompose but for what the rules want whole, partition, and lower.

    `model` is an `nn.Module` (with `example_inputs`, and `dynamic_shapes` as for `torch.export.export`) or an
    `ExportedProgram`; `rules` as for `partition`, or a `Partitioner`. `fallback` is `to_backend`'s; all other keywords
    are `partition`'s (`options`, `exclude`, `strict`, ...).

    Gives the lowered program. Raises what those steps raise, and ProgramError for a model without example inputs.
    """
    program = _exported(model, example_inputs, example_kwargs, dynamic_shapes)
    if isinstance(rules, Partitioner):
        program = rules.transform_for_pre_decomposition(program)
        return to_backend(prepare(program, rules), rules, fallback=fallback)  # type: ignore[no-any-return]
    given = {key: arguments[key] for key in ("with_rules", "without_rules", "exclude", "only") if key in arguments}
    options = arguments.get("options") or {}
    partitioner = RulesPartitioner(rules, **options, **given)
    prepared = prepare(program, partitioner)
    decision = partition(prepared, partitioner.rules, **{k: v for k, v in arguments.items() if k != "options"})
    lowered: ExportedProgram = to_backend(prepared, decision, fallback=fallback)
    return lowered


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
    table = torch.export.default_decompositions()
    for op in kept_whole(program, partitioner):
        table.pop(op, None)
    decomposed: ExportedProgram = program.run_decompositions(table)
    for module in decomposed.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            _drop_proven_checks(module)
    return decomposed


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


def kept_whole(program: ExportedProgram, partitioner: Partitioner) -> list[Any]:
    """The ops that decomposition would take apart and of which the partitioner wants some node."""
    ops, keep = partitioner.ops_to_not_decompose(program)
    present = {
        op.name
        for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes if (op := op_of(node)) is not None and (keep is None or keep(node))
    }
    return [op for op in ops if str(op) in present]
