"""`# lint: allow A103 because …` above a statement or clause takes findings of that code out; it must have a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import define

from apportion.engine.compile.units import Program, Unit
from apportion.engine.lint.codes import FINDINGS
from apportion.engine.lint.report import finding
from apportion.grammar.diagnostics import Diagnostic, Span
from apportion.grammar.walk import walk

__all__ = ["apply"]

_COMMENT = re.compile(r"#\s*lint:\s*allow\s+(?P<codes>A\d{3}(?:\s*,\s*A\d{3})*)\s*(?:because\s+(?P<reason>\S.*))?$")
_BEGINS = re.compile(r"#\s*lint:")


@define(eq=False)
class _Allowed:
    """One suppression: its codes, the piece of text it is about, and whether it took anything out."""

    codes: tuple[str, ...]
    about: Span
    span: Span
    used: bool = False


def apply(diagnostics: Iterable[Diagnostic], programs: Iterable[Program]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """(what is left, what is wrong with the suppressions). Errors of the language itself can't be suppressed."""
    allowed: list[_Allowed] = []
    wrong: list[Diagnostic] = []
    seen: set[str] = set()
    for program in programs:
        for unit in program.units:
            if unit.source.name not in seen:
                seen.add(unit.source.name)
                allowed.extend(_of(unit, wrong))
    left = [d for d in diagnostics if not _is_allowed(d, allowed)]
    for one in allowed:
        if not one.used:
            wrong.append(finding("A402", f"this allows {', '.join(one.codes)}, and there is no such finding", one.span,
                                 label="suppresses nothing", help="remove it"))
    return left, wrong


def _is_allowed(diagnostic: Diagnostic, allowed: list[_Allowed]) -> bool:
    if diagnostic.code.startswith("A0"):
        return False
    spans = [diagnostic.span]
    if diagnostic.code == "A101":
        spans += [label.span for label in diagnostic.labels]
    for one in allowed:
        for span in spans:
            inside = span is not None and span.source == one.about.source and (
                one.about.start <= span.start < one.about.end
            )
            if diagnostic.code in one.codes and inside:
                one.used = True
                return True
    return False


def _of(unit: Unit, wrong: list[Diagnostic]) -> Iterator[_Allowed]:
    for offset, text in unit.file.comments:
        if not _BEGINS.match(text):
            continue
        span = Span(unit.source, offset, offset + len(text))
        found = _COMMENT.match(text.rstrip())
        codes = tuple(re.split(r"\s*,\s*", found.group("codes"))) if found else ()
        if found is None or found.group("reason") is None or any(code not in FINDINGS for code in codes):
            unknown = next((code for code in codes if code not in FINDINGS), None)
            what = f"there is no finding {unknown}" if unknown else "a suppression is written with its reason"
            wrong.append(finding("A402", what, span, help="write `# lint: allow A103 because …` above the statement"))
            continue
        about = _next_node(unit, offset + len(text))
        if about is not None:
            yield _Allowed(codes, about, span)
        else:
            wrong.append(finding("A402", "this suppression is above nothing", span, help="remove it"))


def _next_node(unit: Unit, offset: int) -> Span | None:
    """The statement or clause that begins next after a comment; comments between do not count."""
    best: Span | None = None
    for node, depth in walk(unit.file):
        if depth == 0 or node.span.start < offset:
            continue
        if best is None or node.span.start < best.start or (node.span.start == best.start and node.span.end > best.end):
            best = node.span
    return best
