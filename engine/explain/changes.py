"""Changes to rules without a file being edited: requirements that are let off, ops that a one-line rule takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from attrs import evolve, frozen

from apportion.engine.compile.rulesets import (
    CompiledRule,
    Cutoff,
    PartitionPolicy,
    Requirement,
    RuleSet,
    Step,
)
from apportion.engine.errors import OptionError
from apportion.engine.load import parse_rules
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span, nearest

__all__ = ["NOTHING", "Changes", "Condition", "assumed", "changed", "claim_rule", "conditions", "relaxed"]

Place = tuple[str, int]
"""The file and the offset in it where a condition starts."""


@frozen
class Changes:
    """What is changed.

    `dropped` are conditions let off everywhere, `assumed` those let off for one rule (its name first); `settings` are
    keys of a `partition` block let off (the file first); `claimed` are ops that the backend number `backend` takes with
    a rule of one line.
    """

    dropped: frozenset[Place] = frozenset()
    assumed: frozenset[tuple[str, Place]] = frozenset()
    settings: frozenset[tuple[str, str]] = frozenset()
    claimed: tuple[str, ...] = ()
    backend: int = 0

    def __or__(self, other: Changes) -> Changes:
        """Both."""
        return Changes(
            self.dropped | other.dropped,
            self.assumed | other.assumed,
            self.settings | other.settings,
            tuple(dict.fromkeys((*self.claimed, *other.claimed))),
            self.backend or other.backend,
        )


NOTHING = Changes()


@frozen(eq=False)
class Condition:
    """One condition of a file: in a rule or invariant (`owner`), or a `trim` or `reject` of the partition block."""

    owner: str
    kind: str
    step: Requirement | Cutoff

    @property
    def place(self) -> Place:
        """What it is known by."""
        return place_of(self.step.span)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its own place, and those of the contracts it was written out for."""
        return (self.step.span, *getattr(self.step, "applied", ()))


def place_of(span: Span) -> Place:
    """The place of a condition, as changes know it."""
    return span.source.name, span.start


def conditions(rules: RuleSet) -> Iterator[Condition]:
    """Every condition of a rule set that can fail."""
    for rule in rules.rules:
        for step in (*rule.steps, *rule.post):
            if isinstance(step, Requirement):
                yield Condition(rule.name, "require", step)
    for invariant in rules.invariants:
        for step in invariant.steps:
            if isinstance(step, Requirement):
                yield Condition(invariant.name, "invariant", step)
    for kind, cutoffs in (("trim", rules.policy.trims), ("reject", rules.policy.rejects)):
        for cutoff in cutoffs:
            yield Condition("partition", kind, cutoff)


# --- from the words of a caller ------------------------------------------------------------------------------------


def assumed(sets: Sequence[RuleSet], text: str) -> Changes:
    """`RULE.LINE` (or `RULE` for all of it): the requirements there count as met, for that rule alone.

    Raises OptionError with near names, or with the lines that the rule has.
    """
    name, dot, number = text.rpartition(".")
    if not dot or not number.isdecimal():
        name, number = text, ""
    known = [c for one in sets for c in conditions(one) if c.kind in ("require", "invariant")]
    own = [c for c in known if c.owner == name]
    if not own:
        raise OptionError(f"there is no rule or invariant `{name}` with requirements; {_hint(name, known)}")
    met = [c for c in own if not number or any(_covers(span, int(number)) for span in c.spans)]
    if not met:
        lines = sorted({span.line for c in own for span in c.spans[:1]})
        raise OptionError(f"`{name}` has no requirement in line {number}; it has some in {_lines(lines)}")
    return Changes(assumed=frozenset((c.owner, c.place) for c in met))


def relaxed(sets: Sequence[RuleSet], text: str) -> Changes:
    """`FILE:LINE`: the conditions that stand there (also in a contract) are let off wherever they are asked.

    A line with a key of the partition block (`min_nodes = 2`) lets that off. Raises OptionError as `assumed` does.
    """
    file, colon, number = text.rpartition(":")
    if not file or not colon or not number.isdecimal():
        raise OptionError(f"`{text}` is no place; write it as FILE:LINE, acme.rules:12")
    line = int(number)
    known = [c for one in sets for c in conditions(one)]
    met = [c for c in known if any(_is_file(s, file) and _covers(s, line) for s in c.spans)]
    keys = frozenset((one.name, clause.key) for one in sets for clause in _settings(one)
                     if _is_file(clause.span, file) and _covers(clause.span, line))
    if not met and not keys:
        lines = sorted({span.line for c in known for span in c.spans if _is_file(span, file)})
        if not lines:
            files = sorted({PurePath(span.source.name).name for c in known for span in c.spans})
            raise OptionError(f"there are no conditions in `{file}`; there are some in {', '.join(files) or 'no file'}")
        raise OptionError(f"{file} has no condition in line {line}; it has some in {_lines(lines)}")
    return Changes(frozenset(c.place for c in met), settings=keys)


def _settings(rules: RuleSet) -> Iterator[Any]:
    statements = () if rules.program is None else rules.program.statements
    for statement, _ in statements:
        if isinstance(statement, tree.PartitionBlock):
            for clause in statement.body:
                if isinstance(clause, tree.PartitionKey):
                    yield clause


def _covers(span: Span, line: int) -> bool:
    return span.line <= line <= span.end_line


def _is_file(span: Span, file: str) -> bool:
    name = span.source.name
    return file in (name, PurePath(name).name, PurePath(name).stem) or PurePath(name).name == PurePath(file).name


def _lines(lines: Sequence[int]) -> str:
    shown = ", ".join(map(str, lines[:20]))
    return f"line{'s' if len(lines) > 1 else ''} {shown}{', …' if len(lines) > 20 else ''}"


def _hint(name: str, known: Iterable[Condition]) -> str:
    names = sorted({c.owner for c in known})
    near = nearest(name, names)
    return "did you mean " + " or ".join(f"`{n}`" for n in near) + "?" if near else "there are " + ", ".join(names)


# --- carried out ---------------------------------------------------------------------------------------------------


def changed(sets: Sequence[RuleSet], changes: Changes) -> tuple[RuleSet, ...]:
    """The rule sets as they would be."""
    result = []
    for index, rules in enumerate(sets):
        own = changes.claimed if index == changes.backend else ()
        kept = [_without(rule, changes) for rule in rules.rules]
        extra = [claim_rule(op, len(rules.rules), rules) for op in own]
        invariants = tuple(evolve(v, steps=_kept(v.name, v.steps, changes)) for v in rules.invariants)
        policy = _policy(rules, changes)
        result.append(evolve(rules, rules=(*kept, *extra), invariants=invariants, policy=policy))
    return tuple(result)


def _without(rule: CompiledRule, changes: Changes) -> CompiledRule:
    steps, post = _kept(rule.name, rule.steps, changes), _kept(rule.name, rule.post, changes)
    same = len(steps) == len(rule.steps) and len(post) == len(rule.post)
    return rule if same else evolve(rule, steps=steps, post=post)


def _kept(owner: str, steps: tuple[Step, ...], changes: Changes) -> tuple[Step, ...]:
    return tuple(s for s in steps if not (isinstance(s, Requirement) and _is_off(owner, s, changes)))


def _is_off(owner: str, step: Requirement | Cutoff, changes: Changes) -> bool:
    place = place_of(step.span)
    return place in changes.dropped or (owner, place) in changes.assumed


def _policy(rules: RuleSet, changes: Changes) -> PartitionPolicy:
    policy = rules.policy
    default = PartitionPolicy()
    freed: Mapping[str, Any] = {
        key: getattr(default, key) for name, key in changes.settings if name == rules.name and hasattr(default, key)
    }
    return evolve(
        policy,
        trims=tuple(c for c in policy.trims if not _is_off("partition", c, changes)),
        rejects=tuple(c for c in policy.rejects if not _is_off("partition", c, changes)),
        **freed,
    )


def claim_rule(op: str, position: int, rules: RuleSet) -> CompiledRule:
    """The rule of one line that takes an op, whatever its arguments are: `rule claim { match y = OP() }`."""
    text = claim_text(op)
    declared = "".join(f'declare "{schema}"\n' for schema in _declarations(rules, op))
    made = parse_rules(f'backend "{rules.backend_id}" language 1\n{declared}{text}', "<what if>")
    return evolve(made.rules[0], position=position)


def claim_text(op: str) -> str:
    """The text of that rule."""
    return f"rule claim_{''.join(c if c.isalnum() else '_' for c in op)} {{ match y = {op}() }}\n"


def _declarations(rules: RuleSet, op: str) -> Iterator[str]:
    """The `declare` of an op that no library has registered, as the rules have it."""
    statements = () if rules.program is None else rules.program.statements
    if op in rules.declared:
        for statement, _ in statements:
            if isinstance(statement, tree.DeclareOp):
                name = statement.schema.partition("(")[0].strip().replace("::", ".")
                if op in (name, f"{name}.default"):
                    yield statement.schema


