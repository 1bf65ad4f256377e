"""The types of the rules language, as the checker sees them.

A `Type` says what an expression can be once it is evaluated; `ANY` is what the checker cannot know (an argument
of an op that the pattern leaves open), and goes with everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DEVICE",
    "DTYPE",
    "FLOAT",
    "GRAPH",
    "INT",
    "NONE",
    "NUMBER",
    "OP",
    "OPSET",
    "RANGE",
    "STR",
    "VALUE",
    "Type",
    "comparable",
    "enum_of",
    "fits",
    "is_numeric",
    "join",
    "join_all",
    "list_of",
    "mixable",
    "opened",
    "set_of",
    "tuple_of",
    "type_of_argument",
    "type_of_literal",
    "value_of",
]


@frozen
class Type:
    """One type.

    `kind` is one of any bool int float number str bytes dtype device none op opset value list set tuple range
    graph. `items` are the element type of a list, set or range, or the parts of a tuple. `ops` are the names of the
    ops that can have made a value, None where that is open; `element` marks one output of an op with several.
    `choices` are the words of an enumeration.
    """

    kind: str
    items: tuple[Type, ...] = ()
    ops: frozenset[str] | None = None
    element: bool = False
    choices: frozenset[str] | None = None

    @property
    def item(self) -> Type:
        """The element type of a list, set or range."""
        return self.items[0] if self.items else ANY

    def __str__(self) -> str:
        if self.kind in {"list", "set"}:
            return self.kind if self.item.kind == "any" else f"{self.kind} of {self.item}"
        return _NAMES.get(self.kind, self.kind)

    @property
    def phrase(self) -> str:
        """The type with its article, for messages: `a dtype`, `an int`."""
        text = str(self)
        if self.kind in {"none", "any"}:
            return text
        return f"an {text}" if text[0] in "aeio" else f"a {text}"


_NAMES = {"any": "anything", "opset": "op set", "graph": "sub-graph", "tuple": "tuple"}

ANY = Type("any")
BOOL = Type("bool")
INT = Type("int")
FLOAT = Type("float")
NUMBER = Type("number")
STR = Type("str")
BYTES = Type("bytes")
DTYPE = Type("dtype")
DEVICE = Type("device")
NONE = Type("none")
OP = Type("op")
OPSET = Type("opset")
VALUE = Type("value")
GRAPH = Type("graph")
RANGE = Type("range", (NUMBER,))

_NUMERIC = frozenset({"int", "float", "number"})


def list_of(item: Type) -> Type:
    """The type of lists of `item`."""
    return Type("list", (item,))


def set_of(item: Type) -> Type:
    """The type of sets of `item`."""
    return Type("set", (item,))


def tuple_of(*parts: Type) -> Type:
    """The type of an element of a `zip`."""
    return Type("tuple", parts)


def value_of(ops: Iterable[str] | None, *, element: bool = False) -> Type:
    """A node or value; `ops` are the names of the ops that can have made it, None if any can."""
    return Type("value", ops=None if ops is None else frozenset(ops), element=element)


def enum_of(choices: Iterable[str]) -> Type:
    """A string that is one of `choices`."""
    return Type("str", choices=frozenset(choices))


def opened(type_: Type) -> Type:
    """The type without what is known of ops: how a function or contract sees it, whose lines are for many ops."""
    if type_.kind == "value":
        return evolve(type_, ops=None)
    return evolve(type_, items=tuple(opened(item) for item in type_.items)) if type_.items else type_


def is_numeric(type_: Type) -> bool:
    """Can it be calculated with? Values of open origin can: a literal or a symbolic size may stand there."""
    return type_.kind in _NUMERIC or type_.kind == "any" or (type_.kind == "value" and type_.ops is None)


def fits(actual: Type, expected: Type) -> bool:
    """Can an `actual` stand where an `expected` is asked for?"""
    if "any" in (actual.kind, expected.kind) or actual.kind == "none":
        return True
    if expected.kind in _NUMERIC:
        return is_numeric(actual) and not (expected.kind == "int" and actual.kind == "float")
    if expected.kind == "opset":
        return actual.kind in {"op", "opset"} or _is_empty_set(actual)
    if actual.kind != expected.kind:
        return False
    if expected.kind in {"list", "set"}:
        return fits(actual.item, expected.item)
    return True


def _is_empty_set(type_: Type) -> bool:
    return type_.kind == "set" and type_.item.kind == "any"


def comparable(left: Type, right: Type) -> bool:
    """Can `left == right` ever be true?"""
    kinds = {left.kind, right.kind}
    if "any" in kinds or "none" in kinds:
        return True
    if left.kind == right.kind:
        if left.kind in {"list", "set"}:
            return comparable(left.item, right.item)
        if left.kind == "tuple":
            return len(left.items) == len(right.items) and all(map(comparable, left.items, right.items))
        return True
    if is_numeric(left) and is_numeric(right):
        return True
    return kinds in ({"device", "str"}, {"bool", "number"}) or (
        kinds == {"bool", "value"} and is_numeric(left if left.kind == "value" else right)
    )


_PLAIN = frozenset({"bool", "int", "float", "number", "str", "bytes"})


def mixable(left: Type, right: Type) -> bool:
    """Is it no slip to have both in one list, or as the two branches of a conditional?"""
    return comparable(left, right) or {left.kind, right.kind} <= _PLAIN


def join(left: Type, right: Type) -> Type:
    """The smallest type that holds both."""
    if left == right or right.kind == "none":
        return left
    if left.kind == "none":
        return right
    if left.kind in _NUMERIC and right.kind in _NUMERIC:
        return NUMBER
    if {left.kind, right.kind} == {"op", "opset"}:
        return OPSET
    if left.kind != right.kind:
        return ANY
    if left.kind == "value":
        ops = None if left.ops is None or right.ops is None else left.ops | right.ops
        return evolve(left, ops=ops, element=left.element and right.element)
    if left.kind == "str":
        return STR
    if left.kind in {"list", "set"}:
        if not left.items or left.item.kind == "any":
            return right
        return left if right.item.kind == "any" else Type(left.kind, (join(left.item, right.item),))
    if left.kind == "tuple" and len(left.items) == len(right.items):
        return tuple_of(*map(join, left.items, right.items))
    return ANY if left.kind == "tuple" else left


def join_all(types: Iterable[Type]) -> Type:
    """The smallest type that holds all of them; `ANY` if there are none."""
    found: Type | None = None
    for type_ in types:
        found = type_ if found is None else join(found, type_)
    return ANY if found is None else found


def type_of_literal(value: object) -> Type:
    """The type of a literal as the parser reads it."""
    if value is None:
        return NONE
    return _LITERALS.get(type(value), ANY)


_LITERALS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STR, bytes: BYTES}

_SCHEMA: dict[str, Type] = {
    "Tensor": VALUE,
    "int": INT,
    "SymInt": INT,
    "float": FLOAT,
    "SymFloat": FLOAT,
    "bool": BOOL,
    "SymBool": BOOL,
    "str": STR,
    "Scalar": NUMBER,
    "number": NUMBER,
    "ScalarType": DTYPE,
    "Device": DEVICE,
    "Layout": STR,
    "MemoryFormat": STR,
}


def type_of_argument(schema_type: str) -> Type:
    """The type of an argument that an op's schema calls `schema_type` (`Tensor?`, `SymInt[2]`, `Scalar`, …)."""
    text = schema_type.replace(" ", "").rstrip("?")
    if "(" in text:  # an alias annotation, Tensor(a!)
        text = text[: text.index("(")] + text[text.index(")") + 1 :]
        text = text.rstrip("?")
    if text.endswith("]"):
        return list_of(type_of_argument(text[: text.rindex("[")]))
    return _SCHEMA.get(text, ANY)
