"""Python's garbage collector, paused while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from running inside.

    It would walk all objects of torch and of the program again and again, only because new ones are made quickly; that
    is a third of the time of a run. What is no cycle is freed at once all the same.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what was made becomes old without being walked
            gc.freeze()
            gc.unfreeze()
        gc.enable()
