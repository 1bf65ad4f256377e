"""What ExecuTorch's own `XnnpackPartitioner` is given and what it decides.

Its `partition` is wrapped inside a real `to_edge_transform_and_lower`: the wrapper notes the program and the
decision and then stops the lowering, so that the recorded program stays exactly as it was handed over.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from attrs import evolve, field, frozen
from torch.export import ExportedProgram

from tests.agreement.models import exported

__all__ = [
    "DEFAULTS",
    "OPTION_SETS",
    "Decision",
    "Options",
    "Recording",
    "clean",
    "decision_of",
    "judge",
    "options_of",
    "plain",
    "read_decision",
    "record",
    "record_program",
    "theirs",
]

OPTION_SETS: tuple[dict[str, object], ...] = (
    {},
    {"precisions": ("fp32",)},
    {"precisions": ("static_quant",)},
    {"precisions": ("dynamic_quant",)},
    {"precisions": ("fp32", "static_quant")},
    {"precisions": ("fp32", "dynamic_quant")},
    {"precisions": ("static_quant", "dynamic_quant")},
    {"per_op_mode": True},
    {"enable_bf16": True},
    {"force_non_static_weights_for_f32_linear": True},
    {"force_non_static_weights_for_f32_linear": True, "precisions": ("fp32",)},
)
"""Every value of every option (all subsets of the precisions), and one pair that belongs together."""

PRECISIONS = ("fp32", "static_quant", "dynamic_quant")

Options = tuple[tuple[str, Any], ...]

DEFAULTS: Mapping[str, Any] = {
    "precisions": frozenset(PRECISIONS),
    "per_op_mode": False,
    "enable_bf16": False,
    "force_non_static_weights_for_f32_linear": False,
}

TAG = "delegation_tag"
SCRATCH = (TAG, "IS_IMPLICIT_Q_DQ_TAG", "xnn_partitioner_config")


@frozen(eq=False)
class Decision:
    """`partitions` are the names of the tagged nodes, op nodes (with getitems) apart from constants; `marked` are the
    nodes whose metadata carries the mark of a quantized match; `error` is what was raised instead."""

    partitions: tuple[frozenset[str], ...] = ()
    constants: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    specs: tuple[tuple[str, tuple[tuple[str, bytes], ...]], ...] = ()
    error: str = ""

    @property
    def claimed(self) -> frozenset[str]:
        """The names of all claimed call_function nodes."""
        return frozenset().union(*self.partitions)


def plain(decision: Decision) -> list[Any]:
    """A decision as JSON data."""
    specs = [[backend, [[key, value.hex()] for key, value in specs]] for backend, specs in decision.specs]
    partitions = [sorted(names) for names in decision.partitions]
    return [partitions, sorted(decision.constants), sorted(decision.marked), specs, decision.error]


def decision_of(data: list[Any]) -> Decision:
    """The decision that `plain` gave."""
    partitions, constants, marked, specs, error = data
    return Decision(
        tuple(frozenset(names) for names in partitions),
        frozenset(constants),
        frozenset(marked),
        tuple((backend, tuple((key, bytes.fromhex(value)) for key, value in specs)) for backend, specs in specs),
        error,
    )


@frozen(eq=False)
class Recording:
    """A program as a partitioner gets it, its call_function nodes, and what the real partitioner said."""

    name: str
    options: Options
    program: ExportedProgram = field(repr=False)
    nodes: tuple[str, ...] = field(repr=False)
    theirs: Decision = field(repr=False)


class _Stop(Exception):
    """Ends the lowering once the decision is known."""


def options_of(given: Mapping[str, Any]) -> Options:
    """The options as a hashable value, sorted by name, the defaults left out."""
    unknown = set(given) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown options {sorted(unknown)}; known are {sorted(DEFAULTS)}")
    plain = {key: frozenset(value) if key == "precisions" else value for key, value in given.items()}
    return tuple((key, value) for key, value in sorted(plain.items()) if DEFAULTS[key] != value)


def theirs(options: Options) -> Any:
    """A real `XnnpackPartitioner` with these options."""
    logging.getLogger("root").setLevel(logging.WARNING)
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    given = dict(options)
    precisions = given.pop("precisions", None)
    if precisions is not None:
        given["config_precisions"] = [ConfigPrecisionType[name.upper()] for name in PRECISIONS if name in precisions]
    return XnnpackPartitioner(**given)


def clean(program: ExportedProgram) -> None:
    """Take away what an earlier partitioner left in the metadata."""
    for node in program.graph.nodes:
        for key in SCRATCH:
            node.meta.pop(key, None)


def read_decision(program: ExportedProgram, tags: Mapping[str, Any]) -> Decision:
    """The decision that a partitioner has written into the program's metadata."""
    partitions: dict[str, set[str]] = {}
    constants: set[str] = set()
    marked: set[str] = set()
    for node in program.graph.nodes:
        if node.meta.get("IS_IMPLICIT_Q_DQ_TAG"):
            marked.add(node.name)
        tag = node.meta.get(TAG)
        if tag is None:
            continue
        if node.op == "call_function":
            partitions.setdefault(tag, set()).add(node.name)
        else:
            constants.add(node.name)
    used = [tags[tag] for tag in partitions]
    specs = {(spec.backend_id, tuple((s.key, bytes(s.value)) for s in spec.compile_specs)) for spec in used}
    return Decision(
        partitions=tuple(frozenset(names) for names in partitions.values()),
        constants=frozenset(constants),
        marked=frozenset(marked),
        specs=tuple(sorted(specs)),
    )


def judge(program: ExportedProgram, options: Options = (), decide: Callable[..., Any] | None = None) -> Decision:
    """What the real partitioner (its `partition`, if given) decides about this program; the program is left clean."""
    clean(program)
    try:
        result = (decide or theirs(options).partition)(program)
        return read_decision(program, result.partition_tags)
    except Exception as error:  # whatever it raises is part of its answer
        return Decision(error=f"{type(error).__name__}: {error}")
    finally:
        clean(program)


def op_nodes(program: ExportedProgram) -> tuple[str, ...]:
    """The names of the program's call_function nodes."""
    return tuple(node.name for node in program.graph.nodes if node.op == "call_function")


def kept_nodes(program: ExportedProgram, options: Options) -> frozenset[str]:
    """The nodes of an ATen graph that the real partitioner keeps from decomposition."""
    ops, keep = theirs(options).ops_to_not_decompose(program)
    return frozenset(
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and node.target in ops and (keep is None or keep(node))
    )


def record_program(
    name: str, program: ExportedProgram, options: Options = (), kept: dict[Options, frozenset[str]] | None = None
) -> Recording:
    """Send an exported program through the real pipeline up to the end of `partition`.

    `kept` is filled in for each of its options: which nodes of the ATen graph would be kept under them. Equal sets lead
    to equal Edge programs.
    """
    from executorch.exir import to_edge_transform_and_lower

    partitioner = theirs(options)
    decide, preserve = partitioner.partition, partitioner.ops_to_not_decompose
    found: list[Recording] = []

    def partition(given: ExportedProgram) -> Any:
        clean(given)
        found.append(Recording(name, options, given, op_nodes(given), judge(given, options, decide)))
        raise _Stop

    def ops_to_not_decompose(given: ExportedProgram) -> Any:
        if kept is not None:
            kept.update({other: kept_nodes(given, other) for other in kept})
        return preserve(given)

    partitioner.partition, partitioner.ops_to_not_decompose = partition, ops_to_not_decompose
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            to_edge_transform_and_lower(program, partitioner=[partitioner])
        except _Stop:
            pass
    return found[0]


_kept: dict[str, dict[Options, frozenset[str]]] = {}


@cache
def record(name: str, options: Options = ()) -> Recording:
    """The recording of a model, made once per process.

    Options that keep the same nodes from decomposition are judged on one and the same Edge program.
    """
    with torch.no_grad():
        if not options:
            _kept[name] = dict.fromkeys((options_of(given) for given in OPTION_SETS), frozenset())
            return record_program(name, exported(name).program, options, _kept[name])
        default = record(name)
        kept = _kept[name]
        if kept.get(options) == kept[()]:
            return evolve(default, options=options, theirs=judge(default.program, options))
        return record_program(name, exported(name).program, options)
