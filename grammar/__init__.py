"""Text to tree and back: the rules language without any meaning. Knows nothing of torch."""

from __future__ import annotations

from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest
from apportion.grammar.parse import ParseResult, parse, parse_expression

__all__ = [
    "Diagnostic",
    "Label",
    "ParseResult",
    "Severity",
    "Source",
    "Span",
    "nearest",
    "parse",
    "parse_expression",
]
