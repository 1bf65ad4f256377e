"""A program as a partitioner sees it: decomposed to core ATen, but for the ops that the rules claim whole."""

from __future__ import annotations

from collections.abc import Sequence

from torch.export import ExportedProgram

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.lowering.whole import decompose, prepare
from apportion.engine.partitioner import RulesPartitioner

__all__ = ["decomposed"]


def decomposed(program: ExportedProgram, rules: Sequence[RuleSet]) -> ExportedProgram:
    """The program after torch's decompositions; an op of which the rules claim some node is kept whole everywhere, so
    that the nodes that they don't claim are reported under the name that the rules use.

    Raises ProgramError where torch can't decompose the program.
    """
    return prepare(program, RulesPartitioner(tuple(rules))) if rules else decompose(program)
