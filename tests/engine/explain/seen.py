"""What `node.meta` says about the values that reasons print, read by FX and torch alone.

A path of a rules file (`x.shape[0]`, `i.dtype for i in y.inputs`, `len(nodes)`) is near enough to Python that Python
itself can evaluate it, over small views of FX nodes. The names in it are bound by reading the rule's `match` here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

__all__ = ["Seen", "bindings", "op_name", "printed", "value_of"]


def op_name(node: fx.Node) -> str:
    """`aten.relu.default`."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"higher_order.{target.name()}" if isinstance(target, torch._ops.HigherOrderOperator) else str(target)


class _Nothing:
    """What is no tensor: nothing is known of it."""

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self) -> _Nothing:
        return self


class _Absent(_Nothing):
    """What an optional line of a pattern stands for where it is not there."""

    def __getattr__(self, name: str) -> _Nothing:
        return NOTHING


NOTHING = _Nothing()
ABSENT = _Absent()


class Seen:
    """One value of a graph: an FX node, or one output of one."""

    def __init__(self, node: fx.Node, element: int | None = None) -> None:
        self.node, self.element = node, element

    @property
    def val(self) -> Any:
        val = self.node.meta.get("val")
        found = val if self.element is None else val[self.element]
        return found if isinstance(found, torch.Tensor) else NOTHING

    @property
    def dtype(self) -> torch.dtype:
        return self.val.dtype

    @property
    def rank(self) -> int:
        return self.val.dim()

    @property
    def shape(self) -> list[Any]:
        return list(self.val.shape)

    @property
    def numel(self) -> Any:
        return self.val.numel()

    @property
    def nbytes(self) -> Any:
        return self.val.numel() * self.val.element_size()

    @property
    def op(self) -> str | None:
        return None if self.node.op == "placeholder" else op_name(self.node)

    @property
    def inputs(self) -> list[Seen]:
        """Every value argument in order, lists flattened."""
        found: list[Seen] = []

        def visit(argument: Any) -> None:
            if isinstance(argument, fx.Node):
                found.append(seen(argument))
            elif isinstance(argument, (list, tuple)):
                for one in argument:
                    visit(one)

        for argument in (*self.node.args, *self.node.kwargs.values()):
            visit(argument)
        return found

    @property
    def outputs(self) -> list[Seen]:
        val = self.node.meta.get("val")
        return [Seen(self.node, index) for index in range(len(val))] if isinstance(val, (tuple, list)) else [self]

    @property
    def users(self) -> list[Seen]:
        """Through getitem; outputs of the graph don't count."""
        found: dict[fx.Node, None] = {}
        for user in self.node.users:
            for one in user.users if user.target is operator.getitem else (user,):
                if one.op != "output":
                    found[one] = None
        order = {node: index for index, node in enumerate(self.node.graph.nodes)}
        return [Seen(one) for one in sorted(found, key=order.__getitem__)]

    def __getitem__(self, index: int) -> Seen:
        return Seen(self.node, index)

    @property
    def arguments(self) -> dict[str, Any]:
        """By the schema's names, with its defaults."""
        names = [a.name for a in self.node.target._schema.arguments]  # type: ignore[union-attr]
        given = dict(zip(names, self.node.args, strict=False)) | dict(self.node.kwargs)
        return {a.name: given.get(a.name, a.default_value)
                for a in self.node.target._schema.arguments}  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        """An argument of the call."""
        if name.startswith("__") or not isinstance(self.node.target, torch._ops.OpOverload):
            raise AttributeError(name)
        if name not in self.arguments:
            raise AttributeError(name)
        return wrapped(self.arguments[name])


def seen(node: fx.Node) -> Seen:
    """A node; what a getitem stands for."""
    return Seen(node.args[0], node.args[1]) if node.target is operator.getitem else Seen(node)  # type: ignore[arg-type]


def wrapped(value: Any) -> Any:
    """Arguments as expressions see them."""
    if isinstance(value, fx.Node):
        return seen(value)
    return [wrapped(one) for one in value] if isinstance(value, (list, tuple)) else value


def printed(value: Any) -> str:
    """A value as reasons write it."""
    match value:
        case Seen():
            return value.node.name if value.element is None else f"{value.node.name}[{value.element}]"
        case None | _Absent():
            return "none"
        case _Nothing():
            return "unknown"
        case bool():
            return str(value).lower()
        case torch.dtype():
            return str(value).removeprefix("torch.")
        case list() | tuple():
            return "[" + ", ".join(map(printed, value)) + "]"
        case torch.SymInt():
            return str(value.node.expr)
        case _:
            return str(value)


def value_of(path: str, names: Mapping[str, Any]) -> str:
    """What a path gives. Raises where it can't be read: no path may be passed over."""
    text = f"[{path}]" if " for " in path and not re.match(r"(sum|min|max|len)\(", path) else path
    given = {"present": lambda one: one is not ABSENT, **names}
    return printed(eval(text, {"__builtins__": {"len": len, "sum": sum, "min": min, "max": max}}, given))


# --- the names of a rule -------------------------------------------------------------------------------------------

_CALL = re.compile(
    r"(?:(\w+)\s*=\s*)?(aten\.[\w{},.]*\w|\{(?:[^{}]|\{[^{}]*\})*\}|_)\s*(\((?:[^()]|\([^()]*\))*\))?(\?)?")


def _expanded(text: str) -> Iterator[str]:
    """`aten.{relu,neg}.default` as names of ops."""
    text = text.strip()
    if text.startswith("{"):
        depth, start = 0, 1
        for index, char in enumerate(text):
            depth += (char == "{") - (char == "}")
            if (char == "," and depth == 1) or (char == "}" and depth == 0):
                yield from _expanded(text[start:index])
                start = index + 1
        return
    found = re.search(r"\{([^}]*)\}", text)
    if found is None:
        yield text
        return
    for one in found[1].split(","):
        yield from _expanded(text[: found.start()] + one.strip() + text[found.end():])


class _Term:
    """One line of a `match`: `y = OP(a, b)?`."""

    def __init__(self, found: re.Match[str]) -> None:
        self.name, self.optional = found[1], bool(found[4])
        self.ops = set(_expanded(found[2]))
        self.arguments = [one.strip() for one in (found[3] or "()")[1:-1].split(",") if one.strip()]

    def fits(self, node: fx.Node) -> bool:
        return self.ops == {"_"} or op_name(node) in self.ops


def terms_of(match: str) -> list[_Term]:
    """The lines of a `match`."""
    return [_Term(found) for found in _CALL.finditer(match) if found[1]]


def bindings(match: str, node: fx.Node) -> Iterator[dict[str, Any]]:
    """Every way in which the lines of a `match` can stand at a node, which is one of them (and not known which)."""
    terms = terms_of(match)
    for root in _roots(terms, node):
        names: dict[str, Any] = {}
        if _bind(terms, len(terms) - 1, root, names):
            yield names


def _roots(terms: Sequence[_Term], node: fx.Node) -> Iterator[fx.Node]:
    """The node, and what lies below it as far as the pattern reaches."""
    level, found = [node], [node]
    for _ in terms[1:]:
        level = [user for one in level for user in one.users if user.op == "call_function"]
        found += level
    return iter(dict.fromkeys(reversed(found)))


def _bind(terms: Sequence[_Term], index: int, node: fx.Node, names: dict[str, Any]) -> bool:
    term = terms[index]
    if not term.fits(node):
        if not term.optional:
            return False
        inner = next((i for i, one in enumerate(terms) if one.name == term.arguments[0]), None)
        names[term.name] = ABSENT
        return inner is not None and _bind(terms, inner, node, names)
    names[term.name] = Seen(node)
    if term.arguments[:1] and term.arguments[0].startswith("*"):
        return True
    values = list(Seen(node).arguments.values()) if term.ops != {"_"} else []
    for name, value in zip(term.arguments, values, strict=False):
        inner = next((i for i, one in enumerate(terms) if one.name == name), None)
        if inner is not None:
            if not isinstance(value, fx.Node) or not _bind(terms, inner, value, names):
                return False
        elif name.isidentifier() and name != "_":
            names[name] = wrapped(value)
    return True
