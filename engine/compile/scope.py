"""Names: what each name of a rules file means at each place, and where its value is kept when a rule runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from apportion.engine.compile import opsets
from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.types import ANY, VALUE, Type, list_of
from apportion.engine.ops import Op, UnknownOp, schema_of
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Span

__all__ = [
    "BUDGET_SLOT",
    "FAR_SLOT",
    "FIRST_FREE_SLOT",
    "NEAR_SLOT",
    "PARTITION_NAMES",
    "Compiled",
    "Entry",
    "Environment",
    "Frame",
    "Scope",
]

PARTITION_NAMES: Mapping[str, Type] = {
    name: list_of(VALUE) for name in ("nodes", "inputs", "outputs", "constants")
}
"""What is bound once partitions exist, in the order of their reserved slots 0 to 3."""

BUDGET_SLOT = len(PARTITION_NAMES)
"""The slot that keeps count of the work that one evaluation may do."""

NEAR_SLOT = BUDGET_SLOT + 1
"""The slot of the nodes that the pattern has looked into (None outside of patterns)."""

FAR_SLOT = NEAR_SLOT + 1
"""The slot that is True once something was read beyond the arguments and results of those nodes: then what the rule
came to here says nothing about places like this one."""

FIRST_FREE_SLOT = FAR_SLOT + 1

Evaluate = Callable[[list[Any]], Any]

_CALLED_ONLY = frozenset({"function", "pattern", "contract", "extern"})
"""Kinds of names that are only ever written with parentheses; a variable of the same name cannot be confused."""


@frozen
class Compiled:
    """An expression that can be evaluated.

    `evaluate(frame)` gives a value or `Unknown`, never raises, never adds a guard. `names` are the free names that it
    reads (pattern variables and the partition's names); `pure` is unset where the host program is asked, `by_option`
    set where options matter. What depends on nothing but literals and options has its value in `value`. `weight`
    counts the steps of one evaluation, `height` how deeply they nest. `failed` marks what already has a diagnostic.
    """

    type: Type
    evaluate: Evaluate
    names: frozenset[str] = frozenset()
    pure: bool = True
    by_option: bool = False
    value: Any = None
    weight: int = 1
    height: int = 1
    failed: bool = False

    @property
    def option_only(self) -> bool:
        """Is its value known at load?"""
        return self.pure and not self.names

    @property
    def constant(self) -> bool:
        """Is its value known whatever the options are?"""
        return self.option_only and not self.by_option

    @property
    def post(self) -> bool:
        """Does it speak of the partition, which exists only later?"""
        return not self.names.isdisjoint(PARTITION_NAMES)


@frozen
class Entry:
    """What one name means.

    `kind` is variable, let, function, ops, pattern, contract or extern. A variable has a slot; what is known at load
    has `compiled` instead (of a set of ops: its `value`); the others have the statement that declares them, and a
    function the scope its body sees. `names` are the free names behind a let.
    """

    name: str
    kind: str
    span: Span | None
    type: Type = ANY
    slot: int | None = None
    names: frozenset[str] = frozenset()
    compiled: Compiled | None = None
    declaration: Any = None
    scope: Scope | None = None


@define(eq=False)
class Frame:
    """Counts the slots that one rule needs; shared by all scopes inside the rule.

    `functions` remembers the bodies compiled so far; `speaks_of_subgraphs` is set once `.subgraphs` is read.
    """

    size: int = FIRST_FREE_SLOT
    functions: dict[Any, Any] = Factory(dict)
    speaks_of_subgraphs: bool = False

    def slot(self) -> int:
        """A new slot."""
        self.size += 1
        return self.size - 1


@define(eq=False)
class Environment:
    """What all scopes of one load share: the tables of the files, and the diagnostics found so far.

    `resolve` completes a file-level name when it is first asked for, so that their order does not matter. `active` are
    the declarations that are being compiled, `callers` the places that called them, `depth` counts how deeply.
    `overflowing` are contracts that come to too much and functions with errors, `seen` the findings made, `schemas` the
    ops looked up.
    """

    diagnostics: list[Diagnostic] = Factory(list)
    entries: dict[str, Entry] = Factory(dict)
    patterns: dict[str, tree.PatternDecl] = Factory(dict)
    options: dict[str, Any] = Factory(dict)
    option_types: dict[str, Type] = Factory(dict)
    option_spans: dict[str, Span] = Factory(dict)
    metas: dict[str, tree.MetaDecl] = Factory(dict)
    declared: dict[str, Op] = Factory(dict)
    disjoint: dict[str, frozenset[str]] = Factory(dict)
    active: list[Any] = Factory(list)
    callers: list[Span] = Factory(list)
    overflowing: list[Any] = Factory(list)
    resolve: Callable[[Entry], Entry] | None = None
    depth: int = 0
    seen: set[tuple[str, int, int, str]] = Factory(set)
    schemas: dict[str, Op | None] = Factory(dict)

    @contextmanager
    def inside(self, declaration: Any, caller: Span | None = None) -> Iterator[None]:
        """While the body of `declaration` is compiled, for `caller` where it is used at a certain place."""
        callers = self.callers
        self.active.append(declaration)
        self.callers = [] if caller is None else [*callers, caller]
        try:
            yield
        finally:
            self.active.pop()
            self.callers = callers


@define(eq=False)
class Scope:
    """The names that are visible at one place."""

    environment: Environment
    frame: Frame = Factory(Frame)
    parent: Scope | None = None
    _sink: list[Diagnostic] | None = None
    _entries: dict[str, Entry] = field(factory=dict, init=False)
    _flags: dict[tuple[str, str], int] = field(factory=dict, init=False)

    # --- making scopes ---------------------------------------------------------------------------------------------

    def child(self) -> Scope:
        """A scope inside this one: its names are not seen outside, its slots are of the same frame."""
        return Scope(self.environment, self.frame, self, self._sink)

    def rule_scope(self) -> Scope:
        """The scope of a rule, an invariant or the partition block: a frame of its own."""
        return Scope(self.environment, Frame(), self, self._sink)

    def for_call_from(self, caller: Scope) -> Scope:
        """A child of this scope that uses the frame of `caller`: where the body of a function is compiled."""
        return Scope(self.environment, caller.frame, self, caller._sink)

    def muted(self) -> Scope:
        """A child whose diagnostics go nowhere."""
        scope = self.child()
        scope._sink = []
        return scope

    # --- tables of the file ----------------------------------------------------------------------------------------

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Where findings go."""
        return self.environment.diagnostics if self._sink is None else self._sink

    @property
    def frame_size(self) -> int:
        """How many slots a frame needs; final once the whole rule is compiled."""
        return self.frame.size

    @property
    def patterns(self) -> Mapping[str, tree.PatternDecl]:
        """The named patterns of the file and of what it uses."""
        return self.environment.patterns

    @property
    def options(self) -> Mapping[str, Any]:
        """The options with their values for this load."""
        return self.environment.options

    @property
    def declared(self) -> Mapping[str, Op]:
        """The ops whose schemas the files declare."""
        return self.environment.declared

    # --- diagnostics -----------------------------------------------------------------------------------------------

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        label: str = "",
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        """Record an error, once for each place and code."""
        if self._sink is None:
            key = (span.source.name, span.start, span.end, code)
            if key in self.environment.seen:
                return
            self.environment.seen.add(key)
        callers = self.environment.callers[-1:]
        shown = (*labels, *(Label(caller, "it is used here") for caller in callers if caller != span))
        self.diagnostics.append(Diagnostic(code, Severity.error, message, span, label, shown, tuple(notes), help))

    # --- declaring -------------------------------------------------------------------------------------------------

    def declare(self, name: str, type: Type, span: Span) -> int:
        """Bind a variable here and give its slot; a name that already means something else is an A009."""
        slot = self.frame.slot()
        self.add(Entry(name, "variable", span, type, slot, frozenset({name})))
        return slot

    def add(self, entry: Entry, *, shadows: bool = False) -> None:
        """Bind `entry` here; `shadows` lets it hide a name from further out (parameters, comprehensions)."""
        if entry.span is not None:
            self._check_free(entry, entry.span, shadows)
        self._entries[entry.name] = entry

    def _check_free(self, entry: Entry, span: Span, shadows: bool) -> None:
        name, rename = entry.name, "choose another name"
        if name in DTYPES:
            self.error("A009", span, f"`{name}` is a dtype and cannot be given another meaning", help=rename)
        elif name in PARTITION_NAMES and not shadows:
            self.error("A009", span, f"`{name}` is what a partition binds and cannot be given another meaning",
                       help=rename)
        else:
            other = self._entries.get(name) if shadows else self.lookup(name)
            if other is None or (other.kind in _CALLED_ONLY and entry.kind == "variable"):
                return
            labels = () if other.span is None else (Label(other.span, "it is given a meaning here"),)
            self.error("A009", span, f"the name `{name}` is already taken", label="given again", labels=labels,
                       help=rename)

    def retype(self, name: str, type: Type) -> None:
        """Give a variable of this scope another type, once more is known of it."""
        self._entries[name] = evolve(self._entries[name], type=type)

    def declare_presence(self, name: str) -> int:
        """The slot that tells whether the optional binding `name` is there: the matcher puts True or False."""
        return self._declare_flag(name, "presence")

    def declare_walked(self, name: str) -> int:
        """The slot that tells whether the `through` that ends in `name` walked any node: True or False."""
        return self._declare_flag(name, "walked")

    def _declare_flag(self, name: str, flag: str) -> int:
        if (name, flag) not in self._flags:
            self._flags[(name, flag)] = self.frame.slot()
        return self._flags[(name, flag)]

    def pass_flags(self, source: Scope, argument: str, parameter: str) -> None:
        """What `present` and `walked` know of `argument` in `source` holds of `parameter` here."""
        for flag in ("presence", "walked"):
            slot = source.flag(argument, flag)
            if slot is not None:
                self._flags[(parameter, flag)] = slot

    # --- looking up ------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Entry | None:
        """What `name` means here, or None."""
        scope: Scope | None = self
        while scope is not None:
            entry = scope._entries.get(name)
            if entry is not None:
                return entry
            scope = scope.parent
        entry = self.environment.entries.get(name)
        if entry is not None and self.environment.resolve is not None:
            return self.environment.resolve(entry)
        return entry

    def entry_value(self, name: str) -> Compiled | None:
        """What the `let` called `name` stands for where that is known at load, or None."""
        entry = self.lookup(name)
        return None if entry is None or entry.kind == "ops" else entry.compiled

    def flag(self, name: str, flag: str) -> int | None:
        """The slot of `presence` or `walked` of a name, or None if the pattern has no such question."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope._flags.get((name, flag))
            if slot is not None or name in scope._entries:
                return slot
            scope = scope.parent
        return None

    def names(self) -> set[str]:
        """Every name that means something here."""
        found = set(self.environment.entries)
        scope: Scope | None = self
        while scope is not None:
            found |= set(scope._entries)
            scope = scope.parent
        return found

    def resolve_ops(self, expr: tree.Expr) -> frozenset[str]:
        """The names of the ops that an op-set expression stands for; an unknown op is reported and left out."""
        return opsets.resolve_ops(expr, self)

    def schema_of(self, name: str) -> Op | None:
        """The schema of one concrete op, declared or registered; None where it has none."""
        known = self.environment.schemas
        if name not in known:
            try:
                known[name] = schema_of(name, self.environment.declared)
            except UnknownOp:
                known[name] = None
        return known[name]

    def is_op_name(self, expr: tree.Expr) -> bool:
        """Is `expr` a dotted name of an op, and not an attribute of something bound here?"""
        return opsets.is_op_name(expr, self)
