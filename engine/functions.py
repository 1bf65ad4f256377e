"""The table of functions: what can be called in an expression. One row adds one.

These are the plain ones: each takes values and gives a value or `Unknown`, never raises and adds no guard; with an
argument that is unknown the result is. `all any count sum min max` over a comprehension, `present`, `walked` and
`possible` are forms of the language (`engine/compile/forms.py`), described here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from apportion.engine import facts
from apportion.engine.compile.core import MAX_LENGTH, TOO_LARGE
from apportion.engine.compile.runtime import calculate, compare, number
from apportion.engine.compile.types import (
    ANY,
    BOOL,
    INT,
    NUMBER,
    VALUE,
    Type,
    join_all,
    list_of,
    tuple_of,
)
from apportion.engine.values import Dim, Unknown

__all__ = ["FORMS", "FUNCTIONS", "Function", "function_names", "largest", "smallest", "total"]


@frozen
class Function:
    """One row: a name, the types of its parameters, its result, what computes it, and a sentence about it.

    The last `optional` parameters may be left out; with `variadic` the last may be repeated. `result` may depend on the
    types of the arguments.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type | Callable[[Sequence[Type]], Type]
    compute: Callable[..., Any]
    doc: str
    optional: int = 0
    variadic: bool = False

    def result_of(self, arguments: Sequence[Type]) -> Type:
        """The type of the result for arguments of these types."""
        return self.result if isinstance(self.result, Type) else self.result(arguments)


_LIST = list_of(ANY)
_NUMBERS = list_of(NUMBER)


def total(items: Sequence[Any]) -> Any:
    """The sum of numbers, 0 of none."""
    return _fold("+", items, 0)


def _product(items: Sequence[Any]) -> Any:
    return _fold("*", items, 1)


def _fold(op: str, items: Sequence[Any], start: Any) -> Any:
    found = start
    for item in items:
        found = calculate(op, found, item)
        if isinstance(found, Unknown):
            return found
    return found


def smallest(items: Sequence[Any]) -> Any:
    """The least of numbers; unknown of none."""
    return _extreme("<=", "min", items)


def largest(items: Sequence[Any]) -> Any:
    """The greatest of numbers; unknown of none."""
    return _extreme(">=", "max", items)


def _extreme(op: str, method: str, items: Sequence[Any]) -> Any:
    if not items:
        return Unknown(f"{method} of nothing")
    best = number(items[0])
    for item in map(number, items[1:]):
        if isinstance(best, Unknown):
            return best
        better = compare(op, best, item)
        if better is False:
            best = item
        elif isinstance(better, Unknown):
            best = _symbolic_extreme(method, best, item)
    return best


def _symbolic_extreme(method: str, left: Any, right: Any) -> Any:
    if isinstance(left, Dim) and isinstance(right, (int, Dim)):
        return getattr(left, method)(right)
    if isinstance(right, Dim) and isinstance(left, int):
        return getattr(right, method)(left)
    return right if isinstance(right, Unknown) else Unknown(f"{method} of {left} and {right} is not decided")


def _length(thing: Any) -> Any:
    return len(thing) if isinstance(thing, (tuple, frozenset, str)) else Unknown("it has no length")


def _absolute(value: Any) -> Any:
    return abs(value) if isinstance(value, (int, float, Dim)) else Unknown("abs of what is no number")


def _rounded(value: Any, digits: Any = None) -> Any:
    if isinstance(value, Dim):
        return value if digits is None else Unknown("a symbolic size cannot be rounded to digits")
    if not isinstance(value, (int, float)) or not isinstance(digits, (int, type(None))):
        return Unknown("round of what is no number")
    if isinstance(value, float) and not math.isfinite(value):
        return Unknown(f"{value} cannot be rounded")
    return round(value, None if digits is None else max(-300, min(digits, 300)))


def _sorted(items: tuple[Any, ...]) -> Any:
    plain = [number(item) for item in items]
    if all(isinstance(item, str) for item in plain) or all(isinstance(item, (int, float)) for item in plain):
        return tuple(sorted(plain))
    return Unknown("what is sorted is not all known numbers")


def _zip(*lists: tuple[Any, ...]) -> Any:
    if len({len(items) for items in lists}) > 1:
        lengths = ", ".join(str(len(items)) for items in lists)
        return Unknown(f"zip of lists of unequal lengths ({lengths})")
    return tuple(zip(*lists, strict=True))


def _range(*bounds: Any) -> Any:
    if not all(isinstance(bound, int) for bound in bounds):
        return Unknown("the bounds of this range are not known numbers")
    if len(bounds) == 3 and bounds[2] == 0:
        return Unknown("a range in steps of 0")
    numbers = range(*bounds)
    first, last, step = numbers.start, numbers.stop, numbers.step
    steps = (last - first) // step if (last - first) * step > 0 else 0
    return TOO_LARGE if steps > MAX_LENGTH else tuple(numbers)


def _distinct(items: tuple[Any, ...]) -> Any:
    found: list[Any] = []
    for item in items:
        same = [compare("==", item, other) for other in found]
        if any(verdict is True for verdict in same):
            continue
        unknown = next((verdict for verdict in same if isinstance(verdict, Unknown)), None)
        if unknown is not None:
            return unknown
        found.append(item)
    return tuple(found)


def _log2(value: Any) -> Any:
    if not isinstance(value, (int, float)):
        return Unknown("the logarithm of a symbolic size")
    if not value > 0:
        return Unknown(f"the logarithm of {value}")
    return value.bit_length() - 1 if isinstance(value, int) and value & (value - 1) == 0 else math.log2(value)


def _ceil_div(value: Any, by: Any) -> Any:
    return calculate("*", -1, calculate("//", calculate("*", -1, value), by))


def _align_up(value: Any, to: Any) -> Any:
    return calculate("*", _ceil_div(value, to), to)


def _on_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """A fact about values of the graph: anything else that is given (an absent argument, a literal) is unknown."""

    def compute(*arguments: Any) -> Any:
        for argument in arguments:
            if not isinstance(argument, facts.Value):
                return Unknown("it is asked of what is no value of the graph")
        return function(*arguments)

    return compute


def _item_of_first(arguments: Sequence[Type]) -> Type:
    return arguments[0] if arguments and arguments[0].kind == "list" else _LIST


def _zipped(arguments: Sequence[Type]) -> Type:
    return list_of(tuple_of(*(argument.item for argument in arguments)))


def _same_number(arguments: Sequence[Type]) -> Type:
    return arguments[0] if arguments and arguments[0].kind in {"int", "float"} else NUMBER


def _of_items(arguments: Sequence[Type]) -> Type:
    found = join_all(argument.item if argument.kind in {"list", "set"} else argument for argument in arguments)
    return found if found.kind in {"int", "float"} else NUMBER


_ROWS: tuple[Function, ...] = (
    Function("len", (ANY,), INT, _length, "how many elements a list or set has"),
    Function("prod", (_NUMBERS,), _of_items, _product, "the product of a list of numbers, 1 of none"),
    Function("abs", (NUMBER,), _same_number, _absolute, "a number without its sign"),
    Function("round", (NUMBER, INT), NUMBER, _rounded, "the nearest integer (halves to even), or to some digits",
             optional=1),
    Function("sorted", (_LIST,), _item_of_first, _sorted, "a list of numbers or strings in ascending order"),
    Function("zip", (_LIST,), _zipped, _zip, "the tuples of elements at the same place; unknown if lengths differ",
             variadic=True),
    Function("range", (INT, INT, INT), list_of(INT), _range, "the integers below a bound, or from one to below another",
             optional=2),
    Function("distinct", (_LIST,), _item_of_first, _distinct, "a list without repetitions"),
    Function("log2", (NUMBER,), NUMBER, _log2, "the logarithm to base 2"),
    Function("ceil_div", (NUMBER, NUMBER), INT, _ceil_div, "division rounded up"),
    Function("align_up", (NUMBER, NUMBER), INT, _align_up, "the next multiple"),
    Function("broadcastable", (VALUE, VALUE), BOOL, _on_values(facts.broadcastable),
             "whether two tensors broadcast together"),
    Function("depends_on", (VALUE, VALUE), BOOL, _on_values(facts.depends_on), "whether the first is computed from the "
             "second"),
    Function("same_qparams", (VALUE, VALUE), BOOL, _on_values(facts.same_qparams), "whether two quantize or dequantize "
             "nodes have equal parameters"),
    Function("min_value", (VALUE,), NUMBER, _on_values(facts.min_value), "the least element of a constant"),
    Function("max_value", (VALUE,), NUMBER, _on_values(facts.max_value), "the greatest element of a constant"),
    Function("all_zero", (VALUE,), BOOL, _on_values(facts.all_zero), "whether a constant holds nothing but zeros"),
    Function("flops", (VALUE,), INT, _on_values(facts.flops), "the floating point operations of a node"),
)

FUNCTIONS: Mapping[str, Function] = {row.name: row for row in _ROWS}
"""Every plain function by name."""

FORMS: Mapping[str, str] = {
    "all": "whether a condition holds for each element; true for none",
    "any": "whether a condition holds for some element; false for none",
    "count": "for how many elements a condition holds",
    "sum": "the sum of numbers, 0 of none",
    "min": "the least of a list or of several numbers",
    "max": "the greatest of a list or of several numbers",
    "present": "whether an optional part of the pattern is there",
    "walked": "whether a `through` walked any node",
    "possible": "true unless the condition is known to be false",
}
"""The forms that look like functions, with a sentence about each."""


def function_names() -> list[str]:
    """Everything that can be called without declaring it."""
    return [*FUNCTIONS, *FORMS]


