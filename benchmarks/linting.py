"""How long the linter takes: beside z3 on the same pairs, as rules files grow, on an envelope of a real convolution.

    python -m benchmarks.linting                 # all but the shipped files
    python -m benchmarks.linting --shipped       # every shipped file alone and with each other, with torch alone
    python -m benchmarks.linting --shipped --import torchao --import executorch.exir   # with these libraries' ops too
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from apportion.engine.lint import LintResult, lint
from apportion.engine.lint.model import RuleFile
from apportion.engine.lint.overlap import examine
from apportion.engine.load import parse_rules
from tests.engine.lint.judge import MOST_DIMS, Judge, as_text, rule

SHIPPED = ("eager", "inductor", "onnxruntime", "openvino", "xnnpack")

ENVELOPE = """\
backend "Envelope" language 1
option u55: bool = true
let spatial(w) = w.shape[2:]
let depthwise(x, w, y) = y.groups == x.shape[1] and w.shape[0] % x.shape[1] == 0
contract kernel(x, w, y) {
  require w.rank in {3, 4}
  require x.shape[0] == 1
  require x.dtype in {int8, int16} and w.dtype in {int8, int16}
  require all(1 <= k <= 64 for k in spatial(w))
  require prod(spatial(w)) <= 4096
}
rule forward {
  match y = aten.convolution.default(x, w, b)
  when option.u55
  require not y.transposed and kernel_fits(x, w, y)
  require all(1 <= d <= 65536 for d in x.shape[1:]) if depthwise(x, w, y) else 1 <= x.shape[1] <= 65536
  require all(1 <= s <= 3 or (all(p == 0 for p in y.padding) and d == 1) for s, d in zip(y.stride, y.dilation))
}
rule forward_wide {
  match y = aten.convolution.default(x, w, b)
  when option.u55
  require not y.transposed and kernel_fits(x, w, y)
  require x.shape[1] > 65536 and not depthwise(x, w, y)
}
rule backward {
  match y = aten.convolution.default(x, w, b)
  when option.u55
  require y.transposed and kernel_fits(x, w, y) and x.rank == 4
  require y.stride in [[1, 1], [2, 2]]
    or (y.stride == [1, 2] and x.shape[2] == 1 and w.shape[2] == 1)
    or (y.stride == [2, 1] and x.shape[3] == 1 and w.shape[3] == 1)
}
rule backward_tall {
  match y = aten.convolution.default(x, w, b)
  require y.transposed and x.rank == 4 and y.stride == [2, 1] and x.shape[3] > 1
}
rule packed {
  match y = aten.convolution.default(x, w, b)
  require not y.transposed and w.rank == 4
  require w.shape[2] * w.shape[3] * align_up(x.shape[1], 16) <= 65535 and w.shape[2] * w.shape[3] >= 100
}
"""


def envelope() -> str:
    """The rules of a convolution on an accelerator with small memories, with limits that others share."""
    text = ENVELOPE.replace("contract kernel(", "contract kernel_asks(")
    asks = ("let kernel_fits(x, w, y) = w.rank in {3, 4} and x.shape[0] == 1 and x.dtype in {int8, int16} "
            "and w.dtype in {int8, int16} and all(1 <= k <= 64 for k in spatial(w)) and prod(spatial(w)) <= 4096\n")
    start, end = text.index("contract"), text.index("rule forward")
    return text[:start] + asks + text[end:]


def many(rules: int, ops: int, seed: int = 0) -> str:
    """A file of that many rules over that many ops (declared for it), each with its own ranges."""
    draw = random.Random(seed)
    lines = ['backend "Many" language 1']
    lines += [f'declare "many::op{n}(Tensor x) -> Tensor"' for n in range(ops)]
    each = rules // ops
    for n in range(ops):
        for k in range(each):
            low = 16 * k
            lines.append(
                f"rule r{n}_{k} {{ match y = many.op{n}.default(x) require x.rank in 1..4 and "
                f"x.dtype in {{float32, {draw.choice(['float16', 'int8'])}}} and x.shape[0] in {low}..{low + 15} }}")
    return "\n".join(lines) + "\n"


def beside_z3(pairs: int) -> str:
    """Ours and z3's time on the same pairs, and whether they agree."""
    draw = random.Random(5)
    rules = [rule(draw) for _ in range(2 * pairs)]
    lines = ['backend "Acme" language 1']
    for index, conditions in enumerate(rules):
        asked = " ".join(f"require {as_text(c)}" for c in conditions)
        lines.append(f"rule r{index} {{ match y = aten.relu.default(x) require x.rank <= {MOST_DIMS} "
                     f"require x.dtype in {{float32, float16, int8, int32}} {asked} }}")
    file = RuleFile(parse_rules("\n".join(lines)))
    ours = proof = theirs = 0.0
    proofs = agreed = 0
    for index in range(0, 2 * pairs, 2):
        started = time.process_time()
        verdict = examine(file.models[index], file.models[index + 1])
        spent = time.process_time() - started
        started = time.process_time()
        satisfiable = Judge().satisfiable([*rules[index], *rules[index + 1]])
        theirs += time.process_time() - started
        ours += spent
        if verdict.kind == "disjoint":
            proof, proofs = proof + spent, proofs + 1
        agreed += satisfiable is None or verdict.kind == ("overlap" if satisfiable else "disjoint")
    return (f"{pairs} pairs, {agreed} as z3 says or where it gives up: {1000 * ours / pairs:.2f} ms a pair with the "
            f"witness drawn and matched ({1000 * proof / max(proofs, 1):.2f} ms for each of {proofs} disjoint ones), "
            f"z3 {1000 * theirs / pairs:.2f} ms; z3 takes {theirs / ours:.1f} times as long")


def timed(text: str, folder: Path) -> str:
    """The time of one lint, and what it found."""
    path = folder / "timed.rules"
    path.write_text(text, encoding="utf-8")
    started = time.process_time()
    result = lint(path)
    return f"{time.process_time() - started:6.2f} s  {result.summary}"


def shipped() -> None:
    """Two tables in Markdown: what is decided of every shipped file alone and of every two of them, and a witness for
    each two rules that contend."""
    say("| files | disjoint | overlapping | undecided | errors | seconds of CPU |\n|---|---|---|---|---|---|")
    rows = []
    for names in [(name,) for name in SHIPPED] + list(itertools.combinations(SHIPPED, 2)):
        started = time.process_time()
        result = lint(list(names))
        took = time.process_time() - started
        say(f"| {' + '.join(names)} | {' | '.join(str(result.pairs[k]) for k in ('disjoint', 'overlap', 'undecided'))} "
            f"| {result.errors} | {took:.1f} |")
        rows += contention(result)
    say("\n| wins in this order | also claims it | witness |\n|---|---|---|")
    say("\n".join(rows))


def contention(result: LintResult) -> list[str]:
    """A row for each two rules of two backends that claim the same node: the one that wins comes first."""
    rows = []
    for finding in result.diagnostics:
        if finding.code == "A107":
            first, second = re.findall(r"`\w+` of \w+", finding.message)
            rows.append(f"| {first} | {second} | `{dict(finding.notes)['witness']}` |")
    return rows


def say(*parts: object) -> None:
    """One line of output."""
    sys.stdout.write(" ".join(map(str, parts)) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--import", action="append", default=[], dest="modules", metavar="MODULE")
    parser.add_argument("--pairs", type=int, default=300)
    asked = parser.parse_args()
    for module in asked.modules:
        importlib.import_module(module)
    if asked.shipped:
        shipped()
        return
    with tempfile.TemporaryDirectory() as folder:
        say("convolution envelope  ", timed(envelope(), Path(folder)))
        for rules, ops in ((250, 25), (500, 50), (1000, 100), (2000, 200)):
            say(f"{rules:5} rules, {ops:3} ops  ", timed(many(rules, ops), Path(folder)))
    say(beside_z3(asked.pairs))


if __name__ == "__main__":
    main()
