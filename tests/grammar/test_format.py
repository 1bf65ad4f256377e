"""The canonical form: says the same, keeps every comment, and is its own canonical form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from apportion.grammar import tree
from apportion.grammar.format import WIDTH, format_expression, format_file, format_term
from apportion.grammar.parse import parse, parse_expression
from tests.grammar.random_trees import FILES
from tests.grammar.texts import ACME, EVERYTHING, SHIPPED


def read(text: str) -> tree.File:
    result = parse(text)
    assert result.file is not None, "\n".join([text, *map(str, result.diagnostics)])
    return result.file


def words(file: tree.File) -> list[str]:
    """The words of all comments. (Two that end up on one line are one comment from then on.)"""
    return sorted(" ".join(text for _, text in file.comments).split())


def check(text: str) -> str:
    """Format a text, and hold what the formatter promises."""
    file = read(text)
    formatted = format_file(file)
    again = read(formatted)
    assert again == file
    assert words(again) == words(file)
    assert format_file(again) == formatted
    assert not any(line != line.rstrip() for line in formatted.split("\n"))
    return formatted


@given(FILES)
def test_random_files(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", [ACME, EVERYTHING], ids=["acme", "everything"])
def test_examples(text: str, request: pytest.FixtureRequest) -> None:
    formatted = check(text)
    golden = Path(__file__).parent / f"{request.node.callspec.id}.formatted.rules"
    assert formatted == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check(text) == text
    assert not [line for line in text.split("\n") if len(line) > WIDTH and '"' not in line and "#" not in line]


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)", "(a or b) or c", "a and (b and c)", "(a implies b) implies c", "not (a and b)", "(not a) == b",
        "(a if b else c) if d else e", "(a == b) == c", "-(a + b)", "(-a).b", "(1).b", "(a | b) - c", "a | b - c",
        "(a if b else c)[0]", "f((a if b else c), [1, {2}], x[1:])", "a in 1.5 .. 2.5", "a in 1..n",
        "all(x for x in (a implies b) if c if d else e)", "- -a", "x[-1]", "aten.{a,b}.default.c", "x[::2]",
        "(a in b) in c", "(x is none) is tensor", "a.{b}",
    ],
)  # fmt: skip
def test_parentheses_are_where_they_must_be(text: str) -> None:
    expression, _ = parse_expression(text)
    assert expression is not None
    written = format_expression(expression)
    assert parse_expression(written)[0] == expression
    assert len(written) <= len(text)


def test_terms() -> None:
    rule = read("rule r { match y = f((a|b)?, shared g(*xs), n: (T(x) with a=1 | (shared x)?))[0] }").statements[0]
    assert isinstance(rule, tree.Rule)
    match = rule.body[0]
    assert isinstance(match, tree.Match)
    term = match.choices[0].bindings[0].term
    assert format_term(term) == "f((a | b)?, shared g(*xs), n: (T(x) with a = 1 | (shared x)?))[0]"


def test_blank_lines_are_kept_one_at_a_time() -> None:
    assert check("\n\nlet a = 1\nlet b = 2\n\n\n\n# c\n\nlet c = 3\n\n\n") == (
        "let a = 1\nlet b = 2\n\n# c\n\nlet c = 3\n"
    )


def test_comments_stay_where_they_are() -> None:
    text = """\
# head

ops a = {  # the set
  # before the first
  x.y.z,  # after the first
  b,
  # before the end
}  # after the set

rule r {  # the rule
  # before the clause
  match y = f(x)  # after the clause
  require x.a and  # why a
    x.b
  # before the end of the rule
}
# the end
"""
    assert check(text) == """\
# head

ops a = {  # the set
  # before the first
  x.y.z,  # after the first
  b
  # before the end
}  # after the set

rule r {  # the rule
  # before the clause
  match y = f(x)  # after the clause
  require x.a  # why a
    and x.b
  # before the end of the rule
}
# the end
"""


def test_a_rule_of_one_line_stays_on_one() -> None:
    text = "rule r { match y = f(x)  require y.ok }\n"
    assert check(text) == text
    long = f"rule r {{ match y = f(x)  require y.{'o' * 120} }}\n"
    assert check(long).count("\n") == 4


def test_an_empty_file() -> None:
    assert check("") == ""
    assert check("# only this") == "# only this\n"


@pytest.mark.parametrize(
    "text",
    [
        "let a = 1" + " + a" * 95,
        "let a = " + "[" * 97 + "]" * 97,
        "let a = " + "(1 - " * 97 + "1" + ")" * 97,
        "let a = " + "not " * 97 + "b",
        "rule r { match y = " + "f(" * 45 + "x" + ")" * 45 + " }",
        "rule r { match y = " + "shared (" * 45 + "x | y" + ")" * 45 + " }",
        "rule r { match y = f(x) accepts f(" + "[" * 90 + "1" + "]" * 90 + ") }",
    ],
)
def test_deep_texts(text: str) -> None:
    check(text)
