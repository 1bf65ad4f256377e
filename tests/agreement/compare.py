"""One program before both partitioners, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from torch.export import ExportedProgram

from apportion.engine.partition import partition
from tests.agreement.errors import error_of_theirs
from tests.agreement.record import Decision, Options, clean, op_nodes, read_decision

__all__ = ["Comparison", "compare", "ours"]

RULES = "xnnpack"


@frozen(eq=False)
class Comparison:
    """What both said about one program.

    `only_theirs` and `only_ours` are the nodes that only one of them claims, less those of `excused`: nodes where
    theirs is wrong in a way that `errors.py` shows with a minimal program.
    """

    name: str
    options: Options
    nodes: int
    theirs: Decision = field(repr=False)
    ours: Decision = field(repr=False)
    only_theirs: tuple[str, ...]
    only_ours: tuple[str, ...]
    excused: tuple[tuple[str, str], ...]

    @property
    def disagreements(self) -> int:
        """Nodes with another verdict that nothing excuses."""
        return len(self.only_theirs) + len(self.only_ours)

    @property
    def agrees(self) -> bool:
        """The same verdict for every node, and no more partitions than theirs."""
        return self.disagreements == 0 and (bool(self.excused) or not self.more_partitions)

    @property
    def more_partitions(self) -> bool:
        """Are there more partitions than theirs?"""
        return not self.theirs.error and len(self.ours.partitions) > len(self.theirs.partitions)


def ours(program: ExportedProgram, options: Options, rules: Any = RULES) -> Decision:
    """What the rules say about a program; the program is left clean. `rules` may be a loaded set (its own options)."""
    clean(program)
    try:
        given: Mapping[str, Any] | None = dict(options) if rules is RULES else None
        result = partition(program, rules, options=given)
        for node, key in result.marks:
            node.meta[key] = True
        return read_decision(program, result.partition_tags)
    finally:
        clean(program)


def compare(name: str, program: ExportedProgram, options: Options, theirs: Decision, decided: Decision) -> Comparison:
    """Set the two decisions side by side."""
    differing = theirs.claimed ^ decided.claimed
    nodes = {node.name: node for node in program.graph.nodes}
    excused = [(name, error_of_theirs(nodes[name], program)) for name in sorted(differing)]
    known = {name for name, error in excused if error}
    left = differing - known
    return Comparison(
        name,
        options,
        len(op_nodes(program)),
        theirs,
        decided,
        tuple(sorted(left & theirs.claimed)),
        tuple(sorted(left & decided.claimed)),
        tuple((name, error) for name, error in excused if error),
    )
