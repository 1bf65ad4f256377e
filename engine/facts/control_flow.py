"""Which operand of a control-flow op each placeholder of its branches stands for.

A branch's placeholder keeps what is true of its operand (that it is a parameter, say) where it is the same value
each time the branch runs: not what a loop carries, nor the slices that `scan` and `map` cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

__all__ = ["CONTROL_FLOW", "ControlFlow"]


@frozen
class ControlFlow:
    """The arguments of a control-flow op that hold its branches, the operands that change from run to run, and those
    that don't; a branch's placeholders are those operands in this order."""

    branches: tuple[str, ...]
    changing: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def operands(self, arguments: Mapping[str, Any]) -> list[Any | None]:
        """For each placeholder of a branch the operand it stands for, None where it is another value each run."""
        changing = [item for name in self.changing for item in _items(arguments.get(name))]
        return [None] * len(changing) + [item for name in self.fixed for item in _items(arguments.get(name))]


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else () if value is None else (value,)


_LOOP: Final = ControlFlow(("cond_fn", "body_fn"), ("carried_inputs",), ("additional_inputs",))

CONTROL_FLOW: Final[Mapping[str, ControlFlow]] = {
    "cond": ControlFlow(("true_fn", "false_fn"), (), ("operands",)),
    "while_loop": _LOOP,
    "while_loop_stack_output": _LOOP,
    "scan": ControlFlow(("combine_fn",), ("init", "xs"), ("additional_inputs",)),
    "map_impl": ControlFlow(("f",), ("xs",), ("pos_args",)),
    "invoke_subgraph": ControlFlow(("subgraph",), (), ("operands",)),
}
"""By the op's base name. Sub-graphs of other higher-order ops (a score function of attention) are not looked into."""
