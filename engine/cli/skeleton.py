"""The text of a new rules file, from what a program asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from apportion.engine.cli.survey import ArgumentSurvey, OpSurvey

__all__ = ["skeleton"]

# Ops of these namespaces are known to torch alone; others are declared so that the file loads without their library.
_KNOWN_NAMESPACES = frozenset({"aten", "prims"})
_SHORT = {"self": "x"}  # PyTorch's own name for a first argument says little in a rules file
_SHOWN = 4  # distinct values of an argument that a comment lists
# Names that a binding in a pattern can't have.
_RESERVED = frozenset(
    "accepts all and any as backend because contract count declare disjoint else emit extern false for given if "
    "implies in inf inputs invariant is language let mark match meta nan nodes none not ops option or outputs over "
    "partition pattern preserve reject rejects require rule set shared take through trim true use when with".split()
)

_HEAD = """\
# What {backend} takes of {model}: {calls} op nodes, {ops} ops. Written by `apportion new`; make it yours:
#   1. replace what was seen here by what the datasheet says, and give each requirement its because;
#   2. delete the rules of ops that the hardware does not have;
#   3. put the calls at the edges into accepts and rejects, and run: apportion check FILE
#   4. see what is left of the model, and why: apportion partition {model} --rules FILE

backend "{backend}" language 1
  "one line about the engine"
"""

_FOOT = """
partition {
  merge     = "adjacent"                # "all", "siblings" and "none" are the others
  min_nodes = 1                         # smaller partitions are not worth a call: raise it
}
"""


def skeleton(backend: str, model: str, found: Sequence[OpSurvey]) -> str:
    """A rules file that loads: one rule for each op, with what was seen as its requirements."""
    claimable = [one for one in found if _claimable(one)]
    others = [one for one in found if not _claimable(one)]
    parts = [_HEAD.format(backend=backend, model=model, calls=sum(one.calls for one in found), ops=len(found))]
    declarations = [f'declare "{one.op.schema}"' for one in claimable if one.op.namespace not in _KNOWN_NAMESPACES]
    if declarations:
        parts.append("\n# Ops of other libraries, so that this file loads without them.\n" + "\n".join(declarations)
                     + "\n")
    names = _Names()
    parts.extend("\n" + "\n".join(_rule(one, names)) + "\n" for one in claimable)
    if others:
        parts.append("\n# Left out, since a rule must name them on purpose (effects, control flow, sizes):\n"
                     + "".join(f"#   {one.op.name}, {_times(one.calls)}\n" for one in others))
    parts.append(_FOOT)
    return "".join(parts)


def _claimable(one: OpSurvey) -> bool:
    """Whether a rule of one line makes sense: a pure ATen-style op from tensors to tensors."""
    return (one.op.style == "aten" and not one.op.has_effects and bool(one.dtypes)
            and any(argument.is_tensor or argument.is_list for argument in one.arguments))


class _Names:
    """Names of rules, each used once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def rule(self, one: OpSurvey) -> str:
        for name in (one.op.base, f"{one.op.base}_{one.op.overload}", f"{one.op.namespace}_{one.op.base}"):
            name = _safe(name)
            if name not in self._used:
                break
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name


def _safe(name: str) -> str:
    name = re.sub(r"\W", "_", name).strip("_") or "x"
    return f"{name}_" if name in _RESERVED or name[0].isdigit() else name


def _rule(one: OpSurvey, names: _Names) -> Iterator[str]:
    bound = {argument.name: _safe(_SHORT.get(argument.name, argument.name)) for argument in one.arguments
             if argument.is_tensor or argument.is_list}
    yield f'rule {names.rule(one)} "{_times(one.calls)}" {{'
    yield f"  match   y = {one.op.name}({_pattern(one, bound)})"
    yield f"  require {_output(one)}"
    for argument in one.arguments:
        if argument.name in bound:
            yield from _requirements(argument, bound[argument.name])
    seen = list(_seen(one.arguments))
    if seen:
        yield "  # arguments seen; what does the hardware allow?"
        yield from seen
    yield "}"


def _pattern(one: OpSurvey, bound: dict[str, str]) -> str:
    """The bound arguments: by position as long as none is passed over, then by name."""
    terms, gap = [], False
    for argument in one.arguments:
        name = bound.get(argument.name)
        gap = gap or name is None
        if name is not None:
            term = f"[*{name}]" if argument.is_list else name
            terms.append(f"{argument.name}: {term}" if gap else term)
    return ", ".join(terms)


def _output(one: OpSurvey) -> str:
    if one.outputs > 1:
        return f"all({_one_of('o.dtype', one.dtypes)} for o in y.outputs)"
    return _one_of("y.dtype", one.dtypes)


def _requirements(argument: ArgumentSurvey, name: str) -> Iterator[str]:
    subject = "i" if argument.is_list else name
    conditions = []
    if argument.dtypes:
        conditions.append(_one_of(f"{subject}.dtype", argument.dtypes))
    if argument.ranks:
        conditions.append(_one_of(f"{subject}.rank", map(str, argument.ranks)))
    if argument.is_constant:
        conditions.append(f"{name} is constant")
    for condition in conditions:
        if argument.is_list:
            yield f"  require all({condition} for i in {name})"
        elif argument.calls["literal"] or argument.calls["symbolic"]:
            yield f"  require {name} is tensor implies {condition}"
        elif argument.calls["absent"]:
            yield f"  require {name} is none or {condition}"
        else:
            yield f"  require {condition}"


def _seen(arguments: Iterable[ArgumentSurvey]) -> Iterator[str]:
    for argument in arguments:
        if not argument.values:
            continue
        shown = [f"{value} ({count}x)" for value, count in argument.values.most_common(_SHOWN)]
        more = len(argument.values) - len(shown)
        yield f"  #   {argument.name}: {', '.join(shown)}{f', and {more} others' if more > 0 else ''}"


def _one_of(path: str, items: Iterable[str]) -> str:
    choices = sorted(items)
    return f"{path} == {choices[0]}" if len(choices) == 1 else f"{path} in {{{', '.join(choices)}}}"


def _times(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"
