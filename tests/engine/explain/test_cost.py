"""What reasons cost: recording them while matching, and putting them into words when asked."""

from __future__ import annotations

import pytest

from apportion import engine
from benchmarks.graphs import make
from benchmarks.reasons import NOTHING_HOLDS, cost, nothing_recorded
from benchmarks.rules import rules_text
from tests.engine.explain.graphs import RULES, layers
from tests.engine.explain.models import program


@pytest.mark.full
@pytest.mark.parametrize("which", ["layers", "attention", "random", "all left"])
def test_recording_adds_at_most_30_percent(which: str) -> None:
    made = {"layers": lambda: layers(2000), "attention": lambda: program(which)}
    graph = made.get(which, lambda: make("random", 2000))
    text = rules_text() + (NOTHING_HOLDS if which == "all left" else "")
    rules = engine.parse_rules(RULES) if which == "layers" else engine.parse_rules(text)
    found = cost(graph(), rules, 25 if which == "attention" else 9)
    print(f"{which}: {found.recording:.3f} s with reasons, {found.without:.3f} s without: {found.ratio:.2f}")
    assert found.left > 0
    assert found.ratio <= 1.3


def test_what_is_compared_with_decides_the_same_and_gives_no_reasons() -> None:
    graph, rules = layers(100), engine.parse_rules(RULES)
    found = engine.partition(graph, rules).report
    with nothing_recorded():
        silent = engine.partition(graph, rules).report
        assert (silent.claimed, len(silent.left)) == (found.claimed, len(found.left))
        assert not any(reason.kind == "requirement" for reason in silent.left)
    assert {reason.kind for reason in found.left} == {"no rule", "requirement"}
    assert {reason.kind for reason in engine.partition(graph, rules).report.left} == {"no rule", "requirement"}
