"""The same verdict as the real partitioner on every node of real models, and no more partitions."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("executorch")

from tests.agreement import checks
from tests.agreement.models import missing_libraries
from tests.agreement.record import Options

QUICK = ("linear_stack", "linear_stack_static", "linear_stack_dynamic")


def _check(name: str, options: Options) -> None:
    missing = missing_libraries(name)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    row: dict[str, Any] = checks.model_row(name, options)
    assert not row["error"]
    assert row["only_theirs"] == [] and row["only_ours"] == []
    assert row["agrees"], row
    assert row["same_specs"]
    assert row["same_constants"] or row["excused"]
    assert row["marks_of_theirs"] or row["excused"]


@pytest.mark.parametrize("name", QUICK)
def test_small_models(name: str) -> None:
    _check(name, ())


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*item, id=f"{item[0]}-{checks.show_options(item[1])}") for item in checks.model_items()],
)
def test_models(name: str, options: Options) -> None:
    _check(name, options)
