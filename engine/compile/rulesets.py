"""What a rules file becomes: checked, executable rules. Plain frozen data, made by `engine/load.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Union

from attrs import field, frozen

from apportion.engine.compile.types import Type
from apportion.engine.ops import Op
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Source, Span

if TYPE_CHECKING:
    from apportion.engine.compile.patterns import Pattern
    from apportion.engine.compile.units import Program

__all__ = [
    "CompiledEmit",
    "CompiledExtern",
    "CompiledInvariant",
    "CompiledOption",
    "CompiledRule",
    "Cutoff",
    "LetStep",
    "PartitionPolicy",
    "PreservePolicy",
    "Requirement",
    "RuleSet",
    "Step",
]

Evaluate = Callable[[list[Any]], Any]


@frozen
class Requirement:
    """One conjunct.

    `evaluate(frame)` gives True, False or `Unknown`. `text` is the condition as written, `span` its place, `because`
    the author's sentence; `observed` are (path, closure) pairs of the values that decide it. `post` is set where it
    speaks of the partition. `applied` are the places of the `require NAME(…)` it was inlined for, outermost first.
    `expr` is the condition as a tree and `scope` what its names mean, for explanations that look into parts of it.
    """

    evaluate: Evaluate
    span: Span
    text: str
    because: str | None = None
    observed: tuple[tuple[str, Evaluate], ...] = ()
    post: bool = False
    applied: tuple[Span, ...] = ()
    expr: tree.Expr | None = field(default=None, repr=False, eq=False)
    scope: Any = field(default=None, repr=False, eq=False)


@frozen
class LetStep:
    """A `let` (or a contract's argument): `frame[slot] = evaluate(frame)`."""

    slot: int
    evaluate: Evaluate
    name: str = ""


Step = Union[Requirement, LetStep]


@frozen
class CompiledEmit:
    """One compile spec: `evaluate(frame)` gives the raw value (see `encode_spec_value`) or `Unknown`."""

    key: str
    evaluate: Evaluate
    span: Span


@frozen
class CompiledRule:
    """A rule whose guard holds.

    `over` names every rule that it takes precedence of, transitively. `steps` are the requirements and lets on nodes in
    file order, contracts inlined; `post` those that speak of the partition. `takes` are slots, `marks` pairs of slots
    and key. `example_options` has the options that each of `examples` sets.
    """

    name: str
    position: int
    over: frozenset[str]
    doc: str | None
    span: Span
    name_span: Span
    pattern: Pattern
    givens: tuple[Pattern, ...]
    steps: tuple[Step, ...]
    post: tuple[Step, ...]
    takes: tuple[int, ...]
    marks: tuple[tuple[tuple[int, ...], str], ...]
    emits: tuple[CompiledEmit, ...]
    frame_size: int
    examples: tuple[tree.Example, ...]
    example_options: tuple[Mapping[str, Any], ...]
    source_name: str
    speaks_of_subgraphs: bool


@frozen
class CompiledInvariant:
    """What must hold of every claimed node that the root of its pattern matches."""

    name: str
    doc: str | None
    span: Span
    pattern: Pattern
    givens: tuple[Pattern, ...]
    steps: tuple[Step, ...]
    frame_size: int


@frozen
class Cutoff:
    """A `trim` or `reject`: drops the node or the partition for which `evaluate(frame)` is True."""

    evaluate: Evaluate
    span: Span
    text: str
    because: str | None = None
    observed: tuple[tuple[str, Evaluate], ...] = ()
    expr: tree.Expr | None = field(default=None, repr=False, eq=False)
    scope: Any = field(default=None, repr=False, eq=False)


@frozen
class PartitionPolicy:
    """The `partition` block.

    `steps` are its lets in order, to be run before each of `trims` (which read the slot of `n`) and `rejects`. `slots`
    maps nodes, inputs, outputs, constants and n to their slots in a frame of `frame_size`. A limit is None where there
    is none.
    """

    merge: str = "adjacent"
    min_nodes: int | None = None
    max_nodes: int | None = None
    max_partitions: int | None = None
    max_inputs: int | None = None
    max_outputs: int | None = None
    max_constant_bytes: int | None = None
    constants: str = "all"
    mutable_buffers: bool = False
    steps: tuple[LetStep, ...] = ()
    trims: tuple[Cutoff, ...] = ()
    rejects: tuple[Cutoff, ...] = ()
    frame_size: int = 0
    slots: Mapping[str, int] = field(factory=dict)
    span: Span | None = None


@frozen
class PreservePolicy:
    """Which ops are kept whole: those that are claimed (`claimed`), and `added`, but not `removed`."""

    claimed: bool = True
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


@frozen
class CompiledOption:
    """An option with its type and its value where the caller says nothing."""

    name: str
    type: Type
    default: Any
    doc: str | None
    span: Span


@frozen
class CompiledExtern:
    """A function of the host program that the rules call."""

    name: str
    parameters: tuple[str, ...]
    type: Type
    doc: str | None
    span: Span


@frozen
class RuleSet:
    """A backend's rules, checked and ready to run.

    `options` are the values for this load, `absent` the rules that their guards take out under these. `program` is
    the parsed text, for loading it again with other options. `warnings` are findings that do not keep the rules from
    being used.
    """

    backend_id: str
    name: str
    doc: str | None
    language: int
    options: Mapping[str, Any]
    option_decls: Mapping[str, CompiledOption]
    rules: tuple[CompiledRule, ...]
    absent: tuple[CompiledRule, ...]
    invariants: tuple[CompiledInvariant, ...]
    emits: tuple[CompiledEmit, ...]
    policy: PartitionPolicy
    preserve: PreservePolicy
    declared: Mapping[str, Op] = field(repr=False)
    externs: Mapping[str, CompiledExtern]
    disjoint: tuple[tuple[str, str], ...]
    sources: tuple[Source, ...] = field(repr=False)
    warnings: tuple[Diagnostic, ...] = ()
    program: Program | None = field(default=None, repr=False, eq=False)
