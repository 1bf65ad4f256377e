"""What every test runs under: one thread of torch's, and the two lengths of the random tests."""

from __future__ import annotations

import faulthandler
import logging
import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# The suite runs one process a core; more threads in each only wait for each other.
torch.set_num_threads(1)

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("short", max_examples=200, derandomize=True, **_COMMON)
settings.register_profile("full", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What an ordinary run leaves out may take its time."""
    for item in items:
        if item.get_closest_marker("full") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(7200))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """No stacks of what may take its time: writing them out in the middle of it can crash."""
    if item.get_closest_marker("full"):
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Each test starts from one seed, whatever ran before it."""
    torch.manual_seed(0)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("apportion") and isinstance(logger, logging.Logger):
            logger.disabled, logger.propagate = False, True
