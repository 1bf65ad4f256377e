"""The whole lint on one page: load, each rule alone, pairs, files against each other, examples, suppressions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Union
from urllib.parse import quote

from attrs import evolve

from apportion.engine.compile.compiler import compile_program
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.compile.units import Program
from apportion.engine.errors import RulesError
from apportion.engine.examples import run_examples
from apportion.engine.lint.alone import check_contract, check_invariant, check_rule
from apportion.engine.lint.model import RuleFile
from apportion.engine.lint.pairs import Pairs, contention, within
from apportion.engine.lint.report import LintResult, finding
from apportion.engine.lint.suppress import apply
from apportion.engine.lint.unused import unconstrained, unused
from apportion.engine.load import _emptiness, _read
from apportion.engine.ops.held_back import register_held_back
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity

__all__ = ["lint", "lint_program", "lint_rules"]

Location = Union[str, "os.PathLike[str]"]


def lint(
    files: Location | Sequence[Location], *, order: Sequence[str] | None = None, baseline: Location | None = None,
    select: Iterable[str] = (),
) -> LintResult:
    """Lint rules files, by path or name of a shipped one; never raises for what is in them.

    `order` names the backends, the one that goes first before the others; without it the order of the files counts.
    `baseline` is an older version of the file: claims that changed are A503. `select` turns on findings that are off.
    """
    names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    loaded: list[RuleFile] = []
    programs: list[Program] = []
    diagnostics: list[Diagnostic] = []
    unreadable = False
    for name in names:
        try:
            program = _read(name)
        except RulesError as error:
            diagnostics.extend(error.diagnostics)
            unreadable = True
            continue
        programs.append(program)
        file, found = lint_program(program)
        diagnostics.extend(found)
        if file is None:
            unreadable = unreadable or any(d.code.startswith(("A0", "A5")) and d.is_error for d in found)
        else:
            loaded.append(file)
    counts: dict[str, int] = {"disjoint": 0, "overlap": 0, "undecided": 0}
    backends = [file for file in loaded if file.rules.backend_id]
    if len(backends) > 1:
        _tell_apart(backends)
    for file in loaded:
        found, pairs = lint_rules(file, select)
        diagnostics.extend(found)
        _count(counts, pairs)
    if len(backends) > 1:
        between = contention(backends, order)
        diagnostics.extend(between.ordered())
        _count(counts, between)
    if baseline is not None and loaded:
        diagnostics.extend(_against(loaded[0], baseline))
    left, wrong = apply(_unique(diagnostics), programs)
    return LintResult(tuple(_sorted([*left, *wrong])), counts, unreadable)


def _tell_apart(files: Sequence[RuleFile]) -> None:
    """Each file is the owner of its options and externs; by its backend, with a number where that is taken."""
    taken: set[str] = set()
    for number, file in enumerate(files, 1):
        name = quote(file.rules.backend_id, safe="")
        file.owner = f"{name}." if name not in taken else f"{name} {number}."
        taken.add(name)


def _count(counts: dict[str, int], pairs: Pairs) -> None:
    for kind, number in pairs.counts.items():
        counts[kind] += number


def lint_program(program: Program) -> tuple[RuleFile | None, list[Diagnostic]]:
    """Load a program for linting: its model, or None and what is wrong with it."""
    _register_own_ops(program)
    try:
        rules = compile_program(program, None)
    except RulesError as error:
        return None, [_as_finding(d) for d in error.diagnostics]
    empty = _emptiness(program)
    if empty is not None:
        return None, [empty]
    return RuleFile(rules), [_as_finding(d) for d in rules.warnings]


def _register_own_ops(program: Program) -> None:
    """Witnesses are built of real ops, so those that PyTorch holds back are asked for where a file declares them."""
    for statement, _ in program.statements:
        if isinstance(statement, tree.DeclareOp):
            register_held_back(statement.schema.partition("::")[0].strip())


def _as_finding(diagnostic: Diagnostic) -> Diagnostic:
    """What loading reports, under the linter's codes."""
    if diagnostic.code == "A008" and "over itself" in diagnostic.message:
        return evolve(diagnostic, code="A109")
    if diagnostic.code == "A502":
        return evolve(diagnostic, severity=Severity.error)
    return diagnostic


def lint_rules(file: RuleFile, select: Iterable[str] = ()) -> tuple[list[Diagnostic], Pairs]:
    """Every finding about one loaded file, but for suppressions."""
    found: list[Diagnostic] = []
    for rule in file.models:
        found.extend(check_rule(rule))
        if "A701" in select:
            found.extend(unconstrained(rule))
    for invariant in file.invariants:
        found.extend(check_invariant(invariant))
    if file.models:
        for statement in file.statements:
            if isinstance(statement, tree.Contract):
                found.extend(check_contract(statement, file.models[0]))
    pairs = within(file)
    found.extend(pairs.ordered())
    found.extend(unused(file.rules))
    found.extend(_examples(file.rules))
    return found, pairs


def _examples(rules: RuleSet) -> Iterator[Diagnostic]:
    if not rules.backend_id:
        return
    for result in run_examples(rules):
        if result.outcome in ("fails", "error"):
            what = "accepts" if result.accepts else "rejects"
            yield finding("A601", f"this example of `{result.rule}` does not hold: {result.message}", result.span,
                          label=f"{what}, says the file")


def _against(file: RuleFile, baseline: Location) -> list[Diagnostic]:
    from apportion.engine.lint.difference import compare

    older, found = lint_program(_read(baseline))
    if older is None:
        return found
    older.owner = file.owner
    gained, lost = compare(older, file)
    rows: list[Diagnostic] = []
    for change, word in ((gained, "claims more"), (lost, "claims less")):
        for entry in change:
            labels = [] if entry.rule.file is file else [Label(entry.rule.span, "claimed it")]
            span = entry.rule.span if entry.rule.file is file else (file.models[0].span if file.models else None)
            rows.append(finding("A503", f"the file {word} than its baseline: `{entry.rule.name}`", span, labels=labels,
                                notes=[("witness", entry.text)]))
    return rows


def _unique(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    found: dict[tuple[object, ...], Diagnostic] = {}
    for d in diagnostics:
        key = (d.code, d.message, d.span and (d.span.source.name, d.span.start))
        found.setdefault(key, d)
    return list(found.values())


_RANK = {Severity.error: 0, Severity.warning: 1, Severity.note: 2}


def _sorted(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Errors first; among equals the order in which they were found (by degree, then by place)."""
    return sorted(diagnostics, key=lambda d: _RANK[d.severity])


def is_rules_file(path: Location) -> bool:
    """Does it look like a rules file?"""
    return bool(re.search(r"\.rules$", os.fspath(path))) and Path(path).is_file()
