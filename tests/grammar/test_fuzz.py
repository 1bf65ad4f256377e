"""No text, however broken, makes the parser raise or take long; every error has a place in the text."""

from __future__ import annotations

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from apportion.grammar.checks import MAX_DEPTH
from apportion.grammar.parse import keywords, parse, parse_expression
from apportion.grammar.walk import walk
from tests.grammar.random_trees import FILES
from tests.grammar.texts import ACME, EVERYTHING

PIECES = [
    *sorted(keywords()), *"(){}[]=,:;.|+-*/%<>!?&@#'\"\\_$`~^", "==", "..", "...", "//", "/*", "*/", "&&", "->", ":=",
    "x", "0", "1.5", '"s"', 'x"0"', "\n", "\r\n", "\r", "\t", "\u00a0", "é", "\u200b", "\ud800", "\0", "set of", "True",
]  # fmt: skip


def check(text: str) -> None:
    start = time.process_time()
    result = parse(text, "fuzz.rules")
    assert (result.file is None) == bool(result.diagnostics)
    assert len(result.diagnostics) <= 250
    for diagnostic in result.diagnostics:
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
        assert str(diagnostic).startswith("error[A0")
    if result.file is not None:
        assert max(depth for _, depth in walk(result.file)) <= MAX_DEPTH + 1
    assert time.process_time() - start < 20


@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.sampled_from(["", " "]))
def test_any_words(words: list[str], gap: str) -> None:
    check(gap.join(words))


@given(st.sampled_from([ACME, EVERYTHING]), st.integers(0, 2**32), st.integers(1, 6))
def test_mutated_files(text: str, seed: int, count: int) -> None:
    source = random.Random(seed)
    for _ in range(count):
        at = source.randrange(len(text))
        length = source.choice([0, 0, 1, 1, 2, 10, 100])
        piece = source.choice(["", source.choice(PIECES), text[at : at + length] * 2])
        text = text[:at] + piece + text[at + length :]
    check(text)


@given(FILES, st.integers(0, 2**32))
def test_cut_files(text: str, seed: int) -> None:
    check(text[: random.Random(seed).randrange(len(text) + 1)])


@given(st.sampled_from(PIECES), st.sampled_from(PIECES), st.integers(1, 400))
def test_repeated_pieces(first: str, second: str, times: int) -> None:
    check(f"{first} {second} " * times)
    check("rule r { match { y = f(x) } require " + f"{first} {second} " * times)


@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_any_expression(words: list[str]) -> None:
    expression, diagnostics = parse_expression(" ".join(words))
    assert (expression is None) == bool(diagnostics)


def test_a_single_missing_character_is_at_most_a_few_errors() -> None:
    """Recovery holds: what is wrong in one place is not reported again and again."""
    worst = 0
    for at in range(0, len(ACME), 17):
        if ACME[at].isspace():
            continue
        worst = max(worst, len(parse(ACME[:at] + ACME[at + 1 :]).diagnostics))
    assert worst <= 5
