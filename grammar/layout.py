"""Laying out text within a width: documents made of words, places where a line may break, and groups.

A group is printed on one line where it fits, else the breaks directly inside it become line ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from attrs import field, frozen

__all__ = ["Break", "Doc", "Group", "Indent", "Suffix", "filled", "joined", "render"]

INDENT = 2


@frozen
class Break:
    """A place where a line may end; `flat` is printed where it does not. `hard`: it always ends; `blank`: an empty
    line follows."""

    flat: str = " "
    hard: bool = False
    blank: bool = False


@frozen
class Suffix:
    """A comment: printed at the end of the line that it is on. Whatever group it stands in is broken."""

    text: str


@frozen
class Indent:
    """A document whose line ends are followed by more space."""

    doc: Doc


@frozen
class Group:
    """A document that is printed on one line where it fits. `broken`: never on one line."""

    doc: Doc
    broken: bool = False
    must_break: bool = field(init=False)

    @must_break.default
    def _must_break(self) -> bool:
        return self.broken or _breaks(self.doc)


Doc = Union[str, Break, Suffix, Indent, Group, "tuple[Doc, ...]"]


def _breaks(doc: Doc) -> bool:
    if isinstance(doc, str):
        return False
    if isinstance(doc, tuple):
        return any(_breaks(part) for part in doc)
    if isinstance(doc, Break):
        return doc.hard
    if isinstance(doc, Indent):
        return _breaks(doc.doc)
    return doc.must_break if isinstance(doc, Group) else True


def joined(separator: str, docs: Iterable[Doc]) -> Doc:
    """The documents with a fixed text between them."""
    parts: list[Doc] = []
    for doc in docs:
        if parts:
            parts.append(separator)
        parts.append(doc)
    return tuple(parts)


def filled(docs: Iterable[Doc]) -> Doc:
    """As many documents on each line as fit."""
    parts: list[Doc] = []
    for doc in docs:
        parts.append(Group((Break(), Group(doc))) if parts else Group(doc))
    return tuple(parts)


_Frame = tuple[int, bool, Doc]


def render(doc: Doc, width: int) -> str:
    """The text of a document, with no space at the ends of lines and one line end at its own end."""
    out: list[str] = []
    suffixes: list[str] = []
    column = 0
    stack: list[_Frame] = [(0, False, doc)]
    while stack:
        indent, flat, part = stack.pop()
        if isinstance(part, str):
            out.append(part)
            column += len(part)
        elif isinstance(part, tuple):
            stack.extend((indent, flat, piece) for piece in reversed(part))
        elif isinstance(part, Indent):
            stack.append((indent + INDENT, flat, part.doc))
        elif isinstance(part, Group):
            fits = flat or (not part.must_break and _fits(part.doc, stack, width - column))
            stack.append((indent, fits, part.doc))
        elif isinstance(part, Suffix):
            suffixes.append(part.text)
        elif flat and not part.hard:
            out.append(part.flat)
            column += len(part.flat)
        else:
            _end_line(out, suffixes)
            out.append(("\n\n" if part.blank else "\n") + " " * indent)
            column = indent
    _end_line(out, suffixes)
    lines = "".join(out).strip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines) + "\n" if any(lines) else ""


def _end_line(out: list[str], suffixes: list[str]) -> None:
    for text in suffixes:
        out.append("  " + text)
    suffixes.clear()


def _fits(doc: Doc, rest: list[_Frame], room: int) -> bool:
    """Whether a document on one line, and what follows up to the next line end, has room."""
    pending: list[tuple[bool, Doc]] = [(True, doc)]
    at = len(rest)
    while room >= 0:
        if not pending:
            if not at:
                return True
            at -= 1
            pending.append((rest[at][1], rest[at][2]))
        flat, part = pending.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, tuple):
            pending.extend((flat, piece) for piece in reversed(part))
        elif isinstance(part, Indent):
            pending.append((flat, part.doc))
        elif isinstance(part, Group):
            pending.append((flat and not part.must_break, part.doc))
        elif isinstance(part, Break):
            if part.hard or not flat:
                return True
            room -= len(part.flat)
    return False
