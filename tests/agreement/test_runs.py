"""Models lowered with the rules' partitioner and run by ExecuTorch's runtime."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch")

from tests.agreement import checks
from tests.agreement.models import MODELS, missing_libraries


def _check(name: str) -> None:
    missing = missing_libraries(name)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    row = checks.run_row(name)
    assert row["delegated"] > 0 and row["delegates"] > 0
    assert row["right"] or row["runtime_differs"], row


@pytest.mark.parametrize("name", ["linear_stack", "linear_stack_static"])
def test_small_models_run(name: str) -> None:
    _check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", list(MODELS))
def test_models_run(name: str) -> None:
    _check(name)
