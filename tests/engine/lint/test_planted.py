"""Generated rule sets: what was planted is found, what is clean has no finding, undecided only where it may be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from apportion.engine.attributes import ATTRIBUTES
from apportion.engine.facts.kinds import KINDS as KINDS_OF_VALUES
from apportion.engine.functions import FORMS, FUNCTIONS
from apportion.engine.lint import lint
from apportion.grammar.diagnostics import Diagnostic
from tests.engine.lint.planted import KINDS, ROWS, STATEMENTS, Planted, RuleSet, rule_set, used_by

SETS = 200
NOTES = {"A203", "A204"}  # a requirement may follow from another; nothing about that is planted
UNDECIDED = {"A901", "A902", "A903"}


def findings(rules: RuleSet, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Diagnostic]:
    monkeypatch.chdir(folder)
    Path("set.rules").write_text(rules.text, encoding="utf-8")
    Path("shared.rules").write_text(rules.library, encoding="utf-8")
    return [d for d in lint("set.rules").diagnostics if d.code not in NOTES]


def names(diagnostic: Diagnostic, planted: Planted) -> bool:
    said = diagnostic.message + "".join(label.span.text for label in diagnostic.labels)
    return any(f"`{rule}`" in said or rule in said.split() for rule in planted.rules)


def check(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Judge one set; how many pairs of each construct were decided or not."""
    rules, outcome = rule_set(seed), Counter[str]()
    left = findings(rules, folder, monkeypatch)
    for planted in rules.planted:
        mine = [d for d in left if names(d, planted)]
        left = [d for d in left if d not in mine]
        open_ = [d for d in mine if d.code in UNDECIDED]
        shown = f"seed {seed}, {planted.kind}\n{rules.text}\n" + "\n".join(map(str, mine))
        assert not open_ or planted.row.open, shown
        for use in planted.row.uses:
            outcome[f"{use} {'undecided' if open_ else 'decided'}"] += 1
        if not open_:
            found = {d.code for d in mine}
            assert bool(found & planted.codes) == bool(planted.codes), shown
            assert found <= planted.codes | {"A110"}, shown
    assert not left, f"seed {seed}\n{rules.text}\n" + "\n".join(map(str, left))
    return outcome


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_what_is_planted_is_found(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, tmp_path, monkeypatch)


@pytest.mark.full
def test_two_hundred_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = Counter[str]()
    for seed in range(SETS):
        total += check(seed, tmp_path, monkeypatch)
    share = {use: total[f"{use} undecided"] / (total[f"{use} undecided"] + total[f"{use} decided"])
             for use in sorted(set(used_by(ROWS)))}
    print({use: f"{part:.0%}" for use, part in share.items() if part})
    assert sum(total[k] for k in total if k.endswith(" decided")) > 0.9 * sum(total.values())


def test_every_construct_is_drawn() -> None:
    drawn = Counter(use for seed in range(SETS) for use in rule_set(seed).drawn)
    attributes = {f".op.{name}" if of == "op" else f".{name}" for of, name in ATTRIBUTES}
    assert not [use for use in used_by(ROWS) if not drawn[use]]
    assert not [kind for kind in KINDS if not drawn[kind]]
    assert not (STATEMENTS - set(drawn)), STATEMENTS - set(drawn)
    assert not (attributes - set(drawn)), attributes - set(drawn)
    functions = {*FUNCTIONS, *FORMS}
    assert not (functions - set(drawn)), functions - set(drawn)
    assert not (set(KINDS_OF_VALUES) - set(drawn)), set(KINDS_OF_VALUES) - set(drawn)
