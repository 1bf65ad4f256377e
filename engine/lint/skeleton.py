"""The small graph that patterns speak of: values known by their place, and what a pattern has fixed about them.

A place is the way from a root through arguments, such as `$.input.weight`; two rules that meet at one node speak of the
same places, so their conditions are about the same paths. Two places may turn out to be one value (`unify`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.lint.domains import BOOLS, Choice, Domain, Numbers
from apportion.engine.lint.formulas import Formula
from apportion.engine.ops import Op, UnknownOp, schema_of

__all__ = ["ORIGINS", "Claim", "Conflict", "Skeleton", "Symbol", "domain_for"]

ORIGINS = ("node", "user", "parameter", "buffer", "mutable_buffer", "constant", "attribute")
"""Where a value comes from: an op, the caller, or one of the kinds of state."""

OUTPUTS = tuple(f".out{index}" for index in range(8))
"""How places of outputs end; such a place is another name for the value that the patterns speak of."""

_RANKS = Numbers.of(0, 64)
_SIZES = Numbers.of(0, 2**40)
_DTYPES = Choice(frozenset(DTYPES.values()))
_OPEN = Choice(frozenset(), True)

_FIXED: Mapping[str, Domain] = {
    "dtype": _DTYPES,
    "rank": _RANKS,
    "origin": Choice(frozenset(ORIGINS)),
    "op": _OPEN,
    "users": Numbers.of(0, 2**20),
    "storage_offset": _SIZES,
    "name": _OPEN,
    "module": _OPEN,
    "source": _OPEN,
    "device": _OPEN,
}


def domain_for(attribute: str) -> Domain:
    """The values that an attribute's path can have at all; those of arguments end in `:TYPE`."""
    if attribute in _FIXED:
        return _FIXED[attribute]
    if attribute.startswith(("shape[", "strides[")):
        return _SIZES
    if attribute.startswith("dim_order["):
        return _RANKS
    kind = attribute.rpartition(":")[2] if ":" in attribute else "bool"
    return _BY_TYPE.get(kind, _OPEN)


_BY_TYPE: Mapping[str, Domain] = {
    "bool": BOOLS,
    "int": Numbers(),
    "len": Numbers.of(0, 64),
    "number": Numbers(whole=False),
    "dtype": _DTYPES,
    "dtype?": Choice(_DTYPES.values | {None}),
    "bool?": Choice(frozenset({True, False, None})),
}


_SCHEMAS: dict[str, Op] = {}
"""Ops that were looked up; a registered op's schema never changes."""


@frozen
class Symbol:
    """A value of the graph at a place. `kind` is tensor, tensor? (may be absent), or list (of tensors)."""

    place: str
    kind: str = "tensor"

    def __str__(self) -> str:
        return self.place


@define(eq=False)
class Claim:
    """What one rule claims in a skeleton: its nodes, and which of them it shares."""

    nodes: dict[str, bool] = field(factory=dict)
    root: str = ""
    slots: dict[Any, Any] = field(factory=dict)


class Conflict(Exception):
    """Two places can't be one value."""


@define(eq=False)
class Skeleton:
    """What is known of the places. `ops` are those that are op nodes, with the ops they can be; `children` the
    arguments that a pattern has looked into; `conditions` what else a pattern asks (closures over a box)."""

    declared: Mapping[str, Op]
    ops: dict[str, frozenset[str] | None] = field(factory=dict)
    children: dict[str, dict[str, Any]] = field(factory=dict)
    alias: dict[str, str] = field(factory=dict)
    elements: dict[str, tuple[str, int]] = field(factory=dict)
    conditions: list[Callable[..., Formula]] = field(factory=list)
    claims: list[Claim] = field(factory=list)
    relaxed: bool = False
    _found: dict[str, str] = field(factory=dict, init=False, repr=False)
    _known: int = field(default=0, init=False, repr=False)

    def copy(self) -> Skeleton:
        """An independent copy."""
        return Skeleton(
            self.declared, dict(self.ops), {k: dict(v) for k, v in self.children.items()}, dict(self.alias),
            dict(self.elements), list(self.conditions),
            [Claim(dict(c.nodes), c.root, dict(c.slots)) for c in self.claims], self.relaxed,
        )

    def signature(self) -> Hashable:
        """Equal for skeletons in which every condition reads the same."""
        return (id(self.declared), frozenset(self.ops.items()), frozenset(self.alias.items()),
                frozenset(self.elements.items()))

    def find(self, place: str) -> str:
        """The place that stands for a place, after unification."""
        if not self.alias:
            return place
        if self._known != len(self.alias):  # aliases only come to be
            self._found.clear()
            self._known = len(self.alias)
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = self._follow(place)
        return found

    def _follow(self, place: str) -> str:
        for _ in range(64):
            if place in self.alias:
                place = self.alias[place]
                continue
            cut = len(place)
            while (cut := _cut(place, cut)) > 0:
                head = place[:cut]
                if head in self.alias:
                    place = self.alias[head] + place[cut:]
                    break
            else:
                return place
        return place

    def schemas(self, place: str) -> list[Op] | None:
        """The schemas of the ops that a node can be; None where that is open."""
        names = self.ops.get(self.find(place))
        return None if names is None else [op for name in sorted(names) if (op := self.schema(name)) is not None]

    def schema(self, name: str) -> Op | None:
        """One op's schema."""
        if name in self.declared:
            return self.declared[name]
        found = _SCHEMAS.get(name)
        if found is None:
            try:
                found = _SCHEMAS[name] = schema_of(name)
            except UnknownOp:
                return None
        return found

    def unify(self, one: str, other: str) -> None:
        """Make two places one value. Raises Conflict."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return
        if _inside(one, other) or _inside(other, one):
            raise Conflict(f"{one} and {other}")
        element, second = self.elements.get(one), self.elements.get(other)
        if element is not None and second is not None:
            if element[1] != second[1]:
                raise Conflict("different outputs")
            self.elements.pop(other)
            self.unify(element[0], second[0])
        elif second is not None:
            self.elements[one] = self.elements.pop(other)
        self._move(other, one)

    def _move(self, other: str, one: str) -> None:
        moved = [place for place in self.ops if place == other or _inside(place, other)]
        parts = [(place, same) for place, same in self.alias.items() if _inside(place, other)]
        elements = [(place, of) for place, of in self.elements.items() if _inside(place, other)]
        self.alias[other] = one
        for place in moved:
            target = one + place[len(other):]
            self.meet_ops(target, self.ops.pop(place))
        for place in [p for p in self.children if p == other or _inside(p, other)]:
            target = one + place[len(other):]
            self.children.setdefault(target, {}).update(self.children.pop(place))
        self._move_parts(other, one, parts, elements)

    def _move_parts(
        self, other: str, one: str, parts: list[tuple[str, str]], elements: list[tuple[str, tuple[str, int]]]
    ) -> None:
        """What was said of places inside `other` is said of the same places inside `one`."""
        for place, (node, index) in elements:
            target = one + place[len(other):]
            del self.elements[place]
            known = self.elements.setdefault(self.find(target), (self.find(node), index))
            if known[1] != index:
                raise Conflict("different outputs")
            self.unify(known[0], node)
        for place, same in parts:
            target = one + place[len(other):]
            if target.endswith(OUTPUTS):
                self.alias.setdefault(target, self.find(same))
            else:
                self.unify(same, target)

    def meet_ops(self, place: str, ops: frozenset[str] | None) -> None:
        """The node at a place is an op, one of `ops` (None: any). Raises Conflict where none is left."""
        place = self.find(place)
        if place in self.elements:
            raise Conflict(f"{place} is an output of an op")
        known = self.ops.get(place)
        met = ops if known is None else known if ops is None else known & ops
        if met is not None and not met:
            raise Conflict(f"{place}: no op in common")
        self.ops[place] = met

    def nodes(self) -> Iterator[str]:
        """Every place that is an op node."""
        return iter(self.ops)

    def with_conditions(self, *conditions: Callable[..., Formula]) -> Skeleton:
        """A copy that asks more."""
        return evolve(self.copy(), conditions=[*self.conditions, *conditions])


def _cut(place: str, end: int) -> int:
    return max(place.rfind(".", 0, end), place.rfind("[", 0, end))


def _inside(place: str, outer: str) -> bool:
    return place.startswith(outer) and len(place) > len(outer) and place[len(outer)] in ".["
