"""Explanations as data: for each node who claimed it, or how far every rule that names its op came."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

__all__ = ["Apart", "Explanation", "NodeExplanation", "Obstacle", "RuleAttempt"]

SCHEMA = "apportion.explanation/1"


@frozen
class RuleAttempt:
    """How far one rule came at a node.

    `kind` is a word of reports (`requirement`, `pattern`, …), or `claimed`. `rule` is the rule, `line` its place;
    `location` is the place of the condition that failed, `invariant` the invariant where that is one. `passed` of `of`
    requirements held. `observed` are the values that decide the condition, `remedies` what would have to be seen
    instead (all of them together). `condition` and `because` are as in the file.
    """

    backend: str
    rule: str
    line: str
    kind: str
    message: str
    location: str | None = None
    invariant: str | None = None
    condition: str | None = None
    observed: tuple[tuple[str, str], ...] = ()
    because: str | None = None
    remedies: tuple[str, ...] = ()
    passed: int | None = None
    of: int | None = None
    condition_lines: int = 1

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        found = {name: getattr(self, name) for name in _PLAIN}
        return {**found, "observed": dict(self.observed), "remedies": list(self.remedies)}


_PLAIN = ("backend", "rule", "line", "kind", "message", "location", "invariant", "condition", "because", "passed", "of")


@frozen
class Obstacle:
    """What is in the way of a node once everything before it is let off; fields as in `RuleAttempt`."""

    kind: str
    message: str
    location: str | None = None
    condition: str | None = None
    observed: tuple[tuple[str, str], ...] = ()
    because: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "message": self.message, "location": self.location, "condition": self.condition,
                "observed": dict(self.observed), "because": self.because}


@frozen
class NodeExplanation:
    """One node: what it is, whose it is, and every rule that names its op, the one that came furthest first.

    `values` are its inputs and outputs with type and shape; `source` the line of the model it was exported from.
    `further` is what else is in the way once the condition that `message` names is let off, and so on: nothing if it is
    claimed then; None where that was not asked, or where no condition is what is in the way.
    """

    method: str
    graph: str
    node: str
    op: str
    module: str
    source: str
    values: tuple[tuple[str, str], ...]
    backend: str | None
    tag: str | None
    kind: str
    message: str
    attempts: tuple[RuleAttempt, ...]
    further: tuple[Obstacle, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "method": self.method, "graph": self.graph, "node": self.node, "op": self.op, "module": self.module,
            "source": self.source, "values": dict(self.values), "backend_id": self.backend, "tag": self.tag,
            "kind": self.kind, "message": self.message, "attempts": [a.to_json() for a in self.attempts],
            "further": None if self.further is None else [one.to_json() for one in self.further],
        }  # fmt: skip

    def __str__(self) -> str:
        where = f" in {self.module}" if self.module else ""
        graph = f" ({self.graph})" if self.graph else ""
        state = f"claimed by {self.backend}, partition {self.tag}" if self.backend else "left"
        lines = [f"{self.node}{graph}: {self.op}{where}: {state}"]
        if self.source:
            lines.append(f"  from {self.source}")
        lines += [f"  {name}: {shape}" for name, shape in self.values]
        if not self.backend and (not self.attempts or self.message != self.attempts[0].message):
            lines.append(f"  {self.message}")
        for number, attempt in enumerate(self.attempts, 1):
            lines += _attempt_lines(number, attempt)
        if self.further is not None:
            lines += [f"  then in the way: {one.message}" for one in self.further]
            lines += [] if self.further else ["  nothing else is in the way"]
        return "\n".join(lines)


def _attempt_lines(number: int, attempt: RuleAttempt) -> list[str]:
    came = f", {attempt.passed} of {attempt.of} requirements hold" if attempt.of else ""
    lines = [f"  {number}. {attempt.rule} ({attempt.line}) of {attempt.backend}: {attempt.kind}{came}"]
    if attempt.kind == "claimed":
        return lines
    if attempt.condition is None:
        lines.append(f"       {attempt.message}")
        return lines
    named = f"invariant {attempt.invariant}: " if attempt.invariant else ""
    lines.append(f"     {attempt.location}: {named}`{attempt.condition}`")
    lines += [f"       {path} is {value}" for path, value in attempt.observed]
    if attempt.because:
        lines.append(f'       because "{attempt.because}"')
    if attempt.remedies:
        lines.append("       would do: " + "; and ".join(attempt.remedies))
    return lines


@frozen
class Apart:
    """Two partitions of one backend that are neighbours, and why they are two.

    `path` names the nodes outside of both on a way from one to the other, `reasons` why each of them is not in them.
    """

    first: str
    second: str
    why: str
    path: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"first": self.first, "second": self.second, "why": self.why, "path": list(self.path),
                "reasons": dict(self.reasons)}

    def __str__(self) -> str:
        lines = [f"{self.first} and {self.second}: {self.why}"]
        lines += [f"    {node}: {reason}" for node, reason in self.reasons]
        return "\n".join(lines)


@frozen
class Explanation:
    """The nodes that were asked for, and the pairs of partitions that were not merged.

    `warnings` say what the program does not tell (no metadata), and how to get it.
    """

    nodes: tuple[NodeExplanation, ...]
    apart: tuple[Apart, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def node(self, name: str) -> NodeExplanation | None:
        """A node by its name; None where it was not asked for."""
        return next((node for node in self.nodes if node.node == name), None)

    def to_json(self) -> dict[str, Any]:
        """As plain data, by the schema `apportion.explanation/1`."""
        return {
            "schema": SCHEMA,
            "nodes": [node.to_json() for node in self.nodes],
            "apart": [apart.to_json() for apart in self.apart],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        parts = [*self.warnings, *map(str, self.nodes)]
        if self.apart:
            parts.append("\n".join(["not merged:", *(f"  {apart}" for apart in self.apart)]))
        return "\n".join(parts)
