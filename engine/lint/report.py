"""Findings as diagnostics, and the result of a lint: text, JSON, SARIF 2.1.0 and annotations of GitHub."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import evolve, field, frozen

from apportion.engine.lint.codes import FINDINGS
from apportion.engine.version import __version__
from apportion.grammar.diagnostics import Diagnostic, Label, Note, Severity, Span

__all__ = ["FORMATS", "LintResult", "finding"]


def finding(
    code: str, message: str, span: Span | None, *, label: str = "", labels: Iterable[Label] = (),
    notes: Iterable[Note] = (), help: str | None = None,
) -> Diagnostic:
    """A finding of the table with its default severity."""
    severity = FINDINGS[code].severity or Severity.note
    return Diagnostic(code, severity, message, span, label, tuple(labels), tuple(notes), help)


@frozen
class LintResult:
    """What a lint found. `pairs` counts how many pairs of rules were disjoint, overlap, or are undecided."""

    diagnostics: tuple[Diagnostic, ...]
    pairs: Mapping[str, int] = field(factory=dict)
    unreadable: bool = False

    @property
    def errors(self) -> int:
        """How many error findings."""
        return sum(d.severity is Severity.error for d in self.diagnostics)

    def status(self, strict: bool = False) -> int:
        """The exit status: 0 no errors, 1 error findings (with `strict` warnings and undecided pairs too), 2 nothing
        was proved."""
        if self.unreadable:
            return 2
        loud = self.errors or strict and any(
            d.severity is Severity.warning or d.code.startswith("A9") for d in self.diagnostics
        )
        return 1 if loud else 0

    @property
    def summary(self) -> str:
        """One line."""
        counts = Counter(str(d.severity) for d in self.diagnostics)
        parts = [_count(counts[word], word) for word in ("error", "warning", "note") if counts[word]]
        pairs = ", ".join(f"{self.pairs.get(kind, 0)} {kind}" for kind in ("disjoint", "overlap", "undecided"))
        return f"{', '.join(parts) or 'nothing found'}; pairs of rules: {pairs}"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.diagnostics))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _span(span: Span | None) -> Any:
    if span is None:
        return None
    return {
        "file": span.source.name, "line": span.line, "column": span.column, "end_line": span.end_line,
        "end_column": span.end_column,
    }


def as_json(result: LintResult) -> str:
    """`apportion.lint/1`: one object with every finding."""
    rows = [
        {
            "code": d.code, "severity": str(d.severity), "message": d.message, "span": _span(d.span), "label": d.label,
            "related": [{"span": _span(label.span), "text": label.text} for label in d.labels],
            "notes": [{"kind": kind, "text": text} for kind, text in map(_note, d.notes)],
            "help": d.help,
        }
        for d in result.diagnostics
    ]
    whole = {"schema": "apportion.lint/1", "pairs": dict(result.pairs), "diagnostics": rows}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _note(note: Note) -> tuple[str, str]:
    return ("note", note) if isinstance(note, str) else note


_LEVELS = {Severity.error: "error", Severity.warning: "warning", Severity.note: "note"}


def as_sarif(result: LintResult) -> str:
    """SARIF 2.1.0; the second rule of a pair is a related location."""
    used = sorted({d.code for d in result.diagnostics})
    rules = [
        {
            "id": code,
            "name": FINDINGS[code].title if code in FINDINGS else code,
            "shortDescription": {"text": FINDINGS[code].title if code in FINDINGS else code},
            "defaultConfiguration": {"level": _LEVELS.get(FINDINGS[code].severity or Severity.note, "note")
                                     if code in FINDINGS else "error"},
        }
        for code in used
    ]
    run = {
        "tool": {"driver": {"name": "apportion", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(d, used) for d in result.diagnostics],
    }
    whole = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _sarif_result(diagnostic: Diagnostic, used: list[str]) -> dict[str, Any]:
    notes = [n if isinstance(n, str) else f"{n[0]}: {n[1]}" for n in diagnostic.notes]
    text = "\n".join([diagnostic.message, *notes, *([f"help: {diagnostic.help}"] if diagnostic.help else [])])
    found: dict[str, Any] = {
        "ruleId": diagnostic.code, "ruleIndex": used.index(diagnostic.code),
        "level": _LEVELS[diagnostic.severity], "message": {"text": text},
    }
    if diagnostic.span is not None:
        found["locations"] = [{"physicalLocation": _physical(diagnostic.span)}]
    if diagnostic.labels:
        found["relatedLocations"] = [
            {"id": index, "physicalLocation": _physical(label.span), "message": {"text": label.text or "see"}}
            for index, label in enumerate(diagnostic.labels)
        ]
    return found


def _physical(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column,
    }
    return {"artifactLocation": {"uri": _uri(span.source.name)}, "region": region}


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def as_github(result: LintResult) -> str:
    """Annotations of GitHub's workflow log."""
    lines = []
    for d in result.diagnostics:
        command = {"note": "notice"}.get(str(d.severity), str(d.severity))
        place = ""
        if d.span is not None:
            s = d.span
            place = f"file={_property(s.source.name)},line={s.line},col={s.column},endLine={s.end_line},"
        notes = [n if isinstance(n, str) else f"{n[0]}: {n[1]}" for n in d.notes]
        text = "\n".join([d.message, *notes])
        lines.append(f"::{command} {place}title={d.code}::{_escape(text)}")
    return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def as_text(result: LintResult) -> str:
    """Every finding with its source line and carets."""
    return str(result)


FORMATS: Mapping[str, Callable[[LintResult], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
}
"""The output formats by name."""


def with_severity(diagnostic: Diagnostic, severity: Severity) -> Diagnostic:
    """The same finding with another severity."""
    return evolve(diagnostic, severity=severity)
