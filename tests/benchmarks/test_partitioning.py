"""The benchmark in small: every side runs on every graph, all find the same, and what ours gives is valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apportion import engine
from apportion.engine.compile import patterns as p
from benchmarks import matchers, partitioning
from benchmarks.graphs import EXPORTED, GRAPHS, make
from benchmarks.partitioning import NORMS, SIDES, claimed, rules


@pytest.mark.parametrize("kind", GRAPHS)
def test_ours_makes_no_more_partitions_than_the_peer(kind: str) -> None:
    module = make(kind, 60)
    result = engine.partition(module, rules())
    assert {node for part in result.partitions for node in part.nodes} == claimed(module)
    assert len(claimed(module)) == result.report.claimed > 0
    assert len(result.partitions) == SIDES["ours"](module)() == SIDES["ours, 1,000 rules more"](module)()
    assert len(result.partitions) <= SIDES["capability"](module)()


def test_of_an_exported_decoder_all_but_norms_is_claimed() -> None:
    module = make(EXPORTED, 1)
    partitions = SIDES["ours, no norms"](module)()
    left = {str(node.target) for node in module.graph.nodes if node.op == "call_function"} - {
        str(node.target) for node in claimed(module)}
    assert left - {"<built-in function getitem>"} == set(NORMS)
    assert 1 < partitions <= SIDES["capability"](module)()


def test_there_are_50_rules_and_30_patterns_of_several_nodes() -> None:
    several = matchers.several(rules()).rules
    sinks = [[s for c in rule.pattern.choices for s in (c.root, *c.others)] for rule in several]
    optional = [any(isinstance(t, p.OptionalTerm) for s in one for t in p._walk(s.term)) for one in sinks]
    assert (len(rules().rules), len(several)) == (50, 30)
    assert sum(optional) >= 10


def test_all_matchers_find_the_same() -> None:
    module = make("quantized", 100)
    patterns = matchers.trees(rules(), matchers.argument_counts(module))
    found = matchers.named(matchers.our_matches(module, matchers.several(rules())))
    assert len(patterns) > 30 and len({len(nodes) for nodes in found}) == 4
    theirs = [getattr(matchers, side)(module, patterns)() for side in ("inductor_matches", "subgraph_matches")]
    assert [matchers.named(matches) for matches in theirs] == [found, found]


def test_a_graph_is_as_large_as_asked_for() -> None:
    for kind in GRAPHS:
        assert 100 <= sum(node.op == "call_function" for node in make(kind, 100).graph.nodes) < 130, kind


def test_rows_are_kept_and_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "rows.jsonl"
    rows = [
        {**row, "nodes": row["size"], "seconds": row["size"] / 1e6, "count": 1, "megabytes": 0.0, "turn": 0}
        for row in partitioning.plan([100, 1_000], 10, [], [], ["chain"], [])
    ]
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    few = ["--sizes", "100", "1000", "--graphs", "chain", "--largest", "10", "--turns", "1", "--limit", "0.01"]
    monkeypatch.setattr("sys.argv", ["x", *few, "--rows", str(kept)])
    partitioning.main()
    written = [json.loads(line) for line in kept.read_text().splitlines()]
    assert written[:-1] == rows[:-1] and written[-1]["side"] == rows[-1]["side"] and "failed" in written[-1]
    shown = capsys.readouterr().out
    assert "1.00" in shown and "more than 0 s" in shown


def test_beside_the_partitioner_of_executorch() -> None:
    pytest.importorskip("executorch")
    from benchmarks.partitioning import EDGE, _measure

    ours, theirs = (_measure(side, "edge", 20) for side in EDGE)
    assert ours["count"] == theirs["count"] == 1 and ours["nodes"] == theirs["nodes"] == 20
