"""Witnesses confirmed: drawn from a leaf, accepted by PyTorch, and claimed by the real matcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch.fx as fx
from attrs import evolve, frozen

from apportion.engine.candidates import Attempts, Match, Matcher
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.errors import ApportionError
from apportion.engine.facts import ProgramFacts, Value
from apportion.engine.lint.domains import Choice
from apportion.engine.lint.label import labelled
from apportion.engine.lint.model import RuleFile, RuleModel
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.lint.solve import Leaf
from apportion.engine.lint.terms import Box
from apportion.engine.lint.witness import Drawing, Refused, Unavailable, draw
from apportion.engine.load import with_options
from apportion.grammar import tree

__all__ = ["Confirmed", "candidates", "matches", "under_options"]

TURNS = 6

_FILLS = (0, 1, -1)
"""What constants hold, in turn, where a rule asks for their data."""

_STATE = Choice(frozenset({"parameter", "buffer", "constant", "attribute"}))


@frozen(eq=False)
class Confirmed:
    """A drawing that rules claim: how it reads, and for each rule the match of it that counts."""

    text: str
    module: fx.GraphModule
    options: Mapping[str, Any]
    matches: tuple[Match, ...]

    @property
    def emits(self) -> tuple[tuple[tuple[str, bytes], ...], ...]:
        """What each of the matches emits."""
        return tuple(match.emits for match in self.matches)


def candidates(
    leaves: Iterator[Leaf], skeleton: Skeleton, file: RuleFile, most: int = 24, others: Sequence[RuleFile] = ()
) -> Iterator[Drawing]:
    """Drawings of leaves, a bounded number."""
    tried = 0
    metas: dict[str, None] = {}
    options: dict[str, Any] = {}
    for one in (*others, file):
        metas |= {s.path: None for s in one.statements if isinstance(s, tree.MetaDecl)}
        options |= {one.owner + name: value for name, value in one.rules.options.items()}
    for index, leaf in enumerate(leaves):
        for turn in range(TURNS if index < 3 else 2):
            if tried >= most:
                return
            tried += 1
            box = next(labelled(leaf, skeleton, turn), None)
            if box is None:
                break
            try:
                found = Box(dict(box.domains))
                fill = _FILLS[turn % len(_FILLS)] if _with_data(leaf, found) else None
                yield draw(skeleton, found, options, metas, turn, fill)
            except Unavailable:
                break
            except Refused:
                continue


def _with_data(leaf: Leaf, box: Box) -> bool:
    """Does a rule ask for the data of a constant? Then what it asks of becomes one, where it can."""
    asked = [o for o in leaf.opens if o.reason == "data"]
    for path in {path for o in asked for path in o.variables}:
        box.narrow(path, _STATE)
    return bool(asked)


def under_options(file: RuleFile, options: Mapping[str, Any]) -> RuleSet | None:
    """The rules of a file with other options; None where they don't load."""
    mine = {name: options[file.owner + name] for name in file.rules.options if file.owner + name in options}
    if mine == dict(file.rules.options):
        return file.rules
    key = tuple(sorted((name, str(sorted(v)) if isinstance(v, frozenset) else repr(v)) for name, v in mine.items()))
    known: dict[Any, RuleSet | None] = file.__dict__.setdefault("_under", {})
    if key not in known:
        try:
            known[key] = with_options(file.rules, mine)
        except ApportionError:
            known[key] = None
    return known[key]


def matches(rule: RuleModel, drawing: Drawing) -> list[Match]:
    """Every match of a rule in a drawing, by the engine's own matcher."""
    rules = under_options(rule.file, drawing.options)
    if rules is None:
        return []
    chosen = [r for r in rules.rules if r.name == rule.name]
    if not chosen:
        return []
    graph = ProgramFacts.of(drawing.module).main
    matcher = Matcher(evolve(rules, rules=tuple(chosen)), graph, _no_refusal, Attempts(), _no_branches)
    found: list[Match] = []
    for candidate in matcher.candidates():
        while (match := candidate.current()) is not None and len(found) < 64:
            found.append(match)
            candidate.advance()
    return found


def _no_refusal(node: Value) -> None:
    return None


def _no_branches(node: Value, rule: Any) -> None:
    return None


def names_of(match: Match) -> frozenset[str]:
    """The names of the nodes that a match claims."""
    return frozenset(node.name for node in match.claimed)


def clash(one: Sequence[Match], other: Sequence[Match]) -> tuple[Match, Match] | None:
    """Two matches that want the same node, not both sharing it; those of equal node sets first."""
    found: tuple[Match, Match] | None = None
    for first in one:
        for second in other:
            shared_nodes = names_of(first) & names_of(second)
            apart = {n.name for n in first.shared} & {n.name for n in second.shared}
            if not shared_nodes - apart:
                continue
            if names_of(first) == names_of(second):
                return first, second
            if found is None:
                found = first, second
    return found
