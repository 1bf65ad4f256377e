"""The forms that look like functions: `all any count sum min max` over a list, `present`, `walked`, `possible`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

from apportion.engine.compile.core import MAX_LENGTH, combine, compile_expression, expect, failed
from apportion.engine.compile.logic import truth
from apportion.engine.compile.operators import compile_elementwise
from apportion.engine.compile.runtime import elements, number
from apportion.engine.compile.scope import BUDGET_SLOT, Compiled, Entry, Scope
from apportion.engine.compile.types import ANY, BOOL, INT, NUMBER, Type, is_numeric, join_all
from apportion.engine.functions import largest, smallest, total
from apportion.engine.values import Unknown, k_all, k_any
from apportion.grammar import tree

__all__ = ["BUDGET", "FORM_COMPILERS", "FormCompiler", "compile_listing"]

FormCompiler = Callable[[tree.Call, Scope], Compiled]

BUDGET = 5_000_000
"""How many steps one requirement may take in all its loops together."""

_EXHAUSTED = Unknown("this takes too many steps to compute")


@frozen
class _Loop:
    """A compiled comprehension: `run(frame)` gives its elements."""

    element: Compiled
    condition: Compiled | None
    parts: tuple[Compiled, ...]
    bound: frozenset[str]
    slots: tuple[tuple[int, ...], ...]

    def run(self, frame: list[Any]) -> Iterator[tuple[Any, Any]]:
        """(condition, element reader result) pairs; a list that is not known gives (True, Unknown)."""
        return self._level(frame, 0)

    def _level(self, frame: list[Any], level: int) -> Iterator[tuple[Any, Any]]:
        if level == len(self.slots):
            yield self._body(frame)
            return
        items = elements(self.parts[level].evaluate(frame))
        if isinstance(items, Unknown):
            yield True, items
            return
        slots = self.slots[level]
        if not _spend(frame, len(items) * (self.element.weight + 1)):
            yield True, _EXHAUSTED
            return
        for item in items:
            reason = _bind(frame, slots, item)
            if reason is not None:
                yield True, reason
                continue
            yield from self._level(frame, level + 1)

    def _body(self, frame: list[Any]) -> tuple[Any, Any]:
        if self.condition is None:
            return True, self.element.evaluate(frame)
        verdict = truth(self.condition.evaluate(frame))
        return verdict, (None if verdict is False else self.element.evaluate(frame))


def _spend(frame: list[Any], steps: int) -> bool:
    left = frame[BUDGET_SLOT]
    left = (BUDGET if left is None else left) - steps
    frame[BUDGET_SLOT] = left
    return bool(left > 0)


def _bind(frame: list[Any], slots: tuple[int, ...], item: Any) -> Unknown | None:
    if len(slots) == 1:
        frame[slots[0]] = item
        return None
    if isinstance(item, Unknown):
        return item
    if not isinstance(item, tuple) or len(item) != len(slots):
        return Unknown(f"an element does not have {len(slots)} parts")
    for slot, part in zip(slots, item, strict=True):
        frame[slot] = part
    return None


# --- comprehensions --------------------------------------------------------------------------------------------


def _loop(node: tree.Comprehension, scope: Scope) -> _Loop | None:
    parts: list[Compiled] = []
    slots: list[tuple[int, ...]] = []
    bound: set[str] = set()
    fine = True
    for clause in node.clauses:
        iterable = compile_expression(clause.iterable, scope)
        parts.append(iterable)
        item = _item_type(iterable, clause, scope)
        fine = fine and item is not None and not iterable.failed
        scope = scope.child()
        slots.append(_targets(clause, item or ANY, scope, bound))
    element = compile_expression(node.element, scope)
    parts.append(element)
    condition = None
    if node.condition is not None:
        condition = compile_expression(node.condition, scope, BOOL)
        parts.append(condition)
    if not fine or any(part.failed for part in parts):
        return None
    return _Loop(element, condition, tuple(parts), frozenset(bound), tuple(slots))


def _item_type(iterable: Compiled, clause: tree.Clause, scope: Scope) -> Type | None:
    type_ = iterable.type
    if type_.kind in {"list", "set"}:
        return type_.item
    if type_.kind == "any":
        return ANY
    help = None
    if type_.kind == "int":
        help = f"to count up to it write `range({clause.iterable.span.text})`"
    elif type_.kind == "value":
        help = "did you mean its `.inputs`, `.outputs`, `.users` or `.shape`?"
    scope.error("A004", clause.iterable.span, f"`for` runs over a list or a set, this is {type_.phrase}",
                label=str(type_), help=help)
    return None


def _targets(clause: tree.Clause, item: Type, scope: Scope, bound: set[str]) -> tuple[int, ...]:
    names = clause.targets
    types = [item]
    if len(names) > 1:
        types = _parts_of(clause, item, scope)
    slots = []
    for name, type_ in zip(names, types, strict=True):
        slot = scope.frame.slot()
        hidden = f"{name}@{slot}"  # a name that no text can write: the loop's own, whatever it hides outside
        bound.add(hidden)
        if name != "_":
            scope.add(Entry(name, "variable", clause.span, type_, slot, frozenset({hidden})), shadows=True)
        slots.append(slot)
    return tuple(slots)


def _parts_of(clause: tree.Clause, item: Type, scope: Scope) -> list[Type]:
    count = len(clause.targets)
    if item.kind == "tuple" and len(item.items) == count:
        return list(item.items)
    if item.kind == "list":
        return [item.item] * count
    if item.kind != "any":
        have = f"{len(item.items)} parts" if item.kind == "tuple" else "no parts"
        scope.error("A004", clause.span, f"{count} names are given to elements that have {have}",
                    help="to go through two lists at once write `zip(a, b)`")
    return [ANY] * count


def compile_listing(node: tree.Comprehension, scope: Scope) -> Compiled | None:
    """All elements of a comprehension as a list, for reports; None if it has errors."""
    loop = _loop(node, scope)
    if loop is None:
        return None
    pairs = loop.run

    def evaluate(frame: list[Any]) -> Any:
        return tuple([element for _, element in pairs(frame)])

    return combine(node, scope, ANY, loop.parts, evaluate, bound=loop.bound)


# --- all, any, count -------------------------------------------------------------------------------------------


def _quantifier(call: tree.Call, scope: Scope) -> Compiled:
    """`all`, `any` and `count`: over a comprehension of conditions, or a list of verdicts."""
    argument = _single(call, scope)
    if argument is None:
        return failed()
    settle = _SETTLE[call.function]
    result = INT if call.function == "count" else BOOL
    if isinstance(argument, tree.Comprehension):
        loop = _loop(argument, scope)
        if loop is None or expect(loop.element, BOOL, argument.element.span, scope).failed:
            return failed()
        closure = _plain_loop(loop, _STOPS.get(call.function)) or _any_loop(loop, settle, _WEIGH[call.function])
        return combine(call, scope, result, loop.parts, closure, bound=loop.bound)
    return _over_list(call, argument, settle, result, scope)


def _any_loop(
    loop: _Loop, settle: Callable[[Iterator[Any]], Any], weigh: Callable[[Any, Any], Any]
) -> Callable[[list[Any]], Any]:
    pairs = loop.run

    def evaluate(frame: list[Any]) -> Any:
        return settle(weigh(condition, element) for condition, element in pairs(frame))

    return evaluate


def _plain_loop(loop: _Loop, stop: bool | None) -> Callable[[list[Any]], Any] | None:
    """The same for the loops that most rules have, `all(… for a in xs)`, without the machinery of the others."""
    if stop is None or loop.condition is not None or len(loop.slots) != 1 or len(loop.slots[0]) != 1:
        return None
    ((slot,),) = loop.slots
    iterable, element = loop.parts[0].evaluate, loop.element.evaluate
    steps = loop.element.weight + 1

    def evaluate(frame: list[Any]) -> Any:
        items = elements(iterable(frame))
        if isinstance(items, Unknown):
            return items
        if not _spend(frame, len(items) * steps):
            return _EXHAUSTED
        unknown = None
        for item in items:
            frame[slot] = item
            verdict = element(frame)
            if verdict is stop:
                return stop
            if verdict is not (not stop) and unknown is None:
                unknown = truth(verdict)
        return (not stop) if unknown is None else unknown

    return evaluate


def _over_list(
    call: tree.Call, argument: tree.Expr, settle: Callable[[Iterator[Any]], Any], result: Type, scope: Scope
) -> Compiled:
    if isinstance(argument, tree.Compare):
        part = compile_elementwise(argument, scope)
    else:
        part = compile_expression(argument, scope)
    type_ = part.type
    if not part.failed and not (type_.kind == "any" or (type_.kind == "list" and type_.item.kind in {"bool", "any"})):
        if not _maybe_spread(argument, part):
            _report_no_list(call, argument, type_, scope)
            return failed(part.names)
    reader = part.evaluate

    def evaluate(frame: list[Any]) -> Any:
        found = reader(frame)
        if isinstance(found, tuple):
            return settle(truth(item) for item in found)
        return found if isinstance(found, Unknown) else Unknown(f"{call.function} of what is no list")

    return combine(call, scope, result, [part], evaluate)


def _maybe_spread(argument: tree.Expr, part: Compiled) -> bool:
    return isinstance(argument, tree.Compare) and part.type.kind == "any"


def _report_no_list(call: tree.Call, argument: tree.Expr, type_: Type, scope: Scope) -> None:
    name = call.function
    help = f"`{name}(… for a in xs)`, or `{name}(xs <= 3)` with a list `xs`"
    if type_.kind == "bool" and not isinstance(argument, tree.Compare):
        help = f"inside `{name}(…)` lists are compared one comparison at a time: " + help
    elif type_.kind == "list":
        help = f"say what must hold of the elements: `{name}(a > 0 for a in {argument.span.text})`"
    scope.error("A004", argument.span, f"`{name}` looks at a list of conditions, this is {type_.phrase}",
                label=str(type_), help=help)


def _implied(condition: Any, element: Any) -> Any:
    """An element of `all`: what the filter leaves out holds."""
    if condition is True:
        return truth(element)
    if condition is False:
        return True
    return True if element is True else condition


def _conjoined(condition: Any, element: Any) -> Any:
    """An element of `any` and `count`: what the filter leaves out does not hold."""
    if condition is True:
        return truth(element)
    if condition is False:
        return False
    return False if element is False else condition


def _count(verdicts: Iterator[Any]) -> Any:
    found = 0
    for verdict in verdicts:
        if isinstance(verdict, Unknown):
            return verdict
        found += verdict
    return found


_SETTLE: Mapping[str, Callable[[Iterator[Any]], Any]] = {"all": k_all, "any": k_any, "count": _count}
_STOPS: Mapping[str, bool] = {"all": False, "any": True}
_WEIGH: Mapping[str, Callable[[Any, Any], Any]] = {"all": _implied, "any": _conjoined, "count": _conjoined}


# --- sum, min, max ---------------------------------------------------------------------------------------------


def _aggregate(call: tree.Call, scope: Scope) -> Compiled:
    """`sum`, `min` and `max`: over a comprehension or list of numbers; the latter two also of several numbers."""
    settle = {"sum": total, "min": smallest, "max": largest}[call.function]
    if len(call.arguments) > 1 and call.function != "sum":
        return _of_several(call, settle, scope)
    argument = _single(call, scope)
    if argument is None:
        return failed()
    if isinstance(argument, tree.Comprehension):
        loop = _loop(argument, scope)
        if loop is None or not _check_numbers(call, argument.element, loop.element.type, scope):
            return failed()
        pairs = loop.run

        def evaluate(frame: list[Any]) -> Any:
            return _settled(settle, pairs(frame))

        type_ = _number(loop.element.type)
        return combine(call, scope, type_, loop.parts, evaluate, bound=loop.bound)
    return _of_list(call, argument, settle, scope)


def _settled(settle: Callable[[list[Any]], Any], pairs: Iterator[tuple[Any, Any]]) -> Any:
    found = []
    for condition, element in pairs:
        if isinstance(condition, Unknown):
            return condition
        if isinstance(element, Unknown):
            return element
        if condition:
            found.append(number(element))
            if len(found) > MAX_LENGTH * 8:
                return _EXHAUSTED
    return settle(found)


def _of_several(call: tree.Call, settle: Callable[[list[Any]], Any], scope: Scope) -> Compiled:
    parts = []
    for argument in call.arguments:
        if isinstance(argument, tree.Comprehension):
            scope.error("A004", argument.span, f"`{call.function}` takes one comprehension, or several numbers")
            return failed()
        parts.append(compile_expression(argument, scope, NUMBER))
    readers = [part.evaluate for part in parts]

    def evaluate(frame: list[Any]) -> Any:
        found = [number(reader(frame)) for reader in readers]
        unknown = next((value for value in found if isinstance(value, Unknown)), None)
        return settle(found) if unknown is None else unknown

    return combine(call, scope, _number(join_all(part.type for part in parts)), parts, evaluate)


def _of_list(call: tree.Call, argument: tree.Expr, settle: Callable[[list[Any]], Any], scope: Scope) -> Compiled:
    part = compile_expression(argument, scope)
    type_ = part.type
    if not part.failed and type_.kind not in {"list", "set", "any"}:
        scope.error("A004", argument.span, f"`{call.function}` takes a list, this is {type_.phrase}", label=str(type_))
        return failed(part.names)
    if type_.kind != "any" and not part.failed and not _check_numbers(call, argument, type_.item, scope):
        return failed(part.names)
    reader = part.evaluate

    def evaluate(frame: list[Any]) -> Any:
        found = elements(reader(frame))
        if isinstance(found, Unknown):
            return found
        return _settled(settle, ((True, item) for item in found))

    return combine(call, scope, _number(type_.item), [part], evaluate)


def _check_numbers(call: tree.Call, node: tree.Expr, type_: Type, scope: Scope) -> bool:
    if is_numeric(type_):
        return True
    help = "to count for how many it holds write `count(…)`" if type_.kind == "bool" else None
    scope.error("A004", node.span, f"`{call.function}` takes numbers, this is {type_.phrase}", label=str(type_),
                help=help)
    return False


def _number(type_: Type) -> Type:
    return type_ if type_.kind in {"int", "float"} else NUMBER


# --- present, walked, possible ---------------------------------------------------------------------------------


def _single(call: tree.Call, scope: Scope) -> tree.Expr | tree.Comprehension | None:
    if len(call.arguments) == 1:
        return call.arguments[0]
    scope.error("A004", call.span, f"`{call.function}` takes one argument, {len(call.arguments)} are given")
    return None


def _flag(call: tree.Call, scope: Scope) -> Compiled:
    """`present(z)` and `walked(x)`: what the matcher notes down beside a name of the pattern."""
    argument = _single(call, scope)
    if argument is None:
        return failed()
    what = "an optional part of the pattern" if call.function == "present" else "the far end of a `through`"
    if not isinstance(argument, tree.Name):
        scope.error("A004", argument.span, f"`{call.function}` takes the name of {what}")
        return failed()
    part = compile_expression(argument, scope)
    if part.failed:
        return failed()
    slot = scope.flag(argument.id, "presence" if call.function == "present" else "walked")
    if slot is not None:
        return combine(call, scope, BOOL, [part], lambda frame: bool(frame[slot]))
    entry = scope.lookup(argument.id)
    if call.function == "walked" or entry is None or entry.slot is None:
        scope.error("A004", argument.span, f"`{argument.id}` is not {what}")
        return failed()
    reader = part.evaluate

    def evaluate(frame: list[Any]) -> Any:
        found = reader(frame)
        return found if isinstance(found, Unknown) else found is not None

    return combine(call, scope, BOOL, [part], evaluate)


def _possible(call: tree.Call, scope: Scope) -> Compiled:
    argument = _single(call, scope)
    if argument is None or isinstance(argument, tree.Comprehension):
        if argument is not None:
            scope.error("A004", argument.span, "`possible` takes a condition", help="write `possible(all(…))`")
        return failed()
    part = compile_expression(argument, scope, BOOL)
    reader = part.evaluate

    def evaluate(frame: list[Any]) -> Any:
        return reader(frame) is not False

    return combine(call, scope, BOOL, [part], evaluate)


FORM_COMPILERS: Mapping[str, FormCompiler] = {
    "all": _quantifier,
    "any": _quantifier,
    "count": _quantifier,
    "sum": _aggregate,
    "min": _aggregate,
    "max": _aggregate,
    "present": _flag,
    "walked": _flag,
    "possible": _possible,
}
"""The compiler of each form by its name."""
