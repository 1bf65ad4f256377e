"""Every error this package raises on purpose: one sentence each, and the closest builtin class as a base."""

from __future__ import annotations

from collections.abc import Iterable

from apportion.grammar.diagnostics import Diagnostic

__all__ = [
    "ApportionError",
    "OptionError",
    "PredicateError",
    "ProgramError",
    "RulesError",
    "RulesNotFoundError",
    "StrictError",
]


class ApportionError(Exception):
    """The base of everything this package raises on purpose."""


class RulesError(ApportionError, ValueError):
    """A rules file says something that can't be meant; `diagnostics` has every finding, not just the first."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(str(diagnostic) for diagnostic in self.diagnostics))

    def __reduce__(self) -> tuple[type[RulesError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.diagnostics,)


class RulesNotFoundError(RulesError, FileNotFoundError):
    """There is no rules file of that name or at that path."""


class OptionError(ApportionError, ValueError):
    """The caller set an option that the rules do not have, or to a value it cannot take."""


class PredicateError(ApportionError, ValueError):
    """A host function cannot be registered under this name."""


class ProgramError(ApportionError, ValueError):
    """What was handed in as a program is none that can be partitioned."""


class StrictError(ApportionError, RuntimeError):
    """`strict=True`, and something that was asked for was not delegated."""
