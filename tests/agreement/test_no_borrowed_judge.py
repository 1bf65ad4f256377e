"""Neither rules nor adapter lean on the partitioner that they are compared with."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.engine.load import load_rules, shipped_rules
from apportion.grammar import tree
from apportion.grammar.parse import parse

ROOT = Path(__file__).parents[2]

JUDGED = "executorch.backends.xnnpack.partition"


def _imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_no_source_names_the_judged_partitioner() -> None:
    files = [file for folder in ("engine", "grammar", "backends", "rules") for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 30
    for file in files:
        named = _imports(file)
        assert not [name for name in named if "xnnpack.partition" in name or "XnnpackPartitioner" in name], file


@pytest.mark.parametrize("name", shipped_rules())
def test_shipped_rules_have_no_extern(name: str) -> None:
    rules = load_rules(name)
    for source in rules.sources:
        parsed = parse(source.text, source.name)
        assert parsed.file is not None
        assert not any(isinstance(statement, tree.ExternDecl) for statement in parsed.file.statements)


_PARTITION = """
import sys, torch
from apportion.backends.executorch import RulesPartitioner
from executorch.exir import to_edge

model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2)).eval()
program = torch.export.export(model, (torch.randn(1, 3, 8, 8),), strict=False)
partitioner = RulesPartitioner("xnnpack")
partitioner.ops_to_not_decompose(program.run_decompositions({}))
edge = to_edge(program).exported_program()
decision = partitioner.decide(edge)
assert decision.partition_tags, "nothing was claimed"
print([name for name in sys.modules if name.startswith("executorch.backends.xnnpack")])
"""

_TRACED = """
import sys, torch
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir import to_edge_transform_and_lower
from apportion.backends.executorch import RulesPartitioner

calls = []

def trace(frame, event, argument):
    if event == "call" and "/xnnpack/partition/" in frame.f_code.co_filename.replace("\\\\", "/"):
        if "/partition/graphs/" not in frame.f_code.co_filename.replace("\\\\", "/"):
            calls.append(frame.f_code.co_name)

model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
program = torch.export.export(model, (torch.randn(1, 3, 8, 8),), strict=False)
sys.setprofile(trace)
lowered = to_edge_transform_and_lower(program, partitioner=[RulesPartitioner("xnnpack")])
sys.setprofile(None)
assert "executorch_call_delegate" in str(lowered.exported_program().graph), "nothing was delegated"
print(calls)
"""


def _run(script: str) -> str:
    pytest.importorskip("executorch")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_deciding_imports_nothing_of_the_backend() -> None:
    assert _run(_PARTITION) == "[]"


def test_lowering_calls_nothing_of_the_judged_partitioner() -> None:
    """ExecuTorch's own package imports its partitioner beside its compiler; not one of its functions is called."""
    assert _run(_TRACED) == "[]"


def test_shipped_rules_need_torch_alone() -> None:
    script = """
import sys
sys.modules["executorch"] = None  # any import of it fails
import torch
from apportion.engine.load import load_rules, shipped_rules
from apportion.engine.partition import partition
program = torch.export.export(torch.nn.Linear(4, 4), (torch.randn(2, 4),))
for name in shipped_rules():
    partition(program, load_rules(name))
print(partition(program, "xnnpack").report.claimed)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "1"
