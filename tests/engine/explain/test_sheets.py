"""Support tables and coverage tables."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from apportion import engine
from apportion.engine.cli.coverage import prepare_as_it_is
from apportion.engine.explain.coverage import Measured, coverage
from apportion.engine.explain.sheets import sheet, sheet_html, sheet_markdown
from tests.engine.explain.models import RULES, program

TEXT = """backend "Acme" language 1 "Acme NPU"
option wide: bool = false "wide numbers too"
let types = {float32, float16}
contract plain(n) { require n.dtype in types because "floating point" }
rule act "activations" { match y = aten.{relu,tanh}.default(x)  require plain(y)  require x.rank <= 4 }
rule big { match y = aten.mm.default(a, b)  when option.wide  require y.dtype == float64 }
invariant small "fits" { match y = _  require y.numel <= 64 because "a | b" }
partition { min_nodes = 3  reject len(nodes) > 9 because "long" }
"""


def test_a_sheet_says_what_the_file_says() -> None:
    found = sheet(engine.parse_rules(TEXT))
    act, big = found.rules
    assert act.ops == ("aten.relu.default", "aten.tanh.default")
    assert act.conditions == (("n.dtype in types", "floating point"), ("x.rank <= 4", ""))
    assert set(act.dtypes) == {"float32", "float16"}
    assert (big.name, big.absent, big.dtypes) == ("big", True, ("float64",))
    assert found.ops == (("aten.relu.default", ("act",)), ("aten.tanh.default", ("act",)))
    assert found.options == (("wide", "bool", "false", "wide numbers too"),)
    assert any("min_nodes" in line for line in found.partition) and any("long" in line for line in found.partition)


def test_markdown_and_html() -> None:
    found = sheet(engine.parse_rules(TEXT))
    text = sheet_markdown(found)
    assert "| `aten.relu.default` | act |" in text
    assert "floating point: `n.dtype in types`<br>`x.rank <= 4`" in text
    assert "a \\| b" in text, "a bar in a sentence ends no cell"
    widths = {line.count("|") - line.count("\\|") for line in text.split("\n") if line.startswith("| `act`")}
    assert widths == {6}
    page = sheet_html(found)
    assert "<code>x.rank &lt;= 4</code>" in page and "http" not in page
    for name in engine.shipped_rules():
        loaded = engine.load_rules(name)
        assert sheet_markdown(sheet(loaded)).count("\n| `") >= len(loaded.rules) + len(loaded.invariants)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    folder = tmp_path_factory.mktemp("zoo")
    models, rules = [], []
    for name in ("attention", "residual"):
        models.append(str(folder / f"{name}.pt2"))
        torch.export.save(program(name), models[-1])
    for name in ("strict", "all"):
        rules.append(str(folder / f"{name}.rules"))
        Path(rules[-1]).write_text(RULES[name])
    return models, rules


def table(files: tuple[list[str], list[str]], executor: Any = None) -> list[Measured]:
    models, rules = files
    heard: list[Measured] = []
    found = coverage(models, [(rules[0],), (rules[1], rules[0])], prepare_as_it_is, executor=executor,
                     progress=heard.append)
    assert sorted(map(str, heard)) == sorted(map(str, found))
    return found


def test_coverage_agrees_with_the_report_and_with_torch(files: tuple[list[str], list[str]]) -> None:
    found = table(files)
    assert [(m.model, m.problem) for m in found] == [("attention.pt2", "")] * 2 + [("residual.pt2", "")] * 2
    strict = engine.partition(program("attention"), engine.parse_rules(RULES["strict"])).report
    assert (found[0].claimed, found[0].total, found[0].share("ops")) == (
        strict.claimed, strict.nodes_total, strict.share_of_ops)  # fmt: skip
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        program("attention").module()(torch.randn(2, 6, 16))
    assert found[0].work_total == counter.get_total_flops()
    assert found[2].work_total == 0 and found[2].share("work") is None
    state = program("attention").state_dict
    assert found[0].weights_total >= sum(t.numel() * t.element_size() for t in state.values() if t.dim() < 3)
    assert found[1].claimed >= found[0].claimed


@pytest.mark.full
@pytest.mark.timeout(400)
def test_coverage_in_processes_is_the_same(files: tuple[list[str], list[str]]) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert table(files, executor) == table(files)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_coverage_on_dask(files: tuple[list[str], list[str]]) -> None:
    distributed = pytest.importorskip("distributed", reason="pip install distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster, timeout="60s") as client,
    ):
        assert table(files, client.get_executor()) == table(files)


def test_a_model_that_cannot_be_read_is_told(files: tuple[list[str], list[str]], tmp_path: Path) -> None:
    bad = tmp_path / "bad.pt2"
    bad.write_text("nothing")
    (found,) = coverage([str(bad)], [(files[1][0],)], prepare_as_it_is)
    assert found.total == 0 and "is not a .pt2 file" in found.problem
    with pytest.raises(engine.RulesError):
        coverage([str(bad)], [("nowhere.rules",)], prepare_as_it_is)
