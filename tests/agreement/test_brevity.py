"""The XNNPACK rules stay short: lines without comments, examples and blank lines."""

from __future__ import annotations

from pathlib import Path

from apportion.grammar import tree
from apportion.grammar.parse import parse

RULES = Path(__file__).parents[2] / "rules"


def lines_of(file: Path) -> list[str]:
    """The lines of a rules file that count."""
    text = file.read_text()
    parsed = parse(text, str(file))
    assert parsed.file is not None
    blank = bytearray(text.encode("utf-32-le"))
    for statement in parsed.file.statements:
        if isinstance(statement, tree.Rule):
            for clause in statement.body:
                if isinstance(clause, tree.Example):
                    width = clause.span.end - clause.span.start
                    blank[4 * clause.span.start : 4 * clause.span.end] = " ".encode("utf-32-le") * width
    kept = blank.decode("utf-32-le")
    # a blanked example has swallowed its line breaks; what is left of other lines stays countable
    return [line for line in kept.splitlines() if line.strip() and not line.strip().startswith("#")]


def test_at_most_300_lines_of_120_characters() -> None:
    assert len(lines_of(RULES / "xnnpack.rules")) <= 300
    assert all(len(line) <= 120 for line in (RULES / "xnnpack.rules").read_text().splitlines())


def test_with_what_it_uses() -> None:
    used = [RULES / "std" / "quant.rules", RULES / "std" / "ops.rules"]
    assert len(lines_of(RULES / "xnnpack.rules")) + sum(len(lines_of(file)) for file in used) <= 380
