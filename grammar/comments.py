"""Which part of a tree each comment belongs to, so that the formatter can put it there again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from apportion.grammar import tree
from apportion.grammar.walk import children

__all__ = ["Comment", "Comments", "attach", "blank_before", "parts"]


@frozen
class Comment:
    """A comment on a line of its own; `blank`: an empty line stands before it."""

    text: str
    blank: bool


@define
class Comments:
    """Comments by the `id` of the node that they belong to.

    `leading`: on lines of their own before it; `trailing`: at the end of its line; `head`: after the opening bracket
    of a block; `dangling`: before its closing bracket.
    """

    leading: dict[int, list[Comment]] = field(factory=dict)
    trailing: dict[int, list[str]] = field(factory=dict)
    head: dict[int, list[str]] = field(factory=dict)
    dangling: dict[int, list[Comment]] = field(factory=dict)

    def inside(self, node: tree.Node) -> bool:
        """Whether a comment belongs to a node's opening or closing bracket, or to one of its parts."""
        if id(node) in self.head or id(node) in self.dangling:
            return True
        return any(id(part) in self.leading or id(part) in self.trailing for part in parts(node) or ())


def parts(node: tree.Node) -> tuple[tree.Node, ...] | None:
    """The parts of a node that the formatter may put on lines of their own, or None where it has no such parts."""
    getter = _PARTS.get(type(node))
    if getter is None:
        return None
    found: tuple[tree.Node, ...] | None = getter(node)
    return found


def _choices(node: Any) -> tuple[tree.Node, ...] | None:
    """The blocks of a `match`; the binding of the short form is no part, comments in it belong to the clause."""
    return None if len(node.choices) == 1 and is_short(node.choices[0]) else node.choices


def is_short(choice: tree.Choice) -> bool:
    """Whether a choice was written `match y = T`, without braces."""
    return len(choice.bindings) == 1 and choice.span.start == choice.bindings[0].span.start


def _bindings(node: Any) -> tuple[tree.Node, ...] | None:
    return None if is_short(node) else node.bindings


def _operands(node: Any) -> tuple[tree.Node, ...] | None:
    return node.operands if node.op in ("and", "or") else None


def _steps(node: Any) -> tuple[tree.Node, ...] | None:
    return None if is_single(node) else node.steps


def is_single(example: tree.Example) -> bool:
    """Whether an example is one call without braces."""
    return len(example.steps) == 1 and example.steps[0].name is None


_PARTS: dict[type[tree.Node], Any] = {
    tree.File: lambda node: node.statements,
    tree.Rule: lambda node: node.body,
    tree.Invariant: lambda node: node.body,
    tree.Contract: lambda node: node.body,
    tree.PartitionBlock: lambda node: node.body,
    tree.Match: _choices,
    tree.Given: _choices,
    tree.Choice: _bindings,
    tree.Example: _steps,
    tree.ExampleCall: lambda node: tuple(value for _, value in node.arguments),
    tree.ExampleList: lambda node: node.items,
    tree.SetExpr: lambda node: node.items,
    tree.ListExpr: lambda node: node.items,
    tree.Call: lambda node: node.arguments,
    tree.BoolOp: _operands,
    tree.CallTerm: lambda node: node.arguments,
    tree.ListTerm: lambda node: node.items,
    tree.Alternatives: lambda node: node.terms,
}

_BRACKETED = (
    tree.File, tree.Rule, tree.Invariant, tree.Contract, tree.PartitionBlock, tree.Choice, tree.ExampleCall,
    tree.ExampleList, tree.SetExpr, tree.ListExpr, tree.Call, tree.CallTerm, tree.ListTerm,
)  # fmt: skip


def blank_before(text: str, offset: int) -> bool:
    """Whether an empty line stands directly before an offset."""
    head = text[:offset] if offset < 2000 else text[offset - 2000 : offset]
    gap = head[len(head.rstrip()) :].replace("\r\n", "\n").replace("\r", "\n")
    return gap.count("\n") > 1


def _starts_line(text: str, offset: int) -> bool:
    at = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return not text[at:offset].strip()


def attach(file: tree.File) -> Comments:
    """Find the place of every comment of a file."""
    found = Comments()
    text = file.span.source.text
    for offset, comment in file.comments:
        container = _innermost(file, offset)
        _place(found, container, offset, comment, text)
    return found


def _innermost(node: tree.Node, offset: int) -> tree.Node:
    """The innermost node with parts around an offset; or the part without parts that is cut by it."""
    while True:
        inner = next((part for part in parts(node) or () if part.span.start < offset < part.span.end), None)
        if inner is None:
            return node
        below = next(_containers(inner, offset), None)
        if below is None:
            return inner
        node = below


def _containers(node: tree.Node, offset: int) -> Iterator[tree.Node]:
    """The outermost nodes with parts at or below a node and around an offset."""
    if not node.span.start < offset < node.span.end:
        return
    if parts(node) is not None:
        yield node
        return
    for child in children(node):
        yield from _containers(child, offset)


def _place(found: Comments, node: tree.Node, offset: int, comment: str, text: str) -> None:
    own_line = _starts_line(text, offset)
    remark = Comment(comment, blank_before(text, offset))
    inside = parts(node)
    if inside is None:
        # In the middle of something that is one line: before it.
        found.leading.setdefault(id(node), []).append(remark)
        return
    before = [part for part in inside if part.span.end <= offset]
    after = [part for part in inside if part.span.start >= offset]
    bracketed = isinstance(node, _BRACKETED)
    if not own_line and before:
        found.trailing.setdefault(id(before[-1]), []).append(comment)
    elif not own_line and bracketed and not isinstance(node, tree.File):
        found.head.setdefault(id(node), []).append(comment)
    elif after:
        found.leading.setdefault(id(after[0]), []).append(remark)
    elif bracketed:
        found.dangling.setdefault(id(node), []).append(remark)
    elif before:
        found.trailing.setdefault(id(before[-1]), []).append(comment)
    else:
        found.leading.setdefault(id(node), []).append(remark)
