"""What a program asks of a backend: for each op, the dtypes, ranks and argument values that it is called with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from attrs import field, frozen

from apportion.engine.facts import ProgramFacts, Value, is_kind
from apportion.engine.ops import Op
from apportion.engine.values import Dim, is_unknown

__all__ = ["ArgumentSurvey", "OpSurvey", "survey"]


@frozen
class ArgumentSurvey:
    """One argument of an op over all its calls."""

    name: str
    dtypes: Counter[str] = field(factory=Counter)
    ranks: Counter[int] = field(factory=Counter)
    values: Counter[str] = field(factory=Counter)
    """Literal values, as they are written in a rules file."""
    calls: Counter[str] = field(factory=Counter)
    """In how many calls it was a `tensor`, a `list` of tensors, `constant`, `absent`, `symbolic` or a `literal`."""

    @property
    def is_tensor(self) -> bool:
        """Whether some call passes a tensor."""
        return self.calls["tensor"] > 0

    @property
    def is_list(self) -> bool:
        """Whether some call passes a list of tensors."""
        return self.calls["list"] > 0

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant wherever it is a tensor."""
        return self.is_tensor and self.calls["constant"] == self.calls["tensor"]


@frozen
class OpSurvey:
    """All calls of one op."""

    op: Op
    calls: int
    arguments: tuple[ArgumentSurvey, ...]
    outputs: int
    """How many values a call gives."""
    dtypes: frozenset[str]
    """Of the outputs."""


def survey(program: ProgramFacts) -> tuple[OpSurvey, ...]:
    """Every op of every graph of the program, those with most calls first."""
    by_op: dict[Op, list[Value]] = {}
    for graph in program.graphs:
        for call in graph.calls:
            if call.op is not None:
                by_op.setdefault(call.op, []).append(call)
    found = [_survey_op(op, calls) for op, calls in by_op.items()]
    return tuple(sorted(found, key=lambda one: (-one.calls, one.op.name)))


def _survey_op(op: Op, calls: list[Value]) -> OpSurvey:
    arguments = {argument.name: ArgumentSurvey(argument.name) for argument in op.arguments}
    for call in calls:
        for name, value in call.arguments.items():
            _add(arguments.setdefault(name, ArgumentSurvey(name)), value)
    outputs = [output for call in calls for output in call.outputs]
    names = (dtype_name(output.dtype) for output in outputs)
    dtypes = frozenset(name for name in names if name is not None)
    return OpSurvey(op, len(calls), tuple(arguments.values()), max(len(call.outputs) for call in calls), dtypes)


def _add(argument: ArgumentSurvey, value: object) -> None:
    tensors = list(_tensors(value))
    if isinstance(value, Value):
        argument.calls["tensor"] += 1
        argument.calls["constant"] += is_kind(value, "constant") is True
    elif value is None:
        argument.calls["absent"] += 1
    elif tensors:
        argument.calls["list"] += 1
    else:
        text = literal(value)
        argument.calls["symbolic" if text is None else "literal"] += 1
        if text is not None:
            argument.values[text] += 1
    for tensor in tensors:
        dtype = dtype_name(tensor.dtype)
        if dtype is not None:
            argument.dtypes[dtype] += 1
        if isinstance(tensor.rank, int):
            argument.ranks[tensor.rank] += 1


def _tensors(value: object) -> Iterator[Value]:
    if isinstance(value, Value):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)


def dtype_name(dtype: object) -> str | None:
    """`float32` for torch.float32; None for what is no dtype."""
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else None


def literal(value: object) -> str | None:
    """A value as a rules file writes it; None where it can't be written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return _list(value)
    if isinstance(value, Dim) or is_unknown(value):
        return None
    return dtype_name(value)


def _list(items: Iterable[object]) -> str | None:
    texts = [literal(item) for item in items]
    return None if None in texts else f"[{', '.join(text for text in texts if text is not None)}]"
