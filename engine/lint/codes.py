"""The table of findings: every code with its default severity and what it is about."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from apportion.grammar.diagnostics import CODES, Severity

__all__ = ["FINDINGS", "Finding"]


@frozen
class Finding:
    """One row: the code, its severity where nothing else is said (None: off), and a title."""

    code: str
    severity: Severity | None
    title: str


_E, _W, _N = Severity.error, Severity.warning, Severity.note

_ROWS: tuple[Finding, ...] = (
    *(Finding(code, _E, title) for code, title in CODES.items() if code.startswith("A0")),
    Finding("A101", _E, "ambiguous overlap"),
    Finding("A102", _W, "duplicate rule"),
    Finding("A103", _N, "specialisation"),
    Finding("A104", _W, "shadowed rule"),
    Finding("A105", _W, "rule shadowed by several together"),
    Finding("A106", _W, "straddling fusions"),
    Finding("A107", _N, "contention between backends"),
    Finding("A108", _W, "useless `over`"),
    Finding("A109", _E, "cycle of `over`"),
    Finding("A110", _E, "overlapping rules emit different specs"),
    Finding("A201", _E, "unsatisfiable rule"),
    Finding("A202", _W, "clauses that contradict each other"),
    Finding("A203", _N, "clause implied by the others"),
    Finding("A204", _N, "clause that is always true"),
    Finding("A206", _W, "dead alternative"),
    Finding("A207", _W, "`all` over an empty list"),
    Finding("A401", _W, "unused declaration"),
    Finding("A402", _W, "suppression that suppresses nothing"),
    Finding("A501", _W, "language version"),
    Finding("A502", _E, "op renamed or gone"),
    Finding("A503", _N, "claims differ from the baseline"),
    Finding("A601", _E, "example does not hold"),
    Finding("A701", None, "argument left unconstrained"),
    Finding("A901", _N, "undecided: host function"),
    Finding("A902", _N, "undecided: outside the fragment"),
    Finding("A903", _N, "undecided: budget used up"),
)

FINDINGS: Mapping[str, Finding] = {row.code: row for row in _ROWS}
"""Every finding by its code."""
