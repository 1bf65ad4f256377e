"""Explaining: a run that keeps every attempt, and what it says about the nodes that were asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import define, evolve, field, frozen

from apportion.engine.compile.rulesets import CompiledRule, Requirement, RuleSet
from apportion.engine.errors import OptionError
from apportion.engine.explain.apart import neighbours
from apportion.engine.explain.conditions import remedies
from apportion.engine.explain.explanation import Apart, Explanation, NodeExplanation, Obstacle, RuleAttempt
from apportion.engine.explain.further import Further
from apportion.engine.facts import GraphFacts, ProgramFacts, Value
from apportion.engine.mixed import Held, has_partitioners, held_by_partitioners, rules_alone
from apportion.engine.partition import Deciding, Run, partition
from apportion.engine.programs import methods_of
from apportion.engine.reasons import Attempt, Cause, describe, inner_only, show
from apportion.engine.report import NodeReason
from apportion.engine.result import PartitionResult
from apportion.engine.sources import Rules, load_all
from apportion.engine.values import is_unknown
from apportion.engine.wishes import Wishes, choose_rules
from apportion.grammar.diagnostics import nearest

__all__ = ["Explainer", "Place", "explain"]

_CUTOFFS = (Cause.TRIMMED, Cause.REJECTED)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


def explain(
    program: Any,
    rules: Rules,
    *,
    node: str | Iterable[str] = (),
    op: str | Iterable[str] = (),
    module: str | Iterable[str] = (),
    **arguments: Any,
) -> Explanation:
    """Why nodes are where they are.

    `node`, `op` and `module` are glob patterns; without any, every node that was left is explained. Other arguments are
    those of `partition`; the program is tagged as by it. Raises as `partition` does, and OptionError for a name that
    the program does not have, with near ones.
    """
    explainer = Explainer.of(program, rules, **arguments)
    return explainer.explanation(node=node, op=op, module=module)


@frozen(eq=False)
class Place:
    """A node in its method and graph."""

    method: str
    graph: GraphFacts
    node: Value

    @property
    def op(self) -> str:
        """The name of its op (of what is no op, its own)."""
        return self.node.op.name if self.node.op is not None else self.node.name


@define(eq=False)
class Explainer:
    """One run over a program with everything that was tried. `result` is what `partition` gives."""

    sets: tuple[RuleSet, ...]
    result: PartitionResult
    decided: Mapping[str, tuple[ProgramFacts, Deciding]]
    attempts: Mapping[Value, list[Attempt]]
    several: bool = False
    program: Any = None
    wishes: Wishes = field(factory=Wishes)
    _held: Held = field(factory=dict)
    _tags: dict[tuple[str, str, str], tuple[str, str]] = field(factory=dict)
    _reasons: dict[tuple[str, str, str], NodeReason] = field(factory=dict)
    _owners: dict[GraphFacts, Mapping[Value, str]] = field(factory=dict)
    _explained: dict[Value, NodeExplanation] = field(factory=dict)

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
    ) -> Explainer:
        """Partition a program (it is tagged), keeping every attempt. Arguments and errors as for `partition`.

        What hand-written partitioners take is theirs; the rules are explained beside it.
        """
        mixed = None
        if has_partitioners(rules):
            mixed = partition(program, rules, options=options, exclude=exclude, only=only, with_rules=with_rules,
                              without_rules=without_rules)
            rules = rules_alone(rules)
        sets = choose_rules(load_all(rules, options), with_rules, without_rules) if mixed is None or rules else ()
        return cls._run(program, sets, Wishes.of(exclude, only), mixed)

    def again(self, sets: tuple[RuleSet, ...]) -> Explainer:
        """The same program under other rules. The tags in the program are then those of the other run."""
        return self._run(self.program, sets, Wishes.of(self.wishes.exclude, self.wishes.only), held=self._held)

    @classmethod
    def _run(
        cls,
        program: Any,
        sets: tuple[RuleSet, ...],
        wishes: Wishes,
        mixed: PartitionResult | None = None,
        held: Held | None = None,
    ) -> Explainer:
        every: list[tuple[Value, Attempt]] = []
        several = isinstance(program, Mapping)
        run = Run(sets, wishes, None, several=several, every=every)
        for method, one in methods_of(program):
            run.method(method, ProgramFacts.of(one))
        result = mixed or run.finish(program)
        attempts: dict[Value, list[Attempt]] = {}
        for value, attempt in every:
            attempts.setdefault(value, []).append(attempt)
        found = cls(sets, result, run.decided, attempts, several, program, wishes)
        found._held = held if held is not None else held_by_partitioners(result)
        found._reasons.update({(r.method, r.graph, r.node): r for r in result.report.left})
        for part in result.partitions:
            for rule, names in part.matches:
                for name in names:
                    found._tags[part.method, part.graph, name] = (part.tag, rule)
        return found

    def places(self) -> Iterator[Place]:
        """Every op node of every method and graph."""
        for method, (facts, _) in self.decided.items():
            for graph in facts.graphs:
                for value in graph.calls:
                    yield Place(method, graph, value)

    def explanation(
        self,
        *,
        node: str | Iterable[str] = (),
        op: str | Iterable[str] = (),
        module: str | Iterable[str] = (),
    ) -> Explanation:
        """The nodes that the patterns name, with all that is in their way; all that were left where there are none.
        OptionError for unknown names."""
        wanted = {name: (p,) if isinstance(p, str) else tuple(p)
                  for name, p in (("node", node), ("op", op), ("module", module))}
        everything = list(self.places())
        if any(wanted.values()):
            further = Further(self.program, self.sets, self.wishes)
            nodes = [evolve(self.node(p), further=self._further(p, further)) for p in _chosen(everything, wanted)]
        else:
            nodes = [self.node(p) for p in everything if self.owner(p) is None]
        return Explanation(tuple(nodes), self.apart(), tuple(_missing(everything)))

    def _further(self, place: Place, further: Further) -> tuple[Obstacle, ...] | None:
        deciding = self.decided[place.method][1]
        first = None if place.node in deciding.barred else deciding.attempts.of(place.node)
        if self.owner(place) is not None or first is None or first.failed is None:
            return None
        return tuple(map(_obstacle, further.obstacles(place.method, place.node, first)))

    def apart(self) -> tuple[Apart, ...]:
        """Neighbouring partitions, and why they are not one."""
        return tuple(neighbours(self))

    def tag(self, node: Value) -> str | None:
        """The tag of the partition that a node is in."""
        for method, (_, deciding) in self.decided.items():
            if node.graph in deciding.owned:
                return self._tags.get((method, node.graph.path, node.name), (None, None))[0]
        return None

    def owner(self, place: Place) -> str | None:
        """The backend that claimed a node."""
        if place.node.fx in self._held:
            return self._held[place.node.fx][1]
        owners = self._owners.get(place.graph)
        if owners is None:
            owners = self._owners[place.graph] = self.decided[place.method][1].owners(place.graph)
        return owners.get(place.node)

    def node(self, place: Place) -> NodeExplanation:
        """Everything about one node."""
        known = self._explained.get(place.node)
        if known is None:
            known = self._explained[place.node] = self._node(place)
        return known

    def _node(self, place: Place) -> NodeExplanation:
        owner = self.owner(place)
        tag, rule = self._tags.get((place.method, place.graph.path, place.node.name), (None, None))
        if place.node.fx in self._held:
            tag = self._held[place.node.fx][0]
        method = place.method if self.several else ""
        reason = None if owner else self._reasons.get((method, place.graph.path, place.node.name))
        attempts = tuple(self._attempts(place, owner, rule))
        if owner:
            kind, message = "claimed", f"claimed by {owner}"
        else:
            kind, message = (reason.kind, reason.message) if reason is not None else ("", "")
        return NodeExplanation(
            method, place.graph.path, place.node.name, place.op,
            place.node.module if isinstance(place.node.module, str) else "", model_line(place.node),
            tuple(_values(place.node)), owner, tag, kind, message, attempts,
        )  # fmt: skip

    def _attempts(self, place: Place, owner: str | None, winner: str | None) -> Iterator[RuleAttempt]:
        best: dict[tuple[str, str], Attempt] = {}
        for attempt in self.attempts.get(place.node, ()):
            name = attempt.of or attempt.rule
            key = (attempt.backend, name or "")
            if name is not None and (key not in best or attempt.progress > best[key].progress):
                best[key] = attempt
        found: list[tuple[tuple[int, ...], RuleAttempt]] = []
        for index, rules in enumerate(self.sets):
            for rule in rules.rules:
                if rule.pattern.ops is not None and place.op not in rule.pattern.mentioned:
                    continue
                if owner == rules.backend_id and rule.name == winner:
                    line = str(rule.name_span)
                    won = RuleAttempt(rules.backend_id, rule.name, line, "claimed", f"claimed by {rule.name}")
                    found.append(((-99, 0, index, rule.position), won))
                    continue
                known = best.get((rules.backend_id, rule.name))
                if known is not None:
                    order = (-known.progress[0], -known.progress[1], index, rule.position)
                    found.append((order, _rule_attempt(rule, rules, known)))
                elif place.op in rule.pattern.mentioned:
                    at = self.decided[place.method][1].attempts.of
                    inner = inner_only(rule, rules.backend_id, place.node, at)
                    found.append(((0, 0, index, rule.position), _rule_attempt(rule, rules, inner)))
        yield from (attempt for _, attempt in sorted(found, key=lambda item: item[0]))


def _rule_attempt(rule: CompiledRule, rules: RuleSet, attempt: Attempt) -> RuleAttempt:
    required = [s for s in rule.steps if isinstance(s, Requirement)]
    passed = None
    if attempt.cause is Cause.REQUIREMENT:
        passed = next((i for i, step in enumerate(required) if step is attempt.failed), None)
    elif attempt.progress[0] >= 3:
        passed = len(required)
    found: tuple[str, ...] = ()
    if attempt.failed is not None and attempt.frame is not None:
        found = remedies(attempt.failed, attempt.frame, attempt.cause not in _CUTOFFS)
    return RuleAttempt(
        rules.backend_id, rule.name, str(rule.name_span), attempt.cause.value, describe(attempt),
        None if attempt.span is None else str(attempt.span), attempt.rule if attempt.of else None, attempt.condition,
        attempt.values(), attempt.because, found, passed, None if passed is None else len(required),
        1 if attempt.span is None else attempt.span.end_line - attempt.span.line + 1,
    )  # fmt: skip


def _obstacle(attempt: Attempt) -> Obstacle:
    return Obstacle(
        attempt.cause.value, describe(attempt), None if attempt.span is None else str(attempt.span),
        attempt.condition, attempt.values(), attempt.because,
    )  # fmt: skip


# --- which nodes ---------------------------------------------------------------------------------------------------


def _chosen(everything: Sequence[Place], wanted: Mapping[str, tuple[str, ...]]) -> list[Place]:
    """The nodes that every kind of pattern means; OptionError for a pattern that means none."""
    chosen = list(everything)
    for kind, patterns in wanted.items():
        if not patterns:
            continue
        names = {id(place): _NAMES[kind](place) for place in everything}
        for pattern in patterns:
            known = {name for found in names.values() for name in found}
            if not any(fnmatchcase(name, pattern) for name in known):
                raise OptionError(f"this program has no {kind} `{pattern}`; {_near(pattern, known, kind)}")
        chosen = [p for p in chosen if any(fnmatchcase(n, g) for n in names[id(p)] for g in patterns)]
    return chosen


def _module_names(place: Place) -> list[str]:
    path = place.node.module
    if not isinstance(path, str) or not path:
        return []
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


_NAMES: Mapping[str, Any] = {
    "node": lambda place: [place.node.name],
    "op": lambda place: [place.op, place.op.rsplit(".", 1)[0]],
    "module": _module_names,
}


def _near(pattern: str, known: Iterable[str], kind: str) -> str:
    near = nearest(pattern, sorted(known))
    if near:
        return "did you mean " + " or ".join(f"`{name}`" for name in near) + "?"
    some = sorted(known)[:8]
    return f"it has {', '.join(some)}, …" if some else f"no {kind} is recorded in it"


def _missing(everything: Sequence[Place]) -> Iterator[str]:
    """What the program does not tell about its nodes, and how to get it."""
    without = [p.node.name for p in everything if p.node.fx.meta.get("val") is None
               and p.node.fx.meta.get("tensor_meta") is None and p.node.fx.op != "call_module"]
    if without:
        some = ", ".join(without[:3]) + (", …" if len(without) > 3 else "")
        yield (f"{len(without)} of {len(everything)} nodes have no meta[\"val\"] ({some}): their types and shapes are "
               "unknown. torch.export.export records them; for a traced GraphModule run "
               "torch.fx.passes.fake_tensor_prop.FakeTensorProp(module).propagate(*inputs) first")


# --- what is shown of a node ---------------------------------------------------------------------------------------


def _values(node: Value) -> Iterator[tuple[str, str]]:
    for value in dict.fromkeys(node.inputs):
        yield f"input {_label(value)}", tensor_text(value)
    for value in node.outputs:
        yield f"output {_label(value)}", tensor_text(value)


def _label(value: Value) -> str:
    return show(value)


def tensor_text(value: Value) -> str:
    """Type and shape: `float32[2, s77, 8]`; of a size its expression."""
    if is_unknown(value.shape):
        return str(value.size) if value.size is not None else "unknown"
    return f"{show(value.dtype)}{show(value.shape)}"


def model_line(node: Value) -> str:
    """The line of the model that a node was exported from: `model.py:12: y = self.conv(x)`; "" if not recorded."""
    trace = node.fx.meta.get("stack_trace")
    if not isinstance(trace, str):
        return ""
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    own = [frame for frame in frames if "/site-packages/torch/" not in frame[0].replace("\\", "/")]
    file, line, _, code = (own or frames)[-1]
    return f"{file}:{line}: {code.strip()}" if code.strip() else f"{file}:{line}"
