"""Declarations that nothing uses, arguments that a rule leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from apportion.engine.compile import patterns as p
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.compile.units import Program, Unit
from apportion.engine.lint.model import RuleModel
from apportion.engine.lint.report import finding
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic
from apportion.grammar.walk import walk

__all__ = ["unconstrained", "unused"]

_WORDS: Mapping[type, str] = {
    tree.Let: "let",
    tree.OpsDecl: "ops",
    tree.PatternDecl: "pattern",
    tree.Contract: "contract",
    tree.OptionDecl: "option",
    tree.ExternDecl: "extern",
    tree.MetaDecl: "meta",
}


def unused(rules: RuleSet) -> Iterator[Diagnostic]:
    """Names declared in the file itself that nothing mentions, files used for nothing. A library's are its offer."""
    program = rules.program
    if program is None or program.root is None or not rules.backend_id:
        return
    mentioned = _mentioned(program)
    for statement in program.root.file.statements:
        word = _WORDS.get(type(statement))
        if word is not None:
            name: str = statement.name  # type: ignore[union-attr]  # all of these have one
            if mentioned.get((word in ("option", "meta"), name), 0) == 0:
                message = f"{word} `{name}` is never used"
                yield finding("A401", message, statement.span, label="unused", help="remove it")
        elif isinstance(statement, (tree.Rule, tree.Invariant)):
            yield from _unused_lets(statement)
    yield from _unused_files(program, mentioned)


def _mentioned(program: Program) -> dict[tuple[bool, str], int]:
    """How often names are mentioned, apart from where they are declared; options and marks have names of their own."""
    found: dict[tuple[bool, str], int] = {}

    def count(key: tuple[bool, str]) -> None:
        found[key] = found.get(key, 0) + 1

    for unit in program.units:
        for node, _ in walk(unit.file):
            match node:
                case tree.Name():
                    count((False, node.id))
                case tree.VariableTerm():
                    count((False, node.name))
                case tree.Call():
                    count((False, node.function))
                case tree.OptionRef():
                    count((True, node.name))
                case tree.Attribute():
                    if isinstance(node.value, tree.Attribute) and node.value.name == "meta":
                        count((True, node.name))
                case tree.DisjointDecl():
                    count((False, node.left))
                    count((False, node.right))
                case _:
                    pass
    return found


def _unused_lets(rule: tree.Rule | tree.Invariant) -> Iterator[Diagnostic]:
    names = [n.id for n, _ in walk(rule) if isinstance(n, tree.Name)]
    calls = [n.function for n, _ in walk(rule) if isinstance(n, tree.Call)]
    for clause in rule.body:
        if isinstance(clause, tree.Let) and clause.name not in names and clause.name not in calls:
            yield finding("A401", f"let `{clause.name}` is never used in `{rule.name}`", clause.span, label="unused",
                          help="remove it")


def _unused_files(program: Program, mentioned: Mapping[tuple[bool, str], int]) -> Iterator[Diagnostic]:
    """A `use` of which nothing is used: no name, rule, invariant, option or declared op."""
    root = program.root
    if root is None:
        return
    uses = [s for s in root.file.statements if isinstance(s, tree.Use)]
    own = _texts(root)
    for use in uses:
        units = [u for u in program.units if not u.is_root and _is_of(u, use.path)]
        if not units:
            continue
        offered = [s for u in program.units if not u.is_root for s in u.file.statements]
        if any(isinstance(s, (tree.Rule, tree.Invariant, tree.OptionDecl, tree.DisjointDecl)) for s in offered):
            continue
        names = {getattr(s, "name", None) for s in offered if type(s) in _WORDS}
        spaces = {s.schema.split("::")[0] for s in offered if isinstance(s, tree.DeclareOp)}
        if not names & own and not spaces & own:
            yield finding("A401", f'nothing of `use "{use.path}"` is used', use.span, label="unused", help="remove it")


def _texts(unit: Unit) -> set[str]:
    found: set[str] = set()
    for node, _ in walk(unit.file):
        if isinstance(node, tree.Name):
            found.add(node.id)
        elif isinstance(node, tree.VariableTerm):
            found.add(node.name)
        elif isinstance(node, tree.Call):
            found.add(node.function)
        elif isinstance(node, tree.OpExpansion):
            found.update(node.segments[0])
    return found


def _is_of(unit: Unit, path: str) -> bool:
    return unit.source.name.removesuffix(".rules").endswith(path.removesuffix(".rules").lstrip("./"))


def unconstrained(rule: RuleModel) -> Iterator[Diagnostic]:
    """Arguments of the root's op that neither the pattern nor a requirement mentions (off by default)."""
    ops = rule.pattern.ops
    if ops is None or len(ops) > 4:
        return
    text = rule.tree.span.text
    for name in sorted(ops)[:1]:
        op = rule.file.scope.schema_of(name)
        if op is None:
            continue
        placed = {key for choice in rule.pattern.choices for key in _placed(choice.root.term, name)}
        open_ = [a.name for a in op.arguments if a.name not in placed and f".{a.name}" not in text]
        if open_:
            yield finding("A701", f"`{rule.name}` says nothing about {', '.join(f'`{n}`' for n in open_)} of `{name}`",
                          rule.span, label="left open")


def _placed(term: p.Term, name: str) -> Iterator[str]:
    stack: list[p.Term] = [term]
    while stack:
        current = stack.pop()
        if isinstance(current, p.OpTerm):
            if current.ops is not None and name in current.ops:
                yield from (str(key) for key, _ in current.layouts.get(name, current.layout))
                if current.rest is not None:
                    yield "self"
            continue
        stack.extend(p.subterms(current))
