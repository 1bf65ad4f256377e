"""Judges generated rule sets: what was planted against what is found. `python -m tests.engine.lint.sweep` prints it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from attrs import define, field

from apportion.engine.lint import lint
from apportion.grammar.diagnostics import Diagnostic
from tests.engine.lint.planted import KINDS, ROWS, Planted, RuleSet, is_clean, rule_set, used_by

SETS = 200
NOTES = {"A203", "A204"}  # a requirement may follow from another; nothing about that is planted
UNDECIDED = {"A901", "A902", "A903"}


@define
class Tally:
    """How many things of each kind were planted and found, what was undecided by construct, what is wrong in words."""

    planted: Counter[str] = field(factory=Counter)
    found: Counter[str] = field(factory=Counter)
    uses: Counter[str] = field(factory=Counter)
    undecided: Counter[str] = field(factory=Counter)
    sets: int = 0
    clean: int = 0
    false: int = 0
    wrong: list[str] = field(factory=list)

    def add(self, rules: RuleSet, diagnostics: list[Diagnostic], name: str, *, clean: bool) -> None:
        """Count one set."""
        self.sets, self.clean = self.sets + 1, self.clean + clean
        left = [d for d in diagnostics if d.code not in NOTES]
        for planted in rules.planted:
            mine = [d for d in left if _names(d, planted)]
            left = [d for d in left if d not in mine]
            if not self.judged(planted, mine):
                self.wrong.append(f"{name}, {planted.kind}\n{rules.text}\n" + "\n".join(map(str, mine)))
        self.false += len(left) if clean else 0
        if left:
            self.wrong.append(f"{name}, not planted\n{rules.text}\n" + "\n".join(map(str, left)))

    def judged(self, planted: Planted, mine: list[Diagnostic]) -> bool:
        """Is what was found what was planted, or open where that may be?"""
        codes = {d.code for d in mine}
        self.planted[planted.kind] += 1
        self.uses.update(planted.row.uses)
        if codes & UNDECIDED:
            self.undecided.update(planted.row.uses)
            return planted.row.open and planted.kind != "near-miss" and codes <= UNDECIDED
        right = bool(codes & planted.codes) == bool(planted.codes) and codes <= planted.codes | {"A110"}
        self.found[planted.kind] += right
        return right

    def table(self) -> str:
        """The counts, as they are printed."""
        lines = [f"{self.sets} sets, {self.clean} of them clean, with {self.false} findings on those",
                 f"{'planted':<16}{'times':>8}{'found':>8}"]
        lines += [f"{kind:<16}{self.planted[kind]:>8}{self.found[kind]:>8}" for kind in KINDS]
        lines.append("undecided, of the times that a construct was drawn:")
        lines += [f"  {use:<14}{self.undecided[use]:>8} of {self.uses[use]}"
                  for use in sorted(self.uses) if self.undecided[use]]
        decided = sum(not self.undecided[use] for use in set(used_by(ROWS)) if self.uses[use])
        lines.append(f"  none of {decided} other constructs")
        return "\n".join(lines)


def _names(diagnostic: Diagnostic, planted: Planted) -> bool:
    said = diagnostic.message + "".join(label.span.text for label in diagnostic.labels)
    return any(f"`{rule}`" in said or rule in said.split() for rule in planted.rules)


def findings(rules: RuleSet, folder: Path) -> list[Diagnostic]:
    """What the linter says about a set, written to a folder."""
    (folder / "set.rules").write_text(rules.text, encoding="utf-8")
    (folder / "shared.rules").write_text(rules.library, encoding="utf-8")
    return list(lint(folder / "set.rules").diagnostics)


def sweep(seeds: range, folder: Path) -> Tally:
    """All sets of some seeds."""
    tally = Tally()
    for seed in seeds:
        rules = rule_set(seed)
        tally.add(rules, findings(rules, folder), f"seed {seed}", clean=is_clean(seed))
    return tally


def main() -> int:
    """Prints the table; status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SETS)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = sweep(range(asked.first, asked.first + asked.seeds), Path(folder))
    print(tally.table())
    print("\n\n".join(tally.wrong))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
