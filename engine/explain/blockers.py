"""What breaks the graph: ops and conditions ranked by what would change without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

from attrs import frozen

from apportion.engine.errors import OptionError
from apportion.engine.explain.changes import Changes, Condition, conditions
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.study import Difference, Outcome, Study
from apportion.engine.facts import Value
from apportion.engine.reasons import Attempt
from apportion.engine.report import Report
from apportion.grammar.diagnostics import nearest

__all__ = ["ORDERS", "Blocker", "Blockers", "find_blockers"]

ORDERS: Mapping[str, Callable[[Outcome], tuple[int, ...]]] = {
    "partitions": lambda o: (o.partitions, o.border, -o.claimed),
    "bytes": lambda o: (o.border, o.partitions, -o.claimed),
    "nodes": lambda o: (-o.claimed, o.partitions, o.border),
}
"""What counts most when blockers are ranked; less is better."""

_EXACT = 150
"""Up to so many combinations are all tried; beyond that the best is taken one by one."""


@frozen
class Blocker:
    """One thing that stands in the way: an op (`kind` "op") or a condition (`kind` "condition").

    `name` is the op, or the place of the condition with its owner; `nodes` how many nodes are left for it, `difference`
    what would change if a rule of one line took the op, or the condition were let off.
    """

    kind: str
    name: str
    text: str
    nodes: int
    changes: Changes
    difference: Difference

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "name": self.name, "text": self.text, "nodes": self.nodes,
                **_delta(self.difference)}


def _delta(difference: Difference) -> dict[str, int]:
    return {"claimed": difference.nodes, "partitions": difference.partitions, "border_bytes": difference.border}


@frozen
class Blockers:
    """All blockers, those with most effect first, and the best few together.

    `together` has for each number k from 1 on the names and what they change together; `exact` tells whether every
    combination was tried.
    """

    by: str
    now: Outcome
    single: tuple[Blocker, ...]
    together: tuple[tuple[tuple[Blocker, ...], Difference], ...]
    exact: bool

    def to_json(self) -> dict[str, Any]:
        """As plain data, by the schema `apportion.blockers/1`."""
        return {
            "schema": "apportion.blockers/1",
            "by": self.by,
            "now": self.now.to_json(),
            "blockers": [b.to_json() for b in self.single],
            "together": [{"names": [b.name for b in some], **_delta(d)} for some, d in self.together],
            "exact": self.exact,
        }


def find_blockers(
    program: Any,
    rules: Any,
    *,
    by: str = "partitions",
    together: int = 3,
    kinds: Iterable[str] = ("op", "condition"),
    backend: str | None = None,
    **arguments: Any,
) -> Blockers:
    """What stands in the way of fewer partitions (`by` "partitions"), fewer bytes across borders ("bytes"), or more
    claimed nodes ("nodes").

    An op counts as claimed by a rule of one line at the end of the first file (or of the one of `backend`), so the
    invariants and limits of that file still hold. `together` is the largest number that is combined. Other arguments
    are those of `partition`. Raises OptionError for unknown words, or a number below 1.
    """
    if by not in ORDERS:
        raise OptionError(f"`{by}` is no order; there are {', '.join(ORDERS)}")
    if together < 1:
        raise OptionError(f"{together} can't be combined; together is 1 or more")
    study = Study.of(program, rules, **arguments)
    explainer = Explainer.of(program, rules, **arguments)
    chosen = tuple(kinds)
    found: list[Blocker] = []
    if "op" in chosen:
        found += _ops(study, explainer.result.report, _backend(study, backend))
    if "condition" in chosen:
        found += _conditions(study, explainer)
    rank = ORDERS[by]
    found.sort(key=lambda b: (*rank(b.difference.after), b.kind, b.name))
    best, exact = _together(study, found, together, rank)
    return Blockers(by, study.outcome(), tuple(found), best, exact)


def _backend(study: Study, name: str | None) -> int:
    if name is None:
        return 0
    known = [one.backend_id for one in study.sets]
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean `{near[0]}`?" if near else ", ".join(known)
        raise OptionError(f"there is no backend `{name}`; {hint}")
    return known.index(name)


def _ops(study: Study, report: Report, backend: int) -> list[Blocker]:
    left: dict[str, int] = {}
    for reason in report.left:
        if reason.kind not in _NOT_OURS:
            left[reason.op] = left.get(reason.op, 0) + 1
    found = []
    for op, count in left.items():
        changes = Changes(claimed=(op,), backend=backend)
        found.append(Blocker("op", op, f"a rule that takes {op}", count, changes, study.difference(changes)))
    return found


_NOT_OURS = frozenset({"excluded by user", "other partitioner", "lowered"})
"""Reasons that no rule could change."""


def _conditions(study: Study, explainer: Explainer) -> list[Blocker]:
    known: dict[Any, Condition] = {}
    for rules in study.sets:
        for condition in conditions(rules):
            known.setdefault(condition.place, condition)
    nodes: dict[Any, dict[Value, Attempt]] = {}
    for value, attempt in _furthest(explainer):
        span = attempt.span
        if attempt.failed is not None and span is not None:
            nodes.setdefault((span.source.name, span.start), {})[value] = attempt
    found = []
    for place, those in nodes.items():
        if place not in known:
            continue
        owner, step = known[place].owner, known[place].step
        changes = Changes(dropped=frozenset({place}))
        name = f"{owner} ({step.span})"
        found.append(Blocker("condition", name, step.text, len(those), changes, study.difference(changes)))
    return found


def _furthest(explainer: Explainer) -> list[tuple[Value, Attempt]]:
    """The attempt that came furthest at each node that was left."""
    found = []
    for _, (facts, deciding) in explainer.decided.items():
        for graph in facts.graphs:
            owners = deciding.owners(graph)
            for node in graph.calls:
                attempt = deciding.attempts.of(node)
                if attempt is not None and node not in owners:
                    found.append((node, attempt))
    return found


def _together(
    study: Study, found: Sequence[Blocker], most: int, rank: Callable[[Outcome], tuple[int, ...]]
) -> tuple[tuple[tuple[tuple[Blocker, ...], Difference], ...], bool]:
    """The best 1, 2, … of them together; all combinations where there are few, else the best added one by one."""
    result: list[tuple[tuple[Blocker, ...], Difference]] = []
    exact = True
    for k in range(1, min(most, len(found)) + 1):
        if comb(len(found), k) <= _EXACT:
            choices: Iterable[tuple[Blocker, ...]] = combinations(found, k)
        else:
            exact = False
            before = result[-1][0] if result else ()
            choices = ((*before, other) for other in found if other not in before)
        best = min(choices, key=lambda some: (*rank(study.outcome(_all(some))), [b.name for b in some]))
        result.append((best, study.difference(_all(best))))
    return tuple(result), exact


def _all(some: Iterable[Blocker]) -> Changes:
    """Several changes at once, in one order whatever the order of the blockers is."""
    total = Changes()
    for blocker in sorted(some, key=lambda b: b.name):
        total = total | blocker.changes
    return total
