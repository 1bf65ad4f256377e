"""Rules as callers give them: names, paths, loaded sets, or several, with the options that go to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.errors import OptionError, ProgramError
from apportion.engine.load import load_rules, settings, with_options
from apportion.grammar.diagnostics import nearest

__all__ = ["Rules", "as_list", "load_all"]

Rules = Union[str, Path, RuleSet, Sequence[Union[str, Path, RuleSet]]]
"""A shipped name, a path, a loaded set, or a sequence of these, first has precedence."""


def as_list(rules: Any) -> list[Any]:
    """Rules as a caller gives them, one or several, as a list."""
    return list(rules) if isinstance(rules, Sequence) and not isinstance(rules, str) else [rules]


def load_all(rules: Rules, options: Mapping[str, Any] | None = None) -> tuple[RuleSet, ...]:
    """Every rule set, in order of precedence, loaded with the options that are its own.

    An option is written `name`, and goes to every file that has it, or `BackendId.name`. Raises `OptionError` for one
    that no file has, `RulesError` for a broken file, `ProgramError` for something that is no rules.
    """
    given = as_list(rules)
    if not given:
        raise ProgramError("no rules were given; name a shipped file, a path, or a loaded rule set")
    for one in given:
        if not isinstance(one, str | Path | RuleSet):
            raise ProgramError(f"{one!r} is no rules; give a shipped name, a path, or what load_rules gives")
    sets = [one if isinstance(one, RuleSet) else load_rules(one) for one in given]
    if not options:
        return tuple(sets)
    chosen = _distribute(options, sets)
    return tuple(with_options(one, own) if own else one for one, own in zip(sets, chosen, strict=True))


def _distribute(options: Mapping[str, Any], sets: Sequence[RuleSet]) -> list[dict[str, Any]]:
    chosen: list[dict[str, Any]] = [{} for _ in sets]
    for key, value in settings(options).items():
        backend, _, name = key.rpartition(".")
        takers = [
            i for i, one in enumerate(sets) if name in one.option_decls and backend in ("", one.backend_id, one.name)
        ]
        if not takers:
            known = sorted({option for one in sets for option in one.option_decls})
            near = nearest(name, known)
            hint = f"did you mean `{near[0]}`?" if near else "known options: " + (", ".join(known) or "none")
            if name in known:
                hint = "the backends are called " + ", ".join(f"`{one.backend_id}`" for one in sets)
            raise OptionError(f"there is no option `{key}` in {', '.join(one.name for one in sets)}; {hint}")
        for index in takers:
            chosen[index][name] = value
    return chosen
