"""Text to tree and back: the rules language without any meaning. Knows nothing of torch.

`parse.parse` reads a text, `format.format_file` writes a tree, `tree` has its nodes; here is what messages are made of.
"""

from __future__ import annotations

from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest

__all__ = ["Diagnostic", "Label", "Severity", "Source", "Span", "nearest"]
