"""z3 as a last resort: what comparisons leave open in a box, decided by a solver that knows products. Optional."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from apportion.engine.lint.domains import Numbers
from apportion.engine.lint.formulas import Compare, Poly
from apportion.engine.lint.solve import Leaf
from apportion.engine.lint.terms import Box

__all__ = ["is_installed", "values"]

_TIMEOUT = 500
"""Milliseconds for one box."""


def is_installed() -> bool:
    """Is z3 there?"""
    return _z3() is not None


def values(leaf: Leaf) -> Box | bool | None:
    """The box of a leaf with numbers that fulfil its comparisons; False where there are none, None where z3 is missing,
    gives up, or nothing is to be decided."""
    z3 = _z3()
    if z3 is None or not leaf.compares:
        return None
    paths = sorted({path for compare in leaf.compares for path in compare.poly.variables})
    domains = {path: leaf.box.get(path) for path in paths}
    terms: dict[str, Any] = {}
    solver = z3.Solver()
    solver.set("timeout", _TIMEOUT)
    for path, domain in domains.items():
        if not isinstance(domain, Numbers):
            return None
        terms[path] = z3.Int(path) if domain.whole else z3.Real(path)
        solver.add(*_inside(terms[path], domain))
    solver.add(*(_compared(compare, terms) for compare in leaf.compares))
    answer = solver.check()
    if answer != z3.sat:
        return False if answer == z3.unsat else None
    return _boxed(leaf.box, terms, solver.model())


def _z3() -> ModuleType | None:
    try:
        import z3
    except ImportError:
        return None
    return z3


def _inside(term: Any, domain: Numbers) -> list[Any]:
    found = [term != _number(value) for value in domain.excluded]
    if math.isfinite(domain.low):
        found.append(term >= _number(domain.low))
    if math.isfinite(domain.high):
        found.append(term <= _number(domain.high))
    if domain.whole and domain.modulus > 1:
        found.append(term % domain.modulus == domain.residue)
    return found


def _number(value: float) -> int | str:
    """A number as z3 reads it without a loss."""
    if value == math.floor(value):
        return int(value)
    above, below = float(value).as_integer_ratio()
    return f"{above}/{below}"


def _compared(compare: Compare, terms: dict[str, Any]) -> Any:
    total = _sum(compare.poly, terms)
    return total <= 0 if compare.op == "<=" else total == 0 if compare.op == "==" else total != 0


def _sum(poly: Poly, terms: dict[str, Any]) -> Any:
    z3: Any = _z3()
    exact = all(value == math.floor(value) for value in (poly.constant, *(c for _, c in poly.terms)))
    convert = z3.IntVal if exact else z3.RealVal
    total = convert(_number(poly.constant))
    for monomial, coefficient in poly.terms:
        part = convert(_number(coefficient))
        for path in monomial:
            part = part * (terms[path] if exact else z3.ToReal(terms[path]) if terms[path].is_int() else terms[path])
        total = total + part
    return total


def _boxed(box: Box, terms: dict[str, Any], model: Any) -> Box | None:
    """The box with the model's numbers; None where one is no plain number."""
    found = box.copy()
    for path, term in terms.items():
        value = model.eval(term, model_completion=True)
        domain = box.get(path)
        whole = isinstance(domain, Numbers) and domain.whole
        try:
            number = float(value.as_long()) if whole else float(value.as_fraction())
        except AttributeError:  # an algebraic number
            return None
        if found.narrow(path, Numbers.point(number, whole=whole)) is None:
            return None
    return found
