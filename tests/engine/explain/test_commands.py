"""The commands: explain, blockers, what-if, coverage, docs."""

from __future__ import annotations

import json
import operator
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from apportion.engine.cli.main import main
from tests.engine.explain.models import RULES, program

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    torch.export.save(program("attention"), folder / "m.pt2")
    text = RULES["strict"].replace("<= 64", "<= 4096").replace("partition { min_nodes = 2 }", "")
    (folder / "r.rules").write_text(text)
    return folder


def run(folder: Path, capsys: pytest.CaptureFixture[str], command: str, *more: str) -> tuple[int, str, str]:
    status = main([command, str(folder / "m.pt2"), "--rules", str(folder / "r.rules"), "--as-it-is", *more])
    out, error = capsys.readouterr()
    return status, out, error


def test_explain(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(here, capsys, "explain", "--op", "aten.bmm")
    assert status == 0
    assert "product" in out and "would do: b is constant or b.numel" in out and "weights are packed" in out
    status, out, _ = run(here, capsys, "explain")
    assert "and 1 more: " in out
    files = [str(here / name) for name in ("e.json", "e.html", "e.dot", "e.me.json")]
    status, out, error = run(here, capsys, "explain", "--relax", "r.rules:25", "--json", files[0], "--html", files[1],
                             "--dot", files[2], "--model-explorer", files[3])
    assert status == 0 and error.count("wrote") == 4 and "what if" in out and "gained: " in out
    assert json.loads(Path(files[0]).read_text())["schema"] == "apportion.explanation/1"
    assert "side by side" in Path(files[1]).read_text()


def test_unknown_names_end_with_status_2(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        (("--node", "bmmm"), "did you mean `bmm`"),
        (("--op", "aten.sofmax"), "did you mean `aten._softmax`"),
        (("--module", "nrm"), "did you mean `norm`"),
        (("--assume", "unarie.5"), "did you mean `unary`"),
        (("--relax", "r.rules:1"), "no condition in line 1"),
    ):
        status, _, error = run(here, capsys, "explain", *more)
        assert status == 2 and message in error, error


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        ("blockers", ("-k", "0"), "0 is not in the range"),
        ("blockers", ("-k", "-2"), "-2 is not in the range"),
        ("blockers", ("--top", "0"), "0 is not in the range"),
        ("blockers", ("--backend", "Strikt"), "did you mean `Strict`"),
        ("explain", ("--html", ""), "--html: a file name is missing"),
        ("explain", ("--html", "{here}"), "is a directory"),
        ("explain", ("--dot", "{here}/no/where.dot"), "does not exist"),
        ("explain", ("--html", "{here}/x", "--dot", "{here}/x"), "--html and --dot both write to"),
        ("explain", ("--json", "-", "--html", "-"), "both write to standard output"),
        ("explain", ("--html", "{here}/m.pt2"), "is read by the same command"),
        ("partition", ("--json", "{here}/r.rules"), "is read by the same command"),
        ("explain", ("--relax", "r.rules:²"), "write it as FILE:LINE"),
        ("explain", ("--assume", ""), "there are binary"),
        ("what-if", ("--relax", ":3"), "write it as FILE:LINE"),
    ],
)
def test_odd_values_are_told(here: Path, capsys: pytest.CaptureFixture[str], command: str, more: tuple[str, ...],
                             message: str) -> None:
    before = (here / "m.pt2").read_bytes()
    status, out, error = run(here, capsys, command, *(text.format(here=here) for text in more))
    assert status == 2 and message in error and "internal error" not in error, error
    assert out == "", "nothing is printed before"
    assert (here / "m.pt2").read_bytes() == before


@pytest.mark.parametrize("command", ["explain", "blockers", "what-if", "partition"])
def test_a_program_that_is_cut_off(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    cut = here / "cut.pt2"
    cut.write_bytes((here / "m.pt2").read_bytes()[:5000])
    assert main([command, str(cut), "--rules", str(here / "r.rules")]) == 2
    assert "cut.pt2: is cut off or damaged" in capsys.readouterr()[1]


def test_patterns_that_mean_nothing_get_near_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(here, capsys, "explain", "--exclude", "bmmm", "--exclude", "bmm", "--node", "bmm")
    assert status == 0 and error.count("note:") == 1
    assert "`bmmm` is the name of no node, op or module of this program; did you mean `bmm`" in error


@pytest.mark.parametrize(
    ("command", "option", "start"),
    [("explain", "--json", "{"), ("explain", "--html", "<!doctype html>"), ("explain", "--dot", "digraph"),
     ("explain", "--model-explorer", "{"), ("partition", "--json", "{"), ("partition", "--html", "<!doctype html>")],
)
def test_a_dash_is_standard_output(here: Path, capsys: pytest.CaptureFixture[str], command: str, option: str,
                                   start: str) -> None:
    status, out, _ = run(here, capsys, command, option, "-", "--relax", "r.rules:25")
    assert status == 0 and out.startswith(start)
    if start == "{":
        json.loads(out)


@pytest.mark.parametrize(
    ("command", "more", "name"),
    [
        ("partition", ("--json", "-"), "report"),
        ("explain", ("--json", "-"), "explanation"),
        ("explain", ("--json", "-", "--op", "aten.*"), "explanation"),
        ("blockers", ("--json",), "blockers"),
        ("what-if", ("--json", "--relax", "r.rules:25"), "difference"),
        ("coverage", ("--json",), "coverage"),
    ],
)
def test_json_keeps_its_schema(here: Path, capsys: pytest.CaptureFixture[str], command: str, more: tuple[str, ...],
                               name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="pip install jsonschema checks documents")
    status, out, _ = run(here, capsys, command, *more)
    data, schema = json.loads(out), json.loads((DOCS / f"{name}.schema.json").read_text())
    assert status == 0 and data["schema"] == schema["title"]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "more": 1}, schema)


def test_graphviz_reads_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("no graphviz (Debian: apt-get install graphviz)")
    _, out, _ = run(here, capsys, "explain", "--dot", "-")
    drawn = subprocess.run([dot, "-Tplain"], input=out, capture_output=True, text=True, timeout=60)
    assert drawn.returncode == 0 and drawn.stderr == ""
    calls = [n for n in program("attention").graph.nodes if n.op == "call_function"]
    names = [line.split('"')[1].split("\\n")[0] for line in drawn.stdout.splitlines() if line.startswith("node ")]
    assert sorted(names) == sorted(n.name for n in calls if n.target is not operator.getitem)


def test_model_explorer_finds_its_nodes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its adapter for .pt2 files calls the graph `graph`, and each node by its FX name."""
    _, out, _ = run(here, capsys, "explain", "--model-explorer", "-")
    ((name, data),) = json.loads(out).items()
    saved = {node.name for node in torch.export.load(here / "m.pt2").graph.nodes}
    assert name == "graph" and set(data) == {"results", "thresholds"} and set(data["results"]) <= saved
    assert all(set(one) == {"value", "bgColor"} for one in data["results"].values())


def test_blockers(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(here, capsys, "blockers", "-k", "2")
    assert status == 0 and "best together" in out and "aten.native_layer_norm.default" in out
    status, out, _ = run(here, capsys, "blockers", "--json", "--by", "nodes")
    data = json.loads(out)
    assert data["schema"] == "apportion.blockers/1"
    gains = [b["claimed"] for b in data["blockers"]]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0


def test_what_if(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(here, capsys, "what-if", "--assume", "product.25", "--json")
    data = json.loads(out)
    assert data["schema"] == "apportion.difference/1"
    assert status == 0 and data["after"]["claimed"] > data["before"]["claimed"]
    assert len(data["gained"]) == data["after"]["claimed"] - data["before"]["claimed"] + len(data["lost"])


def test_partition_with_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = here / "p.html"
    status, out, _ = run(here, capsys, "partition", "--relax", "r.rules:25", "--html", str(page))
    assert status == 0 and "nodes claimed" in out and "what if" in out
    assert page.read_text().startswith("<!doctype html>")


def test_docs_and_coverage(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", str(here / "r.rules")]) == 0
    assert "weights are packed ahead of time: `b is constant" in capsys.readouterr()[0]
    assert main(["docs", "xnnpack", "--html", str(here / "x.html"), "--markdown", str(here / "x.md")]) == 0
    assert "aten.convolution.default" in (here / "x.md").read_text()
    capsys.readouterr()
    arguments = ["coverage", str(here / "m.pt2"), "--rules", str(here / "r.rules"), "--rules", "xnnpack", "--as-it-is"]
    assert main(arguments) == 0
    out = capsys.readouterr()[0]
    assert out.count("m.pt2") == 2 and "%" in out
    assert main([*arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr()[0])["results"]) == 2
    assert main(["coverage", str(here / "none.pt2"), "--rules", "xnnpack"]) == 1
    assert capsys.readouterr()[1] == "error: none.pt2: no such file or directory\n"
    assert main(["docs", str(here / "r.rules"), "--html", "-"]) == 0
    assert capsys.readouterr()[0].startswith("<!doctype html>")
    assert main(["docs", str(here / "r.rules"), "--html", str(here / "r.rules")]) == 2
    assert "is read by the same command" in capsys.readouterr()[1]
