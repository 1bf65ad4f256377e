"""What a run did: coverage for each backend, and for every node left behind the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from operator import add
from typing import Any

from attrs import astuple, define, field, frozen

__all__ = ["BackendCoverage", "NodeReason", "Report", "Traffic"]

SCHEMA = "apportion.report/1"


@frozen
class Traffic:
    """Bytes across the borders of a backend's partitions, and of the constants that go along.

    `duplicated_bytes` counts constants beyond their first copy where several partitions take the same one.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    constant_bytes: int = 0
    duplicated_bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*map(add, astuple(self), astuple(other)))


@frozen(slots=False)
class BackendCoverage:
    """What one backend got: op nodes claimed, by name (`method.name` in a program with several methods), of how many,
    partitions, and the `Traffic` of these, worked out when it is asked for."""

    backend_id: str
    claimed: int
    total: int
    partitions: int
    nodes: tuple[str, ...] = ()
    _traffic: Callable[[], Traffic] = field(default=Traffic, repr=False, eq=False)

    @cached_property
    def traffic(self) -> Traffic:
        """All bytes at once."""
        return self._traffic()

    @property
    def bytes_in(self) -> int:
        """The bytes that go into partitions."""
        return self.traffic.bytes_in

    @property
    def bytes_out(self) -> int:
        """The bytes that come out of partitions."""
        return self.traffic.bytes_out

    @property
    def constant_bytes(self) -> int:
        """The bytes of the constants that go along."""
        return self.traffic.constant_bytes

    @property
    def duplicated_bytes(self) -> int:
        """The bytes of constants beyond the first copy of each."""
        return self.traffic.duplicated_bytes


@frozen
class NodeReason:
    """Why one node was left.

    `kind` is a stable word (`no rule`, `pattern`, `requirement`, …), `location` the place in the rules file
    (`acme.rules:12:3`), `condition` the text that failed, `observed` pairs of path and value, `message` all in one
    sentence.
    """

    method: str
    graph: str
    node: str
    op: str
    module: str
    kind: str
    rule: str | None
    location: str | None
    condition: str | None
    observed: tuple[tuple[str, str], ...]
    because: str | None
    message: str
    backend: str = ""

    @property
    def cause(self) -> str:
        """The reason without the node's own values: what reasons are grouped by."""
        where = f" ({self.location})" if self.location else ""
        if self.kind == "no rule":
            return f"no rule names {self.op}"
        text = f"`{self.condition}`" if self.condition else self.kind
        subject = f"{self.rule}{where}: " if self.rule else ""
        return f"{subject}{text}" + (f" ({self.because})" if self.because else "")


@define
class Report:
    """Counts, and reasons as data. `str()` gives what the command line prints."""

    coverage: tuple[BackendCoverage, ...] = ()
    nodes_total: int = 0
    claimed: int = 0
    ops_total: int = 0
    ops_claimed: int = 0
    rounds: int = 0
    explain: Callable[[], Iterable[NodeReason]] = field(default=tuple, repr=False, eq=False, kw_only=True)
    _left: tuple[NodeReason, ...] | None = field(default=None, init=False, repr=False, eq=False)

    @property
    def left(self) -> tuple[NodeReason, ...]:
        """The nodes left behind, each with its reason; put into words when first asked for."""
        if self._left is None:
            self._left = tuple(self.explain())
        return self._left

    @property
    def share(self) -> float:
        """Claimed nodes of all op nodes, 0 to 1 (1 where there are none)."""
        return self.claimed / self.nodes_total if self.nodes_total else 1.0

    @property
    def share_of_ops(self) -> float:
        """Distinct ops of which every node is claimed, of all distinct ops, 0 to 1."""
        return self.ops_claimed / self.ops_total if self.ops_total else 1.0

    def reason(self, node: str, *, method: str | None = None) -> NodeReason | None:
        """The reason of a node by name; None where it is claimed or not there."""
        return next((r for r in self.left if r.node == node and method in (None, r.method)), None)

    def grouped(self) -> list[tuple[str, list[NodeReason]]]:
        """The reasons by cause, most nodes first."""
        groups: dict[str, list[NodeReason]] = {}
        for reason in self.left:
            groups.setdefault(reason.cause, []).append(reason)
        return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, by the schema `apportion.report/1`."""
        return {
            "schema": SCHEMA,
            "nodes": {"total": self.nodes_total, "claimed": self.claimed},
            "ops": {"total": self.ops_total, "claimed": self.ops_claimed},
            "rounds": self.rounds,
            "backends": [
                {
                    "backend_id": c.backend_id,
                    "claimed": c.claimed,
                    "partitions": c.partitions,
                    "bytes_in": c.bytes_in,
                    "bytes_out": c.bytes_out,
                    "constant_bytes": c.constant_bytes,
                    "duplicated_bytes": c.duplicated_bytes,
                    "nodes": list(c.nodes),
                }
                for c in self.coverage
            ],
            "left": [
                {
                    "method": r.method,
                    "graph": r.graph,
                    "node": r.node,
                    "op": r.op,
                    "module": r.module,
                    "backend_id": r.backend,
                    "kind": r.kind,
                    "rule": r.rule,
                    "location": r.location,
                    "condition": r.condition,
                    "observed": dict(r.observed),
                    "because": r.because,
                    "message": r.message,
                }
                for r in self.left
            ],
        }

    def summary(self) -> str:
        """One line: nodes claimed, by whom, in how many partitions."""
        parts = [f"{c.backend_id} {c.claimed} in {_count(c.partitions, 'partition')}" for c in self.coverage]
        return f"{self.claimed} of {_count(self.nodes_total, 'node')} claimed ({self.share:.0%}): {', '.join(parts)}"

    def __str__(self) -> str:
        lines = [self.summary()]
        for c in self.coverage:
            extra = f", constants {_bytes(c.constant_bytes)}" if c.constant_bytes else ""
            extra += f" ({_bytes(c.duplicated_bytes)} of it copies)" if c.duplicated_bytes else ""
            lines.append(f"  {c.backend_id}: bytes in {_bytes(c.bytes_in)}, out {_bytes(c.bytes_out)}{extra}")
        if self.left:
            lines.append(f"left behind: {_count(len(self.left), 'node')}")
        for cause, reasons in self.grouped():
            ops = Counter(r.op for r in reasons)
            named = ", ".join(
                f"{op} x{n}" if n > 1 else op for op, n in sorted(ops.items(), key=lambda i: (-i[1], i[0]))
            )
            lines.append(f"  {len(reasons):4d}  {cause}")
            lines.append(f"        {named}")
            example = reasons[0]
            if example.kind != "no rule":
                lines.append(f"        e.g. {example.node}: {example.message}")
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _bytes(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size = size / 1024  # type: ignore[assignment]  # a float from here on, only printed
    return f"{size:.1f} GiB"
