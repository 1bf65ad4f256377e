"""What reasons cost: `partition` as it is, and with nothing recorded of what failed.

    python -m benchmarks.reasons [--nodes 2000] [--pairs 15]

Each graph comes with the 50 rules of the benchmark, and with an invariant more that nothing keeps: all nodes are left.
The two sides take turns, the first one changing, and the ratio is the median over the pairs: a busy machine slows both.
CPU seconds, the parsing of rules left out. Beside it what it takes to put all reasons into words.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from attrs import frozen

from apportion import engine
from apportion.engine.candidates import Attempts
from apportion.engine.match import Search
from benchmarks.graphs import GRAPHS, make
from benchmarks.rules import rules_text

NOTHING_HOLDS = "\ninvariant nothing { match y = _  require y.rank > 9 because \"all is left\" }\n"


@frozen
class Cost:
    """Median CPU seconds of `partition` with reasons and without, of putting them into words; the median ratio over
    the pairs; nodes, and how many were left."""

    nodes: int
    left: int
    recording: float
    without: float
    words: float
    ratio: float


def cost(program: Any, rules: Any, pairs: int) -> Cost:
    """Measured turn by turn."""
    result = engine.partition(program, rules)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for records in (True, False) if pair % 2 else (False, True):
            if records:
                seconds[True].append(_seconds(lambda: engine.partition(program, rules)))
            else:
                with nothing_recorded():
                    seconds[False].append(_seconds(lambda: engine.partition(program, rules)))
    words = [_seconds(lambda: list(result.report.explain())) for _ in range(3)]
    ratios = [a / b for a, b in zip(seconds[True], seconds[False], strict=True)]
    left = result.report.nodes_total - result.report.claimed
    return Cost(result.report.nodes_total, left, median(seconds[True]), median(seconds[False]), median(words),
                median(ratios))


@contextmanager
def nothing_recorded() -> Iterator[None]:
    """Attempts are not kept, nor where a pattern came furthest."""
    silenced = ((Attempts, "note"), (Attempts, "repeat"), (Search, "_note"))
    kept = [getattr(one, name) for one, name in silenced]
    try:
        for one, name in silenced:
            setattr(one, name, lambda *arguments: None)
        yield
    finally:
        for (one, name), method in zip(silenced, kept, strict=True):
            setattr(one, name, method)


def _seconds(call: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> int:
    """Print the table; status 1 if a ratio is above 1.3."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    given = parser.parse_args()
    logging.getLogger("apportion").setLevel(logging.ERROR)
    sides = {"": engine.parse_rules(rules_text()), ", all left": engine.parse_rules(rules_text() + NOTHING_HOLDS)}
    sys.stdout.write(f"{'graph':24} {'nodes':>6} {'left':>6} {'with':>8} {'without':>8} {'ratio':>6} {'words':>8}\n")
    worst = 0.0
    for kind in given.graphs:
        graph = make(kind, given.nodes)
        for name, rules in sides.items():
            one = cost(graph, rules, given.pairs)
            worst = max(worst, one.ratio)
            sys.stdout.write(f"{kind + name:24} {one.nodes:6} {one.left:6} {one.recording:7.3f}s {one.without:7.3f}s "
                             f"{one.ratio:6.2f} {one.words:7.3f}s\n")
            sys.stdout.flush()
    sys.stdout.write(f"at most {worst:.2f}\n")
    return 1 if worst > 1.3 else 0


if __name__ == "__main__":
    raise SystemExit(main())
