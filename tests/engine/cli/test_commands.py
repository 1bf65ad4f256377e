"""What the commands do when all is well."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import torch

from apportion import engine
from apportion.engine.cli import settings
from apportion.engine.cli.demo_model import SmallVision, example_inputs
from apportion.engine.cli.main import COMMANDS

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs" / "report.schema.json").read_text())


def test_version_and_help(apportion) -> None:
    assert apportion("--version").out == f"apportion {engine.__version__}\n"
    for command in COMMANDS:
        shown = apportion(command.name, "--help")
        assert shown.status == 0 and "Usage: apportion " + str(command.name) in shown.out


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "apportion.engine", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"apportion {engine.__version__}\n")


def test_partition_prints_the_report(apportion, model: Path, rules: Path, tmp_path: Path) -> None:
    run = apportion("partition", model, "--rules", rules, "--json", tmp_path / "report.json", "--as-it-is")
    result = engine.partition(torch.export.load(model), engine.load_rules(str(rules)))
    assert run.status == 0
    assert run.out == f"{result.report}\n"
    assert "2 of 3 nodes" in run.out and "aten.cumsum.default" in run.out
    document = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert document == result.report.to_json()


def test_json_on_standard_output_is_alone_there(apportion, model: Path, rules: Path) -> None:
    run = apportion("partition", model, "--rules", rules, "--json", "-")
    jsonschema.validate(json.loads(run.out), SCHEMA)


def test_partition_preserves_what_the_rules_claim(apportion, model: Path, rules: Path) -> None:
    kept = json.loads(apportion("partition", model, "--rules", rules, "--json", "-").out)
    assert kept["nodes"]["claimed"] == 2, kept
    other = rules.with_name("other.rules")
    other.write_text('backend "Other" language 1 rule relu { match y = aten.relu.default(x) }')
    run = json.loads(apportion("partition", model, "--rules", other, "--json", "-").out)
    assert "aten.addmm.default" in {entry["op"] for entry in run["left"]}


def test_settings_reach_the_files_that_declare_them(apportion, model: Path, rules: Path) -> None:
    def claimed(*settings: str) -> int:
        arguments = [word for setting in settings for word in ("--set", setting)]
        run = apportion("partition", model, "--rules", rules, "--rules", "xnnpack", *arguments, "--json", "-")
        assert run.status == 0, run.err
        return json.loads(run.out)["backends"][0]["claimed"]

    assert claimed() == 2
    assert claimed("modes=exact") == 1
    assert claimed("max_rank=1", "modes={exact, fast}") == 1


@pytest.mark.parametrize(("text", "value"), [
    ("max_rank=3", {"max_rank": 3}), ("modes=fast,exact", {"modes": {"fast", "exact"}}),
    ("modes=", {"modes": set()}), ('level="high"', {"level": "high"}), ("scale=2", {"scale": 2.0}),
    ("strict=true", {"strict": True}), ("strict=false", {"strict": False}),
])
def test_settings_are_of_their_options_type(text: str, value: dict[str, object], rules: Path) -> None:
    (loaded,) = settings.load([str(rules)], [text])
    (name,) = value
    assert loaded.options[name] == value[name] and type(loaded.options[name]) in {type(value[name]), frozenset, tuple}


def test_strict_says_no_where_a_node_is_left(apportion, model: Path, rules: Path) -> None:
    assert apportion("partition", model, "--rules", rules, "--strict").status == 1
    assert apportion("partition", model, "--rules", rules, "--only", "aten.relu.default").status == 0


def test_exclude_is_a_reason(apportion, model: Path, rules: Path) -> None:
    run = apportion("partition", model, "--rules", rules, "--exclude", "relu", "--json", "-")
    reasons = {entry["node"]: entry["kind"] for entry in json.loads(run.out)["left"]}
    assert reasons["relu"] == "excluded by user"


def test_check_tells_fine_from_failing_from_broken(apportion, rules: Path, tmp_path: Path) -> None:
    fine = apportion("check", rules)
    assert (fine.status, fine.out) == (0, f"{rules}: 2 rules, 1 example: 1 hold\n")
    failing = tmp_path / "failing.rules"
    failing.write_text('backend "A" language 1 rule r { match y = aten.relu.default(x)  require x.rank == 2\n'
                       "accepts aten.relu.default(float32[2])\naccepts aten.relu.default(float32[2,2]) }")
    run = apportion("check", rules, failing)
    assert run.status == 1 and "failing.rules:2:1" in run.out and "1 hold, 1 fail" in run.out
    broken = tmp_path / "broken.rules"
    broken.write_text('backend "A" language 1 rule r { match y = aten.rleu.default(x) require x.dtype == 3 }')
    run = apportion("check", failing, broken, rules)
    assert run.status == 2 and "error[A002]" in run.err and "error[A004]" in run.err and "aten.relu" in run.err
    assert "2 rules, 1 example" in run.out, "the files after a broken one are checked too"


def test_check_takes_libraries_and_shipped_files(apportion, tmp_path: Path) -> None:
    library = tmp_path / "library.rules"
    library.write_text("ops moves = {aten.view.default}")
    run = apportion("check", library)
    assert (run.status, run.err) == (0, "") and "a library" in run.out
    for name in engine.shipped_rules():
        run = apportion("check", name)
        assert run.status == 0, run.out + run.err


def test_check_imports_what_externs_call(apportion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_host.py").write_text(
        "from apportion import engine\n@engine.predicate('acme_wide')\ndef wide(node): return node.rank > 1\n")
    rules = tmp_path / "e.rules"
    rules.write_text('backend "A" language 1 extern acme_wide(n) rule r { match y = aten.relu.default(x)\n'
                     "require acme_wide(y) accepts aten.relu.default(float32[2,2]) }")
    monkeypatch.chdir(tmp_path)
    assert apportion("check", rules).status == 1
    assert apportion("check", rules, "--import", "acme_host").status == 0


def test_new_writes_a_file_that_claims_the_model(apportion, model: Path, tmp_path: Path) -> None:
    target = tmp_path / "my-npu.rules"
    run = apportion("new", target, "--from", model)
    assert run.status == 0, run.err
    text = target.read_text()
    assert 'backend "MyNpu" language 1' in text and "aten.cumsum.default" in text and "float32" in text
    assert apportion("check", target).status == 0
    report = json.loads(apportion("partition", model, "--rules", target, "--json", "-").out)
    assert report["nodes"]["claimed"] == report["nodes"]["total"] and report["left"] == []
    again = apportion("new", target, "--from", model)
    assert again.status == 2 and "--force" in again.err
    assert apportion("new", target, "--from", model, "--force").status == 0
    shown = apportion("new", "-", "--from", model, "--backend", "MyNpu")
    assert shown.status == 0 and shown.out == target.read_text()


class Odd(torch.nn.Module):
    """Lists, several outputs, absent arguments, symbolic sizes, a branch, randomness, a mutated buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.conv = torch.nn.Conv1d(4, 4, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.seen.add_(1)
        y = torch.cat([self.conv(x), x, x.relu()], dim=1)
        values, places = torch.topk(y, 2)
        y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))
        return y.reshape(x.shape[0], -1), values, places, torch.rand(3) + self.seen


def test_new_reads_odd_programs(apportion, tmp_path: Path) -> None:
    path = tmp_path / "odd.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Odd(), (torch.randn(3, 4, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    for flag in ("--decompose", "--as-it-is"):
        run = apportion("new", tmp_path / "odd.rules", "--from", path, "--force", flag)
        assert run.status == 0, run.err
        assert apportion("check", tmp_path / "odd.rules").status == 0
        report = json.loads(apportion("partition", path, flag, "-r", tmp_path / "odd.rules", "--json", "-").out)
        assert report["nodes"]["claimed"] > report["nodes"]["total"] // 2


def test_demo_partitions_with_torch_alone(apportion) -> None:
    run = apportion("demo", "--no-run")
    assert run.status == 0
    assert "XnnpackBackend" in run.out and "aten.topk.default" in run.out


def test_demo_runs_on_executorch(apportion) -> None:
    pytest.importorskip("executorch")
    run = apportion("demo")
    assert run.status == 0, run.out + run.err
    assert "largest difference from eager PyTorch" in run.out and "classes agree" in run.out


def test_the_demo_model_is_what_its_docstring_says() -> None:
    values, classes = SmallVision().eval()(*example_inputs())
    assert values.shape == classes.shape == (1, 3) and classes.max() < 10


def in_terminal(arguments: list[str]) -> str:
    """What a command prints where both its streams are a terminal."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "apportion.engine", *arguments], stdout=theirs, stderr=theirs,
                               env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    process.wait()
    os.close(ours)
    return shown.decode()


def test_colours_and_progress_are_for_terminals(model: Path, rules: Path) -> None:
    shown = in_terminal(["partition", str(model), "--rules", str(rules)])
    assert "partitioning ..." in shown and "\x1b[" in shown
    broken = rules.with_name("broken.rules")
    broken.write_text("rule")
    assert "\x1b[1;31merror[" in in_terminal(["check", str(broken)])


def test_a_closed_pipe_is_no_error(model: Path, rules: Path) -> None:
    command = f"{sys.executable} -m apportion.engine partition {model} -r {rules} | true"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in run.stderr and "Exception" not in run.stderr


def test_runs_are_independent(apportion: Callable[..., object], rules: Path) -> None:
    assert apportion("check", rules) == apportion("check", rules)
