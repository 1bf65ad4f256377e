"""What the caller of one run wants kept out, or kept to: nodes, ops, modules, rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from attrs import define, evolve, field

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.errors import OptionError
from apportion.engine.facts import Value
from apportion.engine.ops import twin_of
from apportion.grammar.diagnostics import nearest

__all__ = ["Wishes", "choose_rules", "names_of"]


def _patterns(given: str | Iterable[str], argument: str) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise OptionError(f"{argument} is a string or several, not {given!r}")
    return patterns


@define
class Wishes:
    """`exclude` and `only`: glob patterns that a node's name, op or module path may match; `met` are those that did."""

    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    met: set[str] = field(factory=set)

    @classmethod
    def of(cls, exclude: str | Iterable[str], only: str | Iterable[str]) -> Wishes:
        """From the arguments of `partition`."""
        return cls(_patterns(exclude, "exclude"), _patterns(only, "only"))

    def refusal(self, node: Value) -> str | None:
        """Why the caller does not want a node delegated; None where it may be."""
        met = [pattern for pattern in (*self.exclude, *self.only) if matches(pattern, node)]
        self.met.update(met)
        for pattern in self.exclude:
            if pattern in met:
                return f"exclude `{pattern}`"
        if self.only and not any(pattern in met for pattern in self.only):
            return "not among only " + ", ".join(f"`{p}`" for p in self.only)
        return None

    @property
    def unmet(self) -> list[str]:
        """The patterns that meant no node of the program."""
        return [pattern for pattern in (*self.exclude, *self.only) if pattern not in self.met]


def matches(pattern: str, node: Value) -> bool:
    """Does a pattern mean this node: by its name, its op (`aten.add.Tensor`, `aten.add`), or a module around it?"""
    return any(fnmatchcase(name, pattern) for name in names_of(node))


def names_of(node: Value) -> Iterator[str]:
    """What a pattern may call a node by: its name, its op with and without overload, each module around it."""
    yield node.name
    op = node.op
    if op is not None:
        yield op.name
        yield op.name.rsplit(".", 1)[0]
        yield from (name for name in [twin_of(op.name)] if name is not None)
    path = node.module
    if isinstance(path, str) and path:
        parts = path.split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def choose_rules(rules: Sequence[RuleSet], with_: Iterable[str], without: Iterable[str]) -> tuple[RuleSet, ...]:
    """The rule sets with only the rules that the caller wants; an unknown name is an `OptionError`."""
    wanted, unwanted = _patterns(with_, "with_rules"), _patterns(without, "without_rules")
    known = sorted({rule.name for one in rules for rule in one.rules})
    for name in (*wanted, *unwanted):
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean `{near[0]}`?" if near else "known rules: " + ", ".join(known)
            raise OptionError(f"there is no rule `{name}` in {', '.join(one.name for one in rules)}; {hint}")
    if not wanted and not unwanted:
        return tuple(rules)
    return tuple(
        evolve(one, rules=tuple(r for r in one.rules if (not wanted or r.name in wanted) and r.name not in unwanted))
        for one in rules
    )
