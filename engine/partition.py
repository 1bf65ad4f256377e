"""The pipeline on one page: a program and rules in, tagged partitions and a report out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Union

import torch.fx as fx
from attrs import define, field, frozen

from apportion.engine.candidates import Attempts, Candidate
from apportion.engine.claim import Claims, claim
from apportion.engine.collector import collector_paused
from apportion.engine.compile.rulesets import CompiledRule, RuleSet
from apportion.engine.errors import OptionError, StrictError
from apportion.engine.facts import GraphFacts, ProgramFacts, Value
from apportion.engine.mixed import has_partitioners, partition_mixed
from apportion.engine.ops import Op
from apportion.engine.order import flow_of
from apportion.engine.programs import methods_of
from apportion.engine.reasons import Attempt, Cause, describe, inner_only, show_value
from apportion.engine.report import BackendCoverage, NodeReason, Report, Traffic
from apportion.engine.result import CompileSpec, Contents, DelegationSpec, Partition, PartitionResult
from apportion.engine.settle import Border, Group
from apportion.engine.sources import Rules, load_all
from apportion.engine.tag import clear_tags, foreign_groups, foreign_tag, tag_name, tagged, write_tags
from apportion.engine.wishes import Wishes, choose_rules
from apportion.grammar.diagnostics import nearest

__all__ = ["Deciding", "Part", "Run", "check_strict", "partition"]

logger = logging.getLogger("apportion")

SpecArgument = Union[Sequence[CompileSpec], Mapping[str, Sequence[CompileSpec]], None]

_LOWERED_CALLS = frozenset({"higher_order.executorch_call_delegate", "higher_order.apportion_call_delegate"})

_LITTLE = 0.5
"""Below this share of nodes a run is worth a warning."""


def partition(
    program: Any,
    rules: Rules,
    *,
    options: Mapping[str, Any] | None = None,
    exclude: str | Iterable[str] = (),
    only: str | Iterable[str] = (),
    with_rules: str | Iterable[str] = (),
    without_rules: str | Iterable[str] = (),
    compile_specs: SpecArgument = None,
    strict: bool = False,
) -> PartitionResult:
    """Decide which nodes of a program go to which backend, and tag them.

    `program` is an `ExportedProgram` (before or after decompositions), an ExecuTorch Edge program, an FX `GraphModule`
    with `meta["val"]`, or a dict of them by method. `rules` is a shipped name (`"xnnpack"`), a path, a `RuleSet`, or a
    sequence of these in order of precedence.

    `options` set the options of the rules files (`{"per_op_mode": True}`; with several files a setting may be
    written `"BackendId.option"`). `exclude` and `only` are glob patterns over node names, ops and module paths;
    `with_rules` and `without_rules` name rules. `compile_specs` are added to every spec, or by backend id. With
    `strict`, a node that was asked for and not delegated is an error.

    Gives a `PartitionResult`; the program is unchanged but for `node.meta["delegation_tag"]`. Raises `RulesError`,
    `OptionError`, `ProgramError`, and with `strict` `StrictError`.
    """
    if has_partitioners(rules):
        wishes: dict[str, Any] = {"exclude": exclude, "only": only}
        wishes |= {"with_rules": with_rules, "without_rules": without_rules}
        mixed = partition_mixed(program, rules, lambda one, files: partition(
            one, files, options=options, compile_specs=_own_specs(compile_specs, load_all(files)), **wishes))
        if strict:
            check_strict(mixed.report)
        return mixed
    sets = choose_rules(load_all(rules, options), with_rules, without_rules)
    _check_specs(compile_specs, sets)
    run = Run(sets, Wishes.of(exclude, only), compile_specs, several=isinstance(program, Mapping))
    with collector_paused():
        for method, one in methods_of(program):
            run.method(method, ProgramFacts.of(one))
        result = run.finish(program)
    for pattern in run.wishes.unmet:
        logger.warning("`%s` (exclude or only) is the name of no node, op or module of this program", pattern)
    if strict:
        check_strict(result.report)
    level = logging.WARNING if result.report.share < _LITTLE else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", result.report.summary())
    return result


def _own_specs(given: SpecArgument, sets: Sequence[RuleSet]) -> SpecArgument:
    """Of compile specs by backend id those of these files."""
    if not isinstance(given, Mapping):
        return given
    return {backend: specs for backend, specs in given.items() if any(backend == one.backend_id for one in sets)}


def _check_specs(given: SpecArgument, sets: Sequence[RuleSet]) -> None:
    """Raise OptionError for what is neither a sequence of compile specs nor such sequences by the ids of `sets`."""
    backends = list(dict.fromkeys(rules.backend_id for rules in sets))
    for backend in given if isinstance(given, Mapping) else ():
        if backend not in backends:
            near = nearest(str(backend), backends)
            hint = f"did you mean `{near[0]}`?" if near else f"the rules are of {', '.join(backends)}"
            raise OptionError(f"compile_specs for `{backend}`, which none of the rules is about; {hint}")
    for specs in given.values() if isinstance(given, Mapping) else [given or ()]:
        if not isinstance(specs, Sequence) or not all(hasattr(one, "key") and hasattr(one, "value") for one in specs):
            raise OptionError(f"compile_specs are a sequence of CompileSpec, or such by backend id, not {given!r}")


def check_strict(report: Report) -> None:
    """Raise StrictError where a node is left that the user did not exclude and that is not lowered already."""
    missing = [one for one in report.left if one.kind not in (Cause.EXCLUDED.value, Cause.LOWERED.value)]
    if missing:
        lines = [f"{len(missing)} of {report.nodes_total} nodes were not delegated:"]
        lines += [f"  {reason.node} ({reason.op}): {reason.message}" for reason in missing]
        raise StrictError("\n".join(lines))


@frozen(eq=False)
class Part:
    """A partition before it is tagged."""

    graph: GraphFacts
    group: Group
    rules: RuleSet


@define(eq=False)
class Run:
    """One call of `partition` over all methods and graphs of a program.

    `every` is a list where all attempts are to be kept, not only the best of each node; `decided` has what was decided
    in each method, for explanations.
    """

    sets: Sequence[RuleSet]
    wishes: Wishes
    compile_specs: SpecArgument
    several: bool
    partitions: list[Partition] = field(factory=list)
    tags: dict[str, DelegationSpec] = field(factory=dict)
    marks: list[tuple[fx.Node, str]] = field(factory=list)
    left: list[tuple[str, Value, Deciding]] = field(factory=list)
    nodes: dict[str, list[str]] = field(factory=dict)
    total: int = 0
    ops: dict[str, bool] = field(factory=dict)
    rounds: int = 0
    every: list[tuple[Value, Attempt]] | None = None
    decided: dict[str, tuple[ProgramFacts, Deciding]] = field(factory=dict)

    def method(self, name: str, facts: ProgramFacts) -> None:
        """Partition one program, innermost graphs first, and tag it."""
        method = Deciding(self.sets, self.wishes, attempts=Attempts(every=self.every))
        self.decided[name] = (facts, method)
        for graph in facts.graphs:
            clear_tags(graph)
            method.graph(graph)
        self.rounds = max(self.rounds, method.rounds)
        self._tag(name, facts, method)
        self._account(name, facts, method)

    def _tag(self, name: str, facts: ProgramFacts, method: Deciding) -> None:
        for graph in reversed(facts.graphs):
            if method.dissolved(graph):
                continue
            for part in method.parts_of(graph):
                self._tag_part(name, part)

    def _tag_part(self, name: str, part: Part) -> None:
        rules, group = part.rules, part.group
        border = group.border(rules.policy)
        tag = tag_name(rules.backend_id, len(self.partitions), name if self.several else "")
        spec = DelegationSpec(rules.backend_id, self._specs(rules.backend_id, group))
        nodes = write_tags(group, border, tag, part.graph)
        self.tags[tag] = spec
        for candidate in group.candidates:
            if candidate.rule.marks:
                self.marks.extend([(value.fx, key) for value, key in candidate.marks])
        contents = partial(_contents, group.candidates, border)
        self.partitions.append(Partition(tag, spec, name, part.graph.path, nodes, contents))

    def _specs(self, backend_id: str, group: Group) -> list[CompileSpec]:
        emitted = [CompileSpec(key, value) for key, value in group.blocks[0].emits]
        given = self.compile_specs or ()
        if isinstance(given, Mapping):
            given = given.get(backend_id, ())
        return [*emitted, *given]

    def _account(self, name: str, facts: ProgramFacts, method: Deciding) -> None:
        prefix = f"{name}." if self.several else ""
        for graph in facts.graphs:
            owners = method.owners(graph)
            self.total += len(graph.calls)
            named: dict[str, list[str]] = {owner: self.nodes.setdefault(owner, []) for owner in set(owners.values())}
            claimed: dict[Op | Value, Value] = {}
            for node in graph.calls:
                owner = owners.get(node)
                if owner is None:
                    self.ops[_op_name(node)] = False
                    self.left.append((name if self.several else "", node, method))
                else:
                    claimed[node.op or node] = node
                    named[owner].append(prefix + node.fx.name)
            for node in claimed.values():
                self.ops.setdefault(_op_name(node), True)

    def finish(self, program: Any) -> PartitionResult:
        """The result over all methods."""
        coverage = []
        for backend in dict.fromkeys(rules.backend_id for rules in self.sets):
            nodes = self.nodes.get(backend, [])
            parts = [p for p in self.partitions if p.spec.backend_id == backend]
            coverage.append(
                BackendCoverage(backend, len(nodes), self.total, len(parts), tuple(nodes), partial(_traffic, parts))
            )
        report = Report(
            tuple(coverage),
            self.total,
            sum(map(len, self.nodes.values())),
            len(self.ops),
            sum(self.ops.values()),
            self.rounds,
            explain=lambda: [_reason(*left, self.sets) for left in self.left],
        )
        return PartitionResult(program, self.tags, tuple(self.partitions), report, tuple(self.marks))


@define(eq=False)
class Deciding:
    """The state of one program: who owns what in each of its graphs.

    `prepared` gives the candidates of a graph and backend where they are known already (what-ifs ask many times).
    """

    sets: Sequence[RuleSet]
    wishes: Wishes
    parts: list[Part] = field(factory=list)
    owned: dict[GraphFacts, dict[Value, str]] = field(factory=dict)
    unwanted: dict[Value, str] = field(factory=dict)
    barred: dict[Value, Attempt] = field(factory=dict)
    attempts: Attempts = field(factory=Attempts)
    rounds: int = 0
    prepared: Callable[..., list[Candidate]] | None = None

    def graph(self, graph: GraphFacts) -> None:
        """All backends in one graph, in order of precedence."""
        flow = flow_of(graph, reads=any(rules.policy.merge == "siblings" for rules in self.sets))
        owners = self.owned.setdefault(graph, {})
        if self.wishes.exclude or self.wishes.only:
            self.unwanted.update({node: why for node in graph.calls if (why := self.wishes.refusal(node)) is not None})
        tags = tagged(graph)
        self.barred.update(self._barred_nodes(graph, tags))
        fixed: list[list[int]] = foreign_groups(tags, flow)
        for rules in self.sets:
            attempts = self.attempts.fork()
            refused = {**self.barred, **{node: _lost_to(owner) for node, owner in owners.items()}}

            def branches(node: Value, rule: CompiledRule, backend: str = rules.backend_id) -> str | None:
                return self._branches(node, rule, backend)

            self._show_inner(graph, rules)
            found = self.prepared(graph, rules, refused.get, branches, attempts) if self.prepared else None
            claims: Claims = claim(graph, rules, flow, fixed, refused.get, branches, attempts, found)
            self.rounds = max(self.rounds, claims.rounds)
            for group in claims.groups:
                self.parts.append(Part(graph, group, rules))
                fixed.append([node.position for node in group.nodes])
                for node in group.nodes:
                    owners[node] = rules.backend_id

    def _show_inner(self, graph: GraphFacts, rules: RuleSet) -> None:
        """Let rules that speak of `subgraphs` see what this backend claimed inside."""
        for node in graph.higher_order:
            for inner in node.subgraphs:
                owned = self.owned.get(inner, {})
                inner.claimed = {value for value, backend in owned.items() if backend == rules.backend_id}
                inner.partitions = tuple(
                    p.group.nodes for p in self.parts if p.graph is inner and p.rules.backend_id == rules.backend_id
                )

    def _barred_nodes(self, graph: GraphFacts, tags: Sequence[Value]) -> Iterator[tuple[Value, Attempt]]:
        """The nodes of a graph, some of them with tags, that no backend may claim, each with the reason."""
        for node in graph.higher_order:
            if node.op is not None and node.op.name in _LOWERED_CALLS:
                yield node, Attempt(Cause.LOWERED, (9, 0), detail=node.op.name)
        for node in tags:
            if (foreign := foreign_tag(node.fx)) is not None:
                yield node, Attempt(Cause.OTHER_PARTITIONER, (9, 0), detail=foreign)
        for node, why in self.unwanted.items():
            if node.graph is graph:
                yield node, Attempt(Cause.EXCLUDED, (9, 0), detail=why)

    def _branches(self, node: Value, rule: CompiledRule, backend_id: str) -> str | None:
        for inner in node.subgraphs:
            barred = self._barred(inner)
            if barred is not None:
                return barred
        if rule.speaks_of_subgraphs:
            return None
        for inner in node.subgraphs:
            owned = self.owned.get(inner, {})
            missing = next((call for call in inner.calls if owned.get(call) != backend_id), None)
            if missing is not None:
                op = missing.op.name if missing.op is not None else "?"
                return f"`{missing.name}` ({op}) in {inner.path} is left"
        return None

    def _barred(self, graph: GraphFacts) -> str | None:
        """What must not be claimed, in a branch or deeper; then nothing around it can be claimed whole."""
        waiting = [graph]
        while waiting:
            inner = waiting.pop()
            for call in inner.calls:
                if call in self.unwanted or foreign_tag(call.fx) is not None:
                    return f"`{call.name}` in {inner.path} is not to be claimed"
                waiting.extend(call.subgraphs)
        return None

    def dissolved(self, graph: GraphFacts) -> bool:
        """Is it a branch only of control-flow ops that are claimed as a whole?"""
        return bool(graph.owners) and all(self._whole(owner) is not None for owner in graph.owners)

    def _whole(self, owner: Value) -> str | None:
        """The backend that claimed a control-flow op, or an op around it."""
        backend = self.owned.get(owner.graph, {}).get(owner)
        if backend is None and owner.graph.owners and self.dissolved(owner.graph):
            return self._whole(owner.graph.owners[0])
        return backend

    def parts_of(self, graph: GraphFacts) -> list[Part]:
        """The partitions of a graph, by their first node."""
        return sorted((p for p in self.parts if p.graph is graph), key=lambda p: p.group.nodes[0].position)

    def owners(self, graph: GraphFacts) -> dict[Value, str]:
        """Who owns each node of a graph, branches of a claimed op included."""
        whole = self._whole(graph.owners[0]) if self.dissolved(graph) else None
        return self.owned.get(graph, {}) if whole is None else dict.fromkeys(graph.calls, whole)


def _contents(candidates: Sequence[Candidate], border: Border) -> Contents:
    return Contents(
        tuple([(c.rule.name, tuple([n.name for n in c.claimed])) for c in candidates]),
        tuple(map(show_value, border.inputs)),
        tuple(map(show_value, border.outputs)),
        {show_value(v): _size([v]) for v in border.constants},
        _size(border.inputs),
        _size(border.outputs),
    )


def _traffic(parts: Sequence[Partition]) -> Traffic:
    return Traffic(
        sum(p.bytes_in for p in parts),
        sum(p.bytes_out for p in parts),
        sum(p.constant_bytes for p in parts),
        _duplicated(parts),
    )


def _size(values: Iterable[Value]) -> int:
    return sum([size for v in values if isinstance(size := v.nbytes, int)])


def _duplicated(parts: Sequence[Partition]) -> int:
    """Bytes of constants beyond the first copy of each."""
    total = 0
    seen: set[tuple[str, str, str]] = set()
    for part in parts:
        for name, size in part.constant_sizes.items():
            key = (part.method, part.graph, name)
            total += size if key in seen else 0
            seen.add(key)
    return total


def _op_name(node: Value) -> str:
    return node.op.name if node.op is not None else node.name


def _lost_to(owner: str) -> Attempt:
    return Attempt(Cause.LOST, (6, 0), backend=owner, rule=None, detail=f"{owner}, which has precedence")


def _reason(method: str, node: Value, run: Deciding, sets: Sequence[RuleSet]) -> NodeReason:
    op = _op_name(node)
    attempt = run.barred.get(node) or run.attempts.of(node) or _unnamed(node, op, sets, run.attempts.of)
    return NodeReason(
        method,
        node.graph.path,
        node.name,
        op,
        node.module if isinstance(node.module, str) else "",
        attempt.cause.value,
        attempt.rule,
        str(attempt.span) if attempt.span is not None else None,
        attempt.condition,
        attempt.values(),
        attempt.because,
        describe(attempt),
        attempt.backend,
    )


def _unnamed(
    node: Value, op: str, sets: Sequence[RuleSet], at: Callable[[Value], Attempt | None]
) -> Attempt:
    """No rule came near: either none names the op, or only as a part of something larger."""
    for rules in sets:
        for rule in rules.rules:
            if op in rule.pattern.mentioned:
                return inner_only(rule, rules.backend_id, node, at)
    return Attempt(Cause.NO_RULE, (0, 0), detail=op, backend=" or ".join(dict.fromkeys(r.backend_id for r in sets)))
