"""Every node that is left has a reason, and the reason is true; what is printed is what the metadata says."""

from __future__ import annotations

import pytest

from apportion import engine
from apportion.engine.reasons import Cause
from tests.engine.explain.kinds import CASES
from tests.engine.explain.models import MODELS, RULES, program
from tests.engine.explain.replay import UNDO, Setup, identity, judge, reason_of, without
from tests.engine.explain.seen import value_of

QUICK = ("recurrent", "branches", "doubles")


@pytest.mark.parametrize("rules", list(RULES))
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in MODELS])
def test_every_reason_is_true(name: str, rules: str) -> None:
    found = judge(Setup(program(name), (RULES[rules],)))
    assert found.wrong == ()
    assert found.reasons == found.left == found.claimed + found.later


@pytest.mark.parametrize("case", list(CASES))
def test_reasons_of_every_kind_are_true(case: str) -> None:
    kind, made = CASES[case]
    found = judge(made())
    assert found.wrong == () and found.reasons == found.left
    assert kind in found.kinds


def test_what_is_replayed_is_every_kind_of_reason() -> None:
    """What was lowered already is somebody else's call; where the search gave up, no obstacle is named."""
    assert {cause.value for cause in Cause} - set(UNDO) == {Cause.LOWERED.value, Cause.GAVE_UP.value}


def test_the_check_can_fail() -> None:
    """A reason that names another requirement is caught: the replay then gives the same reason again."""
    text = RULES["strict"]
    setup = Setup(program("doubles"), (text,))
    left = next(r for r in setup.report().left if r.condition == "n.dtype in floats")
    line = next(i for i, one in enumerate(text.split("\n"), 1) if "works on matrices" in one)
    after = reason_of(Setup(setup.program, (without(text, f"r0.rules:{line}:3"),)).report(), left)
    assert after is not None and identity(after) == identity(left)


def test_a_wrong_value_is_caught() -> None:
    from attrs import evolve

    from tests.engine.explain.replay import checked_values

    setup = Setup(program("doubles"), (RULES["strict"],))
    left = next(r for r in setup.report().left if r.condition == "n.dtype in floats")
    assert checked_values(setup, left, setup) == 1
    with pytest.raises(AssertionError, match="is printed as float32, and is float64"):
        checked_values(setup, evolve(left, observed=(("n.dtype", "float32"),)), setup)
    with pytest.raises(NameError):
        value_of("q.rank", {})


def test_two_backends_each_tell_their_own() -> None:
    """A node that two files name, and neither takes, has the reason of the one that came further."""
    texts = ('backend "A" language 1 rule r { match y = aten.relu.default(x)  require x.rank == 9 }',
             """backend "B" language 1
                rule r { match y = aten.relu.default(x)  require x.rank > 0  require x.rank == 8 }""")
    found = engine.partition(program("residual"), [engine.parse_rules(text) for text in texts]).report
    reason = next(r for r in found.left if r.op == "aten.relu.default")
    assert (reason.backend, reason.condition) == ("B", "x.rank == 8")
