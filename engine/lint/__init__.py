"""Linting rules files: overlapping claims, rules that never fire, clauses that say nothing; proofs and witnesses."""

from apportion.engine.lint.codes import FINDINGS, Finding
from apportion.engine.lint.linting import lint
from apportion.engine.lint.report import FORMATS, LintResult

__all__ = ["FINDINGS", "FORMATS", "Finding", "LintResult", "lint"]
