"""Functions of the host program: registered or not, what they give, promises about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apportion.engine import externs
from apportion.engine.errors import PredicateError
from apportion.engine.externs import predicate, registered_predicates
from apportion.engine.load import parse_rules
from apportion.engine.values import Unknown
from tests.engine.compile.evaluating import node

TEXT = """backend "Test" language 1
extern probe(n)                "a condition"
extern channel(n, k): int      "a number"
extern other(n)
disjoint probe, other
rule r {
  match y = aten.relu.default(x)
  require probe(y)
  require channel(y, 2) == 3
  require other(y)
  take y
}
"""


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(externs, "_PREDICATES", {})
    yield


def verdicts() -> list[Any]:
    (rule,) = parse_rules(TEXT).rules
    frame: list[Any] = [None] * rule.frame_size
    frame[rule.takes[0]] = node("relu")
    return [step.evaluate(frame) for step in rule.steps]


def test_none_is_registered() -> None:
    assert verdicts() == [
        Unknown("extern probe is not registered by the host program"),
        Unknown("extern channel is not registered by the host program"),
        Unknown("extern other is not registered by the host program"),
    ]
    assert set(parse_rules(TEXT).externs) == {"probe", "channel", "other"}


def test_they_get_values_and_plain_data() -> None:
    seen: list[Any] = []

    @predicate("channel")
    def channel(*arguments: Any) -> int:
        seen.extend(arguments)
        return 3

    @predicate("probe")
    def probe(n: Any) -> bool:
        return bool(n.rank == 4)

    assert verdicts()[:2] == [True, True]
    assert seen == [node("relu"), 2]
    assert registered_predicates() == ["channel", "probe"]


def test_one_that_raises_is_unknown() -> None:
    @predicate("probe")
    def probe(n: Any) -> bool:
        raise KeyError("oops")

    assert verdicts()[0] == Unknown("extern probe raised KeyError: 'oops'")


def test_one_that_gives_something_else_is_unknown() -> None:
    predicate("probe")(lambda n: 1)
    predicate("channel")(lambda n, k: True)
    assert verdicts()[:2] == [
        Unknown("extern probe gave int instead of bool"),
        Unknown("extern channel gave bool instead of int"),
    ]


def test_a_broken_promise_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    predicate("probe")(lambda n: True)
    predicate("other")(lambda n: True)
    first, _, second = verdicts()
    assert first is True
    assert isinstance(second, Unknown)
    assert "probe and other are both true" in second.reason
    assert "promises that they never are" in caplog.text


def test_names_must_be_names() -> None:
    with pytest.raises(PredicateError, match="is no name"):
        predicate("two words")
    with pytest.raises(PredicateError):
        predicate(len)  # type: ignore[arg-type]
