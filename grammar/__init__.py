"""Text to tree and back: the rules language without any meaning. Knows nothing of torch."""

from __future__ import annotations

from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest

__all__ = ["Diagnostic", "Label", "Severity", "Source", "Span", "nearest"]
