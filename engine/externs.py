"""Functions of the host program that rules files may call: the only way out of the language.

A rules file names them with `extern`; the host program registers them with `@engine.predicate("NAME")`, before or after
the file is loaded. What one gives is checked against the type in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from apportion.engine.compile.options import conforms
from apportion.engine.compile.types import Type
from apportion.engine.errors import PredicateError
from apportion.engine.facts import GraphFacts, Value
from apportion.engine.values import Unknown

__all__ = ["Promises", "call_predicate", "predicate", "registered_predicates"]

HostT = TypeVar("HostT", bound=Callable[..., Any])

_PREDICATES: dict[str, Callable[..., Any]] = {}

_log = logging.getLogger("apportion")


def predicate(name: str) -> Callable[[HostT], HostT]:
    """Register a function under the name that `extern` gives it in rules files.

    It gets values of the graph and plain data, and returns what the file says (bool by default). Registering a name
    again replaces the function. Raises PredicateError for a name that cannot be written in a rules file, and for what
    is no function.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise PredicateError(f"{name!r} is no name that a rules file can use; write @predicate(\"name\")")

    def register(function: HostT) -> HostT:
        if not callable(function):
            raise PredicateError(f"{name} is registered for a function, not for {function!r}")
        _PREDICATES[name] = function
        return function

    return register


def registered_predicates() -> list[str]:
    """The names of all functions registered so far, sorted."""
    return sorted(_PREDICATES)


def call_predicate(name: str, type_: Type, arguments: tuple[Any, ...]) -> Any:
    """What the host function says of `arguments`; `Unknown` with the reason where it is missing, raises or gives
    something else than a `type_`."""
    function = _PREDICATES.get(name)
    if function is None:
        return Unknown(f"extern {name} is not registered by the host program")
    try:
        found = function(*arguments)
    except Exception as error:  # whatever the host's code does, it is the host's verdict that is missing
        return Unknown(f"extern {name} raised {type(error).__name__}: {error}")
    if isinstance(found, list):
        found = tuple(found)
    elif isinstance(found, set):
        found = frozenset(found)
    if isinstance(found, Unknown) or conforms(found, type_):
        return found
    return Unknown(f"extern {name} gave {type(found).__name__} instead of {type_}")


class Promises:
    """Watches `disjoint P, Q`: remembers, as long as a graph lives, what two such functions said of the same things."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[GraphFacts, dict[tuple[Any, ...], set[str]]] = WeakKeyDictionary()

    def check(self, name: str, others: frozenset[str], arguments: tuple[Any, ...], found: Any) -> Any:
        """`found`, or unknown where one of `others` was true of the same arguments and this one is too."""
        graph = next((argument.graph for argument in arguments if isinstance(argument, Value)), None)
        if found is not True or graph is None:
            return found
        key = tuple(argument if isinstance(argument, Value) else repr(argument) for argument in arguments)
        said = self._seen.setdefault(graph, {}).setdefault(key, set())
        broken = sorted(said & others)
        if broken:
            reason = f"externs {broken[0]} and {name} are both true, and the file promises that they never are"
            _log.warning("%s", reason)
            return Unknown(reason)
        said.add(name)
        return found
