"""What loaded rules come to for the matcher: which rules are tried at a call of which op, in order, and what they ask.

Rules for the same list of ops are shown once. A requirement that several of the rules for an op have in common (by
contracts or invariants) is shown once, too; at places that are alike each is evaluated once, whatever the number of
rules (see `docs/performance.md`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import frozen

from apportion.engine.compile import patterns as p
from apportion.engine.compile.rulesets import CompiledInvariant, CompiledRule, LetStep, RuleSet

__all__ = ["ANY_OP", "Decision", "Tried", "decisions"]

ANY_OP = "_"
"""Stands for every op that no other decision names."""


@frozen
class Tried:
    """A rule that is tried: its place in the file, the ops below its root (each with the number of terms that can be
    it), whether its variants differ in size, and the requirements that no other rule of the decision has."""

    rule: str
    location: str
    inner: tuple[tuple[str, int], ...]
    flexible: bool
    requires: tuple[str, ...]
    given: int = 0
    over: tuple[str, ...] = ()


@frozen
class Decision:
    """What happens at a call of one of `ops`: the rules in the order in which they are tried, the requirements that
    several of them share, and the invariants that a node has to keep, with their conditions."""

    ops: tuple[str, ...]
    rules: tuple[Tried, ...]
    shared: tuple[str, ...]
    invariants: tuple[tuple[str, tuple[str, ...]], ...]


def decisions(rules: RuleSet) -> tuple[Decision, ...]:
    """The decision for each op that is the root of some pattern, those of equal outcome together, by the first op."""
    named = sorted({op for rule in rules.rules for op in rule.pattern.ops or ()})
    found: dict[tuple[int, ...], list[str]] = {}
    for op in [*named, ANY_OP]:
        tried = _tried(rules.rules, op)
        kept = _tried(rules.invariants, op) if tried else []
        key = tuple(map(id, [*tried, *kept]))
        if tried:
            found.setdefault(key, []).append(op)
    return tuple(_decision(rules, tuple(ops)) for ops in found.values())


def _tried(some: Sequence[CompiledRule] | Sequence[CompiledInvariant], op: str) -> list[object]:
    return [one for one in some if one.pattern.ops is None or op in one.pattern.ops]


def _decision(rules: RuleSet, ops: tuple[str, ...]) -> Decision:
    tried = [rule for rule in rules.rules if rule.pattern.ops is None or ops[0] in rule.pattern.ops]
    texts = [_conditions(rule.steps) for rule in tried]
    counts = Counter(text for some in texts for text in set(some))
    shared = tuple(text for text, count in counts.items() if count > 1)
    return Decision(
        ops,
        tuple(_shown(rule, [t for t in some if counts[t] < 2], ops) for rule, some in zip(tried, texts, strict=True)),
        shared,
        tuple(
            (invariant.name, tuple(_conditions(invariant.steps)))
            for invariant in rules.invariants
            if invariant.pattern.ops is None or ops[0] in invariant.pattern.ops
        ),
    )


def _conditions(steps: Sequence[object]) -> list[str]:
    return [" ".join(step.text.split()) for step in steps if not isinstance(step, LetStep) and hasattr(step, "text")]


def _shown(rule: CompiledRule, own: list[str], ops: tuple[str, ...]) -> Tried:
    terms = [sink.term for choice in rule.pattern.choices for sink in (choice.root, *choice.others)]
    inner = Counter(name for term in terms for name in _below(term))
    post = [" ".join(step.text.split()) for step in rule.post if not isinstance(step, LetStep)]
    rarest = sorted(inner.items(), key=lambda item: (item[1], item[0]))
    return Tried(
        rule.name, str(rule.name_span), tuple(rarest), not rule.pattern.uniform, (*own, *post), len(rule.givens),
        tuple(sorted(rule.over)),
    )  # fmt: skip


def _below(term: p.Term) -> Iterator[str]:
    """The ops of the terms that lie below the first call of a term."""
    waiting: list[tuple[p.Term, bool]] = [(term, False)]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        current, below = waiting.pop()
        if (id(current), below) in seen:
            continue
        seen.add((id(current), below))
        if isinstance(current, p.OpTerm | p.ThroughTerm):
            if below:
                yield from current.ops or ()
            below = True
        waiting.extend((inner, below) for inner in p.subterms(current))
