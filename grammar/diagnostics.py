"""What the tools say about a text: places in it, and findings rendered with the source line and carets."""

from __future__ import annotations

import difflib
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum
from typing import Union

from attrs import field, frozen

__all__ = ["CODES", "Diagnostic", "Label", "Note", "Severity", "Source", "Span", "nearest"]

CODES: dict[str, str] = {
    "A001": "syntax",
    "A002": "unknown op",
    "A003": "unknown or repeated argument",
    "A004": "type error",
    "A005": "undefined name",
    "A006": "unbound variable",
    "A007": "pattern not connected",
    "A008": "cycle of `use`",
    "A009": "duplicate name",
    "A010": "bad structure of the file",
    "A011": "limit exceeded",
    "A501": "language version",
}
"""The codes of the findings about one text; the linter has more."""

MAX_SHOWN = 160
"""A source line longer than this is shown in part only, around the place that is meant."""

TAB = "    "

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def _line_starts(text: str) -> tuple[int, ...]:
    """Offsets at which lines start; a line ends with LF, CRLF or a lone CR."""
    starts = [0]
    end = len(text)
    if "\r" not in text:
        at = text.find("\n")
        while at != -1:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        return tuple(starts)
    for at, character in enumerate(text):
        if character == "\n" or (character == "\r" and not (at + 1 < end and text[at + 1] == "\n")):
            starts.append(at + 1)
    return tuple(starts)


@frozen
class Source:
    """A text and the name under which messages speak of it (a path, or `<string>`)."""

    name: str
    text: str = field(repr=False)
    _starts: tuple[int, ...] = field(init=False, eq=False, repr=False)

    @_starts.default
    def _find_starts(self) -> tuple[int, ...]:
        return _line_starts(self.text)

    @property
    def line_count(self) -> int:
        """How many lines the text has (at least one)."""
        return len(self._starts)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of an offset; offsets outside the text are moved to its ends."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a line (counted from 1) without its line end."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


@frozen
class Span:
    """The piece `start:end` (offsets) of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the first character, from 1."""
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, from 1."""
        return self.source.line_column(self.start)[1]

    @property
    def end_line(self) -> int:
        """The line of the end, from 1."""
        return self.source.line_column(self.end)[0]

    @property
    def end_column(self) -> int:
        """The column after the last character, from 1."""
        return self.source.line_column(self.end)[1]

    @property
    def text(self) -> str:
        """What stands there."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`, in the same source."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"


class Severity(Enum):
    """How bad a finding is."""

    error = "error"
    warning = "warning"
    note = "note"

    def __str__(self) -> str:
        return self.value


@frozen
class Label:
    """A second place that belongs to a finding, and what to say about it."""

    span: Span
    text: str = ""


Note = Union[str, "tuple[str, str]"]
"""A remark below a finding: a sentence, shown as `= note: …`, or a pair `(kind, text)`, shown as `= kind: text`."""


@frozen
class Diagnostic:
    """One finding. `label` is said beside the carets under `span`; `labels` are further places.

    `str()` gives the whole message with source lines, without a line break at its end.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    label: str = ""
    labels: tuple[Label, ...] = ()
    notes: tuple[Note, ...] = ()
    help: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the finding makes the text unusable."""
        return self.severity is Severity.error

    def __str__(self) -> str:
        return "\n".join(_render(self))


def _render(diagnostic: Diagnostic) -> list[str]:
    header = f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    spans = [label.span for label in diagnostic.labels]
    if diagnostic.span is not None:
        spans.insert(0, diagnostic.span)
    width = max((len(str(span.line)) for span in spans), default=1)
    margin = " " * width
    lines = [header]
    if diagnostic.span is not None:
        lines += [f"{margin}--> {diagnostic.span}", f"{margin} |"]
        lines += _excerpt(diagnostic.span, diagnostic.label, "^", width)
    for label in diagnostic.labels:
        lines.append(f"{margin}::: {label.span}")
        lines += _excerpt(label.span, label.text, "-", width)
    for note in diagnostic.notes:
        kind, text = ("note", note) if isinstance(note, str) else note
        lines += _remark(margin, kind, text)
    if diagnostic.help is not None:
        lines += _remark(margin, "help", diagnostic.help)
    return lines


def _remark(margin: str, kind: str, text: str) -> list[str]:
    first, *rest = text.split("\n")
    indent = " " * (len(kind) + 2)
    return [f"{margin} = {kind}: {first}", *(f"{margin}   {indent}{line}" for line in rest)]


def _excerpt(span: Span, label: str, mark: str, width: int) -> list[str]:
    """The source line of a span and the line of marks under it. A span over several lines is marked on its first."""
    line, column = span.source.line_column(span.start)
    text = span.source.line_text(line)
    start = min(column - 1, len(text))
    end = len(text) if span.end_line > line else min(start + max(span.end - span.start, 0), len(text))
    text, start, end = _clip(text, start, end)
    before = _visible(text[:start])
    marked = _visible(text[start:end])
    marks = " " * _columns(before) + mark * max(_columns(marked), 1)
    shown = f"{line:>{width}} | {before}{marked}{_visible(text[end:])}".rstrip()
    return [shown, f"{' ' * width} | {marks}{' ' + label if label else ''}"]


def _clip(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Cut a very long line down to a window around `start:end`."""
    if len(text) <= MAX_SHOWN:
        return text, start, end
    low = max(0, start - MAX_SHOWN // 3)
    high = min(len(text), low + MAX_SHOWN)
    head, tail = ("…" if low else ""), ("…" if high < len(text) else "")
    shift = len(head) - low
    return head + text[low:high] + tail, start + shift, min(end, high) + shift


def _visible(text: str) -> str:
    """The text with tabs widened, and with characters that would move the cursor or hide replaced."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(TAB if c == "\t" else "�" if unicodedata.category(c) in _HIDDEN else c for c in text)


def _columns(text: str) -> int:
    """How many columns a terminal gives to a text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that `name` was probably meant to be, best first, at most `limit`; often none.

    Differences of case and of `_` count little, so that `Float32` finds `float32`.
    """
    by_folded: dict[str, list[str]] = {}
    for candidate in sorted(set(candidates)):
        by_folded.setdefault(_fold(candidate), []).append(candidate)
    folded = _fold(name)
    close = difflib.get_close_matches(folded, by_folded, n=limit, cutoff=0.6 if len(folded) > 3 else 0.7)
    found = [candidate for key in close for candidate in by_folded[key] if candidate != name]
    return found[:limit]


def _fold(name: str) -> str:
    return name.casefold().replace("_", "") or name
