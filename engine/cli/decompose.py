"""A program as a partitioner sees it: decomposed to core ATen, but for the ops that the rules claim whole."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram

from apportion.engine.cli.console import CommandError
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.lowering.whole import kept_whole
from apportion.engine.partitioner import RulesPartitioner

__all__ = ["decomposed"]


def decomposed(program: ExportedProgram, rules: Sequence[RuleSet]) -> ExportedProgram:
    """The program after torch's decompositions; an op of which the rules claim some node is kept whole everywhere, so
    that the nodes that they don't claim are reported under the name that the rules use.

    Raises CommandError where torch can't decompose the program.
    """
    table = torch.export.default_decompositions()
    if rules:
        for op in kept_whole(program, RulesPartitioner(tuple(rules))):
            table.pop(op, None)
    try:
        result: ExportedProgram = program.run_decompositions(table)
        return result
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise CommandError(f"torch can't decompose this program: {lines[0]} (--as-it-is goes on without)") from problem
