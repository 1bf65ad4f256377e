"""Partitioners as ExecuTorch knows them, with torch alone: the base class, and the one that rules drive."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch.fx as fx

from apportion.engine.collector import collector_paused
from apportion.engine.facts import ProgramFacts
from apportion.engine.mixed import has_partitioners, is_partitioner, rules_alone
from apportion.engine.ops import op_of
from apportion.engine.partition import Deciding, partition
from apportion.engine.preserve import Preserved, ops_present, preserved_ops
from apportion.engine.result import PartitionResult
from apportion.engine.sources import Rules, load_all
from apportion.engine.wishes import Wishes, choose_rules

__all__ = ["MixedPartitioner", "Partitioner", "RulesPartitioner", "rules_partitioner"]

_PARTITION_ARGUMENTS = frozenset(inspect.signature(partition).parameters) - {"program", "rules", "options"}


class Partitioner(ABC):
    """Decides which nodes of a program go to which backend.

    `spec` are settings of the partitioner, read-only afterwards. Calling a partitioner is `partition`.
    """

    def __init__(self, spec: Mapping[Any, Any] = MappingProxyType({})) -> None:
        self._spec = MappingProxyType(dict(spec))

    @property
    def spec(self) -> Mapping[Any, Any]:
        """The settings it was made with."""
        return self._spec

    def __call__(self, program: Any) -> PartitionResult:
        """The same as `partition`."""
        return self.partition(program)

    @abstractmethod
    def partition(self, program: Any) -> PartitionResult:
        """Tag the nodes of a program; nothing else of it may change."""

    def ops_to_not_decompose(self, program: Any) -> Preserved:
        """The ops that decomposition must leave alone, and a filter over their nodes (None: all of them)."""
        return [], None

    def transform_for_pre_decomposition(self, program: Any) -> Any:
        """A last word before decomposition; gives the program to go on with."""
        return program


class RulesPartitioner(Partitioner):
    """A partitioner that rules files drive.

    `rules` as for `partition`. Keywords that `partition` has (`exclude`, `only`, `with_rules`, `without_rules`,
    `compile_specs`, `strict`) are its own; every other is an option of the rules file:
    `RulesPartitioner("xnnpack", per_op_mode=True)`. Raises `RulesError` and `OptionError` at once.
    """

    def __init__(self, rules: Rules, **options: Any) -> None:
        self._arguments = {k: v for k, v in options.items() if k in _PARTITION_ARGUMENTS}
        self.rules = load_all(rules, {k: v for k, v in options.items() if k not in _PARTITION_ARGUMENTS})
        super().__init__({"rules": tuple(one.name for one in self.rules), **options})

    def partition(self, program: Any) -> PartitionResult:
        """Tag a program by the rules."""
        return partition(program, self.rules, **self._arguments)

    def ops_to_not_decompose(self, program: Any) -> Preserved:
        """The ops that the rules claim in this program and decomposition would take apart, with a filter.

        The filter is true for exactly the nodes that the rules claim in the graph it is asked about.
        """
        module = program.graph_module
        present = ops_present(module)
        ops = preserved_ops(self.rules, present)
        unfiltered = {name for one in self.rules for name in one.preserve.added}
        claimed = self._claimed(program) if ops else set()

        def keep(node: fx.Node) -> bool:
            name = _name(node)
            return name in unfiltered or (node.name, name) in claimed

        return ops, keep

    def _claimed(self, program: Any) -> set[tuple[str, str]]:
        """The nodes that the rules claim in a program, by name and op; the program's tags are left as they are."""
        wishes = {name: self._arguments.get(name, ()) for name in ("exclude", "only", "with_rules", "without_rules")}
        sets = choose_rules(self.rules, wishes["with_rules"], wishes["without_rules"])
        deciding = Deciding(sets, Wishes.of(wishes["exclude"], wishes["only"]))
        with collector_paused():
            for graph in ProgramFacts.of(program).graphs:
                deciding.graph(graph)
        return {(node.fx.name, _name(node.fx)) for owners in deciding.owned.values() for node in owners}


class MixedPartitioner(Partitioner):
    """Hand-written partitioners and rules in one sequence, in order of precedence; keywords as for RulesPartitioner."""

    def __init__(self, rules: Sequence[Any], **options: Any) -> None:
        super().__init__(options)
        self._by_hand = [one for one in rules if is_partitioner(one)]
        files = rules_alone(rules)
        driven = [RulesPartitioner(files, **options)] if files else []
        self._members = [*self._by_hand, *driven]
        self._arguments = {k: v for k, v in options.items() if k in _PARTITION_ARGUMENTS}
        loaded = iter(driven[0].rules if driven else ())
        self.rules = [one if is_partitioner(one) else next(loaded) for one in rules]

    def partition(self, program: Any) -> PartitionResult:
        """Tag a program: each in turn takes from what the earlier ones left."""
        return partition(program, self.rules, **self._arguments)

    def ops_to_not_decompose(self, program: Any) -> Preserved:
        """What any of them wants whole."""
        wanted = [one.ops_to_not_decompose(program) for one in self._members]
        filters = [({str(op) for op in ops}, keep) for ops, keep in wanted]
        ops = list(dict.fromkeys(op for ops, _ in wanted for op in ops))
        return ops, lambda node: any(_name(node) in names and (keep is None or keep(node)) for names, keep in filters)

    def transform_for_pre_decomposition(self, program: Any) -> Any:
        """Each has a word in turn."""
        for one in self._by_hand:
            program = one.transform_for_pre_decomposition(program)
        return program


def rules_partitioner(rules: Any, **options: Any) -> RulesPartitioner | MixedPartitioner:
    """The partitioner that rules as a caller gives them stand for, partitioners among them or not."""
    return MixedPartitioner(rules, **options) if has_partitioners(rules) else RulesPartitioner(rules, **options)


def _name(node: fx.Node) -> str:
    op = op_of(node)
    return op.name if op is not None else ""
