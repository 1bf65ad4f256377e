"""Rules files and hand-written partitioners in one program, in order of precedence.

Each in turn sees what the earlier ones left: their nodes carry tags of others, which nobody takes again. A partition of
a hand-written partitioner that wants a node that is gone, or that would make a cycle with earlier ones, is not made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch.fx as fx
from attrs import define, evolve, field

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.facts import GraphFacts, ProgramFacts
from apportion.engine.merge import Unit, interleaved
from apportion.engine.order import flow_of
from apportion.engine.programs import methods_of
from apportion.engine.report import BackendCoverage, NodeReason, Report, Traffic
from apportion.engine.result import DelegationSpec, Partition, PartitionResult
from apportion.engine.sources import as_list
from apportion.engine.tag import TAG, foreign_groups, tagged

__all__ = ["Held", "has_partitioners", "held_by_partitioners", "is_partitioner", "partition_mixed", "rules_alone"]

logger = logging.getLogger("apportion")

_EARLIER = "earlier:"


def has_partitioners(rules: Any) -> bool:
    """Whether rules as a caller gives them have a `Partitioner` among them."""
    return any(is_partitioner(one) for one in as_list(rules))


def is_partitioner(one: Any) -> bool:
    """Whether it is a `Partitioner`, of ours or of ExecuTorch, and no rules."""
    return not isinstance(one, str | Path | RuleSet) and callable(getattr(one, "partition", None))


Held = Mapping[fx.Node, tuple[str, str]]
"""The nodes that hand-written partitioners took: tag and backend id of each."""


def rules_alone(rules: Any) -> list[Any]:
    """Rules as a caller gives them without the partitioners among them."""
    return [one for one in as_list(rules) if not is_partitioner(one)]


def held_by_partitioners(result: PartitionResult) -> Held:
    """What partitioners took in a run: partitions without matches of rules."""
    return {node: (one.tag, one.spec.backend_id) for one in result.partitions if not one.matches for node in one.nodes}


def partition_mixed(program: Any, rules: Any, run: Callable[[Any, Any], PartitionResult]) -> PartitionResult:
    """The decision of all of them together. `run(program, rules)` is `partition` for rules alone."""
    mix = _Mix(program)
    for by_hand, several in groupby(as_list(rules), is_partitioner):
        if by_hand:
            for one in several:
                mix.by_hand(one)
        else:
            mix.by_rules(list(several), run)
    return mix.finish()


@define(eq=False)
class _Mix:
    """What was decided so far."""

    program: Any
    tags: dict[str, DelegationSpec] = field(factory=dict)
    partitions: list[Partition] = field(factory=list)
    marks: list[tuple[fx.Node, str]] = field(factory=list)
    coverage: list[BackendCoverage] = field(factory=list)
    reports: list[Report] = field(factory=list)

    def graphs(self) -> Iterator[tuple[str, GraphFacts]]:
        """Every graph of every method."""
        for method, one in methods_of(self.program):
            for graph in ProgramFacts.of(one).graphs:
                yield method, graph

    def by_rules(self, rules: list[Any], run: Callable[[Any, Any], PartitionResult]) -> None:
        """Rules files, as many as follow each other."""
        result = run(self.program, rules)
        names = {tag: self._free(tag) for tag in result.partition_tags}
        self.tags.update((names[tag], spec) for tag, spec in result.partition_tags.items())
        self.partitions += [evolve(one, tag=names[one.tag]) for one in result.partitions]
        self.marks += result.marks
        self.coverage += result.report.coverage
        self.reports.append(result.report)
        for _, graph in self.graphs():
            for node in graph.module.graph.nodes:
                if node.meta.get(TAG) in names:
                    node.meta[TAG] = _EARLIER + names[node.meta[TAG]]

    def by_hand(self, partitioner: Any) -> None:
        """A partitioner: it is asked about a program without the tags of earlier ones."""
        for method, one in methods_of(self.program):
            nodes = [n for graph in ProgramFacts.of(one).graphs for n in graph.module.graph.nodes]
            before = {node: node.meta.pop(TAG) for node in nodes if TAG in node.meta}
            wanted: dict[fx.Node, str] = {}
            try:
                result = partitioner.partition(one)
                wanted = {node: node.meta.pop(TAG) for node in nodes if TAG in node.meta}
            finally:
                for node in nodes:
                    node.meta.pop(TAG, None)
                for node, tag in before.items():
                    if tag != wanted.get(node):  # its own, of an earlier run
                        node.meta[TAG] = tag
            self._take(method, one, wanted, result.partition_tags, type(partitioner).__name__)
            self.marks += getattr(result, "marks", ())

    def _take(
        self, method: str, program: Any, wanted: Mapping[fx.Node, str], specs: Mapping[str, Any], who: str
    ) -> None:
        names = {tag: self._free(tag) for tag in specs}
        lost = {tag for node, tag in wanted.items() if TAG in node.meta and node.op != "placeholder"}
        facts = ProgramFacts.of(program)
        for graph in facts.graphs:
            lost |= _cyclic(graph, wanted, lost)
        for tag in sorted(lost):
            logger.warning("%s's partition %s is not made: earlier backends took nodes of it or around it", who, tag)
        for node, tag in wanted.items():
            if tag not in lost and TAG not in node.meta:
                node.meta[TAG] = _EARLIER + names[tag]
        for tag, spec in specs.items():
            nodes = tuple(node for node, its in wanted.items() if its == tag and node.op != "placeholder")
            if tag not in lost and nodes:
                self.tags[names[tag]] = DelegationSpec(spec.backend_id, list(spec.compile_specs))
                made = self.tags[names[tag]]
                self.partitions.append(Partition(names[tag], made, method, "", nodes))
                labels = tuple(node.name for node in nodes)
                self.coverage.append(BackendCoverage(spec.backend_id, 0, 0, 1, labels))

    def _free(self, tag: str) -> str:
        name, number = tag, 1
        while name in self.tags:
            number += 1
            name = f"{tag}_{number}"
        return name

    def finish(self) -> PartitionResult:
        """All of it, under the tags' own names."""
        owned: set[tuple[str, str, str]] = set()
        ops: dict[str, bool] = {}
        calls: list[tuple[str, str, Any]] = []
        for method, graph in self.graphs():
            for node in graph.module.graph.nodes:
                tag = node.meta.get(TAG)
                if isinstance(tag, str) and tag.startswith(_EARLIER):
                    node.meta[TAG] = tag.removeprefix(_EARLIER)
            for value in graph.calls:
                mine = value.fx.meta.get(TAG) in self.tags
                name = value.op.name if value.op is not None else value.name
                ops[name] = ops.get(name, True) and mine
                calls.append((method, graph.path, value))
                if mine:
                    owned.add((method, graph.path, value.name))
        report = Report(
            _summed(self.coverage, len(calls)), len(calls), len(owned), len(ops), sum(ops.values()),
            max((one.rounds for one in self.reports), default=0), explain=lambda: self._left(calls, owned),
        )
        return PartitionResult(self.program, self.tags, tuple(self.partitions), report, tuple(self.marks))

    def _left(self, calls: Sequence[tuple[str, str, Any]], owned: set[tuple[str, str, str]]) -> Iterator[NodeReason]:
        """The reason of the last rules that looked at a node, for each that nobody took."""
        known = {(r.method, r.graph, r.node): r for report in self.reports for r in report.left}
        several = isinstance(self.program, Mapping)
        for method, path, value in calls:
            if (method, path, value.name) not in owned:
                op = value.op.name if value.op is not None else value.name
                label = method if several else ""
                yield known.get((label, path, value.name)) or NodeReason(
                    label, path, value.name, op, "", "no rule", None, None, None, (), None,
                    f"no partitioner takes {op}")


def _cyclic(graph: GraphFacts, wanted: Mapping[fx.Node, str], lost: set[str]) -> set[str]:
    groups: dict[str, list[int]] = {}
    for call in graph.calls:
        tag = wanted.get(call.fx)
        if tag is not None and tag not in lost:
            groups.setdefault(tag, []).append(call.position)
    names = list(groups)
    flow = flow_of(graph)
    found = interleaved(flow, [Unit(tuple(groups[name])) for name in names], foreign_groups(tagged(graph), flow))
    return {names[index] for index in found}


def _summed(coverage: Sequence[BackendCoverage], total: int) -> tuple[BackendCoverage, ...]:
    found: dict[str, list[BackendCoverage]] = {}
    for one in coverage:
        found.setdefault(one.backend_id, []).append(one)
    return tuple(
        BackendCoverage(backend, len(nodes), total, sum(one.partitions for one in several), nodes,
                        partial(_traffic, several))
        for backend, several in found.items()
        for nodes in [tuple(node for one in several for node in one.nodes)]
    )  # fmt: skip


def _traffic(several: Sequence[BackendCoverage]) -> Traffic:
    return sum((one.traffic for one in several), Traffic())
