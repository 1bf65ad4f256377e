"""The XNNPACK rules changed one clause at a time; each change must show against the real partitioner.

A clause is removed or negated, an operand of `and`, `or`, `implies` is dropped or negated, a number moved by one, a
member of a set or of braces dropped, a mark, a taken constant, a `shared`, a `?`, a rule dropped, a setting changed.

`verdict` says which program tells the mutant from the rules: one where the rules agree with the real partitioner, or
where `errors.py` shows the real one to be wrong, and the mutant decides otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from attrs import Factory, define, field, frozen

from apportion.engine.errors import ApportionError
from apportion.engine.load import parse_rules
from apportion.grammar import tree
from apportion.grammar.parse import parse
from tests.agreement.cache import ROOT, cached
from tests.agreement.checks import loaded, probe_program, probe_theirs
from tests.agreement.compare import compare, ours
from tests.agreement.preserved import preserved_cases, preserved_nodes, preserved_theirs
from tests.agreement.probes import all_probes
from tests.agreement.record import OPTION_SETS, Decision, Options, options_of, record

__all__ = ["REASONS", "Case", "Mutant", "all_mutants", "case_of", "reason", "shows", "verdict"]

FILE: Path = ROOT / "rules" / "xnnpack.rules"
SMALL_MODELS = ("linear_stack", "linear_stack_static", "linear_stack_dynamic", "lstm")

REASONS: tuple[tuple[str, str], ...] = (
    (
        r'member dropped \("dynamic_quant"\)',
        "once static quantization is on, the real one takes dynamically quantized products whether told to or not",
    ),
    (
        r"removed: require all\(i is tensor for i in y\.inputs\)",
        "a size has no dtype, so the next requirement refuses it too; this one is there to give the true cause",
    ),
    (r"moved down: 0 -> -1$", "operands are compared with the last instead of the first: all of them are still equal"),
)
"""Why a mutant cannot show: a pattern over titles, and the reason."""


@frozen
class Mutant:
    """One change: what was done, where, and the whole text."""

    title: str
    statement: str
    text: str


@cache
def source() -> tuple[str, tree.File]:
    """The rules with their examples blanked out, line by line, and their tree."""
    text = FILE.read_text()
    for example in [node for node in _nodes(_tree(text).statements) if isinstance(node, tree.Example)]:
        start, end = example.span.start, example.span.end
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text, _tree(text)


def _tree(text: str) -> tree.File:
    parsed = parse(text, str(FILE))
    if parsed.file is None:
        raise ValueError("\n".join(map(str, parsed.diagnostics)))
    return parsed.file


def all_mutants() -> Iterator[Mutant]:
    """Every mutant, in the order of the file."""
    text, file = source()
    seen: set[str] = set()
    for statement in file.statements:
        for what, node, replacement in _edits(statement):
            start, end = node.span.start, node.span.end
            changed = text[:start] + replacement + text[end:]
            if changed == text or changed in seen:
                continue
            seen.add(changed)
            line = text.count("\n", 0, start) + 1
            shown = " ".join(text[start:end].split())
            shown = shown if len(shown) < 70 else shown[:67] + "..."
            after = f" -> {replacement}" if replacement and len(replacement) < 60 else ""
            yield Mutant(f"line {line}: {what}: {shown}{after}", statement.span.text, changed)


Edit = tuple[str, tree.Node, str]


def _edits(statement: tree.Statement) -> Iterator[Edit]:
    if isinstance(statement, tree.Rule | tree.Invariant | tree.PartitionBlock):
        yield "removed", statement, ""
    elif isinstance(statement, tree.Preserve):
        yield "removed", statement, ""
        yield from _of_expression(statement)
        return
    elif isinstance(statement, tree.OptionDecl):
        yield from _of_default(statement)
        return
    elif isinstance(statement, tree.BackendDecl | tree.Use):
        return
    for node in _nodes(statement):
        yield from _of_clause(node)


def _of_default(option: tree.OptionDecl) -> Iterator[Edit]:
    if isinstance(option.default, tree.Literal) and isinstance(option.default.value, bool):
        yield "default flipped", option.default, "false" if option.default.value else "true"
    yield from _of_expression(option.default)


def _of_clause(node: tree.Node) -> Iterator[Edit]:
    """What can be changed about one clause or declaration."""
    if isinstance(node, tree.Require):
        yield "removed", node, ""
        yield "negated", node.condition, f"not ({node.condition.span.text})"
        yield from _of_expression(node.condition)
    elif isinstance(node, tree.When):
        yield "removed", node, ""
        yield "negated", node.condition, f"not ({node.condition.span.text})"
        yield from _of_expression(node.condition)
    elif isinstance(node, tree.Let | tree.OpsDecl | tree.PartitionKey):
        yield from _of_expression(node.value)
        if isinstance(node, tree.PartitionKey):
            yield "removed", node, ""
    elif isinstance(node, tree.Take | tree.Mark):
        yield "removed", node, ""
        for name in node.names if len(node.names) > 1 else ():
            names = ", ".join(other for other in node.names if other != name)
            tail = node.span.text[node.span.text.rindex(node.names[-1]) + len(node.names[-1]) :]
            yield f"{name} dropped", node, f"{node.span.text.split()[0]} {names}{tail}"
        if isinstance(node, tree.Take) and node.condition is not None:
            yield "condition dropped", node, f"take {', '.join(node.names)}"
    elif isinstance(node, tree.OptionalTerm):
        yield "made obligatory", node, node.term.span.text
    elif isinstance(node, tree.SharedTerm):
        yield "no longer shared", node, node.term.span.text
    elif isinstance(node, tree.CallTerm):
        yield from _of_call(node)
    elif isinstance(node, tree.Alternatives) and len(node.terms) > 1:
        for term in node.terms:
            rest = " | ".join(other.span.text for other in node.terms if other is not term)
            yield f"alternative dropped ({term.span.text})", node, rest


def _of_call(node: tree.CallTerm) -> Iterator[Edit]:
    yield from _of_expression(node.callee)
    for argument in node.arguments:
        if isinstance(argument.term, tree.LiteralTerm):
            position = node.arguments.index(argument)
            rest = [other.span.text for i, other in enumerate(node.arguments) if i != position]
            yield "argument dropped", node, f"{node.callee.span.text}({', '.join(rest)})"


def _of_expression(root: tree.Node) -> Iterator[Edit]:
    """What can be changed inside of an expression."""
    for node in _nodes(root):
        if isinstance(node, tree.BoolOp):
            yield from _of_boolean(node)
        elif isinstance(node, tree.Compare | tree.IsKind) and node is not root:
            yield "negated", node, f"(not ({node.span.text}))"
        elif isinstance(node, tree.Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
            yield "moved up", node, str(node.value + 1)
            yield "moved down", node, str(node.value - 1)
        elif isinstance(node, tree.SetExpr) and len(node.items) > 1:
            for item in node.items:
                rest = ", ".join(other.span.text for other in node.items if other is not item)
                yield f"member dropped ({' '.join(item.span.text.split())})", node, "{" + rest + "}"
        elif isinstance(node, tree.OpExpansion):
            yield from _of_expansion(node)
        elif isinstance(node, tree.Binary) and node.op in ("|", "-") and _is_set(node):
            yield f"right of `{node.op}` dropped", node, node.left.span.text
        elif isinstance(node, tree.Conditional):
            yield "only the first", node, node.then.span.text
            yield "only the second", node, node.otherwise.span.text


def _is_set(node: tree.Binary) -> bool:
    return not any(isinstance(inner, tree.Literal) for inner in _nodes(node))


def _of_boolean(node: tree.BoolOp) -> Iterator[Edit]:
    for operand in node.operands:
        others = [other.span.text for other in node.operands if other is not operand]
        rest = f" {node.op} ".join(f"({text})" for text in others)
        yield f"operand dropped ({' '.join(operand.span.text.split())})", node, f"({rest})"


def _of_expansion(node: tree.OpExpansion) -> Iterator[Edit]:
    for position, choices in enumerate(node.segments):
        for choice in choices if len(choices) > 1 else ():
            kept = tuple(other for other in choices if other != choice)
            segments = [*node.segments[:position], kept, *node.segments[position + 1 :]]
            text = ".".join(s[0] if len(s) == 1 else "{" + ",".join(s) + "}" for s in segments)
            yield f"{choice} dropped", node, text


def _nodes(root: Any) -> Iterator[tree.Node]:
    """A node and all below it, reasons left out."""
    if isinstance(root, tuple):
        for item in root:
            yield from _nodes(item)
    elif isinstance(root, tree.Node) and not isinstance(root, tree.Because):
        yield root
        for attribute in attrs.fields(type(root)):
            if attribute.name != "span":
                yield from _nodes(getattr(root, attribute.name))


# --- judging ----------------------------------------------------------------------------------------------------


@define(eq=False)
class Case:
    """A program under one set of options, what the real partitioner and the unchanged rules say about it."""

    title: str
    position: int
    options: Options
    program: Any
    theirs: Decision
    words: frozenset[str] = field(init=False, default=Factory(lambda self: _words(self.title), takes_self=True))
    _base: tuple[Decision, frozenset[str]] | None = None

    @property
    def base(self) -> Decision:
        """What the unchanged rules say."""
        return self._compared()[0]

    @property
    def excused(self) -> frozenset[str]:
        """The nodes where the real partitioner is wrong."""
        return self._compared()[1]

    def _compared(self) -> tuple[Decision, frozenset[str]]:
        if self._base is None:
            decided = ours(self.program, self.options, loaded(self.position))
            compared = compare(self.title, self.program, self.options, self.theirs, decided)
            self._base = decided, frozenset(name for name, _ in compared.excused)
        return self._base


def reason(mutant: Mutant) -> str:
    """Why it cannot show; empty where no reason is known."""
    return next((why for pattern, why in REASONS if re.search(pattern, mutant.title)), "")


def verdict(mutant: Mutant) -> dict[str, Any]:
    """`killed`, and `by` what."""
    return cached("mutants", mutant.text, lambda: _judge(mutant))  # type: ignore[no-any-return]


def _judge(mutant: Mutant) -> dict[str, Any]:
    rules: dict[int, Any] = {}

    def changed(position: int) -> Any:
        if position not in rules:
            rules[position] = parse_rules(mutant.text, str(FILE), options=dict(OPTION_SETS[position]))
        return rules[position]

    try:
        for case in _ordered(mutant):
            if shows(case, changed(case.position)):
                _killers.insert(0, case)
                return {"killed": True, "by": case.title}
        for name, program in preserved_cases():
            if preserved_nodes(changed(0), program) != preserved_theirs(name):
                return {"killed": True, "by": f"ops preserved in {name}"}
    except ApportionError as error:
        return {"killed": True, "by": f"does not load: {str(error).splitlines()[0]}"}
    return {"killed": False, "by": ""}


_killers: list[Case] = []


def _ordered(mutant: Mutant) -> Iterator[Case]:
    """The cases, most promising first: the latest that told a mutant apart, then those that name the ops of the change,
    then those that name any op of its statement."""
    cases = _cases()
    what, _, shown = mutant.title.partition(": ")[2].partition(": ")
    change = _words(what) or _words(shown.partition(" -> ")[0])
    statement = _words(mutant.statement)
    by_default = [case for case in cases if case.position == 0]
    near = [case for case in by_default if statement & case.words]
    seen: set[int] = set()
    for case in (*(c for c in by_default if change & c.words), *_killers[:20], *near, *by_default, *cases):
        if id(case) not in seen:
            seen.add(id(case))
            yield case


_COMMON = frozenset(
    "removed negated operand dropped moved down member default flipped made obligatory longer shared alternative "
    "argument condition right only the first second aten quantized_decomposed torchao dim_order_ops Tensor require "
    "match when because not and implies all for inputs option precisions ops".split()
)


def _words(text: str) -> frozenset[str]:
    """What a text speaks of: its longer words, less those that are everywhere."""
    return frozenset(re.findall(r"\w{3,}", text)) - _COMMON


def shows(case: Case, rules: Any) -> bool:
    """Do these rules decide otherwise than the right ones, where those are known to be right?"""
    found = ours(case.program, case.options, rules)
    if case.excused:
        return found.claimed & case.excused != case.base.claimed & case.excused
    return any(
        facet(case.base) == facet(case.theirs) != facet(found)
        for facet in (_claimed, _grouping(case.options), _constants, _marks)
    )


def _claimed(decision: Decision) -> Any:
    return decision.claimed


def _constants(decision: Decision) -> Any:
    return decision.constants


def _marks(decision: Decision) -> Any:
    return decision.marked


def _grouping(options: Options) -> Any:
    if ("per_op_mode", True) in options:
        return lambda decision: frozenset(decision.partitions)
    return lambda decision: len(decision.partitions)


@cache
def _cases() -> tuple[Case, ...]:
    """The probes by default; each under the options that change the verdict; a few of the rest; the small models."""
    found: list[Case] = []
    for number, probe in enumerate(all_probes()):
        verdicts = probe_theirs(probe)
        for position, given in enumerate(OPTION_SETS):
            default, mine = verdicts[0], verdicts[position]
            same = set(default.partitions) == set(mine.partitions) and default.constants == mine.constants
            if position == 0 or not same or (number + position) % 10 == 0:
                found.append(Case(probe.text, position, options_of(given), probe_program(probe), mine))
    for name in SMALL_MODELS:
        recording = record(name)
        found.append(Case(name, 0, (), recording.program, recording.theirs))
    return tuple(found)


def case_of(position: int) -> Case:
    """One of the cases."""
    return _cases()[position]
