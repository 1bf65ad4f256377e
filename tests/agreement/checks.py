"""The items of the agreement run: models under options, probes, runs. Each is computed once and kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from attrs import asdict
from torch.export import ExportedProgram

from apportion.engine.load import load_rules
from tests.agreement.cache import cached
from tests.agreement.compare import RULES, Comparison, compare, ours
from tests.agreement.edge import edge_program
from tests.agreement.models import MODELS
from tests.agreement.probes import Probe
from tests.agreement.record import OPTION_SETS, Decision, Options, decision_of, judge, options_of, plain, record
from tests.agreement.runs import run

__all__ = [
    "OPTION_MODELS",
    "loaded",
    "model_items",
    "model_row",
    "probe_program",
    "probe_row",
    "probe_theirs",
    "run_row",
    "show_options",
]

OPTION_MODELS = (
    "linear_stack",
    "linear_stack_static",
    "linear_stack_dynamic",
    "lstm",
    "bert",
    "mobilenet_v2",
    "mobilenet_v2_static",
    "mobilenet_v2_dynamic",
)

Row = dict[str, Any]


def model_items() -> Iterator[tuple[str, Options]]:
    """Every model with the default options, then the chosen models under every set of options."""
    for name in MODELS:
        yield name, ()
    for name in OPTION_MODELS:
        for given in OPTION_SETS[1:]:
            yield name, options_of(given)


def show_options(options: Options) -> str:
    """The options that differ from the defaults, in short."""
    words = []
    for name, value in options:
        words.append("+".join(sorted(value)) if name == "precisions" else name.removesuffix("_for_f32_linear"))
    return ", ".join(words) or "default"


def model_row(name: str, options: Options = ()) -> Row:
    """Both partitioners on one model under one set of options."""

    def compute() -> Row:
        recording = record(name, options)
        decided = ours(recording.program, options)
        return _row(compare(name, recording.program, options, recording.theirs, decided))

    return cached("models", (name, options_key(options)), compute)  # type: ignore[no-any-return]


def options_key(options: Options) -> list[Any]:
    """The options as something whose `repr` is always the same."""
    return [(key, sorted(value) if isinstance(value, frozenset) else value) for key, value in options]


def _row(compared: Comparison) -> Row:
    return {
        "name": compared.name,
        "options": show_options(compared.options),
        "nodes": compared.nodes,
        "theirs": [len(compared.theirs.claimed), len(compared.theirs.partitions)],
        "ours": [len(compared.ours.claimed), len(compared.ours.partitions)],
        "disagreements": compared.disagreements,
        "only_theirs": list(compared.only_theirs),
        "only_ours": list(compared.only_ours),
        "excused": [list(pair) for pair in compared.excused],
        "agrees": compared.agrees,
        "same_specs": compared.theirs.specs == compared.ours.specs or not compared.theirs.specs,
        "same_constants": compared.theirs.constants == compared.ours.constants,
        "same_groups": set(compared.theirs.partitions) == set(compared.ours.partitions),
        "marks_of_theirs": compared.ours.marked <= compared.theirs.marked,
        "error": compared.theirs.error,
    }


@cache
def loaded(position: int) -> Any:
    """The rules under one set of options."""
    return load_rules(RULES, options=dict(OPTION_SETS[position]))


@cache
def probe_program(probe: Probe) -> ExportedProgram:
    """The program of a probe, built once."""
    return edge_program(probe.text, probe.returned)


@cache
def probe_theirs(probe: Probe) -> tuple[Decision, ...]:
    """What the real partitioner says about a probe, under each set of options."""

    def compute() -> list[Any]:
        program = probe_program(probe)
        return [plain(judge(program, options_of(given))) for given in OPTION_SETS]

    key = (probe.text, probe.returned, [options_key(options_of(given)) for given in OPTION_SETS])
    return tuple(decision_of(one) for one in cached("probes", key, compute, theirs=True))


def probe_row(probe: Probe) -> list[Row]:
    """Both partitioners on one probe under every set of options."""

    def compute() -> list[Row]:
        program = probe_program(probe)
        rows = []
        for position, given in enumerate(OPTION_SETS):
            options = options_of(given)
            decided = ours(program, options, loaded(position))
            rows.append(_row(compare(probe.text, program, options, probe_theirs(probe)[position], decided)))
        return rows

    return cached("probes", (probe.text, probe.returned), compute)  # type: ignore[no-any-return]


def run_row(name: str) -> Row:
    """One model lowered with the rules and run by the real runtime."""

    def compute() -> Row:
        result = run(name)
        return {**asdict(result), "right": result.right, "runtime_differs": result.runtime_differs}

    return cached("runs", name, compute)  # type: ignore[no-any-return]
