"""What-ifs and blockers, checked by doing: the file is edited, partitioned, and gives what was predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from apportion import engine
from apportion.engine.explain.blockers import ORDERS, find_blockers
from apportion.engine.explain.changes import Changes, assumed, relaxed
from apportion.engine.explain.study import Outcome, Study
from tests.agreement.models import missing_libraries
from tests.engine.explain.blocking import FIVE, REAL, THREE, real, small
from tests.engine.explain.models import RULES, program
from tests.engine.programs import exported


def done(name: str, text: str) -> engine.PartitionResult:
    """The file as it is written, partitioned afresh."""
    return engine.partition(program(name), engine.parse_rules(text, "r.rules"))


def numbers(result: engine.PartitionResult) -> dict[str, int]:
    """What `Outcome` predicts, read off a result."""
    parts = result.partitions
    return {
        "claimed": result.report.claimed, "total": result.report.nodes_total, "ops_claimed": result.report.ops_claimed,
        "ops_total": result.report.ops_total, "partitions": len(parts), "bytes_in": sum(p.bytes_in for p in parts),
        "bytes_out": sum(p.bytes_out for p in parts), "constant_bytes": sum(p.constant_bytes for p in parts),
    }  # fmt: skip


def claimed(outcome: Outcome) -> set[str]:
    return {node for _, _, node in outcome.nodes}


QUICK = ("several", "branches")


@pytest.mark.parametrize("rules", THREE)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.full) for n in FIVE])
def test_blockers_predict_what_happens(name: str, rules: str, tmp_path: Path) -> None:
    """Ops, conditions, pairs, the best few together: the edited file gives what was foretold."""
    found = small(name, rules, tmp_path)
    assert found.ops > 0 and found.several > 0
    assert found.wrong == ()


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", REAL)
def test_blockers_predict_what_happens_to_models(name: str, tmp_path: Path) -> None:
    """The same under XNNPACK's rules, whose conditions lie in several files."""
    pytest.importorskip("executorch", reason="pip install executorch brings the graphs that XNNPACK is given")
    if missing := missing_libraries(name):
        pytest.skip(f"pip install {' '.join(missing)} builds this model")
    assert real(name, tmp_path).wrong == ()


def test_conditions_as_blockers() -> None:
    text = RULES["strict"]
    found = find_blockers(program("mlp"), engine.parse_rules(text, "r.rules"), kinds=("condition",), by="nodes")
    assert found.single[0].kind == "condition"
    numbers_ = [b.difference.after.claimed for b in found.single]
    assert numbers_ == sorted(numbers_, reverse=True)
    for blocker in found.single:
        line = int(blocker.name.split(":")[1])
        assert blocker.difference.after.to_json() == numbers(done("mlp", blanked(text, line))), blocker.name


def blanked(text: str, line: int) -> str:
    """The file without the requirement that is all of a line."""
    lines = text.split("\n")
    assert lines[line - 1].lstrip().startswith(("require", "trim", "reject"))
    lines[line - 1] = ""
    return "\n".join(lines)


def test_greedy_is_never_better_than_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.engine.explain import blockers

    rules = engine.parse_rules(RULES["strict"], "r.rules")
    exact = find_blockers(program("attention"), rules, together=2, kinds=("op",))
    monkeypatch.setattr(blockers, "_EXACT", 0)
    greedy = find_blockers(program("attention"), rules, together=2, kinds=("op",))
    assert exact.exact and not greedy.exact
    rank = ORDERS["partitions"]
    for (_, one), (_, other) in zip(exact.together, greedy.together, strict=True):
        assert rank(one.after) <= rank(other.after)


def test_nothing_is_tagged_by_a_study() -> None:
    one = program("residual")
    engine.partition(one, engine.parse_rules(RULES["patterns"], "r.rules"))
    before = {n.name: n.meta.get("delegation_tag") for n in one.graph.nodes}
    find_blockers_study = Study.of(one, engine.parse_rules(RULES["all"], "r.rules"))
    find_blockers_study.outcome()
    find_blockers_study.outcome(Changes(claimed=("aten.erf.default",)))
    assert before == {n.name: n.meta.get("delegation_tag") for n in one.graph.nodes}


@pytest.mark.parametrize("line", [5, 6, 11, 17, 19, 20, 30, 31])
@pytest.mark.parametrize("name", ["doubles", "dynamic", "attention"])
def test_relaxing_a_line_is_as_if_it_were_not_there(name: str, line: int) -> None:
    text = RULES["strict"]
    rules = engine.parse_rules(text, "r.rules")
    study = Study.of(program(name), rules)
    if not text.split("\n")[line - 1].lstrip().startswith("require"):
        with pytest.raises(engine.OptionError, match="has no condition in line"):
            relaxed([rules], f"r.rules:{line}")
        return
    assert study.outcome(relaxed([rules], f"r.rules:{line}")).to_json() == numbers(done(name, blanked(text, line)))


def test_relaxing_a_limit_and_a_cutoff() -> None:
    text = RULES["strict"]
    rules = engine.parse_rules(text, "r.rules")
    line = next(i for i, one in enumerate(text.split("\n"), 1) if "min_nodes" in one)
    study = Study.of(program("residual"), rules)
    after = study.outcome(relaxed([rules], f"r.rules:{line}"))
    assert after.to_json() == numbers(done("residual", text.replace("min_nodes = 2", "")))
    other = RULES["patterns"]
    rules = engine.parse_rules(other, "r.rules")
    line = next(i for i, one in enumerate(other.split("\n"), 1) if "reject" in one)
    after = Study.of(program("residual"), rules).outcome(relaxed([rules], f"r.rules:{line}"))
    assert after.to_json() == numbers(done("residual", blanked(other, line)))


def test_assuming_is_for_one_rule() -> None:
    rules = engine.parse_rules(RULES["strict"], "r.rules")
    one = exported(lambda x, y: torch.relu(x.double() + y.double()), torch.randn(2, 2), torch.randn(2, 2))
    study = Study.of(one, rules)
    alone = relaxed([rules], "r.rules:34")  # nodes may be alone
    for_unary = study.outcome(alone | assumed([rules], "unary.6"))  # the contract's line, where unary applies it
    assert claimed(for_unary) == {"relu"}
    everywhere = study.outcome(alone | relaxed([rules], "r.rules:6"))
    assert claimed(everywhere) == {"relu", "add"}


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        (assumed, "unari.6", "did you mean `unary`"),
        (assumed, "unary.99", "it has some in lines 5, 6, 11"),
        (relaxed, "r.rules:1", "it has some in lines"),
        (relaxed, "other.rules:3", "there are some in r.rules"),
        (relaxed, "nonsense", "write it as FILE:LINE"),
    ],
)
def test_bad_places(function: Any, text: str, message: str) -> None:
    with pytest.raises(engine.OptionError, match=message):
        function([engine.parse_rules(RULES["strict"], "r.rules")], text)


def test_bad_words() -> None:
    rules = engine.parse_rules(RULES["strict"], "r.rules")
    with pytest.raises(engine.OptionError, match="there are partitions, bytes, nodes"):
        find_blockers(program("mlp"), rules, by="size")
    with pytest.raises(engine.OptionError, match="together is 1 or more"):
        find_blockers(program("mlp"), rules, together=0)
    with pytest.raises(engine.OptionError, match="did you mean `Strict`"):
        find_blockers(program("mlp"), rules, backend="Strikt")
