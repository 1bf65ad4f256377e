"""Which requirements a file's examples exercise: each should be seen to hold in one and to fail in another."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from apportion.engine.candidates import Attempts, Matcher
from apportion.engine.compile.rulesets import CompiledRule, LetStep, Requirement, RuleSet
from apportion.engine.errors import ApportionError
from apportion.engine.examples import ExampleError, build_example
from apportion.engine.facts import ProgramFacts, Value
from apportion.engine.load import with_options
from apportion.engine.values import is_unknown
from apportion.grammar.diagnostics import Span

__all__ = ["Exercise", "exercises"]


@frozen
class Exercise:
    """One requirement of a rule: was it seen to hold in an example, and to fail in one?"""

    rule: str
    text: str
    span: Span
    held: bool
    failed: bool

    @property
    def missing(self) -> str:
        """What no example shows."""
        sides = [word for word, seen in (("holding", self.held), ("failing", self.failed)) if not seen]
        return " and ".join(sides)


def exercises(rules: RuleSet) -> list[Exercise]:
    """Every requirement on nodes of every rule, in the order of the file."""
    found: list[Exercise] = []
    for rule in sorted((*rules.rules, *rules.absent), key=lambda r: r.position):
        seen = _seen(rules, rule)
        for requirement in (s for s in rule.steps if isinstance(s, Requirement)):
            held, failed = seen.get(requirement.span.start, (False, False))
            found.append(Exercise(rule.name, requirement.text, requirement.span, held, failed))
    return found


def _seen(rules: RuleSet, rule: CompiledRule) -> dict[int, tuple[bool, bool]]:
    found: dict[int, tuple[bool, bool]] = {}
    for example, options in zip(rule.examples, rule.example_options, strict=True):
        try:
            loaded = with_options(rules, dict(options)) if options else rules
            program = build_example(example, loaded)
        except (ExampleError, ApportionError):
            continue
        except Exception:  # the library of a declared op is absent: such an example is skipped
            continue
        mine = next((r for r in loaded.rules if r.name == rule.name), None)
        if mine is not None:
            _look(loaded, mine, ProgramFacts.of(program.module).main, found)
    return found


def _look(rules: RuleSet, rule: CompiledRule, graph: Any, found: dict[int, tuple[bool, bool]]) -> None:
    """Match the pattern without requirements, and evaluate each of them by itself."""
    bare = evolve(rule, steps=(), post=(), emits=())
    matcher = Matcher(evolve(rules, rules=(bare,), invariants=(), emits=()), graph, _nothing, Attempts(), _no_branches)
    for candidate in matcher.candidates():
        match = candidate.current()
        if match is None:
            continue
        frame = list(match.frame)
        for step in rule.steps:
            if isinstance(step, LetStep):
                frame[step.slot] = step.evaluate(frame)
                continue
            verdict = step.evaluate(frame)
            held, failed = found.get(step.span.start, (False, False))
            known = not is_unknown(verdict)
            found[step.span.start] = (held or verdict is True, failed or (known and verdict is False) or not known)


def _nothing(node: Value) -> None:
    return None


def _no_branches(node: Value, rule: CompiledRule) -> None:
    return None
