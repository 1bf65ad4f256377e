"""What partitioning gives: specs, tagged partitions, and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch.fx as fx
from attrs import field, frozen

from apportion.engine.report import Report

__all__ = ["CompileSpec", "Contents", "DelegationSpec", "Partition", "PartitionResult"]


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
class Contents:
    """What a partition is made of and what crosses its border, by names; see `Partition`."""

    matches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constant_sizes: Mapping[str, int] = field(factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0


@frozen(eq=False, slots=False)
class Partition:
    """One partition.

    `graph` is the path of the graph it lies in ("" for the program's own); `nodes` are its FX nodes in graph order,
    getitems included; `matches` the rules that claimed them, each with the names of the nodes of one match; `inputs`
    and `outputs` the values that cross its border (names, `name[i]` for one of several outputs), `constant_sizes` the
    constants that go along with their bytes. Bytes are those of tensors of known size. What takes names and sizes is
    worked out when it is asked for.
    """

    tag: str
    spec: DelegationSpec
    method: str
    graph: str
    nodes: tuple[fx.Node, ...]
    _contents: Callable[[], Contents] = field(default=Contents, repr=False)

    @cached_property
    def contents(self) -> Contents:
        """All that takes names and sizes, at once."""
        return self._contents()

    @property
    def matches(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The rules that claimed its nodes, each with the names of the nodes of one match."""
        return self.contents.matches

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that go in, by name."""
        return self.contents.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The values that come out, by name."""
        return self.contents.outputs

    @property
    def constant_sizes(self) -> Mapping[str, int]:
        """The constants that go along, with their bytes."""
        return self.contents.constant_sizes

    @property
    def bytes_in(self) -> int:
        """The bytes of what goes in."""
        return self.contents.bytes_in

    @property
    def bytes_out(self) -> int:
        """The bytes of what comes out."""
        return self.contents.bytes_out

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
