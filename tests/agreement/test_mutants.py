"""The rules changed one clause at a time: each change shows against the real partitioner, or has a reason not to."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("executorch")

from tests.agreement import mutants


def test_every_kind_of_change_is_made() -> None:
    titles = [mutant.title for mutant in mutants.all_mutants()]
    assert len(titles) > 400
    for what in ("removed", "negated", "operand dropped", "moved up", "moved down", "member dropped", "default flipped",
                 "made obligatory", "no longer shared", "alternative dropped"):
        assert any(f": {what}" in title for title in titles), what


@pytest.mark.full
def test_every_mutant_shows() -> None:
    alive = [m.title for m in mutants.all_mutants() if not mutants.verdict(m)["killed"] and not mutants.reason(m)]
    assert alive == []


@pytest.mark.full
def test_reasons_are_needed() -> None:
    """A reason that no living mutant needs is out of date."""
    for pattern, why in mutants.REASONS:
        living = [m for m in mutants.all_mutants() if mutants.reason(m) == why and not mutants.verdict(m)["killed"]]
        assert living, pattern


@pytest.mark.full
def test_the_unchanged_rules_show_nothing() -> None:
    """The judging itself: rules without a change are told apart by no case."""
    from tests.agreement.checks import loaded

    cases = random.Random(0).sample(range(900), 40)
    for case in (mutants.case_of(position) for position in cases):
        assert not mutants.shows(case, loaded(case.position))
