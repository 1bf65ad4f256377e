"""Cuts to delegates: each backend compiles its partitions, and where one fails the next is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from attrs import define, field
from torch.export import ExportedProgram

from apportion.engine.lowering.cache import Cache, fingerprint
from apportion.engine.lowering.cut import Cut
from apportion.engine.lowering.details import BackendDetails, PreprocessResult
from apportion.engine.lowering.errors import BackendNotFoundError, MethodError, PreprocessError
from apportion.engine.lowering.find import backend_named, known_backends
from apportion.engine.lowering.module import LoweredBackendModule
from apportion.engine.result import CompileSpec, DelegationSpec

__all__ = ["GRAPH", "Fallback", "Job", "compile_all", "compile_each", "lower_program"]

logger = logging.getLogger("apportion")

GRAPH = "graph"
"""As a fallback: the nodes of a partition that no backend can compile stay in the program."""

Fallback = Union[str, DelegationSpec, Sequence[Union[str, DelegationSpec]]]
"""Who is asked after a backend that could not compile a partition: backend ids or specs, in order, or `"graph"`."""


@define(eq=False)
class Job:
    """A partition on its way to a delegate."""

    method: str
    cut: Cut
    spec: DelegationSpec
    make: Callable[[], ExportedProgram]
    rules: tuple[str, ...] = ()
    program: ExportedProgram = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.program = self.make()


def lower_program(backend_id: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> LoweredBackendModule:
    """Compile one whole program. Raises BackendNotFoundError, and whatever the backend raises."""
    backend = backend_named(backend_id)
    given = list(specs)
    result = backend.preprocess(backend.copy_exported_program_for_preprocess(program, given), given)
    return _delegate(program, backend_id, given, result)


def compile_each(
    jobs: Sequence[Job], fallback: Fallback, cache: Cache | None = None
) -> dict[int, LoweredBackendModule]:
    """A delegate for each cut (by `id`), one at a time; what `cache` holds is not compiled again.

    Raises PreprocessError where nobody is left to ask.
    """
    others = _sequence(fallback)
    return {id(job.cut): made for job in jobs if (made := _compile(job, job.spec, others, cache)) is not None}


def compile_all(jobs: Sequence[Job], fallback: Fallback) -> dict[int, LoweredBackendModule]:
    """The same over several methods: each backend gets all its partitions at once."""
    found: dict[int, LoweredBackendModule] = {}
    by_backend: dict[str, list[Job]] = {}
    for job in jobs:
        by_backend.setdefault(job.spec.backend_id, []).append(job)
    for backend_id, own in by_backend.items():
        backend = backend_named(backend_id)
        if backend.preprocess_multimethod.__func__ is BackendDetails.preprocess_multimethod.__func__:  # type: ignore[attr-defined]
            found.update(compile_each(own, fallback))
        else:
            found.update(_together(backend, own, fallback))
    return found


def _together(
    backend: type[BackendDetails], jobs: Sequence[Job], fallback: Fallback
) -> dict[int, LoweredBackendModule]:
    programs: dict[str, list[ExportedProgram]] = {}
    specs: dict[str, list[list[CompileSpec]]] = {}
    for job in jobs:
        given = list(job.spec.compile_specs)
        specs.setdefault(job.method, []).append(given)
        programs.setdefault(job.method, []).append(backend.copy_exported_program_for_preprocess(job.program, given))
    try:
        results = backend.preprocess_multimethod(programs, specs)
    except Exception as problem:
        if fallback:
            return compile_each(jobs, fallback)
        names = ", ".join(f"{job.method}: {job.cut.tag}" for job in jobs)
        raise PreprocessError(
            f"{backend.__name__} could not compile its {len(jobs)} partitions ({names}): {_words(problem)}",
            backend.__name__, nodes=tuple(name for job in jobs for name in job.cut.names),
        ) from problem
    _check_lengths(backend.__name__, programs, results)
    queues = {method: iter(found) for method, found in results.items()}
    return {
        id(job.cut): _delegate(job.program, backend.__name__, job.spec.compile_specs, next(queues[job.method]))
        for job in jobs
    }


def _check_lengths(
    name: str, programs: Mapping[str, Sequence[ExportedProgram]], results: Mapping[str, Sequence[PreprocessResult]]
) -> None:
    for method, given in programs.items():
        got = len(results.get(method, ()))
        if got != len(given):
            raise MethodError(
                f"{name}.preprocess_multimethod gave {got} results for the {len(given)} partitions of {method}")


def _sequence(fallback: Fallback) -> tuple[Union[str, DelegationSpec], ...]:
    """The fallbacks in order. Raises BackendNotFoundError for one that nobody brings, whether it is needed or not."""
    given = (fallback,) if isinstance(fallback, (str, DelegationSpec)) else tuple(fallback)
    known = {GRAPH, *known_backends()} if given else set()
    for one in given:
        backend_id = one if isinstance(one, str) else one.backend_id
        if backend_id not in known:
            backend_named(backend_id)
    return given


def _compile(
    job: Job, spec: DelegationSpec, others: Sequence[Union[str, DelegationSpec]], cache: Cache | None
) -> LoweredBackendModule | None:
    """Ask one backend, then the rest; None where the nodes are to stay in the graph."""
    problem: Exception
    try:
        backend = backend_named(spec.backend_id)
    except BackendNotFoundError as missing:
        if not others:
            raise
        problem = missing
    else:
        try:
            return _delegate(job.program, spec.backend_id, spec.compile_specs, _result(job, backend, spec, cache))
        except Exception as raised:
            problem = raised
    if not others:
        raise _failure(job, spec, problem) from problem
    first, *rest = others
    logger.warning("%s; %s", _failure(job, spec, problem), _next_step(first))
    if first == GRAPH:
        return None
    following = first if isinstance(first, DelegationSpec) else DelegationSpec(first)
    return _compile(job, following, rest, cache)


def _result(job: Job, backend: type[BackendDetails], spec: DelegationSpec, cache: Cache | None) -> PreprocessResult:
    given = list(spec.compile_specs)
    key = fingerprint(job.program, spec.backend_id, given) if cache is not None else ""
    result = cache.get(key) if cache is not None else None
    if result is None:
        result = backend.preprocess(backend.copy_exported_program_for_preprocess(job.program, given), given)
        if cache is not None:
            cache.put(key, result)
    return result


def _next_step(following: Union[str, DelegationSpec]) -> str:
    if following == GRAPH:
        return "its nodes stay in the graph"
    return f"{following.backend_id if isinstance(following, DelegationSpec) else following} is asked instead"


def _failure(job: Job, spec: DelegationSpec, problem: Exception) -> PreprocessError:
    nodes = job.cut.names
    shown = ", ".join(nodes[:8]) + (f" and {len(nodes) - 8} more" if len(nodes) > 8 else "")
    where = f" of {job.cut.path}" if job.cut.path else ""
    rules = f" (rules: {', '.join(job.rules)})" if job.rules else ""
    which = f"the partition {job.cut.tag}{where}{rules}, nodes {shown}"
    message = f"{spec.backend_id} could not compile {which}: {_words(problem)}"
    return PreprocessError(message, spec.backend_id, job.cut.tag, nodes, job.rules)


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _delegate(
    program: ExportedProgram, backend_id: str, specs: Sequence[CompileSpec], result: PreprocessResult
) -> LoweredBackendModule:
    made = LoweredBackendModule(program, backend_id, result.processed_bytes, specs, result.data_store_output)
    made.meta = {"debug_handle_map": result.debug_handle_map}
    info: Any = result._delegate_info_meta
    if info is not None:
        made.meta["_delegate_info_meta"] = info
    return made
