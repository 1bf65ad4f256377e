"""`to_backend`: tags to delegates, in its three forms."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import singledispatch
from typing import Any

import torch.fx as fx
from attrs import define
from torch.export import ExportedProgram

from apportion.engine.errors import ProgramError
from apportion.engine.lowering.assemble import assemble, graphs_of
from apportion.engine.lowering.cache import Cache
from apportion.engine.lowering.copies import difference, fake_copy
from apportion.engine.lowering.cut import Cut, cut_graph
from apportion.engine.lowering.errors import ChangedGraphError, MethodError, PartitionerError
from apportion.engine.lowering.inner import program_of
from apportion.engine.lowering.module import LoweredBackendModule
from apportion.engine.lowering.owner import Owner
from apportion.engine.lowering.preprocess import Fallback, Job, compile_all, compile_each, lower_program
from apportion.engine.result import CompileSpec, DelegationSpec

__all__ = ["MethodProgramsPartitionerSpec", "disable_validation", "lower_decided", "to_backend", "validation_disabled"]

logger = logging.getLogger("apportion")


class _Validation:
    enabled = True


def disable_validation() -> None:
    """Don't check any more that partitioners leave graphs as they were; each time that is logged as a warning."""
    _Validation.enabled = False


@contextmanager
def validation_disabled() -> Iterator[None]:
    """The same for the time of a `with` block."""
    before = _Validation.enabled
    _Validation.enabled = False
    try:
        yield
    finally:
        _Validation.enabled = before


@define
class MethodProgramsPartitionerSpec:
    """Several methods at once: the program of each, and a partitioner (or a decision) for those to be lowered."""

    method_to_edge_program: Mapping[str, ExportedProgram]
    method_to_partitioner: Mapping[str, Any]


@singledispatch
def to_backend(program: Any, *arguments: Any, **keywords: Any) -> Any:
    """Lower a program, or parts of one, to backends.

    - `to_backend(backend_id, program, compile_specs)` compiles a whole `ExportedProgram`: a `LoweredBackendModule`.
    - `to_backend(program, partitioner)` or `to_backend(program, result)` compiles each partition that a `Partitioner`
      (or rules for a `RulesPartitioner`) or an earlier `partition` decided on: an `ExportedProgram` that calls them.
    - `to_backend(MethodProgramsPartitionerSpec(programs, partitioners))` does so for several methods: a dict.

    The last two take `fallback=`: backend ids asked in turn where a backend fails to compile a partition, or `"graph"`
    to leave its nodes in the program. The program handed in never changes. `to_backend.register` adds further forms.

    Raises BackendNotFoundError (a NotImplementedError), TagError, PreprocessError, ChangedGraphError and MethodError
    (both AssertionErrors), ProgramError for what is no program.
    """
    raise ProgramError(f"a {type(program).__qualname__} can't be lowered; export it first: torch.export.export(...)")


@to_backend.register
def _(backend_id: str, program: ExportedProgram, compile_specs: Sequence[CompileSpec] = ()) -> LoweredBackendModule:
    if not isinstance(program, ExportedProgram):
        raise ProgramError(f"a {type(program).__qualname__} is no ExportedProgram; torch.export.export makes one")
    return lower_program(backend_id, program, compile_specs)


@to_backend.register
def _(program: ExportedProgram, partitioner: Any, *, fallback: Fallback = ()) -> ExportedProgram:
    return lower_decided(program, partitioner, fallback)


@to_backend.register
def _(methods: MethodProgramsPartitionerSpec, *, fallback: Fallback = ()) -> dict[str, ExportedProgram]:
    programs, partitioners = methods.method_to_edge_program, methods.method_to_partitioner
    for name in partitioners:
        if name not in programs:
            raise MethodError(f"there is a partitioner for the method {name!r}, and no program; "
                              f"the methods are {', '.join(programs) or 'none'}")
    started = {name: _Method(name, programs[name], one) for name, one in partitioners.items()}
    lowered = compile_all([job for one in started.values() for job in one.jobs], fallback)
    return {name: started[name].assembled(lowered) if name in started else one for name, one in programs.items()}


@to_backend.register(dict)
def _(programs: dict[str, ExportedProgram], decision: Any, *, fallback: Fallback = ()) -> dict[str, ExportedProgram]:
    """Several methods that one call of `partition` decided on, or one partitioner for all of them."""
    each = dict.fromkeys(programs, decision)
    tagged = getattr(decision, "tagged_exported_program", None)
    if isinstance(tagged, Mapping):
        each = {name: _OneMethod(one, decision.partition_tags, decision) for name, one in tagged.items()}
    lowered: dict[str, ExportedProgram] = to_backend(MethodProgramsPartitionerSpec(programs, each), fallback=fallback)
    return lowered


def lower_decided(
    program: ExportedProgram, partitioner: Any, fallback: Fallback = (), cache: Cache | None = None
) -> ExportedProgram:
    """`to_backend` for one program, with delegates from a cache where it has them."""
    method = _Method("forward", program, partitioner)
    return method.assembled(compile_each(method.jobs, fallback, cache))


@define
class _OneMethod:
    """What a decision over several methods says about one of them."""

    tagged_exported_program: ExportedProgram
    partition_tags: Mapping[str, DelegationSpec]
    whole: Any

    @property
    def partitions(self) -> Any:
        """All partitions; those of other methods have other tags."""
        return self.whole.partitions

    @property
    def marks(self) -> Any:
        """All marks; those of other methods are on other nodes."""
        return self.whole.marks


class _Method:
    """One program on its way: decided, cut into jobs, and put together again."""

    def __init__(self, name: str, program: ExportedProgram, partitioner: Any) -> None:
        decision = _decide(program, partitioner)
        tagged = decision.tagged_exported_program
        self.owner = Owner(tagged, state=program)
        self.cuts: dict[int, list[Cut]] = {}
        self.jobs: list[Job] = []
        tags: Mapping[str, Any] = decision.partition_tags
        rules = {part.tag: tuple(dict.fromkeys(rule for rule, _ in part.matches))
                 for part in getattr(decision, "partitions", ())}
        marks: dict[fx.Node, list[str]] = {}
        for node, key in getattr(decision, "marks", ()):
            marks.setdefault(node, []).append(key)
        hidden = set()
        for path, module in graphs_of(tagged.graph_module):
            if id(module) in hidden:
                continue
            cuts = self.cuts[id(module)] = cut_graph(module, self.owner, tags, path)
            hidden |= _inside(cuts)
            self.jobs.extend(self._job(name, cut, tags[cut.tag], marks, rules.get(cut.tag, ())) for cut in cuts)

    def _job(
        self, method: str, cut: Cut, spec: Any, marks: Mapping[fx.Node, Sequence[str]], rules: tuple[str, ...]
    ) -> Job:
        return Job(method, cut, spec, lambda: program_of(cut, self.owner, marks), rules)

    def assembled(self, lowered: Mapping[int, LoweredBackendModule]) -> ExportedProgram:
        """The program that calls the delegates."""
        return assemble(self.owner, self.cuts, lowered)


def _inside(cuts: Sequence[Cut]) -> set[int]:
    """The branches that went into delegates with the ops that run them."""
    found: set[int] = set()
    for cut in cuts:
        inside = set(cut.nodes)
        for node, value in cut.attributes.items():
            if isinstance(value, fx.GraphModule) and all(user in inside for user in node.users):
                found.update(id(module) for _, module in graphs_of(value))
    return found


def _decide(program: ExportedProgram, partitioner: Any) -> Any:
    """The decision about a program: made now by a partitioner, on a copy with fake weights, or earlier."""
    if hasattr(partitioner, "partition_tags"):
        decision, who = partitioner, "the partition result"
    else:
        chosen = _partitioner(partitioner)
        decision, who = chosen(fake_copy(program)), f"the partitioner {type(chosen).__name__}"
    if getattr(decision, "partition_tags", None) is None:
        raise PartitionerError(f"{who} gave no partition_tags: it must give a mapping from tags to delegation specs")
    tagged = getattr(decision, "tagged_exported_program", None)
    if not isinstance(tagged, ExportedProgram):
        raise PartitionerError(f"{who} gave no tagged_exported_program")
    if not _Validation.enabled:
        logger.warning("the check that %s left the graph as it was is disabled", who)
    elif tagged is not program:
        changed = difference(tagged.graph_module, program.graph_module)
        if changed is not None:
            raise ChangedGraphError(f"{who} must not change the graph: {changed}")
    return decision


def _partitioner(given: Any) -> Any:
    if callable(given):
        return given
    from apportion.engine.partitioner import rules_partitioner

    return rules_partitioner(given)
