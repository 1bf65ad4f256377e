"""The page about a finding, as `apportion explain-code` prints it and docs have it."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.engine.lint.codes import FINDINGS
from apportion.engine.lint.explanations import EXPLANATIONS

__all__ = ["page", "pages"]


def pages() -> Mapping[str, str]:
    """The title of every finding by its code."""
    return {code: row.title for code, row in FINDINGS.items()}


def page(code: str) -> str | None:
    """The page about a finding in Markdown, or None where there is no such code."""
    row, text = FINDINGS.get(code), EXPLANATIONS.get(code)
    if row is None or text is None:
        return None
    severity = f"{row.severity} by default" if row.severity is not None else "off by default"
    parts = [f"# {code}: {row.title}", f"*{severity}*", text.why]
    if text.bad:
        parts += ["A file that has it:", _block(text.bad)]
    if text.other:
        parts += ["against the older version:" if text.baseline else "together with:", _block(text.other)]
    parts += ["## Repair", text.repair, "One that has not:", _block(text.good)]
    return "\n\n".join(parts) + "\n"


def _block(text: str) -> str:
    shown = "\n".join(line if len(line) <= 200 else line[:120] + " …" for line in text.rstrip().split("\n"))
    return f"```text\n{shown}\n```"
