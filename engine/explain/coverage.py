"""Models by backends: which share of nodes, distinct ops, work and weights each backend takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.errors import ApportionError
from apportion.engine.explain.explaining import Explainer
from apportion.engine.facts import is_kind
from apportion.engine.facts.data import flops
from apportion.engine.sources import load_all

__all__ = ["Measured", "Prepare", "coverage", "measure", "measure_program"]

Prepare = Callable[[str, tuple[RuleSet, ...]], Any]
"""Gives the program of a model's name, as it is to be partitioned by these rules."""


@frozen
class Measured:
    """One model under one list of rules files.

    Counts of op nodes and distinct ops; `work` is floating-point operations by torch's own counter, which knows
    matrix products, convolutions and attention, for static sizes; `weights` are bytes that go into delegates,
    each weight once. `problem` says why a model could not be measured; the counts are 0 then.
    """

    model: str
    rules: str
    claimed: int = 0
    total: int = 0
    ops_claimed: int = 0
    ops_total: int = 0
    work_claimed: int = 0
    work_total: int = 0
    weights_claimed: int = 0
    weights_total: int = 0
    partitions: int = 0
    problem: str = ""

    def share(self, what: str) -> float | None:
        """The share of `nodes`, `ops`, `work` or `weights`, 0 to 1; None where there is nothing to share."""
        names = {"nodes": ("claimed", "total")}.get(what, (f"{what}_claimed", f"{what}_total"))
        part, whole = (getattr(self, name) for name in names)
        return part / whole if whole else None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def measure_program(program: Any, sets: Sequence[RuleSet], model: str = "", rules: str = "") -> Measured:
    """What these rules take of a program."""
    explainer = Explainer.of(program, list(sets))
    report = explainer.result.report
    work = {True: 0, False: 0}
    weights = 0
    for place in explainer.places():
        found = flops(place.node)
        if isinstance(found, int):
            work[explainer.owner(place) is not None] += found
    for facts, _ in explainer.decided.values():
        for value in facts.main.values.values():
            if value.fx.op in ("placeholder", "get_attr") and is_kind(value, "constant") is True:
                weights += value.nbytes if isinstance(value.nbytes, int) else 0
    taken = {(p.method, p.graph, name): size for p in explainer.result.partitions
             for name, size in p.constant_sizes.items()}
    return Measured(
        model, rules, report.claimed, report.nodes_total, report.ops_claimed, report.ops_total, work[True],
        work[True] + work[False], sum(taken.values()), weights, len(explainer.result.partitions),
    )  # fmt: skip


def measure(
    prepare: Prepare, model: str, rules: tuple[str, ...], options: Mapping[str, Any] | None = None
) -> Measured:
    """One model under rules named by name or path; what goes wrong with the model is told, not raised.

    Everything here can be sent to another process: names go there, counts come back.
    """
    name = ", ".join(rules)
    sets = load_all(list(rules), options)
    try:
        return measure_program(prepare(model, sets), sets, Path(model).name, name)
    except Exception as problem:  # whatever a model of a zoo raises, the others go on
        return Measured(Path(model).name, name, problem=_sentence(problem).removeprefix(f"{model}: "))


def _sentence(problem: Exception) -> str:
    """The first line of what an error says; of one that nobody foresaw with its class."""
    line = (str(problem).strip().splitlines() or [""])[0]
    return line if isinstance(problem, ApportionError) else f"{type(problem).__name__}: {line}"


def coverage(
    models: Sequence[str],
    rules: Sequence[tuple[str, ...]],
    prepare: Prepare,
    *,
    options: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Callable[[Measured], None] | None = None,
) -> list[Measured]:
    """Every model under every list of rules files, models first.

    `prepare` reads a model (a function of a module, so that it can be sent to other processes); `executor` is anything
    with the interface of `concurrent.futures.Executor`, Dask's and Ray's too; without one, all is done here. `progress`
    hears of each result as it comes.
    """
    for files in rules:
        load_all(list(files), options)  # a broken file is told before any model is read
    jobs = [(model, files) for model in models for files in rules]
    if executor is None:
        return [_told(measure(prepare, model, files, options), progress) for model, files in jobs]
    futures = [executor.submit(measure, prepare, model, files, options) for model, files in jobs]
    return _gathered(futures, progress)


def _told(measured: Measured, progress: Callable[[Measured], None] | None) -> Measured:
    if progress is not None:
        progress(measured)
    return measured


def _gathered(futures: Sequence[Any], progress: Callable[[Measured], None] | None) -> list[Measured]:
    """The results in the order of the jobs; progress hears of them as they come."""
    own: list[Future[Measured]] = [f for f in futures if isinstance(f, Future)]
    if progress is not None:
        coming: Iterable[Any] = as_completed(own) if len(own) == len(futures) else futures
        for future in coming:
            progress(future.result())
    return [future.result() for future in futures]
