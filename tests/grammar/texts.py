"""Rules texts that the tests share."""

from __future__ import annotations

from pathlib import Path

ACME = (Path(__file__).parent / "acme.rules").read_text(encoding="utf-8")
"""The complete example of the language guide."""

EVERYTHING = (Path(__file__).parent / "everything.rules").read_text(encoding="utf-8")
"""Every statement, clause, term and expression of the language at least once."""

SHIPPED = sorted((Path(__file__).parent.parent.parent / "rules").rglob("*.rules"))
