"""What the linter says does not depend on the order of sets, which Python draws anew for each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RULES = """backend "A" language 1
ops few = aten.{add,sub,mul}.Tensor | aten.{relu,neg,abs,exp,floor}.default
rule one { match y = few(x) require y.op.name in {"aten.add.Tensor", "aten.sub.Tensor", "aten.neg.default"} }
rule other { match y = few(x) require y.op.name != "aten.mul.Tensor" and x.dtype.itemsize < 4 }
"""


def test_two_processes_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(RULES, encoding="utf-8")
    main = "from apportion.engine.cli.main import main; main()"
    command = [sys.executable, "-c", main, "lint", str(path), "--format", "json"]
    said = [subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
                           timeout=120, check=False) for seed in ("1", "2", "3", "4")]
    assert all("witness" in one.stdout for one in said), said[0].stderr
    assert len({one.stdout for one in said}) == 1
