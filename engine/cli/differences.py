"""Two outcomes side by side, as a table."""

from __future__ import annotations

from rich.table import Table

from apportion.engine.cli import console
from apportion.engine.explain.study import Difference, NodeName

__all__ = ["show_difference", "signed"]

_ROWS = (
    ("nodes claimed", "claimed"),
    ("ops wholly claimed", "ops_claimed"),
    ("partitions", "partitions"),
    ("bytes in", "bytes_in"),
    ("bytes out", "bytes_out"),
    ("constant bytes", "constant_bytes"),
)


def signed(number: int) -> str:
    """`+3`, `-3`, `0`."""
    return f"{number:+d}" if number else "0"


def show_difference(difference: Difference) -> None:
    """Print what changes: numbers before and after, and the nodes gained and lost."""
    table = Table(box=None, pad_edge=False)
    table.add_column("what if")
    for name in ("as it is", "changed", "difference"):
        table.add_column(name, justify="right")
    for label, name in _ROWS:
        before, after = getattr(difference.before, name), getattr(difference.after, name)
        table.add_row(label, str(before), str(after), signed(after - before))
    console.output().print(table)
    for word, nodes in (("gained", difference.gained), ("lost", difference.lost)):
        if nodes:
            console.show(f"{word}: {_names(nodes)}")


def _names(nodes: tuple[NodeName, ...]) -> str:
    return ", ".join(name for _, _, name in nodes[:20]) + (f", and {len(nodes) - 20} more" if len(nodes) > 20 else "")
