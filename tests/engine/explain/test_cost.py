"""What reasons cost: recording them while matching, and putting them into words when asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from apportion import engine
from apportion.engine.candidates import Attempts
from apportion.engine.match import Search
from tests.engine.explain.graphs import RULES, layers
from tests.engine.explain.models import program


def seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.full
@pytest.mark.parametrize("which", ["layers", "attention"])
def test_recording_adds_at_most_30_percent(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = layers(2000) if which == "layers" else program(which)
    rules = engine.parse_rules(RULES) if which == "layers" else engine.load_rules("xnnpack")
    rounds = 7 if which == "layers" else 25
    engine.partition(one, rules)
    with_reasons, without = [], []
    for _ in range(rounds):  # turn by turn, so that both meet the same machine
        with_reasons.append(seconds(lambda: engine.partition(one, rules)))
        with monkeypatch.context() as patch:
            patch.setattr(Attempts, "note", lambda self, nodes, attempt: None)
            patch.setattr(Search, "_note", lambda self, term, argument: None)
            without.append(seconds(lambda: engine.partition(one, rules)))
    ratio = min(with_reasons) / min(without)
    print(f"{which}: {min(with_reasons):.3f} s with reasons, {min(without):.3f} s without: {ratio:.2f}")
    assert ratio <= 1.3
