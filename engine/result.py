"""What partitioning gives: specs, tagged partitions, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.fx as fx
from attrs import field, frozen

from apportion.engine.report import Report

__all__ = ["CompileSpec", "DelegationSpec", "Partition", "PartitionResult"]


@frozen
class CompileSpec:
    """One setting for a backend's compiler: a key and its bytes."""

    key: str
    value: bytes


@frozen
class DelegationSpec:
    """The backend that a partition goes to, and the settings that go with it."""

    backend_id: str
    compile_specs: list[CompileSpec] = field(factory=list)


@frozen(eq=False)
class Partition:
    """One partition.

    `graph` is the path of the graph it lies in ("" for the program's own); `nodes` are its FX nodes in graph order,
    getitems included; `rules` the rules that claimed them, each with the names of the nodes of one match; `inputs` and
    `outputs` the values that cross its border (names, `name[i]` for one of several outputs), `constant_sizes` the
    constants that go along with their bytes. Bytes are those of tensors of known size.
    """

    tag: str
    spec: DelegationSpec
    method: str
    graph: str
    nodes: tuple[fx.Node, ...]
    matches: tuple[tuple[str, tuple[str, ...]], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constant_sizes: Mapping[str, int]
    bytes_in: int
    bytes_out: int

    @property
    def constants(self) -> tuple[str, ...]:
        """The constants that go along, by name."""
        return tuple(self.constant_sizes)

    @property
    def constant_bytes(self) -> int:
        """The bytes of those constants."""
        return sum(self.constant_sizes.values())


@frozen(eq=False)
class PartitionResult:
    """The outcome of `partition`.

    `tagged_exported_program` is what was handed in, its nodes tagged; `partition_tags` gives each tag its spec;
    `marks` lists what rules ask adapters to write into metadata, as pairs of node and key.
    """

    tagged_exported_program: Any
    partition_tags: Mapping[str, DelegationSpec]
    partitions: tuple[Partition, ...] = ()
    report: Report = field(factory=Report)
    marks: tuple[tuple[fx.Node, str], ...] = ()
