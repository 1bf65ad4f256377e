"""What one version of a file claims and another does not, each with a witness that the real matcher confirms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from apportion.engine.lint.confirm import candidates, matches, names_of
from apportion.engine.lint.model import Instance, RuleFile, RuleModel, add_facts, conditions_of, structure
from apportion.engine.lint.overlap import _missed, covered
from apportion.engine.lint.solve import Budget, Exhausted, Leaf, Problem, solve

__all__ = ["Change", "compare"]

SPLITS = 1_500


@frozen(eq=False)
class Change:
    """A call that `rule` claims and the other version does not; `text` is empty where no witness was confirmed."""

    rule: RuleModel
    text: str


def compare(base: RuleFile, head: RuleFile) -> tuple[list[Change], list[Change]]:
    """(claims gained, claims lost) from `base` to `head`."""
    return list(_only(head, base)), list(_only(base, head))


def _only(one: RuleFile, other: RuleFile) -> Iterator[Change]:
    for rule in one.models:
        rivals = [r for r in other.models if _share(rule, r)]
        same = next((r for r in rivals if r.name == rule.name), None)
        ordered = [same, *(r for r in rivals if r is not same)] if same is not None else rivals
        if ordered and covered(rule, ordered):
            continue
        text = _witness(rule, ordered)
        if text:
            yield Change(rule, text)


def _share(one: RuleModel, other: RuleModel) -> bool:
    first, second = one.root_ops, other.root_ops
    return first is None or second is None or not first.isdisjoint(second)


def _witness(rule: RuleModel, others: Sequence[RuleModel]) -> str:
    for instance in rule.instances[:24]:
        for problem in _problems(instance, others):
            for drawing in candidates(_leaves(problem), problem.skeleton, rule.file, 16):
                mine = matches(rule, drawing)
                if not mine:
                    continue
                theirs = {name for other in others for match in matches(other, drawing) for name in names_of(match)}
                if names_of(mine[0]) - theirs:
                    return drawing.text
    return ""


def _problems(instance: Instance, others: Sequence[RuleModel]) -> Iterator[Problem]:
    for strict in (True, False):
        problem = Problem(instance.skeleton)
        problem.conditions = [*structure(instance.skeleton), *conditions_of(instance, instance.skeleton)]
        if strict:
            missed = [m for other in others if (m := _missed(other, instance, False)) is not None]
            problem.conditions.extend(missed)
        add_facts(problem)
        yield problem


def _leaves(problem: Problem) -> Iterator[Leaf]:
    try:
        yield from solve(problem, Budget(SPLITS))
    except Exhausted:
        return
