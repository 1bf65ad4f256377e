"""The `partition` and `preserve` blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from apportion.engine.compile.core import suggest
from apportion.engine.compile.options import describe
from apportion.engine.compile.requirements import condition, define_let, option_value, text_of
from apportion.engine.compile.rulesets import Cutoff, LetStep, PartitionPolicy, PreservePolicy
from apportion.engine.compile.scope import PARTITION_NAMES, Scope
from apportion.engine.compile.types import BOOL, INT, VALUE, Type, enum_of, fits
from apportion.grammar import tree
from apportion.grammar.diagnostics import Label

__all__ = ["KEYS", "compile_policy", "compile_preserve", "default_policy"]


@frozen
class Key:
    """One key of the partition block: its type, and what its value must satisfy."""

    type: Type
    allowed: Callable[[Any], bool]
    wanted: str


def _at_least(least: int) -> Key:
    return Key(INT, lambda value: value is None or (isinstance(value, int) and value >= least), f"at least {least}")


def _one_of(*choices: str) -> Key:
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return Key(enum_of(choices), lambda value: value in choices, f"one of {listed}")


KEYS: Mapping[str, Key] = {
    "merge": _one_of("adjacent", "all", "siblings", "none"),
    "min_nodes": _at_least(1),
    "max_nodes": _at_least(1),
    "max_partitions": _at_least(0),
    "max_inputs": _at_least(0),
    "max_outputs": _at_least(1),
    "max_constant_bytes": _at_least(0),
    "constants": _one_of("all", "unshared", "none"),
    "mutable_buffers": Key(BOOL, lambda value: isinstance(value, bool), "true or false"),
}
"""Every key of the partition block."""


def default_policy() -> PartitionPolicy:
    """What holds where a file has no `partition` block."""
    slots = {name: slot for slot, name in enumerate(PARTITION_NAMES)}
    size = len(slots) + 2
    return PartitionPolicy(frame_size=size, slots={**slots, "n": size - 1})


def compile_policy(block: tree.PartitionBlock, file: Scope) -> PartitionPolicy:
    """The policy of a backend; what is wrong with it goes to the diagnostics."""
    scope = file.rule_scope()
    values: dict[str, Any] = {}
    spans: dict[str, tree.PartitionKey] = {}
    steps: list[LetStep] = []
    trims: list[Cutoff] = []
    rejects: list[Cutoff] = []
    node = scope.child()
    slot = node.declare("n", VALUE, block.span)
    for clause in block.body:
        if isinstance(clause, tree.PartitionKey):
            _key(clause, values, spans, scope)
        elif isinstance(clause, tree.Let) and clause.name == "n":
            scope.error("A009", clause.span, "`n` is the node that `trim` asks about", help="choose another name")
        elif isinstance(clause, tree.Let):
            step = define_let(clause, scope)
            if step is not None:
                steps.append(step)
        elif isinstance(clause, tree.Trim):
            trims.append(_cutoff(clause, node))
        else:
            rejects.append(_cutoff(clause, scope))
    slots = {name: position for position, name in enumerate(PARTITION_NAMES)}
    return PartitionPolicy(
        **values,
        steps=tuple(steps),
        trims=tuple(trims),
        rejects=tuple(rejects),
        frame_size=scope.frame_size,
        slots={**slots, "n": slot},
        span=block.span,
    )


def _key(
    clause: tree.PartitionKey, values: dict[str, Any], seen: dict[str, tree.PartitionKey], scope: Scope
) -> None:
    key = KEYS.get(clause.key)
    if key is None:
        scope.error("A005", clause.span, f"the partition block has no key `{clause.key}`",
                    help=suggest(clause.key, KEYS) or "its keys are " + ", ".join(f"`{name}`" for name in KEYS))
        return
    if clause.key in seen:
        scope.error("A009", clause.span, f"`{clause.key}` is given twice",
                    labels=[Label(seen[clause.key].span, "it is given here")])
        return
    seen[clause.key] = clause
    compiled = option_value(clause.value, scope, f"`{clause.key}`")
    if compiled.failed or not compiled.option_only:
        return
    if not fits(compiled.type, key.type) or not key.allowed(compiled.value):
        what = f"this is {compiled.type.phrase}" if not fits(compiled.type, key.type) else f"this is {compiled.value}"
        wanted = describe(key.type) if key.type.choices else key.wanted
        near = suggest(str(compiled.value), key.type.choices or ())
        scope.error("A004", clause.value.span, f"`{clause.key}` is {wanted}", label=what, help=near)
        return
    values[clause.key] = compiled.value


def _cutoff(clause: tree.Trim | tree.Reject, scope: Scope) -> Cutoff:
    _, evaluate, observed = condition(clause.condition, scope)
    return Cutoff(evaluate, clause.span, text_of(clause.condition), clause.because, observed, clause.condition, scope)


def compile_preserve(block: tree.Preserve, scope: Scope) -> PreservePolicy:
    """Which ops are kept whole: `|` adds, `-` takes away, in the order of the text."""
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    for op, expr in block.changes:
        names = scope.resolve_ops(expr)
        if op == "-":
            added, removed = added - names, removed | names
        else:
            added, removed = added | names, removed - names
    return PreservePolicy(block.claimed, added, removed)
