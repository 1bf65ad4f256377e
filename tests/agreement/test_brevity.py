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


def figures() -> tuple[int, int]:
    """The lines of the rules, and of the rules with what they use of `std/`."""
    own = len(lines_of(RULES / "xnnpack.rules"))
    return own, own + sum(len(lines_of(RULES / "std" / f"{name}.rules")) for name in ("quant", "ops"))


def test_at_most_300_lines_of_120_characters() -> None:
    own, together = figures()
    print(f"xnnpack.rules: {own} lines; with what it uses of std/: {together}")  # with `pytest -s`
    assert own <= 300 and together <= 380
    assert all(len(line) <= 120 for line in (RULES / "xnnpack.rules").read_text().splitlines())
