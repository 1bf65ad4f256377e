"""The support table of an accelerator, read off its rules file: ops, patterns, constraints in words, types."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

import torch
from attrs import frozen

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.requirements import text_of
from apportion.engine.compile.rulesets import CompiledInvariant, CompiledRule, Requirement, RuleSet
from apportion.grammar import tree

__all__ = ["Row", "Sheet", "sheet", "sheet_html", "sheet_markdown"]


@frozen
class Row:
    """A rule or invariant: what it takes or speaks of, under which conditions.

    `ops` are names of ops, `pattern` the text of the match, `conditions` pairs of condition and the author's sentence,
    `dtypes` the types that the conditions name, `absent` is set where the options leave the rule out.
    """

    name: str
    doc: str
    ops: tuple[str, ...]
    pattern: str
    conditions: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    absent: bool = False


@frozen
class Sheet:
    """The support table of one backend."""

    backend_id: str
    doc: str
    options: tuple[tuple[str, str, str, str], ...]
    rules: tuple[Row, ...]
    invariants: tuple[Row, ...]
    partition: tuple[str, ...]
    ops: tuple[tuple[str, tuple[str, ...]], ...]


def sheet(rules: RuleSet) -> Sheet:
    """The support table of loaded rules, under the options that they were loaded with."""
    declared = {s.name: s for s, _ in rules.program.statements if isinstance(s, (tree.Rule, tree.Invariant))} if (
        rules.program is not None) else {}
    rows = [_row(rule, declared, False) for rule in rules.rules] + [_row(r, declared, True) for r in rules.absent]
    by_op: dict[str, list[str]] = {}
    for rule in rules.rules:
        for op in sorted(rule.pattern.mentioned):
            by_op.setdefault(op, []).append(rule.name)
    options = tuple(
        (name, str(option.type), _plain(rules.options[name]), option.doc or "")
        for name, option in rules.option_decls.items()
    )
    return Sheet(
        rules.backend_id, rules.doc or "", options, tuple(rows),
        tuple(_row(invariant, declared, False) for invariant in rules.invariants), tuple(_partition(rules)),
        tuple((op, tuple(names)) for op, names in sorted(by_op.items())),
    )  # fmt: skip


def _row(
    rule: CompiledRule | CompiledInvariant, declared: dict[str, tree.Rule | tree.Invariant], absent: bool
) -> Row:
    steps = (*rule.steps, *getattr(rule, "post", ()))
    conditions = tuple((s.text, s.because or "") for s in steps if isinstance(s, Requirement))
    written = declared.get(rule.name)
    pattern = "" if written is None else _pattern(written)
    return Row(rule.name, rule.doc or "", tuple(sorted(rule.pattern.mentioned)), pattern, conditions,
               tuple(_dtypes(steps)), absent)


def _pattern(written: tree.Rule | tree.Invariant) -> str:
    for clause in written.body:
        if isinstance(clause, tree.Match):
            return " ".join(text_of(clause).removeprefix("match").split())
    return ""


_WORD = re.compile(r"[A-Za-z_]\w*")


def _dtypes(steps: Iterable[object]) -> Iterator[str]:
    """The types that conditions name, also through names of sets."""
    seen: set[str] = set()
    for step in steps:
        if not isinstance(step, Requirement) or "dtype" not in step.text:
            continue
        for word in _WORD.findall(step.text):
            for name in _types_of(word, step):
                if name not in seen:
                    seen.add(name)
                    yield name


def _types_of(word: str, step: Requirement) -> Iterator[str]:
    if word in DTYPES:
        yield word
        return
    entry = None if step.scope is None else step.scope.lookup(word)
    value = entry.compiled.value if entry is not None and entry.compiled is not None else None
    for one in value if isinstance(value, (frozenset, tuple)) else ():
        if isinstance(one, torch.dtype):
            yield str(one).removeprefix("torch.")


def _partition(rules: RuleSet) -> Iterator[str]:
    policy = rules.policy
    yield f"partitions: `merge = \"{policy.merge}\"`"
    for key in ("min_nodes", "max_nodes", "max_partitions", "max_inputs", "max_outputs", "max_constant_bytes"):
        if getattr(policy, key) is not None:
            yield f"`{key}` is {getattr(policy, key)}"
    yield f"`constants = \"{policy.constants}\"`, mutable buffers are {'' if policy.mutable_buffers else 'not '}taken"
    for word, cutoffs in (("drops a node where", policy.trims), ("drops a partition where", policy.rejects)):
        for cutoff in cutoffs:
            yield f"{word} `{cutoff.text}`" + (f": {cutoff.because}" if cutoff.because else "")


def _plain(value: object) -> str:
    if isinstance(value, (set, frozenset)):
        return ", ".join(sorted(map(str, value))) or "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- as text -------------------------------------------------------------------------------------------------------


def sheet_markdown(found: Sheet) -> str:
    """The table as Markdown."""
    lines = [f"# {found.backend_id}", ""]
    if found.doc:
        lines += [found.doc, ""]
    lines += ["## Ops", "", *_markdown_table(("op", "rules"), ((f"`{op}`", ", ".join(n)) for op, n in found.ops))]
    lines += ["", "## Rules", "", *_markdown_table(_RULE_HEAD, map(_cells, found.rules))]
    if found.invariants:
        lines += ["", "## What holds of every op that is taken", "",
                  *_markdown_table(_RULE_HEAD, map(_cells, found.invariants))]
    if found.options:
        options = ((f"`{n}`", f"`{t}`", f"`{v}`", d) for n, t, v, d in found.options)
        lines += ["", "## Options", "", *_markdown_table(("option", "type", "value", "meaning"), options)]
    lines += ["", "## Partitions", "", *(f"- {line}" for line in found.partition), ""]
    return "\n".join(lines)


_RULE_HEAD = ("rule", "ops and pattern", "constraints", "types", "notes")


def _cells(row: Row) -> tuple[str, ...]:
    conditions = "<br>".join(f"{because}: `{text}`" if because else f"`{text}`" for text, because in row.conditions)
    notes = row.doc + (" (absent under these options)" if row.absent else "")
    return (f"`{row.name}`", f"`{row.pattern}`" if row.pattern else ", ".join(row.ops), conditions,
            ", ".join(row.dtypes), notes.strip())


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def sheet_html(found: Sheet) -> str:
    """The table as one page that needs nothing else."""
    parts = [f"<h1>{html.escape(found.backend_id)}</h1>", f"<p>{html.escape(found.doc)}</p>", "<h2>Ops</h2>",
             _html_table(("op", "rules"), (("`" + op + "`", ", ".join(names)) for op, names in found.ops)),
             "<h2>Rules</h2>", _html_table(_RULE_HEAD, map(_cells, found.rules))]
    if found.invariants:
        parts += ["<h2>What holds of every op that is taken</h2>",
                  _html_table(_RULE_HEAD, map(_cells, found.invariants))]
    if found.options:
        parts += ["<h2>Options</h2>", _html_table(("option", "type", "value", "meaning"),
                  ((f"`{n}`", f"`{t}`", f"`{v}`", d) for n, t, v, d in found.options))]
    items = "".join(f"<li>{_marked(line)}</li>" for line in found.partition)
    parts += ["<h2>Partitions</h2>", f"<ul>{items}</ul>"]
    return _PAGE.format(title=html.escape(found.backend_id), body="\n".join(parts))


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th scope=\"col\">{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_marked(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table>"


def _marked(text: str) -> str:
    """The little Markdown that the cells have, as HTML."""
    escaped = html.escape(text, quote=False).replace("&lt;br&gt;", "<br>")
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped)


_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border: 1px solid #8886; padding: 4px 8px; text-align: left; vertical-align: top; }}
code {{ font-size: 13px; overflow-wrap: anywhere; }}
</style></head>
<body>
{body}
</body></html>
"""
