"""What ExecuTorch's own `XnnpackPartitioner` is given and what it decides.

Its `partition` is wrapped inside a real `to_edge_transform_and_lower`: the wrapper notes the program and the
decision and then stops the lowering, so that the recorded program stays exactly as it was handed over.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from attrs import field, frozen
from torch.export import ExportedProgram

from tests.agreement.models import exported

__all__ = [
    "DEFAULTS",
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


def judge(program: ExportedProgram, options: Options = ()) -> Decision:
    """What the real partitioner decides about this program; the program is left clean."""
    clean(program)
    try:
        result = theirs(options).partition(program)
        return read_decision(program, result.partition_tags)
    except Exception as error:  # whatever it raises is part of its answer
        return Decision(error=f"{type(error).__name__}: {error}")
    finally:
        clean(program)


def op_nodes(program: ExportedProgram) -> tuple[str, ...]:
    """The names of the program's call_function nodes."""
    return tuple(node.name for node in program.graph.nodes if node.op == "call_function")


def record_program(name: str, program: ExportedProgram, options: Options = ()) -> Recording:
    """Send an exported program through the real pipeline up to the end of `partition`."""
    from executorch.exir import to_edge_transform_and_lower

    partitioner = theirs(options)
    original = partitioner.partition
    found: list[Recording] = []

    def partition(given: ExportedProgram) -> Any:
        clean(given)
        try:
            decision = read_decision(given, original(given).partition_tags)
        except Exception as error:  # whatever it raises is part of its answer
            decision = Decision(error=f"{type(error).__name__}: {error}")
        clean(given)
        found.append(Recording(name, options, given, op_nodes(given), decision))
        raise _Stop

    partitioner.partition = partition
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            to_edge_transform_and_lower(program, partitioner=[partitioner])
        except _Stop:
            pass
    return found[0]


@lru_cache(maxsize=None)
def record(name: str, options: Options = ()) -> Recording:
    """The recording of a model, made once per process."""
    with torch.no_grad():
        return record_program(name, exported(name).program, options)
