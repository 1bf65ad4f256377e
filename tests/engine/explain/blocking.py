"""Blockers checked by doing: `python -m tests.engine.explain.blocking [--real] [--file results.json]`.

What is predicted for the ten with most effect, for each two that follow each other in the ranking, and for the best few
together, is compared with what comes out of files that are edited in just that way: an op is claimed by a rule of one
line at the end, a condition is blanked out. Five small models under three rules files; with `--real` five models under
the shipped file for XNNPACK, as its partitioner gets them. Results in the file are not made again.
"""

from __future__ import annotations

import argparse
import json
import logging
import operator
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, frozen

from apportion import engine
from apportion.engine.explain.blockers import Blocker, find_blockers
from apportion.engine.explain.changes import Changes, conditions
from apportion.engine.explain.study import NodeName, Outcome, Study
from apportion.engine.load import shipped_folder
from tests.engine.explain.models import RULES, program

__all__ = ["FIVE", "REAL", "THREE", "Checked", "check", "real", "small"]

FIVE = ("attention", "conv", "several", "branches", "recurrent")
REAL = ("lstm", "bert", "vit_tiny", "mobilenet_v2_static", "llama_dynamic_sequence")
THREE = ("strict", "patterns", "contested")


@frozen
class Checked:
    """How many predictions there were, of single ops, of single conditions, of two or more together; the largest change
    of one of them in partitions, bytes across borders, nodes; the predictions that the outcome is not equal to."""

    ops: int
    conditions: int
    several: int
    most: tuple[int, ...]
    wrong: tuple[str, ...]


def check(one: Any, text: str, folder: Path, most: int = 10) -> Checked:
    """One program under the rules file of this text; `folder` is for copies of the file."""
    file = _written(folder / "as it is", text)
    rules = engine.load_rules(file)
    found = find_blockers(one, rules, together=3)
    study = Study.of(one, rules)
    top = found.single[:most]
    predicted: list[tuple[tuple[Blocker, ...], Outcome]] = [((), found.now)]
    predicted += [((blocker,), blocker.difference.after) for blocker in top]
    predicted += [(pair, study.outcome(_together(pair))) for pair in pairwise(top)]
    predicted += [(some, difference.after) for some, difference in found.together if len(some) > 1]
    wrong = []
    for some, outcome in predicted:
        got = _outcome(one, _edited(file, rules, _together(some), folder / "edited"))
        if (outcome.to_json(), set(outcome.nodes), outcome.groups) != got:
            wrong.append(f"{' and '.join(b.name for b in some)}: predicted {outcome.to_json()}, got {got[0]}")
    kinds = [blocker.kind for blocker in top]
    changes = [blocker.difference for blocker in top]
    extent = (max((abs(getattr(c, what)) for c in changes), default=0) for what in ("partitions", "border", "nodes"))
    several = len(predicted) - 1 - len(top)
    return Checked(kinds.count("op"), kinds.count("condition"), several, tuple(extent), tuple(wrong))


def _together(some: tuple[Blocker, ...]) -> Changes:
    return reduce(or_, (blocker.changes for blocker in some), Changes())


def _written(folder: Path, text: str) -> Path:
    """A rules file with a copy of the library beside it, which it uses."""
    shutil.copytree(shipped_folder() / "std", folder / "library", dirs_exist_ok=True)
    for file in (folder / "library").iterdir():
        file.write_text(file.read_text().replace('use "std/', 'use "'))
    written = folder / "r.rules"
    written.write_text(text.replace('use "std/', 'use "library/'))
    return written


def _edited(file: Path, rules: engine.RuleSet, changes: Changes, folder: Path) -> Path:
    """The file, or what it uses, as somebody would edit it."""
    shutil.copytree(file.parent, folder, dirs_exist_ok=True)
    ends = {condition.place: condition.step.span.end for condition in conditions(rules)}
    for place in changes.dropped:
        copy = folder / Path(place[0]).relative_to(file.parent)
        text = copy.read_text()
        blank = re.sub(r"[^\n]", " ", text[place[1] : ends[place]])
        copy.write_text(text[: place[1]] + blank + text[ends[place] :])
    claims = (f"rule claim_{i} {{ match y = {op}() }}\n" for i, op in enumerate(changes.claimed))
    edited = folder / file.name
    edited.write_text("\n".join((edited.read_text(), *claims)))
    return edited


def _outcome(one: Any, file: Path) -> tuple[dict[str, int], set[NodeName], frozenset[frozenset[NodeName]]]:
    """What `Outcome` predicts, read off a fresh run: numbers, claimed nodes, partitions."""
    result = engine.partition(one, engine.load_rules(file))
    parts = result.partitions
    numbers = {
        "claimed": result.report.claimed, "total": result.report.nodes_total, "ops_claimed": result.report.ops_claimed,
        "ops_total": result.report.ops_total, "partitions": len(parts), "bytes_in": sum(p.bytes_in for p in parts),
        "bytes_out": sum(p.bytes_out for p in parts), "constant_bytes": sum(p.constant_bytes for p in parts),
    }  # fmt: skip
    groups = [frozenset((p.method, p.graph, name) for _, names in p.matches for name in names) for p in parts]
    left = {(reason.graph, reason.node) for reason in result.report.left}
    method = parts[0].method if parts else ""
    nodes = {(method, path, node.name) for path, node in _nodes(one.graph_module) if (path, node.name) not in left}
    return numbers, nodes, frozenset(groups)


def _nodes(module: torch.fx.GraphModule, path: str = "") -> Iterator[tuple[str, torch.fx.Node]]:
    """Every op node of a program and its branches, with the path of its graph."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            yield path, node
        if node.op == "get_attr" and isinstance(inner := getattr(module, str(node.target), None), torch.fx.GraphModule):
            yield from _nodes(inner, f"{path}.{node.target}" if path else str(node.target))


def small(name: str, rules: str, folder: Path) -> Checked:
    """One of the small models."""
    return check(program(name), RULES[rules], folder)


def real(name: str, folder: Path) -> Checked:
    """One model as XNNPACK's partitioner gets it."""
    from tests.agreement.record import clean, record

    given = record(name, ()).program
    clean(given)
    return check(given, (shipped_folder() / "xnnpack.rules").read_text(), folder)


def runs(with_real: bool) -> Iterator[tuple[str, Callable[[Path], Checked]]]:
    """Every run by name."""
    for name in FIVE:
        for rules in THREE:
            yield f"{name} by {rules}", partial(small, name, rules)
    for name in REAL if with_real else ():
        yield f"{name} by xnnpack", partial(real, name)


def main() -> int:
    """Print the table; status 1 if a prediction is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="the models under XNNPACK's rules, too")
    parser.add_argument("--file", type=Path, help="keep results there")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("apportion").setLevel(logging.ERROR)
    known = json.loads(given.file.read_text()) if given.file is not None and given.file.exists() else {}
    print(f"{'':34} {'blockers':>15} {'':>9}  {'largest change in':>33}\n{'program and rules':34} {'ops':>4} "
          f"{'conditions':>10} {'together':>9}  {'partitions':>10} {'border bytes':>15} {'nodes':>6}  outcome")
    every = list(runs(given.real))
    for name, run in every:
        if name not in known:
            with tempfile.TemporaryDirectory() as folder:
                known[name] = asdict(run(Path(folder)))
            if given.file is not None:
                given.file.write_text(json.dumps(known, indent=1))
        one = known[name]
        partitions, border, nodes = one["most"]
        print(f"{name:34} {one['ops']:4} {one['conditions']:10} {one['several']:9}  {partitions:10} {border:15} "
              f"{nodes:6}  {'; '.join(one['wrong']) or 'as predicted'}", flush=True)
    done = [known[name] for name, _ in every]
    ops, some, several, wrong = (sum(count) for count in zip(*(
        (one["ops"], one["conditions"], one["several"], len(one["wrong"])) for one in done), strict=True))
    print(f"{ops} ops, {some} conditions, {several} times several together: {wrong} predictions not met")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
