"""Trees kept on disk: reading one back takes a fifth of parsing its text, and needs no parser.

Only trees of texts without errors are kept, as plain data: numbers, strings, tuples and lists. They are found by the
text and by the source of this package, so neither an edited file nor another version meets an old tree.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

import attrs

from apportion.grammar import tree
from apportion.grammar.cache import keep, recall
from apportion.grammar.diagnostics import Source, Span
from apportion.grammar.result import ParseResult

__all__ = ["parse_kept"]


def parse_kept(text: str, name: str) -> ParseResult:
    """As `parse`, with the tree read back from disk where the same text was parsed before."""
    parts = text, _package()
    file = _read_back(recall(parts), Source(name, text))
    if file is not None:
        return ParseResult(file)
    from apportion.grammar.parse import parse  # not before it is needed: importing Lark takes longer than all of this

    result = parse(text, name)
    if result.file is not None:
        with suppress(RecursionError):
            keep(parts, _encoded(result.file))
    return result


def _read_back(data: Any, source: Source) -> tree.File | None:
    try:
        found = _decoded(data, source)
    except Exception:  # no tree of ours, or one too deep for the stack that is left
        return None
    return found if isinstance(found, tree.File) else None


@cache
def _package() -> str:
    """The source of all that makes trees."""
    files = sorted(resources.files("apportion.grammar").iterdir(), key=lambda file: file.name)
    return "\0".join(file.read_text(encoding="utf-8") for file in files if file.name.endswith((".py", ".lark")))


_CLASSES = [cls for cls in vars(tree).values() if isinstance(cls, type) and issubclass(cls, tree.Node)]
_NUMBERS = {cls: number for number, cls in enumerate([*_CLASSES, Span])}
_SPAN = _NUMBERS[Span]
_FIELDS = [[a.name for a in attrs.fields(cls) if a.name != "span"] for cls in _CLASSES]


def _encoded(thing: Any) -> Any:
    """A node as a tuple: its class, the ends of its span, its fields; a tuple as a list."""
    if isinstance(thing, tree.Node):
        number = _NUMBERS[type(thing)]
        fields = [_encoded(getattr(thing, name)) for name in _FIELDS[number]]
        return (number, thing.span.start, thing.span.end, *fields)
    if isinstance(thing, Span):
        return _SPAN, thing.start, thing.end
    return [_encoded(item) for item in thing] if isinstance(thing, tuple) else thing


def _decoded(data: Any, source: Source) -> Any:
    kind = type(data)
    if kind is list:
        return tuple([_decoded(item, source) for item in data])
    if kind is not tuple:
        return data
    number, start, end, *fields = data
    span = Span(source, start, end)
    if number == _SPAN:
        return span
    values = [_decoded(field, source) for field in fields]
    return _CLASSES[number](span=span, **dict(zip(_FIELDS[number], values, strict=True)))
