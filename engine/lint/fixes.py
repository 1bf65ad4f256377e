"""Repairs that change no claim: removing what is unused, says nothing, or suppresses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apportion.grammar.diagnostics import Diagnostic, Span

__all__ = ["FIXABLE", "edit_of", "fix_texts"]

FIXABLE = frozenset({"A204", "A203", "A401", "A402", "A207"})
"""Findings whose one safe repair is to remove the piece of text that they point at."""


def edit_of(diagnostic: Diagnostic) -> Span | None:
    """The text to remove, with its line where nothing else is on it; None where there is no safe repair."""
    if diagnostic.code not in FIXABLE or diagnostic.span is None:
        return None
    if diagnostic.code == "A402" and "suppresses nothing" not in diagnostic.label:
        return None
    return _whole_line(diagnostic.span)


def _whole_line(span: Span) -> Span:
    text = span.source.text
    start, end = span.start, span.end
    before = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    after = len(text) if after == -1 else after
    if not text[before:start].strip() and (not text[end:after].strip() or text[end:after].strip().startswith("#")):
        return Span(span.source, before, min(after + 1, len(text)))
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    return Span(span.source, start, end)


def fix_texts(diagnostics: Iterable[Diagnostic]) -> Mapping[str, str]:
    """The repaired text of each file that has something to repair, by its name.

    Implied clauses (A203) are removed one at a time: two may imply each other.
    """
    edits: dict[str, list[Span]] = {}
    implied: set[str] = set()
    for diagnostic in diagnostics:
        span = edit_of(diagnostic)
        if span is None:
            continue
        name = span.source.name
        if diagnostic.code == "A203":
            if name in implied:
                continue
            implied.add(name)
        edits.setdefault(name, []).append(span)
    return {name: _without(spans) for name, spans in edits.items()}


def _without(spans: list[Span]) -> str:
    text = spans[0].source.text
    end = len(text) + 1
    for span in sorted(spans, key=lambda s: s.start, reverse=True):
        if span.end <= end:
            text = text[: span.start] + text[span.end :]
            end = span.start
    return text
