"""Generated rule sets: what was planted is found, what is clean has no finding, undecided only where it may be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from apportion.engine.attributes import ATTRIBUTES
from apportion.engine.facts.kinds import KINDS as KINDS_OF_VALUES
from apportion.engine.functions import FORMS, FUNCTIONS
from tests.engine.lint.planted import KINDS, ROWS, STATEMENTS, rule_set, single, used_by
from tests.engine.lint.sweep import SETS, Tally, findings, sweep


@pytest.mark.parametrize("first", range(0, 15, 5))
def test_what_is_planted_is_found(first: int, tmp_path: Path) -> None:
    tally = sweep(range(first, first + 5), tmp_path)
    assert not tally.wrong, "\n\n".join(tally.wrong)


@pytest.mark.full
def test_two_hundred_sets(tmp_path: Path) -> None:
    tally = sweep(range(SETS), tmp_path)
    print(tally.table())
    assert not tally.wrong, "\n\n".join(tally.wrong)
    assert set(tally.undecided) <= {".partitions"} and not tally.false


@pytest.mark.full
def test_every_construct_in_every_kind_of_finding(tmp_path: Path) -> None:
    tally = Tally()
    for row in ROWS:
        for kind in KINDS:
            rules = single(row, kind)
            tally.add(rules, findings(rules, tmp_path), f"{sorted(row.uses)}", clean=False)
    print(tally.table())
    assert not tally.wrong, "\n\n".join(tally.wrong)


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
