"""A program and its rules, asked again and again: what would be claimed if …"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from apportion.engine.candidates import Attempts, Candidate, Matcher
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.explain.changes import NOTHING, Changes, changed
from apportion.engine.facts import GraphFacts, ProgramFacts, Value
from apportion.engine.mixed import Held, has_partitioners, held_by_partitioners, rules_alone
from apportion.engine.partition import Deciding, partition
from apportion.engine.programs import methods_of
from apportion.engine.settle import border_of
from apportion.engine.sources import Rules, load_all
from apportion.engine.wishes import Wishes, choose_rules

__all__ = ["Difference", "Outcome", "Study"]

NodeName = tuple[str, str, str]
"""Method, path of the graph, name."""


@frozen
class Outcome:
    """What a run claims, in numbers: op nodes and distinct ops, partitions, bytes across borders, constants taken.

    `nodes` has the owner of every claimed node, `groups` the partitions as sets of nodes.
    """

    claimed: int
    total: int
    ops_claimed: int
    ops_total: int
    partitions: int
    bytes_in: int
    bytes_out: int
    constant_bytes: int
    nodes: Mapping[NodeName, str] = field(repr=False)
    groups: frozenset[frozenset[NodeName]] = field(repr=False)

    @property
    def border(self) -> int:
        """Bytes in and out together."""
        return self.bytes_in + self.bytes_out

    def to_json(self) -> dict[str, int]:
        """The numbers as plain data."""
        return {name: getattr(self, name) for name in _NUMBERS}


_NUMBERS = ("claimed", "total", "ops_claimed", "ops_total", "partitions", "bytes_in", "bytes_out", "constant_bytes")


@frozen
class Difference:
    """Two outcomes side by side."""

    before: Outcome
    after: Outcome

    @property
    def nodes(self) -> int:
        """Nodes more (or, negative, fewer) claimed."""
        return self.after.claimed - self.before.claimed

    @property
    def partitions(self) -> int:
        """Partitions more or fewer."""
        return self.after.partitions - self.before.partitions

    @property
    def border(self) -> int:
        """Bytes more or fewer across borders."""
        return self.after.border - self.before.border

    @property
    def gained(self) -> tuple[NodeName, ...]:
        """Nodes claimed only afterwards."""
        return tuple(node for node in self.after.nodes if node not in self.before.nodes)

    @property
    def lost(self) -> tuple[NodeName, ...]:
        """Nodes claimed only before."""
        return tuple(node for node in self.before.nodes if node not in self.after.nodes)

    def to_json(self) -> dict[str, Any]:
        """Both outcomes and what changed, as plain data."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "gained": [_label(node) for node in self.gained],
            "lost": [_label(node) for node in self.lost],
        }


def _label(node: NodeName) -> dict[str, str]:
    return dict(zip(("method", "graph", "node"), node, strict=True))


Key = tuple[GraphFacts, int, int, int, frozenset[Value]]


@define(eq=False)
class Study:
    """A program (or methods of one) with its rules. What was matched once is not matched again.

    Nothing is tagged. `sets` are the rules in order of precedence, already with options; `wishes` as for `partition`.
    """

    methods: tuple[tuple[str, ProgramFacts], ...]
    sets: tuple[RuleSet, ...]
    wishes: Wishes = field(factory=Wishes)
    held: Held = field(factory=dict)
    _found: dict[Key, list[Candidate]] = field(factory=dict)
    _changed: dict[Any, tuple[RuleSet, ...]] = field(factory=dict)
    _outcomes: dict[Changes, Outcome] = field(factory=dict)
    _shared: dict[Any, Any] = field(factory=dict)

    @classmethod
    def of(
        cls,
        program: Any,
        rules: Rules,
        *,
        options: Mapping[str, Any] | None = None,
        exclude: str | Iterable[str] = (),
        only: str | Iterable[str] = (),
        with_rules: str | Iterable[str] = (),
        without_rules: str | Iterable[str] = (),
    ) -> Study:
        """Arguments as for `partition`, with the same errors.

        Hand-written partitioners among the rules are asked once (which tags the program); what they took stays theirs.
        """
        held: Held = {}
        if has_partitioners(rules):
            mixed = partition(program, rules, options=options, exclude=exclude, only=only, with_rules=with_rules,
                              without_rules=without_rules)
            held = held_by_partitioners(mixed)
            rules = rules_alone(rules)
        sets = choose_rules(load_all(rules, options), with_rules, without_rules)
        methods = tuple((name, ProgramFacts.of(one)) for name, one in methods_of(program))
        return cls(methods, sets, Wishes.of(exclude, only), held)

    def outcome(self, changes: Changes = NOTHING) -> Outcome:
        """What would be claimed with these changes to the rules."""
        known = self._outcomes.get(changes)
        if known is None:
            known = self._outcomes[changes] = self._run(changes)
        return known

    def difference(self, changes: Changes) -> Difference:
        """What these changes would change."""
        return Difference(self.outcome(), self.outcome(changes))

    def _run(self, changes: Changes) -> Outcome:
        sets = self._changed.get(changes)
        if sets is None:
            sets = self._changed[changes] = self._intern(changed(self.sets, changes))
        counted = _Count(self.held)
        for name, facts in self.methods:
            deciding = Deciding(sets, self.wishes)
            deciding.prepared = self._prepared(deciding)
            for graph in facts.graphs:
                deciding.graph(graph)
            counted.add(name, facts, deciding)
        return counted.outcome()

    def _intern(self, sets: tuple[RuleSet, ...]) -> tuple[RuleSet, ...]:
        """What is the same after a change is the same object, so that its matches are found again."""

        def one(item: Any, index: int) -> Any:
            key = (index, item.name, item.span.source.name, item.span.start, tuple(map(id, item.steps)),
                   tuple(map(id, getattr(item, "post", ()))))
            return self._shared.setdefault(key, item)

        return tuple(
            evolve(s, rules=tuple(one(r, i) for r in s.rules), invariants=tuple(one(v, i) for v in s.invariants))
            for i, s in enumerate(sets)
        )

    def _prepared(self, deciding: Deciding) -> Callable[..., list[Candidate]]:
        def prepared(graph: GraphFacts, rules: RuleSet, refusal: Any, branches: Any, attempts: Attempts) -> Any:
            index = next(i for i, one in enumerate(deciding.sets) if one is rules)
            if any(node.subgraphs for node in graph.calls):
                return Matcher(rules, graph, refusal, attempts, branches).candidates()
            owned = frozenset(deciding.owned.get(graph, ()))
            checks = hash(tuple(map(id, rules.invariants)))
            found: list[Candidate] = []
            for rule in rules.rules:
                key = (graph, index, id(rule), checks, owned)
                known = self._found.get(key)
                if known is None:
                    alone = Matcher(evolve(rules, rules=(rule,)), graph, refusal, attempts, branches)
                    known = self._found[key] = alone.candidates()
                else:
                    for candidate in known:
                        candidate.reset()
                found.extend(known)
            return sorted(found, key=lambda c: (c.root.position, c.rule.position))

        return prepared


@define(eq=False)
class _Count:
    """Counts over methods and graphs, as the report of a run does."""

    held: Held
    nodes: dict[NodeName, str] = field(factory=dict)
    groups: list[frozenset[NodeName]] = field(factory=list)
    ops: dict[str, bool] = field(factory=dict)
    total: int = 0
    inward: int = 0
    outward: int = 0
    constants: int = 0

    def add(self, method: str, facts: ProgramFacts, deciding: Deciding) -> None:
        """The graphs of one method."""
        for graph in facts.graphs:
            owners = deciding.owners(graph)
            for node in graph.calls:
                op = node.op.name if node.op is not None else node.name
                self.total += 1
                owner = owners.get(node) or self.held.get(node.fx, ("", None))[1]
                self.ops[op] = self.ops.get(op, True) and owner is not None
                if owner is not None:
                    self.nodes[method, graph.path, node.name] = owner
            if deciding.dissolved(graph):
                continue
            for part in deciding.parts_of(graph):
                border = border_of(part.group.nodes, part.group.candidates, part.rules.policy)
                self.groups.append(frozenset((method, graph.path, n.name) for n in part.group.nodes))
                self.inward += _bytes(border.inputs)
                self.outward += _bytes(border.outputs)
                self.constants += _bytes(border.constants)

    def outcome(self) -> Outcome:
        """The sums. The partitions of partitioners count, the bytes across their borders are not known."""
        parts = len(self.groups) + len({tag for tag, _ in self.held.values()})
        return Outcome(
            len(self.nodes), self.total, sum(self.ops.values()), len(self.ops), parts, self.inward,
            self.outward, self.constants, self.nodes, frozenset(self.groups),
        )  # fmt: skip


def _bytes(values: Sequence[Value]) -> int:
    return sum(v.nbytes for v in values if isinstance(v.nbytes, int))


