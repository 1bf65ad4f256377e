"""What else is in the way of a node: what is met once the first obstacle is let off, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.explain.changes import NOTHING, Changes, changed, place_of
from apportion.engine.facts import GraphFacts, ProgramFacts, Value
from apportion.engine.partition import Deciding
from apportion.engine.programs import methods_of
from apportion.engine.reasons import Attempt
from apportion.engine.wishes import Wishes

__all__ = ["Further"]

_MOST = 12
"""So many obstacles are followed."""


@define(eq=False)
class Further:
    """Asks a program again and again, with one condition less each time. What was decided once is kept; nothing is
    tagged."""

    program: Any
    sets: tuple[RuleSet, ...]
    wishes: Wishes
    _facts: Mapping[str, ProgramFacts] = field(init=False)
    _runs: dict[tuple[str, Changes], Deciding] = field(factory=dict)

    @_facts.default
    def _own_facts(self) -> Mapping[str, ProgramFacts]:
        return {method: ProgramFacts.of(one) for method, one in methods_of(self.program)}

    def obstacles(self, method: str, node: Value, first: Attempt) -> Iterator[Attempt]:
        """What would be in the way of a node after `first`; nothing follows a last one that is no condition of a
        file."""
        facts = self._facts[method]
        graph = next(one for one in facts.graphs if one.path == node.graph.path)
        twin = next(one for one in graph.calls if one.name == node.name)
        changes, attempt = NOTHING, first
        for _ in range(_MOST):
            if attempt.failed is None:
                return
            less = changes | Changes(dropped=frozenset({place_of(attempt.failed.span)}))
            if less == changes:
                return
            changes = less
            following = self._left(method, graph, twin, changes)
            if following is None:
                return
            attempt = following
            yield attempt

    def _left(self, method: str, graph: GraphFacts, node: Value, changes: Changes) -> Attempt | None:
        """Why the node is left under these changes; None where it is not."""
        deciding = self._runs.get((method, changes))
        if deciding is None:
            deciding = self._runs[method, changes] = Deciding(changed(self.sets, changes), self.wishes)
            for one in self._facts[method].graphs:
                deciding.graph(one)
        return None if node in deciding.owners(graph) else deciding.barred.get(node) or deciding.attempts.of(node)
