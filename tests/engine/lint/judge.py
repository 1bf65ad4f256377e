"""The same rules in z3, translated from the tree by themselves: an independent judge of the boxes.

Only a part of the language: one relu of a tensor `x` with rank, dtype, sizes of up to four dims, an origin.
"""

from __future__ import annotations

import random
from typing import Any

import z3

DTYPES = ("float32", "float16", "int8", "int32")
MOST_DIMS = 4


class Judge:
    """Translates a list of conditions over `x` to z3."""

    def __init__(self) -> None:
        self.rank = z3.Int("rank")
        self.dtype = z3.Int("dtype")
        self.constant = z3.Bool("constant")
        self.sizes = [z3.Int(f"size{i}") for i in range(MOST_DIMS)]
        self.facts = [self.rank >= 0, self.rank <= MOST_DIMS, self.dtype >= 0, self.dtype < len(DTYPES),
                      *(size >= 0 for size in self.sizes), *(size <= 2**40 for size in self.sizes)]

    def satisfiable(self, conditions: list[Any]) -> bool | None:
        """z3's answer; None where it gives up (products of three sizes and more)."""
        solver = z3.Solver()
        solver.set("timeout", 2_000)
        solver.add(*self.facts, *(self.read(c) for c in conditions))
        answer = solver.check()
        return None if answer == z3.unknown else bool(answer == z3.sat)

    def read(self, condition: Any) -> Any:
        """A condition is a tuple: its kind, then its parts; an index out of range makes a comparison false."""
        kind, *parts = condition
        if kind == "rank":
            return _compare(parts[0], self.rank, parts[1])
        if kind == "dtype":
            inside = z3.Or(*(self.dtype == DTYPES.index(name) for name in parts[1]))
            return inside if parts[0] else z3.Not(inside)
        if kind == "constant":
            return self.constant if parts[0] else z3.Not(self.constant)
        if kind == "size":
            index, op, bound = parts
            if index >= 0:
                return z3.And(self.rank > index, _compare(op, self.sizes[index], bound))
            cases = [z3.And(self.rank == r, _compare(op, self.sizes[r + index], bound))
                     for r in range(-index, MOST_DIMS + 1)]
            return z3.Or(*cases)
        if kind == "modulo":
            index, by, residue = parts
            return z3.And(self.rank > index, self.sizes[index] % by == residue)
        if kind == "pair":
            one, op, other, shift = parts
            return z3.And(self.rank > max(one, other), _compare(op, self.sizes[one], self.sizes[other] + shift))
        if kind == "all":
            op, bound = parts
            return z3.And(*(z3.Implies(self.rank > i, _compare(op, s, bound)) for i, s in enumerate(self.sizes)))
        if kind == "any":
            op, bound = parts
            return z3.Or(*(z3.And(self.rank > i, _compare(op, s, bound)) for i, s in enumerate(self.sizes)))
        if kind == "numel":
            op, bound = parts
            cases = []
            for r in range(MOST_DIMS + 1):
                total: Any = z3.IntVal(1)
                for size in self.sizes[:r]:
                    total = total * size
                cases.append(z3.And(self.rank == r, _compare(op, total, bound)))
            return z3.Or(*cases)
        join = {"or": z3.Or, "and": z3.And}[kind]
        return join(*(self.read(part) for part in parts))


def _compare(op: str, left: Any, right: Any) -> Any:
    return {"==": left == right, "!=": left != right, "<=": left <= right, ">=": left >= right, "<": left < right,
            ">": left > right}[op]


def as_text(condition: Any) -> str:
    """The condition as a rules file writes it."""
    kind, *parts = condition
    if kind == "rank":
        return f"x.rank {parts[0]} {parts[1]}"
    if kind == "dtype":
        return f"x.dtype {'in' if parts[0] else 'not in'} {{{', '.join(sorted(parts[1]))}}}"
    if kind == "constant":
        return f"x is {'' if parts[0] else 'not '}constant"
    if kind == "size":
        return f"x.shape[{parts[0]}] {parts[1]} {parts[2]}"
    if kind == "modulo":
        return f"x.shape[{parts[0]}] % {parts[1]} == {parts[2]}"
    if kind == "pair":
        return f"x.shape[{parts[0]}] {parts[1]} x.shape[{parts[2]}] + {parts[3]}"
    if kind in ("all", "any"):
        return f"{kind}(d {parts[0]} {parts[1]} for d in x.shape)"
    if kind == "numel":
        return f"x.numel {parts[0]} {parts[1]}"
    return "(" + f" {kind} ".join(as_text(part) for part in parts) + ")"


def condition(draw: random.Random, depth: int = 1) -> Any:
    """One random condition."""
    kinds = ["rank", "dtype", "constant", "size", "size", "modulo", "pair", "all", "any"]
    if draw.random() < 0.1:
        kinds = ["numel"]  # products are what z3 often gives up on
    if depth:
        kinds += ["or", "or", "and"]
    kind = draw.choice(kinds)
    op = draw.choice(["==", "!=", "<=", ">=", "<", ">"])
    bound = draw.choice([0, 1, 2, 3, 4, 7, 8, 16])
    if kind == "rank":
        return "rank", op, draw.randint(0, 4)
    if kind == "dtype":
        return "dtype", draw.random() < 0.7, frozenset(draw.sample(DTYPES, draw.randint(1, 3)))
    if kind == "constant":
        return "constant", draw.random() < 0.5
    if kind == "size":
        return "size", draw.randint(-2, 2), op, bound
    if kind == "modulo":
        by = draw.choice([2, 3, 4, 8])
        return "modulo", draw.randint(0, 2), by, draw.randrange(by)
    if kind == "pair":
        one, other = draw.sample(range(3), 2)
        return "pair", one, op, other, draw.choice([0, 1, 2])
    if kind in ("all", "any"):
        return kind, op, bound
    if kind == "numel":
        return "numel", draw.choice(["<=", ">="]), draw.choice([1, 8, 64, 4096])
    return kind, *(condition(draw, depth - 1) for _ in range(2))


def rule(draw: random.Random) -> list[Any]:
    """The requirements of one random rule."""
    return [condition(draw) for _ in range(draw.randint(1, 3))]
