"""TorchDynamo's registry, put back as it was after a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch._dynamo as dynamo
from torch._dynamo.backends import registry

__all__ = ["restored"]


@contextmanager
def restored() -> Iterator[None]:
    """What is registered inside is gone afterwards."""
    dynamo.list_backends()
    backends, functions = dict(registry._BACKENDS), dict(registry._COMPILER_FNS)
    try:
        yield
    finally:
        for table, before in ((registry._BACKENDS, backends), (registry._COMPILER_FNS, functions)):
            table.clear()
            table.update(before)
