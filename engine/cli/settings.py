"""`--set option=value`: text of the command line to values of the options that rules files declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from apportion.engine.cli.console import CommandError
from apportion.engine.compile.options import option_from_text
from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.sources import load_all

__all__ = ["load", "split_settings"]


def load(rules: Sequence[str], settings: Iterable[str]) -> tuple[RuleSet, ...]:
    """Every rules file in order of precedence, with the settings that are its own.

    A setting is written `option=value` and goes to every file that has the option, or `BackendId.option=value`. Raises
    CommandError for one that is no setting, OptionError for an unknown option or value, RulesError for a broken file.
    """
    given = split_settings(settings)
    loaded = load_all(list(rules))
    return load_all(loaded, {key: _value(key, text, loaded) for key, text in given.items()})


def split_settings(settings: Iterable[str]) -> dict[str, str]:
    """`("a=1", "b=x,y")` as a mapping; CommandError where there is no `=` or a name comes twice."""
    result: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise CommandError(f"--set {setting}: write it as --set option=value")
        if name in result:
            raise CommandError(f"--set {name}: is given twice")
        result[name] = value.strip()
    return result


def _value(key: str, text: str, loaded: Sequence[RuleSet]) -> Any:
    """The text as a value of the first option of this name; unknown names are left for `load_all` to refuse."""
    backend, _, name = key.rpartition(".")
    for one in loaded:
        if name in one.option_decls and backend in ("", one.backend_id, one.name):
            return option_from_text(one.option_decls[name], text)
    return text
