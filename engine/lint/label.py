"""From a leaf to values: paths tied by comparisons are given numbers one by one, everything else by preference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from apportion.engine.lint.domains import Choice, Domain, Numbers
from apportion.engine.lint.formulas import In
from apportion.engine.lint.opfacts import facts_of, is_mixed
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.lint.solve import Budget, Contradiction, Exhausted, Leaf, Problem, solve
from apportion.engine.lint.terms import Box
from apportion.engine.preserve import target_named

__all__ = ["labelled", "prefer"]

_STEPS = 400
_SIZES = (8, 4, 16, 1, 2, 3, 5, 6, 7, 12, 32, 64, 0)


def labelled(leaf: Leaf, skeleton: Skeleton, turn: int = 0) -> Iterator[Box]:
    """Boxes inside a leaf in which no comparison is open; `turn` changes what is tried first."""
    problem = Problem(skeleton, leaf.box.copy(), compares=dict.fromkeys(leaf.compares), sames=dict.fromkeys(leaf.sames))
    steps = [0]
    try:
        chosen = _with_ops(problem, turn)
        problem.settle()
    except Contradiction:
        return
    if chosen:
        for inner in _leaves(problem):
            compares, sames = dict.fromkeys(inner.compares), dict.fromkeys(inner.sames)
            yield from _label(Problem(skeleton, inner.box, compares=compares, sames=sames), turn, steps)
        return
    yield from _label(problem, turn, steps)


def _with_ops(problem: Problem, turn: int) -> bool:
    """Choose the op of each node that can be ops of different kinds, with the facts of that one. Raises Contradiction.
    """
    chosen = False
    for place in problem.skeleton.ops:
        names = problem.ops_of(place)
        there = [name for name in sorted(names) if target_named(name) is not None] if is_mixed(names) else []
        if not there:
            continue
        one = frozenset({there[turn % len(there)]})
        problem.add(In(f"{place}/op", Choice(one)))
        problem.conditions.extend(condition for _, condition in facts_of(problem.skeleton, place, one))
        chosen = True
    return chosen


def _leaves(problem: Problem) -> Iterator[Leaf]:
    try:
        yield from islice(solve(problem, Budget(_STEPS)), 2)
    except Exhausted:
        return


def _label(problem: Problem, turn: int, steps: list[int]) -> Iterator[Box]:
    var = _next(problem)
    if var is None:
        yield problem.box
        return
    for value in _candidates(problem.box.get(var), var, turn):
        steps[0] += 1
        if steps[0] > _STEPS:
            return
        branch = problem.copy()
        try:
            domain: Domain = Choice(frozenset({value})) if isinstance(problem.box.get(var), Choice) else Numbers.point(
                value, whole=_whole(problem.box, var))
            branch.add(In(var, domain))
            branch.settle()
        except Contradiction:
            continue
        yield from _label(branch, turn, steps)


def _whole(box: Box, var: str) -> bool:
    domain = box.get(var)
    return domain.whole if isinstance(domain, Numbers) else True


def _next(problem: Problem) -> str | None:
    """The open path with the fewest values; the derived ones (`… by 8/quotient`) come last."""
    found: dict[str, None] = {}
    for compare in problem.compares:
        for var in sorted(compare.poly.variables):
            if not problem.box.get(var).single:
                found[var] = None
    for same in problem.sames:
        for var in (same.left, same.right):
            if not problem.box.get(var).single:
                found[var] = None
    return min(found, key=lambda v: (" " in v, _size(problem.box.get(v)), v), default=None)


def _size(domain: Domain) -> float:
    if isinstance(domain, Numbers):
        return min(domain.count(), 1000.0)
    return 1000.0 if domain.but else len(domain.values)


def _candidates(domain: Domain, var: str, turn: int) -> list[Any]:
    if isinstance(domain, Choice):
        preferred = [v for v in _DTYPES if domain.has(v)] if "dtype" in var else []
        rest = [] if domain.but else sorted(domain.values - set(preferred), key=str)
        return _turned([*preferred, *rest], turn)
    found: list[float] = []
    if var.endswith("/value:int") and domain.count() > 40:
        usual = [v for v in (*_usual(var), 1, 0, 2, 3) if domain.has(v)]
        others = [v for v in (*_SIZES, domain.low, domain.high) if math.isfinite(v) and domain.has(v)]
        chosen: list[float] = [*usual, *others]
        return list(dict.fromkeys(int(v) for v in chosen))
    if not domain.whole:
        found = [1.0, domain.low, domain.high, 0.5, 0.0, 2.0, (domain.low + domain.high) / 2]
        return [v for v in found if math.isfinite(v) and domain.has(v)]
    if domain.count() <= 40:
        found = list(domain.members())
        if domain.has(8) and "/shape[" in var:
            found.insert(0, 8)
    else:
        sizes = _turned(list(_SIZES), turn)
        found = [s for s in sizes if domain.has(s)]
        if domain.low > -math.inf:
            first = list(_take(domain, 4))
            found = [*found[:2], *first, *found[2:]]
        else:
            found += [v for v in (-1, domain.high) if domain.has(v)]
        if domain.high < math.inf:
            found.append(domain.high)
    return list(dict.fromkeys(int(v) for v in found))


def _usual(var: str) -> tuple[int, ...]:
    name = var.rpartition("/")[0].partition("[")[0].rpartition(".")[2]
    return (0,) if "padding" in name else (1,)


def _take(domain: Numbers, count: int) -> Iterator[int]:
    for index, value in enumerate(domain.members()):
        if index == count:
            return
        yield value


def _turned(items: list[Any], turn: int) -> list[Any]:
    if not items:
        return items
    shift = turn % len(items)
    return items[shift:] + items[:shift]


_DTYPES = (torch.float32, torch.float16, torch.int8, torch.uint8, torch.bfloat16, torch.int32, torch.int64, torch.bool,
           torch.float64, torch.int16)


def prefer(domain: Domain, wanted: list[Any]) -> Any:
    """The first of `wanted` that the domain has, else some member of it; None where it has none that can be named."""
    for value in wanted:
        if domain.has(value):
            return value
    if isinstance(domain, Choice):
        if not domain.but:
            return min(domain.values, key=str, default=None)
        return None
    if not domain.whole:
        ends = [v for v in (domain.low, domain.high) if math.isfinite(v)]
        inside = [v for end in ends for v in (end, end + 0.5, end - 0.5, end + 1, end - 1) if domain.has(v)]
        return inside[0] if inside else None
    if domain.low > -math.inf:
        return next(domain.members(), None)
    if domain.high < math.inf:
        value = domain.high
        while not domain.has(value) and value > domain.high - 100:
            value -= 1
        return int(value) if domain.has(value) else None
    return next((v for v in range(0, 200) if domain.has(v)), None)


DTYPES = _DTYPES
"""Dtypes in the order in which they are tried."""
