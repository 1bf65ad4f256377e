"""Memory layouts from sizes and strides, decided without asking a symbolic size for its truth."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.engine.values import Dim, Kleene, Unknown, arith, k_all, k_any, k_compare

__all__ = ["channels_last", "contiguous", "dim_order_of"]


Sizes = Sequence["int | Dim"]


def contiguous(shape: Sizes, strides: Sizes) -> Kleene:
    """Whether a tensor is dense in memory with its last dim innermost (one without elements always is)."""
    empty = k_any(k_compare("==", size, 0) for size in shape)
    return k_any((empty, _dense_in_order(shape, strides, range(len(shape)))))


def channels_last(shape: Sizes, strides: Sizes) -> Kleene:
    """Whether a tensor of rank 4 or 5 is dense in memory with its dim 1 innermost."""
    rank = len(shape)
    return rank in (4, 5) and _dense_in_order(shape, strides, (0, *range(2, rank), 1))


def _dense_in_order(shape: Sizes, strides: Sizes, order: Sequence[int]) -> Kleene:
    """Whether the dims lie densely in memory, the outermost of `order` first. Strides of dims of size 1 don't count."""
    verdicts: list[Kleene] = []
    expected: int | Dim = 1
    for dim in reversed(order):
        size, stride = shape[dim], strides[dim]
        verdicts.append(k_any((k_compare("==", size, 1), k_compare("==", stride, expected))))
        expected = arith("*", expected, size)
    return k_all(verdicts)


def _holds(op: str, a: int | Dim, b: int | Dim) -> bool:
    return k_compare(op, a, b) is True


def _reaches(a: int | Dim, b: int | Dim) -> bool:
    """Whether `a` is known to be at least `b`, both being non-negative."""
    if _holds("==", b, 0):
        return True
    if _holds("==", a, 0):
        return False
    return _holds(">=", a, b) or _holds("==", arith("%", a, b), 0)


def dim_order_of(shape: Sizes, strides: Sizes) -> tuple[int, ...] | Unknown:
    """The dims from the outermost to the innermost in memory: what `torch.Tensor.dim_order` gives.

    Symbolic strides are compared by what their ranges prove.
    """
    rank = len(shape)
    if rank < 2:
        return tuple(range(rank))
    plain = contiguous(shape, strides) is True
    last = rank == 4 and channels_last(shape, strides) is True
    if plain and not last:
        return tuple(range(rank))
    if last and not plain:
        return (0, 2, 3, 1)
    return _sorted_dims(shape, strides)


def _after(shape: Sizes, strides: Sizes, a: int, b: int) -> int:
    """1 where dim `a` lies outside of `b`, -1 where inside, 0 where nothing tells them apart."""
    if _holds("==", strides[a], 0) or _holds("==", strides[b], 0):
        return 0
    if _holds("==", strides[a], strides[b]):
        return 0 if _reaches(shape[b], shape[a]) else 1
    if _reaches(strides[b], strides[a]):
        return -1
    return 1 if _reaches(strides[a], strides[b]) else 0


def _sorted_dims(shape: Sizes, strides: Sizes) -> tuple[int, ...]:
    """Insertion from the innermost dim, passing over the ones that can't be told apart."""
    inner = list(reversed(range(len(shape))))
    for start in range(1, len(inner)):
        moving = start
        for other in reversed(range(start)):
            verdict = _after(shape, strides, inner[other], inner[moving])
            if verdict > 0:
                inner[other], inner[moving] = inner[moving], inner[other]
                moving = other
            elif verdict < 0:
                break
    return tuple(reversed(inner))
