"""Pairs of rules of one file, and of different files: who claims the same node, and what decides between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from apportion.engine.lint.confirm import Confirmed, names_of
from apportion.engine.lint.model import RuleFile, RuleModel
from apportion.engine.lint.overlap import Verdict, covered, examine
from apportion.engine.lint.report import finding
from apportion.grammar.diagnostics import Diagnostic, Label, Note

__all__ = ["Pairs", "contention", "within"]


@frozen(eq=False)
class _Found:
    """A finding about a pair, before the order of reporting is known."""

    one: RuleModel
    other: RuleModel
    diagnostic: Diagnostic


@define(eq=False)
class Pairs:
    """The findings about pairs, and how many pairs came out how."""

    found: list[_Found] = field(factory=list)
    counts: dict[str, int] = field(factory=lambda: {"disjoint": 0, "overlap": 0, "undecided": 0})
    overlaps: list[tuple[RuleModel, RuleModel, Confirmed]] = field(factory=list)

    def ordered(self) -> list[Diagnostic]:
        """Ambiguous overlaps by degree: the rule with most of them once, with the others as labels; then the rest."""
        ambiguous = [f for f in self.found if f.diagnostic.code == "A101"]
        rest = [f.diagnostic for f in self.found if f.diagnostic.code != "A101"]
        result: list[Diagnostic] = []
        while ambiguous:
            degree: dict[str, int] = {}
            for f in ambiguous:
                for rule in (f.one, f.other):
                    degree[rule.name] = degree.get(rule.name, 0) + 1
            most = max(degree, key=lambda name: degree[name])
            mine = [f for f in ambiguous if most in (f.one.name, f.other.name)]
            result.append(mine[0].diagnostic if len(mine) == 1 else _gathered(most, mine))
            ambiguous = [f for f in ambiguous if f not in mine]
        return [*result, *rest]


def _gathered(name: str, found: Sequence[_Found]) -> Diagnostic:
    """One error for a rule that overlaps with many."""
    rule = found[0].one if found[0].one.name == name else found[0].other
    others = [f.other if f.one is rule else f.one for f in found]
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    names = ", ".join(f"`{other.name}`" for other in others[:5]) + more
    notes: list[Note] = [n for f in found[:3] for n in f.diagnostic.notes if n[0] == "witness"]
    labels = [Label(other.span, "also claims it") for other in others]
    over = ", ".join(other.name for other in others)
    return finding(
        "A101", f"rule `{name}` claims nodes that {names} claim too, and nothing orders them", rule.span,
        label="claims them", labels=labels, notes=notes, help=f"write `over {over}` or narrow `{name}`",
    )


def within(file: RuleFile) -> Pairs:
    """All pairs of rules of one file."""
    pairs = Pairs()
    models = file.models
    shadowed: set[str] = set()
    same: dict[str, list[RuleModel]] = {}
    for one, other in _meeting(models):
        verdict = examine(one, other)
        pairs.counts[verdict.kind] += 1
        if verdict.kind == "undecided":
            pairs.found.append(_Found(one, other, _undecided(one, other, verdict)))
        elif verdict.kind == "overlap" and verdict.witness is not None:
            pairs.overlaps.append((one, other, verdict.witness))
            for diagnostic in _overlapping(one, other, verdict.witness, file, shadowed):
                pairs.found.append(_Found(one, other, diagnostic))
            first, second = verdict.witness.matches
            if names_of(first) == names_of(second):
                winner, loser = _winner(one, other, file)
                same.setdefault(loser.name, []).append(winner)
        else:
            pairs.found.extend(_useless_over(one, other, file))
    total = len(models) * (len(models) - 1) // 2
    pairs.counts["disjoint"] += total - sum(pairs.counts.values())
    met = {frozenset((one.name, other.name)) for one, other in _meeting(models)}
    for rule in models:  # those that have no op in common were never examined
        for name in rule.over:
            if name in file.by_name and frozenset((rule.name, name)) not in met:
                pairs.found.extend(_useless_over(rule, file.by_name[name], file))
    for name, winners in same.items():
        if name not in shadowed and len(winners) > 1 and covered(file.by_name[name], winners):
            rule = file.by_name[name]
            labels = [Label(winner.span, "takes some of it") for winner in winners]
            diagnostic = finding("A105", f"rule `{name}` is never chosen: other rules together take all it claims",
                                 rule.span, label="hidden", labels=labels)
            pairs.found.append(_Found(rule, winners[0], diagnostic))
    return pairs


def _meeting(models: Sequence[RuleModel]) -> Iterator[tuple[RuleModel, RuleModel]]:
    """Pairs that can claim the same op, each once, in file order."""
    by_op: dict[str, list[int]] = {}
    anywhere: list[int] = []
    for index, model in enumerate(models):
        ops = model.claimed_ops
        if ops is None:
            anywhere.append(index)
        else:
            for name in ops:
                by_op.setdefault(name, []).append(index)
    pairs: set[tuple[int, int]] = set()
    for members in by_op.values():
        pairs.update((a, b) for n, a in enumerate(members) for b in members[n + 1:])
    for one in anywhere:
        pairs.update((min(one, k), max(one, k)) for k in range(len(models)) if k != one)
    for a, b in sorted(pairs):
        yield models[a], models[b]


def _winner(one: RuleModel, other: RuleModel, file: RuleFile) -> tuple[RuleModel, RuleModel]:
    """Who wins where both claim equally many nodes."""
    if one.name in file.over.get(other.name, ()):
        return other, one
    return one, other


def _overlapping(
    one: RuleModel, other: RuleModel, witness: Confirmed, file: RuleFile, shadowed: set[str]
) -> Iterator[Diagnostic]:
    first, second = witness.matches
    ordered = other.name in file.over.get(one.name, ()) or one.name in file.over.get(other.name, ())
    if names_of(first) == names_of(second):
        yield from _same_nodes(one, other, witness, file, ordered, shadowed)
        return
    nested = names_of(first) <= names_of(second) or names_of(second) <= names_of(first)
    if nested:
        large, small = (one, other) if len(first.claimed) > len(second.claimed) else (other, one)
        yield finding(
            "A103", f"`{large.name}` takes along a node that `{small.name}` claims alone", large.span,
            label="claims more nodes and goes first", labels=[Label(small.span, "claims one of them")],
            notes=[("witness", witness.text)],
        )
    elif not ordered:
        yield finding(
            "A106", f"`{one.name}` and `{other.name}` each want a node of the other's fusion", one.span,
            label="shares some of its nodes", labels=[Label(other.span, "with this one")],
            notes=[("witness", witness.text)],
            help=f"write `rule {one.name} over {other.name}`, or make one pattern of both",
        )


def _same_nodes(
    one: RuleModel, other: RuleModel, witness: Confirmed, file: RuleFile, ordered: bool, shadowed: set[str]
) -> Iterator[Diagnostic]:
    winner, loser = _winner(one, other, file)
    inside, outside = covered(loser, [winner]), covered(winner, [loser])
    notes: list[Note] = [("witness", witness.text)]
    difference = _difference(one, other, witness)
    if inside and outside:
        yield finding("A102", f"rules `{one.name}` and `{other.name}` claim the same nodes", other.span,
                      label="claims nothing new", labels=[Label(one.span, "claims all of it")], notes=notes,
                      help=f"remove `{loser.name}`")
    elif inside:
        message = f"rule `{loser.name}` is never chosen: `{winner.name}` claims all that it claims"
        yield finding("A104", message, loser.span,
                      label="hidden", labels=[Label(winner.span, "goes first and claims it")], notes=notes,
                      help=f"write `rule {loser.name} over {winner.name}`, or move it up")
    elif outside or ordered:
        how = "`over`" if ordered else "its position in the file"
        yield finding("A103", f"`{winner.name}` goes before `{loser.name}` by {how}", winner.span,
                      label="claims part of it first" if not outside else "lies inside",
                      labels=[Label(loser.span, "claims it too")], notes=notes)
    else:
        if difference:
            notes.append(("differs", difference))
        yield finding("A101", f"rules `{one.name}` and `{other.name}` both claim this node, and nothing orders them",
                      one.span, label="claims it", labels=[Label(other.span, "also claims it")], notes=notes,
                      help=f"write `rule {one.name} over {other.name}`, or narrow {other.name}")
    if inside:
        shadowed.add(loser.name)
    if difference and not ordered and (inside or outside):
        yield finding("A110", f"`{one.name}` and `{other.name}` claim this node with different specs, and only their "
                      "position decides", one.span, label="emits one", labels=[Label(other.span, "emits another")],
                      notes=[("witness", witness.text), ("differs", difference)],
                      help=f"write `rule {winner.name} over {loser.name}`")


def _difference(one: RuleModel, other: RuleModel, witness: Confirmed) -> str:
    """What they emit, where it is not the same."""
    first, second = (dict(emits) for emits in witness.emits)
    parts = []
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            parts.append(f"emit {key} is {_text(first.get(key))} here, {_text(second.get(key))} there")
    return "; ".join(parts)


def _text(value: bytes | None) -> str:
    if value is None:
        return "missing"
    try:
        return f'"{value.decode()}"'
    except UnicodeDecodeError:
        return f'x"{value.hex()}"'


def _useless_over(one: RuleModel, other: RuleModel, file: RuleFile) -> Iterator[_Found]:
    for rule, second in ((one, other), (other, one)):
        if second.name in rule.over:
            yield _Found(rule, second, finding(
                "A108", f"`{rule.name}` is over `{second.name}`, but they never claim the same node", rule.span,
                label="orders nothing", labels=[Label(second.span, "this one")], help="remove it from the `over` list",
            ))


def _undecided(one: RuleModel, other: RuleModel, verdict: Verdict) -> Diagnostic:
    atoms = "; ".join(verdict.reasons[:4])
    return finding(verdict.code, f"it is not decided whether `{one.name}` and `{other.name}` can claim the same node",
                   one.span, labels=[Label(other.span, "this one")], notes=[("undecided", atoms)],
                   help="z3 may decide it: pip install apportion[lint]" if verdict.missing else None)


def contention(files: Sequence[RuleFile], order: Sequence[str] | None) -> Pairs:
    """Rules of different files that claim the same node; the earlier backend of the order wins."""
    pairs = Pairs()
    ranks = {name: n for n, name in enumerate(order or ())}
    ranked = sorted(files, key=lambda f: ranks.get(f.rules.backend_id, ranks.get(f.name, len(ranks))))
    for n, first in enumerate(ranked):
        for second in ranked[n + 1:]:
            _between(first, second, pairs)
    return pairs


def _between(first: RuleFile, second: RuleFile, pairs: Pairs) -> None:
    for one in first.models:
        for other in second.models:
            verdict = examine(one, other)
            pairs.counts[verdict.kind] += 1
            if verdict.kind == "undecided":
                pairs.found.append(_Found(one, other, _undecided(one, other, verdict)))
            elif verdict.witness is not None:
                same = one.is_simple and other.is_simple and covered(one, [other]) and covered(other, [one])
                code = "A102" if same and first.rules.backend_id == second.rules.backend_id else "A107"
                winner, loser = first.rules.backend_id or first.name, second.rules.backend_id or second.name
                pairs.found.append(_Found(one, other, finding(
                    code, f"`{one.name}` of {winner} and `{other.name}` of {loser} both claim this node; {winner} wins",
                    one.span, label="wins under this order",
                    labels=[Label(other.span, "loses")], notes=[("witness", verdict.witness.text)],
                )))
