"""The table of contention in the docs is what the linter says of the shipped files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from apportion.engine.lint import lint
from apportion.engine.load import load_rules
from benchmarks.linting import SHIPPED, contention

TABLE = (Path(__file__).parents[2] / "docs" / "contention.md").read_text(encoding="utf-8").splitlines()
PAIRS = list(itertools.combinations(SHIPPED, 2))
LONG = [pytest.param(pair, marks=pytest.mark.full) for pair in PAIRS if "xnnpack" in pair]


@pytest.mark.parametrize("names", [pair for pair in PAIRS if "xnnpack" not in pair] + LONG, ids="+".join)
def test_the_table_is_true(names: tuple[str, str]) -> None:
    result = lint(list(names))
    counted = [str(result.pairs[kind]) for kind in ("disjoint", "overlap", "undecided")]
    start = f"| {' + '.join(names)} | {' | '.join(counted)} | {result.errors} |"
    assert sum(row.startswith(start) for row in TABLE) == 1
    rows = contention(result)
    first, second = (load_rules(name).backend_id for name in names)
    assert rows == [row for row in TABLE if f" of {first} |" in row and f" of {second} |" in row] != []


def test_nothing_is_undecided_or_wrong_in_the_table() -> None:
    figures = [row.split("|")[2:6] for row in TABLE if row.startswith(tuple(f"| {name} " for name in SHIPPED))]
    assert len(figures) == len(SHIPPED) + len(PAIRS)
    assert all(int(undecided) == 0 and int(errors) == 0 for _, _, undecided, errors in figures)
