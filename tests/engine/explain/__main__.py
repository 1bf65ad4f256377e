"""The table of reasons replayed: `python -m tests.engine.explain [--file results.json]`.

Ten models under four rules files, and one program for each further kind of reason. What is in the file already is not
done again, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import asdict

from tests.engine.explain.kinds import CASES
from tests.engine.explain.models import MODELS, RULES, program
from tests.engine.explain.replay import Setup, judge


def runs() -> Iterator[tuple[str, Callable[[], Setup]]]:
    """Every run by name."""
    for name in MODELS:
        for rules, text in RULES.items():
            yield f"{name} by {rules}", lambda name=name, text=text: Setup(program(name), (text,))  # type: ignore[misc]
    for name, (_, made) in CASES.items():
        yield name, made


def main() -> int:
    """Print the table; status 1 if a reason is not true."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, help="keep results there")
    file: Path | None = parser.parse_args().file
    warnings.simplefilter("ignore")
    logging.getLogger("apportion").setLevel(logging.ERROR)
    known = json.loads(file.read_text()) if file is not None and file.exists() else {}
    print(f"{'program':28} {'left':>5} {'reasons':>8} {'claimed without it':>19} {'later':>6} {'values':>7}  kinds")
    for name, made in runs():
        if name not in known:
            known[name] = asdict(judge(made()))
            if file is not None:
                file.write_text(json.dumps(known, indent=1))
        one = known[name]
        print(f"{name:28} {one['left']:5} {one['reasons']:8} {one['claimed']:19} {one['later']:6} {one['values']:7}  "
              f"{', '.join(one['kinds'])}", flush=True)
        for wrong in one["wrong"]:
            print(f"    NOT TRUE: {wrong}")
    total = {key: sum(one[key] for one in known.values()) for key in ("left", "reasons", "claimed", "later", "values")}
    wrong = sum(len(one["wrong"]) for one in known.values())
    print(f"{len(known)} runs: {total['left']} nodes left, {total['reasons']} with a reason; {total['claimed']} "
          f"are claimed once what it names is gone, {total['later']} once what is named then is gone too, {wrong} not "
          f"true; {total['values']} printed values compared with the metadata")
    return 1 if wrong else 0


raise SystemExit(main())
