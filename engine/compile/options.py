"""Settings of the caller, marks and results of host functions: their types, and whether a value has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from apportion.engine.compile.rulesets import CompiledOption
from apportion.engine.compile.types import (
    BOOL,
    DTYPE,
    FLOAT,
    INT,
    STR,
    VALUE,
    Type,
    enum_of,
    list_of,
    set_of,
)
from apportion.engine.errors import OptionError
from apportion.engine.facts import Value
from apportion.engine.values import Dim
from apportion.grammar import tree
from apportion.grammar.diagnostics import nearest

__all__ = ["check_options", "conforms", "option_from_text", "option_value", "type_of"]

_NAMED: Mapping[str, Type] = {
    "bool": BOOL,
    "int": INT,
    "float": FLOAT,
    "str": STR,
    "dtype": DTYPE,
    "value": VALUE,
}


def type_of(expr: tree.TypeExpr) -> Type:
    """The type that is written in an `option`, a `meta` or an `extern`."""
    item = enum_of(expr.choices) if expr.choices else _NAMED.get(expr.name, STR)
    if expr.is_set:
        return set_of(item)
    return list_of(item) if expr.is_list else item


def conforms(value: Any, type_: Type) -> bool:
    """Is `value` of that type? An int is also a float; nothing else is taken for something it is not."""
    kind = type_.kind
    if kind == "any":
        return True
    if kind == "list":
        return isinstance(value, tuple) and all(conforms(item, type_.item) for item in value)
    if kind == "set":
        return isinstance(value, (frozenset, tuple)) and all(conforms(item, type_.item) for item in value)
    if kind == "str" and type_.choices is not None:
        return isinstance(value, str) and value in type_.choices
    if kind == "bool":
        return isinstance(value, bool)
    return isinstance(value, _CLASSES.get(kind, ())) and not isinstance(value, bool)


_CLASSES: Mapping[str, tuple[type, ...]] = {
    "int": (int, Dim),
    "float": (int, float, Dim),
    "number": (int, float, Dim),
    "str": (str,),
    "dtype": (torch.dtype,),
    "value": (Value,),
}


def describe(type_: Type) -> str:
    """What an option may be set to, in words."""
    if type_.choices is not None:
        return "one of " + ", ".join(f'"{choice}"' for choice in sorted(type_.choices))
    if type_.kind in {"set", "list"}:
        item = type_.item
        what = "out of " + ", ".join(f'"{c}"' for c in sorted(item.choices)) if item.choices else f"of {item}"
        return f"a {type_.kind} {what}"
    return type_.phrase


def option_value(option: CompiledOption, given: Any) -> Any:
    """What the caller gave for `option`, as a value of the language. Raises OptionError where it does not fit."""
    value = _as_value(given, option.type)
    if conforms(value, option.type):
        return float(value) if option.type.kind == "float" and isinstance(value, int) else value
    near = ""
    choices = option.type.choices or option.type.item.choices
    words = [item for item in (value if isinstance(value, (frozenset, tuple)) else [value]) if isinstance(item, str)]
    for word in sorted(words):
        if choices and word not in choices:
            found = nearest(word, choices)
            near = f"; did you mean {found[0]!r}?" if found else ""
    raise OptionError(f"option {option.name} is {describe(option.type)}, not {given!r}{near}")


def _as_value(given: Any, type_: Type) -> Any:
    if type_.kind == "set" and isinstance(given, (set, frozenset, list, tuple)):
        try:
            return frozenset(given)
        except TypeError:
            return given
    if type_.kind == "list" and isinstance(given, (list, tuple)):
        return tuple(given)
    return given


def check_options(options: Mapping[str, CompiledOption], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of all options: what is given, else the default. Raises OptionError for unknown names and values."""
    given = given or {}
    for name in given:
        if name not in options:
            near = nearest(str(name), options)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(sorted(options)) or "none"
            raise OptionError(f"there is no option {name!r}{hint} (known: {known})")
    return {
        name: option_value(option, given[name]) if name in given else option.default
        for name, option in options.items()
    }


def option_from_text(option: CompiledOption, text: str) -> Any:
    """What `--set NAME=TEXT` means for this option; sets and lists are written with commas. Raises OptionError."""
    if option.type.kind in {"set", "list"}:
        words = [word.strip() for word in text.strip("{}[] ").split(",") if word.strip()]
        items = [_scalar(option, option.type.item, word) for word in words]
        return option_value(option, items)
    return option_value(option, _scalar(option, option.type, text.strip()))


def _scalar(option: CompiledOption, type_: Type, text: str) -> Any:
    if type_.kind == "str":
        return text.strip('"')
    try:
        return _READERS[type_.kind](text)
    except (KeyError, ValueError):
        raise OptionError(f"option {option.name} is {describe(option.type)}, not {text!r}") from None


_READERS: Mapping[str, Any] = {
    "bool": lambda text: {"true": True, "false": False, "1": True, "0": False}[text.lower()],
    "int": int,
    "float": float,
    "dtype": lambda text: _dtype(text),
}


def _dtype(text: str) -> torch.dtype:
    from apportion.engine.compile.dtypes import DTYPES

    return DTYPES[text]
