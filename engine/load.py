"""Loading rules files: by name, by path, or from a string. Loading runs no code of their authors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

from apportion.engine.collector import collector_paused
from apportion.engine.compile import expressions
from apportion.engine.compile.compiler import compile_program
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.compile.units import (
    SUFFIX,
    Program,
    read_program,
    read_text,
    shipped_folder,
    shipped_names,
    unreadable,
)
from apportion.engine.errors import OptionError, RulesError, RulesNotFoundError
from apportion.engine.ops.schemas import schemas_of
from apportion.engine.plugins import plugin_rules
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Severity, Span, nearest

__all__ = ["check_file", "is_library", "load_rules", "parse_rules", "settings", "shipped_rules", "with_options"]

Location = Union[str, "os.PathLike[str]"]

_REGISTERED = expressions  # importing it registers the compilers of all expressions


def shipped_rules() -> list[str]:
    """The names of the rules files that come with the package, sorted."""
    return shipped_names()


@collector_paused()
def load_rules(name_or_path: Location, options: Mapping[str, Any] | None = None) -> RuleSet:
    """The rules of a backend: a shipped file by name (`"xnnpack"`), else a file by path.

    `options` set what the file declares with `option`. Raises RulesError with every diagnostic, RulesNotFoundError
    where there is no such file, OptionError for an option or value that the file does not have.
    """
    return _backend(_read(name_or_path), options)


@collector_paused()
def parse_rules(text: str, name: str = "<string>", options: Mapping[str, Any] | None = None) -> RuleSet:
    """The rules of a backend from a string; `name` is what messages call it, and relative `use` starts at its folder.

    Raises as `load_rules` does, and TypeError where `text` is none.
    """
    if not isinstance(text, str):
        raise TypeError(f"the text of rules is a str, not {type(text).__name__}; load_rules reads a file")
    return _backend(_parse(text, name), options)


def with_options(rules: RuleSet, options: Mapping[str, Any] | None) -> RuleSet:
    """The same rules with other options: those given here, the rest as they were. Raises OptionError."""
    if rules.program is None:
        raise RulesError([_error(f"{rules.name} was not loaded from a text")])
    return _compiled(rules.program, {**rules.options, **settings(options)})


def settings(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Options as a caller gives them, values by name; anything else is an `OptionError`."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise OptionError(f"options are a dict of values by name, not {options!r}")
    return options


@collector_paused()
def check_file(name_or_path: Location) -> list[Diagnostic]:
    """Everything that is wrong with a file, in the order of the text; libraries are checked too. Empty if it is fine.

    Raises RulesNotFoundError where there is no such file.
    """
    program = _read(name_or_path)
    try:
        rules = compile_program(program, None)
    except RulesError as error:
        return list(error.diagnostics)
    empty = _emptiness(program)
    return [*rules.warnings, *([] if empty is None else [empty])]


def is_library(name_or_path: Location) -> bool:
    """Has the file no `backend` statement? Raises RulesNotFoundError where there is no such file."""
    program = _read(name_or_path)
    if program.root is None or not program.complete:
        return False
    return not any(isinstance(s, tree.BackendDecl) for s in program.root.file.statements)


# --- reading ---------------------------------------------------------------------------------------------------


def _read(name_or_path: Location) -> Program:
    if not os.fspath(name_or_path):
        raise _not_found("", "the name of a rules file is empty")
    path = _find(os.fspath(name_or_path))
    shown = path.name if path.parent == shipped_folder() else os.fspath(name_or_path)
    try:
        text = read_text(path)
    except OSError as error:
        raise _not_found(os.fspath(name_or_path), unreadable(name_or_path, error)) from None
    except ValueError as error:
        raise RulesError([_error(unreadable(name_or_path, error))]) from None
    return read_program(text, shown, path.parent, path)


def _find(name: str) -> Path:
    """A plain name is a shipped file, or one that an installed package brings, unless a file of just that name lies
    here; anything else is a path."""
    plain = name.replace("-", "_").isidentifier()
    if plain and not Path(name).is_file():
        shipped = shipped_folder() / (name + SUFFIX)
        return shipped if shipped.is_file() else plugin_rules(name) or shipped
    if name.startswith("std/") and not Path(name).is_file():
        return shipped_folder() / (name if name.endswith(SUFFIX) else name + SUFFIX)
    return Path(name)


def _not_found(name: str, reason: str) -> RulesNotFoundError:
    known = shipped_names()
    near = nearest(name, known)
    help = None
    if near:
        help = "did you mean " + " or ".join(f"`{found}`" for found in near) + "?"
    elif known and SUFFIX not in name:
        help = "shipped rules: " + ", ".join(known)
    return RulesNotFoundError([_error(f"no rules {name!r}: {reason}", help)])


def _parse(text: str, name: str) -> Program:
    path = Path(name)
    is_file = name.endswith(SUFFIX)
    return read_program(text.removeprefix("\ufeff"), name, path.parent, path if is_file else None)


def _error(message: str, help: str | None = None, span: Span | None = None) -> Diagnostic:
    return Diagnostic("A010", Severity.error, message, span, help=help)


# --- what may be used as rules ---------------------------------------------------------------------------------


def _backend(program: Program, options: Mapping[str, Any] | None) -> RuleSet:
    problem = _emptiness(program) or _no_backend(program)
    if problem is not None and program.complete:
        raise RulesError([problem, *program.diagnostics])
    return _compiled(program, settings(options))


# --- compiled once ---------------------------------------------------------------------------------------------

_KEPT = 64
_COMPILED: dict[Any, tuple[RuleSet, tuple[int, ...]]] = {}


def _compiled(program: Program, options: Mapping[str, Any] | None) -> RuleSet:
    """The rules of these texts under these options, checked once in a process.

    They are checked again where libraries have registered more of the ops that they name since.
    """
    try:
        key = tuple((u.source.name, u.source.text) for u in program.units), _options_key(options or {})
        known = _COMPILED.get(key)
    except TypeError:  # an option's value that can't be hashed: whether it fits is for the compiler to say
        return compile_program(program, options)
    if known is not None and known[1] == _registered(known[0]):
        return known[0]
    rules = compile_program(program, options)
    while len(_COMPILED) >= _KEPT:
        del _COMPILED[next(iter(_COMPILED))]
    _COMPILED[key] = rules, _registered(rules)
    return rules


def _options_key(options: Mapping[str, Any]) -> tuple[Any, ...]:
    found = []
    for name, value in sorted(options.items()):
        items: Iterable[Any] = value if isinstance(value, (set, frozenset, list, tuple)) else (value,)
        found.append((name, type(value), tuple(sorted(((type(v).__name__, v) for v in items), key=str))))
    return tuple(found)


def _registered(rules: RuleSet) -> tuple[int, ...]:
    """How many overloads are registered of each op that the rules name."""
    patterns = [*(rule.pattern for rule in rules.rules), *(invariant.pattern for invariant in rules.invariants)]
    names = set(rules.declared).union(*(pattern.mentioned for pattern in patterns))
    bases = {tuple(name.split(".")[:2]) for name in names if name.count(".") >= 2}
    return tuple([len(schemas_of(*base)) for base in sorted(bases)])


def _emptiness(program: Program) -> Diagnostic | None:
    if program.root is None or program.root.file.statements:
        return None
    source = program.root.source
    return _error("the file is empty", 'a rules file starts with `backend "NAME" language 1`', Span(source, 0, 0))


def _no_backend(program: Program) -> Diagnostic | None:
    if program.root is None:
        return None
    statements = program.root.file.statements
    if any(isinstance(statement, tree.BackendDecl) for statement in statements):
        return None
    first = statements[0].span
    span = Span(first.source, first.start, first.start + len(first.text.split("\n")[0].split(" ")[0]))
    return _error("this file is a library, only for `use`: it has no `backend` statement",
                  'a backend\'s file starts with `backend "NAME" language 1`', span)


