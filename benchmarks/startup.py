"""What starting costs: `python -m benchmarks.startup`.

Importing the engine beside importing torch, and loading a rules file the first time in a process: cold, with nothing
kept on disk, and warm. Every measurement is a process of its own, the sides by turns; CPU seconds, the median.

`load_rules` is timed twice: by itself, with the engine's modules imported before (cold also imports Lark), and with
the import of these modules, as the first call in a program that has an exported model. The imports of
`torch.export` and of SymPy, which come with such a model, are in neither.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["SIDES", "main", "seconds"]

_TIMED = """
import sys, time
{before}
start = time.process_time()
{timed}
print(time.process_time() - start)
"""

_LOAD = 'from apportion.engine import load_rules; rules = load_rules("{name}"); assert rules.rules'

SIDES = {
    "import torch": ("", "import torch"),
    "import torch, apportion.engine": ("", "import torch, apportion.engine"),
    "load cold": ("import torch.export, sympy, apportion.engine.load", _LOAD),
    "load warm": ("import torch.export, sympy, apportion.engine.load", _LOAD),
    "import and load cold": ("import torch.export, sympy", _LOAD),
    "import and load warm": ("import torch.export, sympy", _LOAD),
}
"""What is run before and what is timed, by name."""

_PAIRS = [("import torch, apportion.engine", "import torch"), ("load warm", "load cold"),
          ("import and load warm", "import and load cold")]


def seconds(side: str, name: str, folder: Path) -> float:
    """CPU seconds of one side in a new process. `folder` is where the warm ones find what was kept."""
    before, timed = SIDES[side]
    code = _TIMED.format(before=before, timed=timed.format(name=name))
    kept = "" if side.endswith("cold") else str(folder)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "APPORTION_CACHE": kept})
    return float(done.stdout)


def main() -> None:
    """Prints the medians and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="xnnpack", help="a shipped file, or the path of one")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        seconds("load warm", options.rules, Path(folder))  # keeps what the warm ones find
        for _ in range(options.turns):
            for side in SIDES:
                times[side].append(seconds(side, options.rules, Path(folder)))
    found = {side: statistics.median(these) for side, these in times.items()}
    for side, these in times.items():
        sys.stdout.write(f"{side:32} {found[side]:7.3f} s   ({min(these):.3f} to {max(these):.3f})\n")
    for one, other in _PAIRS:
        sys.stdout.write(f"{one} / {other}: {found[one] / found[other]:.3f}\n")


if __name__ == "__main__":
    main()
