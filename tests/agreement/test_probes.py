"""Small calls on both sides of each condition of each configuration, judged by the real partitioner."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("executorch")

from apportion.engine.examples import run_examples
from apportion.engine.load import load_rules
from apportion.grammar import tree
from apportion.grammar.parse import parse
from tests.agreement import checks
from tests.agreement.cache import ROOT
from tests.agreement.compare import compare, ours
from tests.agreement.edge import edge_program, load_libraries
from tests.agreement.probes import PROBES, Probe, all_probes
from tests.agreement.record import OPTION_SETS, judge, options_of

FILE: Path = ROOT / "rules" / "xnnpack.rules"


def test_every_configuration_has_probes() -> None:
    from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS

    assert len(ALL_PARTITIONER_CONFIGS) == 52
    assert {config.target_name for config in ALL_PARTITIONER_CONFIGS} == set(PROBES)


def _claimed_whole(probes: Iterable[Probe]) -> set[bool]:
    """Both partitioners agree on the probes by default; whether the real one claims all of a probe, or not."""
    rules = load_rules("xnnpack")
    verdicts = set()
    for probe in probes:
        program = edge_program(probe.text, probe.returned)
        theirs = judge(program)
        assert not theirs.error
        compared = compare(probe.text, program, (), theirs, ours(program, (), rules))
        assert compared.agrees, (probe.text, compared.only_theirs, compared.only_ours)
        verdicts.add(len(theirs.claimed) == compared.nodes)
    return verdicts


def _probes(config: str) -> list[Probe]:
    return [probe for probe in all_probes() if probe.config == config]


@pytest.mark.parametrize("config", list(PROBES))
def test_every_fourth_probe(config: str) -> None:
    assert _claimed_whole(_probes(config)[::4])


@pytest.mark.full
@pytest.mark.parametrize("config", list(PROBES))
def test_probes_by_default(config: str) -> None:
    verdicts = _claimed_whole(_probes(config))
    assert verdicts == {True, False} or config.endswith("_affine.default"), "probes on one side only"


@pytest.mark.full
@pytest.mark.parametrize("config", list(PROBES))
def test_probes_under_every_option(config: str) -> None:
    for probe in all_probes():
        if probe.config == config:
            for row in checks.probe_row(probe):
                assert row["agrees"] and not row["error"], row
                assert row["marks_of_theirs"] or row["excused"], row
                if row["options"] == "per_op_mode" and not row["excused"]:
                    assert row["same_groups"], row


def _examples() -> list[tree.Example]:
    parsed = parse(FILE.read_text(), str(FILE))
    assert parsed.file is not None
    rules = [statement for statement in parsed.file.statements if isinstance(statement, tree.Rule)]
    return [clause for rule in rules for clause in rule.body if isinstance(clause, tree.Example)]


def _options(example: tree.Example) -> dict[str, object]:
    given: dict[str, object] = {}
    for name, value in example.options:
        if isinstance(value, tree.SetExpr):
            given[name] = tuple(item.value for item in value.items if isinstance(item, tree.Literal))
        elif isinstance(value, tree.Literal):
            given[name] = value.value
    return given


@pytest.mark.parametrize("example", _examples(), ids=lambda example: f"line-{example.span.line}")
def test_examples_of_the_file_agree(example: tree.Example) -> None:
    """The real partitioner says the same of each example of the file, or is shown to be wrong."""
    text = FILE.read_text()
    first, last = example.steps[0], example.steps[-1]
    body = text[first.span.start : last.span.end]
    single = len(example.steps) == 1 and first.name is None
    program = edge_program(body if single else f"{{ {body} }}")
    options = options_of(_options(example))
    theirs = judge(program, options)
    compared = compare(body, program, options, theirs, ours(program, options))
    assert compared.agrees, (compared.only_theirs, compared.only_ours)


def test_examples_of_the_file_hold() -> None:
    load_libraries()
    results = run_examples(load_rules("xnnpack"))
    assert len(results) >= 50
    assert [(r.rule, str(r.span), r.message) for r in results if r.outcome != "holds"] == []


def test_option_sets_cover_every_value() -> None:
    precisions = {tuple(sorted(given["precisions"])) for given in OPTION_SETS if "precisions" in given}  # type: ignore[call-overload]
    assert len(precisions) == 6  # all non-empty subsets but the default, which is all three
    names = {name for given in OPTION_SETS for name in given}
    assert names == set(load_rules("xnnpack").option_decls)
