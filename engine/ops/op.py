"""What an op is, and the register of those that were met: one object for a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from attrs import field, frozen

__all__ = [
    "ASSERTIONS",
    "ASSERTION_PREFIXES",
    "BY_NAME",
    "Op",
    "OpArgument",
    "OpSchemaDecl",
    "UnknownOp",
    "is_assertion",
    "is_size_query",
    "made",
    "op_named",
]


@frozen
class OpArgument:
    """One argument of a schema. `type` is written as in a schema: `Tensor`, `Tensor?`, `int[]`, `Scalar`, `bool`."""

    name: str
    type: str
    kwarg_only: bool = False
    has_default: bool = False
    default: Any = None

    @property
    def is_list(self) -> bool:
        """Whether it takes a list (of numbers, of tensors)."""
        return self.type.rstrip("?").endswith("[]")


@frozen(eq=False)
class Op:
    """An op: its name, its schema and its effects. One object for a name, so identity is equality.

    `is_view`: the result only re-describes the input's data (PyTorch's view ops and their `*_copy` twins).
    `writes` and `aliases`: names of the arguments it writes to, and of those its outputs may share memory with.
    `names`: those of its arguments. `text`: the schema.
    `style`: "aten" (has a schema in the dispatcher, any namespace), "function", "method", "module", "higher_order".
    """

    name: str
    namespace: str
    base: str
    overload: str
    style: str
    schema: torch.FunctionSchema | None = field(default=None, repr=False)
    arguments: tuple[OpArgument, ...] = field(default=(), repr=False)
    returns: tuple[str, ...] = field(default=(), repr=False)
    is_view: bool = field(default=False, repr=False)
    is_mutable: bool = field(default=False, repr=False)
    is_random: bool = field(default=False, repr=False)
    has_effects: bool = field(default=False, repr=False)
    tags: frozenset[str] = field(default=frozenset(), repr=False)
    writes: tuple[str, ...] = field(default=(), repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    text: str = field(default="", repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(a.name for a in self.arguments))

    def __str__(self) -> str:
        return self.name

    def argument(self, name: str) -> OpArgument | None:
        """The argument of that name."""
        return next((a for a in self.arguments if a.name == name), None)

    @property
    def is_only_random(self) -> bool:
        """Whether random numbers are its only effect."""
        return self.is_random and not self.is_mutable and bool(self.returns or self.style != "aten")

    @property
    def is_multi_output(self) -> bool:
        """Whether a call makes a tuple or a list (its parts are read with `y[0]`), as far as the schema tells."""
        return len(self.returns) > 1 or any(r.endswith("[]") for r in self.returns)


OpSchemaDecl = Op
"""What `parse_schema` makes of a `declare` statement."""


class UnknownOp(LookupError):
    """No op of that name is registered or declared. `nearest` are real names like it, the best first."""

    def __init__(self, name: str, nearest: Sequence[str] = (), hint: str = "") -> None:
        self.name = name
        self.nearest = tuple(nearest)
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"unknown op {self.name}"
        if self.hint:
            text += f": {self.hint}"
        if self.nearest:
            text += f" (did you mean {', '.join(self.nearest)}?)"
        return text


BY_NAME: Final[dict[str, Op]] = {}
"""The ops that a graph or a look-up has met in this process."""


def made(name: str, make: Callable[[], Op]) -> Op:
    """The op of that name, made and registered where it was not met before."""
    known = BY_NAME.get(name)
    if known is None:
        known = BY_NAME[name] = make()
    return known


def op_named(name: str) -> Op | None:
    """The op of that name if any graph or lookup has met it in this process."""
    return BY_NAME.get(name)


def is_size_query(op: Op | None) -> bool:
    """Whether the op only reads a tensor's size, strides or offset."""
    return op is not None and op.base in _SIZE_QUERIES and op.style in ("aten", "method")


def is_assertion(op: Op | None) -> bool:
    """Whether the op only checks something and gives nothing on."""
    return op is not None and (op.base in ASSERTIONS or op.base.startswith(ASSERTION_PREFIXES))


_SIZE_QUERIES: Final = frozenset(
    {"sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "size", "stride", "storage_offset", "numel", "dim"}
)
ASSERTIONS: Final = frozenset(
    {
        "_assert",
        "_assert_scalar",
        "_assert_async",
        "_assert_tensor_metadata",
        "_functional_assert_async",
        "_functional_assert_scalar",
        "_check",
        "_check_is_size",
        "_check_value",
        "_check_index",
        "_check_type",
        "_check_tensor_all",
    }
)
ASSERTION_PREFIXES: Final = ("sym_constrain_range", "_functional_sym_constrain_range")
