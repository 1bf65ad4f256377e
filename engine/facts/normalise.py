"""One table per op: how the arguments of a call are written in one way.

After it, `conv2d(x, w, stride=[2])` has stride `(2, 2)`, a pool without a stride has its kernel size, and `dim=-1` of
a tensor of rank 4 is 3. Sizes, pads, indices and ends of slices, where -1 is a value, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from apportion.engine.ops import Op

if TYPE_CHECKING:
    from apportion.engine.facts.value import Value

__all__ = ["normalise_arguments", "normalise_call_literal", "normalise_literal"]

# --- lists expanded to the spatial rank ------------------------------------------------------------------------

_CONVOLUTION: Final = ("stride", "padding", "dilation", "output_padding")
_POOL: Final = ("kernel_size", "stride", "padding", "dilation", "output_size")


@frozen
class _Spatial:
    """The spatial rank (None: two less than the weight's rank), and the lists that have one item for each dim of it."""

    rank: int | None
    names: tuple[str, ...]
    empty_stride_is_kernel: bool = False


def _spatial_table() -> dict[str, _Spatial]:
    table = {
        name: _Spatial(None, _CONVOLUTION)
        for name in ("convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution")
    }
    for n in (1, 2, 3):
        convolutions = (f"conv{n}d", f"conv_transpose{n}d", f"_conv_depthwise{n}d", f"conv_depthwise{n}d")
        table |= {name: _Spatial(n, _CONVOLUTION) for name in convolutions}
        pools = (f"max_pool{n}d", f"max_pool{n}d_with_indices", f"avg_pool{n}d", f"quantized_max_pool{n}d")
        table |= {name: _Spatial(n, _POOL, True) for name in (*pools, f"mkldnn_max_pool{n}d", f"lp_pool{n}d")}
        adaptive = (f"adaptive_avg_pool{n}d", f"_adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d")
        table |= {name: _Spatial(n, ("output_size",)) for name in (*adaptive, f"max_unpool{n}d")}
        table[f"fractional_max_pool{n}d"] = _Spatial(n, ("kernel_size", "output_size"))
    for n, kinds in (
        (1, ("nearest", "linear")),
        (2, ("nearest", "bilinear", "bicubic")),
        (3, ("nearest", "trilinear")),
    ):
        for kind in kinds:
            for name in (f"upsample_{kind}{n}d", f"_upsample_{kind}{n}d_aa", f"_upsample_{kind}_exact{n}d"):
                table[name] = _Spatial(n, ("output_size", "scale_factors"))
    table["im2col"] = _Spatial(2, ("kernel_size", "stride", "padding", "dilation"))
    table["col2im"] = _Spatial(2, ("output_size", "kernel_size", "stride", "padding", "dilation"))
    return table


_SPATIAL: Final[Mapping[str, _Spatial]] = _spatial_table()

# --- dims counted from the front -------------------------------------------------------------------------------

_DIMS: Final = frozenset(
    {"dim", "dims", "dim0", "dim1", "dim2", "axis", "axis0", "axis1", "start_dim", "end_dim", "dimension"}
)
# Ops whose argument only looks like a dim, or where a negative one has a meaning of its own.
_NO_DIMS: Final = frozenset(
    {"tile", "norm_except_dim", "_weight_norm", "_weight_norm_interface", "_weight_norm_interface_backward"}
)
_MORE_DIMS: Final[Mapping[str, frozenset[str]]] = {
    "movedim": frozenset({"source", "destination"}),
    "moveaxis": frozenset({"source", "destination"}),
    "tensordot": frozenset({"dims_self", "dims_other"}),
}
# How many dims there are to count, beyond those of the first tensor.
_EXTRA_RANK: Final[Mapping[str, int]] = {"unsqueeze": 1, "stack": 1, "_stack": 1, "diag_embed": 1}
# The argument whose rank counts, where it is not the first tensor: by op, or by op and argument.
_RANK_OF: Final[Mapping[str, str]] = {
    "select_backward": "input_sizes",
    "slice_backward": "input_sizes",
    "diagonal_backward": "input_sizes",
    "unfold_backward": "input_sizes",
    "index_select_backward": "self_sizes",
    "tensordot.dims_other": "other",
}
_LIBRARIES: Final = frozenset({"aten", "quantized_decomposed", "torch", "torch.nn.functional", "Tensor", "_quantized"})


def _table_name(op: Op) -> str:
    return op.base.removesuffix("_copy")


def _is_dim(op: Op, base: str, name: str) -> bool:
    if op.namespace not in _LIBRARIES or base in _NO_DIMS:
        return False
    return name in _DIMS or name in _MORE_DIMS.get(base, ())


def _count(value: Any, rank: int | None) -> Any:
    """Negative dims counted from the front; a scalar counts as one dim; what is out of range stays as it is."""
    if rank is None:
        return value
    rank = max(rank, 1)
    if isinstance(value, tuple):
        return tuple(_count(v, rank) for v in value)
    if isinstance(value, int) and not isinstance(value, bool) and -rank <= value < 0:
        return value + rank
    return value


def _expand(value: Any, rank: int | None) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if isinstance(value, tuple) and len(value) == 1 and rank is not None and rank > 0:
        return value * rank
    return value


def _as_list(op: Op, name: str, value: Any) -> Any:
    """A number given for a list of numbers is a list of one."""
    argument = op.argument(name)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (value,) if number and argument is not None and argument.type in _NUMBER_LISTS else value


_NUMBER_LISTS: Final = frozenset({"int[]", "SymInt[]", "float[]", "int[]?", "SymInt[]?", "float[]?"})


def _normalised(op: Op, name: str, value: Any, rank_of: Callable[[str], int | None]) -> Any:
    """One argument through the table; `rank_of` gives the rank that an argument's own rule asks for."""
    base = _table_name(op)
    spatial = _SPATIAL.get(base)
    if spatial is not None and name in spatial.names:
        weight = rank_of("") if spatial.rank is None else None
        return _expand(value, spatial.rank if weight is None else weight - 2)
    value = _as_list(op, name, value)
    if _is_dim(op, base, name):
        source = _RANK_OF.get(f"{base}.{name}") or _RANK_OF.get(base) or ""
        rank = rank_of(source)
        return _count(value, None if rank is None else rank + _EXTRA_RANK.get(base, 0))
    return value


@cache
def _touched(op: Op) -> tuple[str, ...]:
    """The arguments of an op that the table has something to say about."""
    base = _table_name(op)
    spatial = _SPATIAL.get(base)
    expanded = spatial.names if spatial is not None else ()
    return tuple(
        a.name for a in op.arguments if a.name in expanded or _is_dim(op, base, a.name) or a.type in _NUMBER_LISTS
    )


def normalise_arguments(op: Op, arguments: dict[str, Any]) -> None:
    """Rewrites the arguments of one call, in place. `arguments` are by schema name, with defaults, lists as tuples."""
    names = _touched(op)
    if not names:
        return
    spatial = _SPATIAL.get(_table_name(op))
    if spatial is not None and spatial.empty_stride_is_kernel and arguments.get("stride", 0) in ((), None):
        arguments["stride"] = arguments.get("kernel_size")

    def rank_of(source: str) -> int | None:
        if spatial is not None and spatial.rank is None:
            return _rank(arguments.get("weight"))
        return _rank(arguments.get(source)) if source else _reference_rank(op, arguments)

    for name in names:
        value = arguments.get(name)
        if isinstance(value, (int, tuple)):
            arguments[name] = _normalised(op, name, value, rank_of)


def _rank(value: Any) -> int | None:
    """The rank of a tensor, the largest of a list of tensors, the length of a list of sizes."""
    if isinstance(value, tuple):
        ranks = [r for r in map(_rank, value) if r is not None]
        return max(ranks) if ranks else len(value) or None
    rank = getattr(value, "rank", None)
    return rank if isinstance(rank, int) else None


def _reference_rank(op: Op, arguments: Mapping[str, Any]) -> int | None:
    """The rank of the first tensor argument (of a list of tensors: the largest, as `cat` allows empty ones)."""
    for argument in op.arguments:
        if argument.type in ("Tensor", "Tensor[]", "Any"):
            value = arguments.get(argument.name)
            tensors = isinstance(value, tuple) and any(hasattr(v, "rank") for v in value)
            if tensors or hasattr(value, "rank"):
                return _rank(value)
    return None


def normalise_literal(op: Op, name: str, value: Any, rank: int | None) -> Any:
    """A literal of a pattern through the same table; `rank` is that of the call's first tensor (None: not known).

    A dim stays negative, and a list unexpanded, while the rank is not known.
    """
    value = tuple(value) if isinstance(value, list) else value
    return _normalised(op, name, value, lambda _: rank)


def normalise_call_literal(call: Value, name: str, value: Any) -> Any:
    """A literal of a pattern through the same table, as it reads in `call`."""
    op = call.op
    if op is None:
        return value
    arguments = {**call.arguments, name: tuple(value) if isinstance(value, list) else value}
    normalise_arguments(op, arguments)
    return arguments[name]
