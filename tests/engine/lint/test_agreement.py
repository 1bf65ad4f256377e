"""Disjoint and Overlap against z3, on the same random pairs; every witness is claimed by both rules."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

pytest.importorskip("z3")

from apportion.engine.candidates import Match
from apportion.engine.lint import smt
from apportion.engine.lint.confirm import names_of
from apportion.engine.lint.model import RuleFile
from apportion.engine.lint.overlap import examine
from apportion.engine.load import parse_rules
from tests.engine.lint.judge import MOST_DIMS, Judge, as_text, rule

PER_FILE = 30


@pytest.fixture(autouse=True)
def boxes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The linter's own procedure is judged, without z3's help."""
    monkeypatch.setattr(smt, "_z3", lambda: None)


def pairs(seed: int, count: int) -> tuple[Counter[str], float, float]:
    """Judge `count` pairs of random rules by both; how they came out, and the time that each took."""
    draw, outcome, ours, theirs = random.Random(seed), Counter[str](), 0.0, 0.0
    done = 0
    while done < count:
        rules = [rule(draw) for _ in range(2 * PER_FILE)]
        lines = ['backend "Acme" language 1']
        for i, conditions in enumerate(rules):
            asked = " ".join(f"require {as_text(c)}" for c in conditions)
            lines.append(f"rule r{i} {{ match y = aten.relu.default(x) require x.rank <= {MOST_DIMS} "
                         f"require x.dtype in {{float32, float16, int8, int32}} {asked} }}")
        file = RuleFile(parse_rules("\n".join(lines)))
        for i in range(0, len(rules), 2):
            if done == count:
                break
            done += 1
            started = time.perf_counter()
            verdict = examine(file.models[i], file.models[i + 1])
            ours += time.perf_counter() - started
            started = time.perf_counter()
            satisfiable = Judge().satisfiable([*rules[i], *rules[i + 1]])
            theirs += time.perf_counter() - started
            if satisfiable is None:
                outcome["z3 gave up"] += 1
                continue
            texts = [" and ".join(map(as_text, r)) for r in rules[i:i + 2]]
            outcome[f"{verdict.kind} {'sat' if satisfiable else 'unsat'}"] += 1
            if verdict.kind == "disjoint":
                assert not satisfiable, texts
            if verdict.kind == "overlap":
                assert satisfiable, texts
                assert verdict.witness is not None
                first, second = verdict.witness.matches
                assert isinstance(first, Match) and names_of(first) & names_of(second), texts
    return outcome, ours, theirs


def check(seed: int, count: int) -> None:
    outcome, ours, theirs = pairs(seed, count)
    undecided = sum(n for kind, n in outcome.items() if kind.startswith("undecided"))
    print(f"{dict(outcome)}; boxes {ours:.2f} s, z3 {theirs:.2f} s")
    assert outcome["disjoint unsat"] > count // 20 and outcome["overlap sat"] > count // 20
    assert undecided <= count // 100, outcome


@pytest.mark.parametrize("seed", range(2))
def test_boxes_and_z3_agree(seed: int) -> None:
    check(seed, 30)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10, 20))
def test_boxes_and_z3_agree_on_three_thousand_pairs(seed: int) -> None:
    check(seed, 300)
