"""Why a node was left behind: recorded as data while matching, put into words when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Union

import torch
from attrs import evolve, frozen

from apportion.engine.compile import patterns as p
from apportion.engine.compile.dtypes import dtype_name
from apportion.engine.compile.rulesets import CompiledRule, Cutoff, Requirement
from apportion.engine.facts import Value, counterparts, moved
from apportion.engine.match import Mismatch
from apportion.engine.values import Unknown
from apportion.grammar.diagnostics import Span

__all__ = ["Attempt", "Cause", "Detail", "describe", "inner_only", "show"]


class Cause(str, Enum):
    """The kinds of reasons, the stable words of reports."""

    NO_RULE = "no rule"
    PATTERN = "pattern"
    REQUIREMENT = "requirement"
    GIVEN = "given"
    INVARIANT = "invariant"
    EMIT = "emit"
    LOST = "lost"
    INTERLEAVED = "interleaved"
    POST_CONDITION = "post-condition"
    TRIMMED = "trimmed"
    REJECTED = "rejected"
    LIMIT = "limit"
    UNUSED = "unused"
    EXCLUDED = "excluded by user"
    OTHER_PARTITIONER = "other partitioner"
    LOWERED = "lowered"
    MUTATION = "mutation"
    BRANCHES = "branches"
    GAVE_UP = "gave up"
    INNER_ONLY = "inner node"


Detail = Union[str, Mismatch, Callable[[], str], None]


@frozen(eq=False)
class Attempt:
    """One way in which a node was nearly claimed.

    `progress` orders attempts: the one that came furthest is the node's reason. `frame` are the bindings that the
    condition saw, `observed` closures over them; `detail` a sentence, what makes it when it is asked for, or the
    `Mismatch` of a pattern. `of` is the rule whose match broke the invariant called `rule`; `failed` the condition
    itself.
    """

    cause: Cause
    progress: tuple[int, int]
    rule: str | None = None
    span: Span | None = None
    condition: str | None = None
    because: str | None = None
    observed: tuple[tuple[str, Callable[[list[Any]], Any]], ...] = ()
    frame: list[Any] | None = None
    detail: Detail = None
    backend: str = ""
    of: str | None = None
    failed: Requirement | Cutoff | None = None

    def moved(self, ones: Sequence[Value], others: Sequence[Value]) -> Attempt:
        """The same attempt at other nodes that are like those that it was made at."""
        places = counterparts(ones, others)
        frame = None if self.frame is None else [moved(value, places) for value in self.frame]
        detail = self.detail
        if isinstance(detail, Mismatch):
            claimed = tuple([places.get(node, node) for node in detail.claimed])
            detail = evolve(detail, found=moved(detail.found, places), claimed=claimed)
        return evolve(self, frame=frame, detail=detail)

    def values(self) -> tuple[tuple[str, str], ...]:
        """What the condition saw: pairs of path and value, in words."""
        if self.frame is None:
            return ()
        return tuple((text, show(evaluate(self.frame))) for text, evaluate in self.observed)


def show(value: Any) -> str:
    """A value as a rules file would write it."""
    match value:
        case Unknown():
            return f"unknown ({value.reason})" if value.reason else "unknown"
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case torch.dtype():
            return dtype_name(value)
        case Value():
            return show_value(value)
        case tuple() | list():
            return "[" + ", ".join(map(show, value)) + "]"
        case frozenset():
            return "{" + ", ".join(sorted(map(show, value))) + "}"
        case _:
            return str(getattr(value, "name", value))


def show_value(value: Value) -> str:
    """A graph's value by its name, with its output index if it has one."""
    return value.name if value.element is None else f"{value.name}[{value.element}]"


def describe(attempt: Attempt) -> str:
    """One sentence: what stood in the way, and what was seen there."""
    parts = [_WORDS[attempt.cause](attempt)]
    if attempt.because:
        parts.append(attempt.because)
    return ": ".join(parts)


def _of(attempt: Attempt) -> str:
    place = f" ({attempt.span})" if attempt.span is not None else ""
    return f"{attempt.rule}{place}" if attempt.rule else f"{attempt.backend}{place}"


def _failed(attempt: Attempt, what: str) -> str:
    seen = ", ".join(f"{text} is {value}" for text, value in attempt.values())
    tail = f": {seen}" if seen else ""
    return f"{_of(attempt)} {what} `{attempt.condition}` failed{tail}"


def _held(attempt: Attempt, what: str) -> str:
    seen = ", ".join(f"{text} is {value}" for text, value in attempt.values())
    tail = f": {seen}" if seen else ""
    return f"{_of(attempt)} matched, but {attempt.backend} {what} by `{attempt.condition}`{tail}"


def _mismatch(attempt: Attempt) -> str:
    found = attempt.detail
    if not isinstance(found, Mismatch):
        return f"{_of(attempt)} did not fit: {found or 'the pattern does not match here'}"
    if found.extra_user is not None:
        return f"{_of(attempt)} wants `{show(found.found)}` for itself, but `{found.extra_user.name}` uses it too"
    if isinstance(found.found, Value) and found.depth >= 1 << 30:
        return f"{_of(attempt)} wants `{show(found.found)}` for itself, but it is an output of the graph"
    what = _expected(found.term)
    if found.argument is not None:
        what = what.replace("was expected", f"was expected as {found.argument}")
    if found.found is None and not isinstance(found.term, p.LiteralTerm):
        return f"{_of(attempt)} did not fit: {what}, and there is none"
    return f"{_of(attempt)} did not fit: {what}, and {_stands(found.found)} stands there"


def _expected(term: p.Term) -> str:
    match term:
        case p.OpTerm():
            return f"`{term.text}` was expected"
        case p.BindTerm() | p.ComputeTerm() | p.OptionalTerm() | p.ThroughTerm():
            return _expected(term.term)
        case p.AlternativesTerm():
            texts = dict.fromkeys(_expected(t).removesuffix(" was expected") for t in term.terms)
            return " or ".join(texts) + " was expected"
        case p.ElementTerm():
            return f"output {term.index} of {_expected(term.term)}"
        case p.LiteralTerm():
            return f"`{show(term.value)}` was expected"
        case p.VariableTerm():
            return "the value bound before was expected"
        case p.ListTerm():
            return f"a list of {len(term.items)} was expected"
        case p.EachTerm():
            return f"a list, of which each is as {_expected(term.term)}"
        case _:
            return "another value was expected"


def _stands(found: Any) -> str:
    if isinstance(found, Value):
        op = found.node.op
        return f"`{show_value(found)}` ({op.name if op is not None else 'an input'})"
    return f"`{show(found)}`"


def inner_only(rule: CompiledRule, backend: str, node: Value, at: Callable[[Value], Attempt | None]) -> Attempt:
    """Why a rule that names a node's op only inside of a pattern did not take the node: what it wants around it, and
    what is there. `at` gives the attempt that came furthest at a node."""
    op = node.op.name if node.op is not None else node.name
    around = [term for choice in rule.pattern.choices for sink in (choice.root, *choice.others)
              for term in _around(sink.term, op)]
    wanted = " or ".join(dict.fromkeys(f"`{term.text}`" for term in around))
    detail = f" ({wanted} around it)" if wanted else ""
    users = node.users
    near = [user for user in users if any(t.ops is None or (user.op and user.op.name in t.ops) for t in around)]
    attempt = next((a for a in map(at, near) if a is not None and rule.name in (a.rule, a.of)), None)
    if attempt is not None:
        detail += f"; at its user `{near[0].name}`: {describe(attempt)}"
    elif near or not wanted:
        detail += ", which does not match here"
    elif users:
        detail += ", and " + ", ".join(map(_stands, users)) + (" uses it here" if len(users) == 1 else " use it here")
    else:
        detail += ", and nothing uses it here"
    return Attempt(Cause.INNER_ONLY, (0, 0), rule.name, rule.name_span, detail=detail, backend=backend)


def _around(term: p.Term, op: str) -> Iterator[p.OpTerm]:
    """The calls of a pattern that an op may be an argument of."""
    waiting: list[tuple[p.Term, p.OpTerm | None]] = [(term, None)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        current, outer = waiting.pop()
        if (id(current), id(outer)) in seen:
            continue
        seen.add((id(current), id(outer)))
        if isinstance(current, p.OpTerm):
            if outer is not None and op in (current.ops or ()):
                yield outer
            outer = current
        elif isinstance(current, p.ThroughTerm) and outer is not None and op in current.ops:
            yield outer
        waiting.extend((inner, outer) for inner in p.subterms(current))


def _said(attempt: Attempt) -> str:
    detail = attempt.detail
    return detail() if callable(detail) else str(detail)


_WORDS: dict[Cause, Callable[[Attempt], str]] = {
    Cause.NO_RULE: lambda a: f"no rule of {a.backend} names {a.detail}",
    Cause.PATTERN: _mismatch,
    Cause.REQUIREMENT: lambda a: _failed(a, "requires"),
    Cause.GIVEN: lambda a: f"{_of(a)} asks for surroundings that are not there",
    Cause.INVARIANT: lambda a: _failed(a, "is an invariant,"),
    Cause.EMIT: lambda a: _failed(a, "emits"),
    Cause.LOST: lambda a: f"{_of(a)} matched, and lost to {_said(a)}",
    Cause.INTERLEAVED: lambda a: f"{_of(a)} matched, and is interleaved with others: {_said(a)}",
    Cause.POST_CONDITION: lambda a: _failed(a, "requires of its partition"),
    Cause.TRIMMED: lambda a: _held(a, "trims it from its partition"),
    Cause.REJECTED: lambda a: _held(a, "rejects its partition"),
    Cause.LIMIT: lambda a: f"{_of(a)} matched, and its partition is past a limit: {a.detail}",
    Cause.UNUSED: lambda a: f"{_of(a)} matched, and nothing uses what its partition computes",
    Cause.EXCLUDED: lambda a: f"excluded by user: {a.detail}",
    Cause.OTHER_PARTITIONER: lambda a: f"tagged `{a.detail}` by another partitioner",
    Cause.LOWERED: lambda a: f"already lowered: {a.detail}",
    Cause.MUTATION: lambda a: f"{_of(a)} matched, and {a.detail}",
    Cause.BRANCHES: lambda a: f"{_of(a)} matched, and its branches are not wholly claimed: {a.detail}",
    Cause.GAVE_UP: lambda a: f"{_of(a)}: the search gave up, {a.detail}",
    Cause.INNER_ONLY: lambda a: f"{_of(a)} takes it only inside a larger pattern{a.detail}",
}
