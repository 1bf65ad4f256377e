"""What reading a text gives."""

from __future__ import annotations

from attrs import frozen

from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic

__all__ = ["ParseResult"]


@frozen
class ParseResult:
    """`file` is the tree, or None where there are errors; `diagnostics` are in the order of the text.

    Where there are errors, `sound` has the statements that are whole, so that these can be checked in the same run, and
    `lost` the names that the others define, or None where that could be any: a `use` is among them, or a name itself is
    gone. `sound` is None where the text could not be read at all.
    """

    file: tree.File | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sound: tree.File | None = None
    lost: frozenset[str] | None = frozenset()

    @property
    def ok(self) -> bool:
        """Whether there is a tree."""
        return self.file is not None
