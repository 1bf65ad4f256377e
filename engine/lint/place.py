"""Laying a pattern over a skeleton: every way in which it can fit, with what it binds, claims and asks.

The same walk as the matcher's, over places instead of nodes. Alternatives, optional parts, operand orders and ops of
different layouts each give a way of their own, made only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apportion.engine.compile import patterns as p
from apportion.engine.compile.scope import BUDGET_SLOT
from apportion.engine.facts import normalise_literal
from apportion.engine.lint import symbols
from apportion.engine.lint.domains import Numbers
from apportion.engine.lint.formulas import FALSE, TRUE, Formula, In, Poly, both, equal
from apportion.engine.lint.skeleton import Claim, Conflict, Skeleton, Symbol
from apportion.engine.lint.terms import UNDEFINED, Blur, LongList, Undefined, compare_terms, key_of
from apportion.engine.ops import COMMUTATIVE, Op
from apportion.engine.values import Unknown

__all__ = ["Conditions", "lay"]

MOST_WALKED = 3
"""`through` and lists under a star are followed this far one by one; beyond that nothing is asked of them."""

_FRAME = 4096

Conditions = Callable[[Any], Formula]
Target = Any


def lay(
    choice: p.Choice, skeleton: Skeleton, root: str, claim: Claim, *, loose: bool = False
) -> Iterator[tuple[Skeleton, Claim]]:
    """Every way in which a block fits with its root at the place `root`.

    `loose` puts alternatives that are single calls together and asks only what they have in common: fewer ways, each
    of which allows more.
    """
    state = _State(skeleton.copy(), Claim(dict(claim.nodes), root, dict(claim.slots)))
    state.loose = loose
    target = _root_target(choice.root.term, root, state)
    for found in _place(choice.root.term, target, state, None):
        yield from _others(choice.others, found)


def _others(sinks: tuple[p.Sink, ...], state: _State) -> Iterator[tuple[Skeleton, Claim]]:
    if not sinks:
        yield state.skeleton, state.claim
        return
    sink = sinks[0]
    fresh = f"{state.claim.root}~{len(sinks)}"
    try:
        target = _root_target(sink.term, fresh, state)
    except Conflict:
        return
    for found in _place(sink.term, target, state, None):
        yield from _others(sinks[1:], found)


def _root_target(term: p.Term, root: str, state: _State) -> Target:
    while isinstance(term, p.BindTerm | p.ComputeTerm):
        term = term.term
    if isinstance(term, p.ElementTerm):
        return Symbol(_output(state.skeleton, root, term.index))
    return Symbol(root)


def _output(skeleton: Skeleton, node: str, index: int) -> str:
    place = skeleton.find(f"{skeleton.find(node)}.out{index}")
    skeleton.elements.setdefault(place, (skeleton.find(node), index))
    return place


class _State:
    """A skeleton and a claim that grow together."""

    __slots__ = ("claim", "loose", "skeleton")

    def __init__(self, skeleton: Skeleton, claim: Claim, loose: bool = False) -> None:
        self.skeleton = skeleton
        self.claim = claim
        self.loose = loose

    def copy(self) -> _State:
        """An independent copy."""
        claim = Claim(dict(self.claim.nodes), self.claim.root, dict(self.claim.slots))
        return _State(self.skeleton.copy(), claim, self.loose)

    def ask(self, condition: Conditions) -> None:
        """Add a condition."""
        self.skeleton.conditions.append(condition)


def _place(term: p.Term, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    yield from _PLACERS[type(term)](term, target, state, k)


def _all(pairs: list[tuple[p.Term, Target]], state: _State, k: int | None) -> Iterator[_State]:
    if not pairs:
        yield state
        return
    (term, target), *rest = pairs
    for found in _place(term, target, state, k):
        yield from _all(rest, found, k)


def _any(term: p.AnyTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    yield state


def _bound(slot: int, target: Target, state: _State, k: int | None) -> bool:
    """Bind a slot, or make what it is bound to and `target` one; False where that can't be."""
    key: Any = slot if k is None else (slot, k)
    if key not in state.claim.slots:
        state.claim.slots[key] = target
        return True
    return _unified(state.claim.slots[key], target, state)


def _unified(one: Target, other: Target, state: _State) -> bool:
    if isinstance(one, Symbol) and isinstance(other, Symbol):
        if "list" in (one.kind, other.kind) and one.kind != other.kind:
            return False
        try:
            state.skeleton.unify(one.place, other.place)
        except Conflict:
            return False
        for symbol in (one, other):
            if symbol.kind == "tensor?" and one.kind != other.kind:
                state.ask(_present(symbol))
        return True
    pair = (one, other)
    if any(isinstance(t, _Item) for t in pair) and any(_is_made(t, state) for t in pair):
        return False  # what an op makes is no number
    if any(isinstance(t, _Item | _Inputs) for t in pair) or not isinstance(one, Symbol | Undefined):
        state.ask(_equals(one, other))
        return True
    return not isinstance(one, Symbol) and not isinstance(other, Symbol)


def _is_made(target: Target, state: _State) -> bool:
    if not isinstance(target, Symbol):
        return False
    place = state.skeleton.find(target.place)
    return place in state.skeleton.ops or place in state.skeleton.elements


class _Item:
    """An argument that is no tensor, read when its conditions are."""

    __slots__ = ("name", "place", "type")

    def __init__(self, place: str, name: str, type_: str) -> None:
        self.place, self.name, self.type = place, name, type_

    def __call__(self, reader: Any) -> Any:
        """Its term."""
        return symbols.argument_term(reader, reader.skeleton.find(self.place), self.name, self.type)


def _value(target: Target, reader: Any) -> Any:
    if isinstance(target, Symbol):
        return Symbol(reader.skeleton.find(target.place), target.kind)
    return target(reader) if isinstance(target, _Item | _Inputs) else target


def _equals(one: Target, other: Target) -> Conditions:
    return lambda reader: compare_terms(
        "==", symbols.plain(reader, _value(one, reader)), symbols.plain(reader, _value(other, reader))
    ).true


def _present(symbol: Symbol) -> Conditions:
    return lambda reader: equal(f"{reader.skeleton.find(symbol.place)}/present", [True])


def _variable(term: p.VariableTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    state = state.copy()
    if _bound(term.slot, target, state, k):
        yield state


def _literal(term: p.LiteralTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    value = term.value
    if isinstance(target, Symbol):
        if value is None and target.kind == "tensor?":
            state = state.copy()
            state.ask(lambda reader: equal(f"{reader.skeleton.find(target.place)}/present", [False]))
            yield state
        elif isinstance(value, (int, float)) and target.place.rpartition(".")[2] in symbols.NUMBER_PLACES:
            state = state.copy()
            state.ask(lambda reader: _written_number(reader, target.place, value))
            yield state
        return
    state = state.copy()
    state.ask(lambda reader: _is_literal(reader, target, value))
    yield state


def _written_number(reader: Any, place: str, value: float) -> Formula:
    place = reader.skeleton.find(place)
    number = In(f"{place}/value:number", Numbers.point(value, whole=False))
    return both(equal(f"{place}/number", [True]), number)


def _is_literal(reader: Any, target: Target, value: Any) -> Formula:
    """The argument equals a literal, written as the call writes it (dims from the front, lists expanded)."""
    if isinstance(target, _Item):
        place = reader.skeleton.find(target.place)
        names = reader.box.get(f"{place}/op")
        op = reader.skeleton.schema(str(min(names.values, key=str))) if not names.but and names.values else None
        if op is not None:
            value = _normalised(reader, op, place, target.name, value)
    found = compare_terms("==", _value(target, reader), tuple(value) if isinstance(value, list) else value)
    return found.true


def _normalised(reader: Any, op: Op, place: str, name: str, value: Any) -> Any:
    plain = tuple(value) if isinstance(value, list) else value
    if normalise_literal(op, name, value, None) == plain == normalise_literal(op, name, value, 3):
        return plain
    first = next((a.name for a in op.arguments if a.type == "Tensor"), None)
    if "convolution" in op.base:
        first = "weight"
    if first is None:
        return plain
    rank = reader.number(f"{reader.skeleton.find(f'{place}.{first}')}/rank")
    if not isinstance(rank, int):
        symbols.attribute(reader, Symbol(reader.skeleton.find(f"{place}.{first}")), "shape")  # forks over the rank
        return plain
    return normalise_literal(op, name, value, rank)


def _bind(term: p.BindTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    state = state.copy()
    key: Any = term.slot if k is None else (term.slot, k)
    again = key in state.claim.slots
    if not _bound(term.slot, target, state, k):
        return
    if again:
        yield state
    else:
        yield from _place(term.term, target, state, k)


def _op(term: p.OpTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    if not isinstance(target, Symbol) or target.kind == "list":
        return
    skeleton = state.skeleton
    place = skeleton.find(target.place)
    known = skeleton.ops.get(place)
    names = term.ops if known is None else known if term.ops is None else known & term.ops
    for ops, layout in _layouts(term, names, skeleton):
        for order in _orders(layout, ops):
            following = state.copy()
            try:
                following.skeleton.meet_ops(place, ops)
            except Conflict:
                break
            following.claim.nodes[place] = term.shared
            following.claim.slots["term", id(term)] = True
            if target.kind == "tensor?":
                following.ask(_present(target))
            yield from _arguments(term, place, ops, order, following, k)


Layout = tuple[tuple["str | int", p.Term], ...]


def _layouts(
    term: p.OpTerm, names: frozenset[str] | None, skeleton: Skeleton
) -> list[tuple[frozenset[str] | None, Layout]]:
    """The ops in groups that have the same arguments in the same places."""
    if names is None:
        return [(None, term.layout)]
    groups: dict[Any, tuple[set[str], Layout]] = {}
    for name in sorted(names):
        op = skeleton.schema(name)
        layout = term.layouts.get(name, term.layout)
        types = () if op is None else tuple((key, _type(op, key), _commutes(op)) for key, _ in layout)
        tensors = () if op is None or term.rest is None else tuple(
            (a.name, a.type) for a in op.arguments if "Tensor" in a.type)
        key = (tuple((k, id(t)) for k, t in layout), types, tensors, _spatial(op, layout))
        groups.setdefault(key, (set(), layout))[0].add(name)
    return [(frozenset(ops), layout) for ops, layout in groups.values()]


def _spatial(op: Op | None, layout: Layout) -> str:
    """Literals are written as each op's own table says, so that ops with literal lists or dims are not put together."""
    literal = any(isinstance(t, p.LiteralTerm) and isinstance(t.value, (int, tuple)) for _, t in layout)
    return op.name if op is not None and literal else ""


def _type(op: Op, key: str | int) -> str:
    if isinstance(key, int):
        return op.arguments[key].type if key < len(op.arguments) else ""
    found = op.argument(key)
    return "" if found is None else found.type


def _commutes(op: Op) -> bool:
    return op.base in COMMUTATIVE and op.namespace == "aten"


def _orders(layout: Layout, ops: frozenset[str] | None) -> list[Layout]:
    """A layout, and for commutative ops the one with the operands' terms exchanged."""
    if ops is None or len(layout) < 2 or layout[0][0] not in ("self", "input") or layout[1][0] != "other":
        return [layout]
    if not all(name.split(".")[1] in COMMUTATIVE for name in ops if name.count(".") == 2):
        return [layout]
    (first, one), (second, two), *rest = layout
    if _plain(one) and _plain(two):
        return [layout, ((first, two), (second, one), *rest)] if not isinstance(one, p.AnyTerm) else [layout]
    return [layout, ((first, two), (second, one), *rest)]


def _plain(term: p.Term) -> bool:
    return isinstance(term, p.VariableTerm | p.AnyTerm)


def _arguments(
    term: p.OpTerm, place: str, ops: frozenset[str] | None, layout: Layout, state: _State, k: int | None
) -> Iterator[_State]:
    swapped = layout and layout[0][1] is not term.layouts.get(next(iter(ops or ()), ""), term.layout)[0][1]
    if swapped and ops is not None and any(".add." in name for name in ops):
        state.ask(lambda reader: In(f"{reader.skeleton.find(place)}.alpha/value:number", Numbers.point(1, whole=False)))
    op = None if ops is None else state.skeleton.schema(min(ops))
    pairs: list[tuple[p.Term, Target]] = []
    children = state.skeleton.children.setdefault(place, {})
    for key, sub in layout:
        name = _argument_name(op, key)
        type_ = "" if op is None else _type(op, key)
        children[name] = type_
        if isinstance(sub, p.AnyTerm):
            continue
        pairs.append((sub, _target(state.skeleton, place, name, type_)))
    for found in _all(pairs, state, k):
        if term.rest is None:
            yield from (found,)
        else:
            yield from _rest(term.rest, place, op, set(children), found)


def _argument_name(op: Op | None, key: str | int) -> str:
    if isinstance(key, str):
        return key
    return op.arguments[key].name if op is not None and key < len(op.arguments) else f"arg{key}"


def _target(skeleton: Skeleton, place: str, name: str, type_: str) -> Target:
    base = type_.rstrip("?")
    if base.endswith("]") and "Tensor" in base:
        return Symbol(skeleton.find(f"{place}.{name}"), "list")
    if base == "Tensor" or not type_:
        return Symbol(skeleton.find(f"{place}.{name}"), "tensor?" if type_.endswith("?") else "tensor")
    return _Item(place, name, type_)


def _rest(each: p.EachTerm, place: str, op: Op | None, given: set[str], state: _State) -> Iterator[_State]:
    """`*TERM` among the arguments: every tensor input that is not named."""
    if op is None:
        state.skeleton.relaxed = True
        _bind_list(each, Blur(f"{place}.inputs"), state)
        yield state
        return
    tensors = [(a.name, a.type) for a in op.arguments if "Tensor" in a.type and a.name not in given]
    inner = each.term
    if isinstance(inner, p.VariableTerm | p.AnyTerm):
        state = state.copy()
        _bind_list(each, _Inputs(place, tuple(tensors)), state)
        yield state
        return
    yield from _starred(each, place, tensors, state)


class _Inputs:
    """The tensor inputs of a node as a list, read when its conditions are."""

    __slots__ = ("place", "tensors")

    def __init__(self, place: str, tensors: tuple[tuple[str, str], ...]) -> None:
        self.place, self.tensors = place, tensors

    def __call__(self, reader: Any) -> Any:
        """The list of symbols."""
        found: list[Any] = []
        for name, type_ in self.tensors:
            term = symbols.argument_term(reader, reader.skeleton.find(self.place), name, type_)
            if isinstance(term, Symbol) and term.kind == "list":
                items = symbols.as_list(reader, term)
                if not isinstance(items, tuple):
                    return items if not found else Blur(f"{self.place}.inputs")
                found.extend(items)
            elif symbols.present(reader, term) and not symbols._is_number(reader, term.place):
                found.append(Symbol(term.place))
        return tuple(found)


def _bind_list(each: p.EachTerm, value: Any, state: _State) -> None:
    if isinstance(each.term, p.VariableTerm):
        _bound(each.term.slot, value, state, None)
    else:
        for slot in each.slots:
            state.claim.slots.setdefault(slot, Blur(f"slot{slot}"))


def _starred(
    each: p.EachTerm, place: str, tensors: list[tuple[str, str]], state: _State
) -> Iterator[_State]:
    """A term for each input; how many inputs a list has is tried one after the other."""
    fixed = [Symbol(state.skeleton.find(f"{place}.{n}"), "tensor?" if t.endswith("?") else "tensor")
             for n, t in tensors if not t.rstrip("?").endswith("]")]
    lists = [state.skeleton.find(f"{place}.{n}") for n, t in tensors if t.rstrip("?").endswith("]")]
    counts: Iterable[int] = range(1, MOST_WALKED + 1) if lists else (0,)
    for count in counts:
        following = state.copy()
        targets: list[Any] = list(fixed)
        if lists:
            following.ask(_length(lists[0], Numbers.point(count)))
            targets += [Symbol(f"{lists[0]}.[{i}]") for i in range(count)]
        yield from _each_of(each, targets, following)
    if lists:  # longer ones: the first few are looked at, nothing is asked of the others
        following = state.copy()
        following.skeleton.relaxed = True
        following.ask(_length(lists[0], Numbers.of(MOST_WALKED + 1, 64)))
        for slot in each.slots:
            following.claim.slots.setdefault(slot, Blur(f"{place} slot{slot}"))
        yield following


def _length(place: str, domain: Numbers) -> Conditions:
    return lambda reader: In(f"{reader.skeleton.find(place)}/len:len", domain)


def _each_of(each: p.EachTerm, targets: list[Any], state: _State) -> Iterator[_State]:
    def level(index: int, current: _State) -> Iterator[_State]:
        if index == len(targets):
            for slot in each.slots:
                items = tuple(current.claim.slots.pop((slot, i), UNDEFINED) for i in range(len(targets)))
                current.claim.slots.setdefault(slot, items)
            yield current
            return
        for found in _place(each.term, targets[index], current.copy(), index):
            yield from level(index + 1, found)

    yield from level(0, state.copy())


def _optional(term: p.OptionalTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    key: Any = term.present if k is None else (term.present, k)
    for there, inner in ((True, term.term), (False, term.bypass)):
        if state.claim.slots.get(key, there) is not there:
            continue
        following = state.copy()
        following.claim.slots[key] = there
        yield from _place(inner, target, following, k)


def _alternatives(term: p.AlternativesTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    if state.loose:
        together, dropped = _common(term)
        if together is not None:
            following = state.copy()
            following.skeleton.relaxed = True
            for slot in dropped:
                key: Any = slot if k is None else (slot, k)
                following.claim.slots.setdefault(key, Blur(f"{state.claim.root} slot{slot}"))
            yield from _place(together, target, following, k)
            return
    for inner in term.terms:
        yield from _place(inner, target, state.copy(), k)


def _common(term: p.AlternativesTerm) -> tuple[p.OpTerm | None, tuple[int, ...]]:
    """One call that allows whatever the alternatives allow, and the slots of which it says nothing; None if it can't
    be said: where a part that it would drop claims nodes."""
    calls: list[p.OpTerm] = []
    dropped: list[p.Term] = []
    for inner in term.terms:
        while isinstance(inner, p.ComputeTerm):
            dropped.extend(role for _, role in inner.computed)
            inner = inner.term
        if not isinstance(inner, p.OpTerm) or inner.ops is None or inner.rest is not None:
            return None, ()
        calls.append(inner)
    layouts = [layout for call in calls for layout in (call.layouts.get(n, call.layout) for n in call.ops or ())]
    shared = [pair for pair in layouts[0] if all(pair in layout for layout in layouts)] if layouts else []
    dropped.extend(t for layout in layouts for pair in layout if pair not in shared for t in (pair[1],))
    if any(isinstance(t, p.OpTerm | p.ThroughTerm) for part in dropped for t in p._walk(part)):
        return None, ()
    if len({call.shared for call in calls}) > 1:
        return None, ()
    ops = frozenset().union(*(call.ops or frozenset() for call in calls))
    first = calls[0]
    layout = tuple(shared)
    together = p.OpTerm(ops, dict.fromkeys(ops, layout), layout, None, first.shared, first.text, first.span)
    known = {slot for _, t in shared for slot in p.slots_of(t)}
    slots = {slot for part in dropped for slot in p.slots_of(part)} - known
    return together, tuple(sorted(slots))


def _element(term: p.ElementTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    if not isinstance(target, Symbol):
        return
    state = state.copy()
    place = state.skeleton.find(target.place)
    known = state.skeleton.elements.get(place)
    if known is None:
        if place in state.skeleton.ops:
            return
        node = f"{place}.node"
        state.skeleton.elements[place] = (node, term.index)
        state.skeleton.alias[f"{node}.out{term.index}"] = place
    elif known[1] != term.index:
        return
    else:
        node = known[0]
    if target.kind == "tensor?":
        state.ask(_present(target))
    yield from _place(term.term, Symbol(node), state, k)


def _list(term: p.ListTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    if isinstance(target, _Item):
        state = state.copy()
        values = [_ListItem(target, i) for i in range(len(term.items))]
        if term.rest is None:
            state.ask(lambda reader: _has_length(reader, target, len(values)))
        else:
            state.ask(lambda reader: _is_longer(reader, target, len(values)))
            _bind_rest(term.rest, target, len(values), state)
        yield from _all(list(zip(term.items, values, strict=True)), state, k)
        return
    if not isinstance(target, Symbol) or target.kind != "list":
        return
    place = state.skeleton.find(target.place)
    items = [Symbol(f"{place}.[{i}]") for i in range(len(term.items))]
    following = state.copy()
    low = len(items)
    following.ask(_length(place, Numbers.of(low, 64 if term.rest is not None else low)))
    if term.rest is not None:
        _bind_rest(term.rest, Symbol(place, "list"), low, following)
    yield from _all(list(zip(term.items, items, strict=True)), following, k)


def _bind_rest(each: p.EachTerm, whole: Target, start: int, state: _State) -> None:
    """`*TERM` at the end of a list; only of a plain variable is it known what it holds."""
    if isinstance(each.term, p.VariableTerm | p.AnyTerm):
        _bind_list(each, _Rest(whole, start), state)
    else:
        state.skeleton.relaxed = True
        _bind_list(each, Blur(f"rest of a list of {state.claim.root}"), state)


class _Rest(_Inputs):
    """The items of a list from `start` on, read when its conditions are."""

    __slots__ = ("start", "whole")

    def __init__(self, whole: Target, start: int) -> None:
        super().__init__("", ())
        self.whole, self.start = whole, start

    def __call__(self, reader: Any) -> Any:
        """Its list."""
        items = symbols.plain(reader, _value(self.whole, reader))
        if isinstance(items, LongList) and self.start <= len(items.first):
            length = items.length.plus(Poly((), -self.start))
            return LongList(items.first[self.start:], items.last, length, f"{items.key}[{self.start}:]")
        return items[self.start:] if isinstance(items, tuple) else Blur(f"{key_of(items)}[{self.start}:]")


class _ListItem(_Item):
    """Item `index` of a list argument."""

    __slots__ = ("index", "inner")

    def __init__(self, inner: _Item, index: int) -> None:
        super().__init__(inner.place, inner.name, inner.type)
        self.inner, self.index = inner, index

    def __call__(self, reader: Any) -> Any:
        """Its term."""
        items = self.inner(reader)
        return items[self.index] if isinstance(items, tuple) and self.index < len(items) else UNDEFINED


def _has_length(reader: Any, target: _Item, length: int) -> Formula:
    items = target(reader)
    return TRUE if isinstance(items, tuple) and len(items) == length else FALSE


def _is_longer(reader: Any, target: _Item, length: int) -> Formula:
    items = target(reader)
    return FALSE if isinstance(items, tuple) and len(items) < length else TRUE


def _through(term: p.ThroughTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    if not isinstance(target, Symbol):
        return
    key: Any = term.walked if k is None else (term.walked, k)
    for steps in range(MOST_WALKED + 1):
        following = state.copy()
        following.claim.slots[key] = steps > 0
        end = _walked(term, target, following, steps)
        if end is None:
            break
        if steps == MOST_WALKED:  # and further: the far end is some value of which nothing is known
            following.skeleton.relaxed = True
            end = Symbol(f"{end.place}.far")
        yield from _place(term.term, end, following, k)


def _walked(term: p.ThroughTerm, target: Symbol, state: _State, steps: int) -> Symbol | None:
    place = state.skeleton.find(target.place)
    for _ in range(steps):
        names = frozenset(n for n in term.ops if state.skeleton.schema(n) is not None)
        try:
            state.skeleton.meet_ops(place, names)
        except Conflict:
            return None
        state.claim.nodes[place] = term.shared
        met = state.skeleton.ops[place] or frozenset()
        firsts = {a.name for n in met if (op := state.skeleton.schema(n)) for a in op.arguments[:1]}
        name = min(firsts, default="self")
        state.skeleton.children.setdefault(place, {})[name] = "Tensor"
        place = state.skeleton.find(f"{place}.{name}")
    return Symbol(place)


def _compute(term: p.ComputeTerm, target: Target, state: _State, k: int | None) -> Iterator[_State]:
    for found in _place(term.term, target, state, k):
        pairs = [(role, _computed(evaluate, found)) for evaluate, role in term.computed]
        yield from _all(pairs, found, k)


def _computed(evaluate: Callable[[list[Any]], Any], state: _State) -> Any:
    """What a role is computed to, where that is a plain value whatever is bound; else it is open."""
    frame: list[Any] = [Unknown("open")] * _FRAME
    frame[BUDGET_SLOT] = None
    try:
        value = evaluate(frame)
    except Exception:  # it reads what is bound
        value = UNDEFINED
    plain = value is None or isinstance(value, (bool, int, float, str, tuple))
    return value if plain else Blur(f"computed role at {state.claim.root}")


_PLACERS: dict[type, Callable[[Any, Target, _State, int | None], Iterator[_State]]] = {
    p.AnyTerm: _any,
    p.VariableTerm: _variable,
    p.LiteralTerm: _literal,
    p.BindTerm: _bind,
    p.OpTerm: _op,
    p.OptionalTerm: _optional,
    p.AlternativesTerm: _alternatives,
    p.ElementTerm: _element,
    p.ListTerm: _list,
    p.ThroughTerm: _through,
    p.ComputeTerm: _compute,
}
