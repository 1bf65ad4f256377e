"""Reading an expression over places instead of values: the same language as `engine/compile`, without a graph.

What comes out are terms (see `terms.py`). Where reading needs to know more (the rank of a tensor before its last dim
can be named), it raises `Fork` with the cases to try; the solver splits and reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping
from typing import Any

from attrs import define, evolve, field

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.scope import Scope
from apportion.engine.lint import symbols
from apportion.engine.lint.domains import Choice, Numbers, shown
from apportion.engine.lint.formulas import (
    FALSE,
    TRUE,
    And,
    Formula,
    In,
    Poly,
    both,
    either,
    equal,
    has_open,
    negated,
    variables,
)
from apportion.engine.lint.functions import FUNCTIONS, constant
from apportion.engine.lint.skeleton import Skeleton, Symbol
from apportion.engine.lint.terms import (
    UNDEFINED,
    Blur,
    Box,
    Cond,
    Fork,
    LongList,
    Num,
    Pick,
    Range,
    Undefined,
    as_number,
    bounds,
    compare_terms,
    cond,
    key_of,
    known,
    open_condition,
)
from apportion.grammar import tree
from apportion.grammar.walk import walk

__all__ = ["Environment", "Reader"]

MOST_LOOPS = 512


@define(eq=False)
class Environment:
    """What names mean in a rule: terms of variables and lets, and the flags that the matcher would set.

    `owner` is what the file's options and externs are called apart from those of other files; `rule` names the rule.
    """

    scope: Scope
    names: dict[str, Any] = field(factory=dict)
    flags: dict[tuple[str, str], bool] = field(factory=dict)
    owner: str = ""
    rule: str = ""

    def child(self, **names: Any) -> Environment:
        """The same with more names."""
        return evolve(self, names={**self.names, **names})


class Reader:
    """Reads expressions in one skeleton, under one box."""

    def __init__(self, skeleton: Skeleton, box: Box, facts: list[Formula] | None = None,
                 asserted: Container[Formula] = frozenset()) -> None:
        self.skeleton = skeleton
        self.box = box
        self.spent = 0
        self.asserted = asserted
        self.facts: list[Formula] = [] if facts is None else facts
        self._meanings: dict[Hashable, Any] = {}

    def note(self, formula: Formula) -> None:
        """A fact about a path that reading has introduced; it holds whatever becomes of the condition."""
        self.facts.append(formula)

    def under(self, box: Box) -> Reader:
        """A reader of the same skeleton under another box; under the same one, names mean the same."""
        inner = Reader(self.skeleton, box, self.facts, self.asserted)
        if box is self.box:
            inner._meanings = self._meanings
        return inner

    # --- entry points ----------------------------------------------------------------------------------------------

    def condition(self, expr: tree.Expr, env: Environment) -> Cond:
        """A condition; what is no condition is unknown."""
        return self.as_condition(self.read(expr, env), expr)

    def read(self, expr: tree.Expr, env: Environment) -> Any:
        """The term of an expression."""
        return _READERS[type(expr)](self, expr, env)

    def meaning(self, name: Hashable, read: Callable[[], Any]) -> Any:
        """What a name means, read once: names are made of names, often of one twice."""
        if name not in self._meanings:
            self._meanings[name] = read()
        return self._meanings[name]

    def as_condition(self, term: Any, expr: tree.Node | None = None) -> Cond:
        """A term as a condition."""
        match term:
            case Cond():
                return term
            case bool():
                return cond(TRUE if term else FALSE)
            case Pick():
                one = In(term.var, Choice(frozenset({True})))
                return Cond(one, In(term.var, Choice(frozenset({False}))))
            case Blur():
                return open_condition(term.key, term)
            case _:
                return Cond(FALSE, FALSE)

    def decide(self, condition: Cond) -> bool | None:
        """True, False, or None for unknown: by the box, else by a fork."""
        neither = both(negated(condition.true), negated(condition.false))
        cases: list[tuple[Formula, bool | None]] = [(condition.true, True), (condition.false, False), (neither, None)]
        for formula, value in cases:
            if self.entails(formula):
                return value
        left = [(f, value) for f, value in cases if f != FALSE and not self.refutes(f)]
        if condition.false == negated(condition.true):
            left = [case for case in left if case[1] is not None]
        if len(left) < 2:
            return left[0][1] if left else None
        raise Fork([formula for formula, _ in left])

    def entails(self, formula: Formula) -> bool:
        """Does the box alone prove it?"""
        if formula in self.asserted:
            return True
        if isinstance(formula, In):
            return self.box.get(formula.var).within(formula.domain)  # type: ignore[arg-type]
        if isinstance(formula, And):
            return all(map(self.entails, formula.parts))
        return formula == TRUE

    def refutes(self, formula: Formula) -> bool:
        """Does the box alone contradict it?"""
        if isinstance(formula, In):
            return self.box.get(formula.var).meet(formula.domain).empty  # type: ignore[arg-type]
        if isinstance(formula, And):
            return any(map(self.refutes, formula.parts))
        return formula == FALSE

    def number(self, var: str) -> Any:
        """The path of a number: its value where only one is left, unless it may be written as 2 and as 2.0."""
        domain = self.box.get(var)
        if isinstance(domain, Numbers) and domain.single and not var.endswith(":number"):
            value = domain.single[0]
            return int(value) if domain.whole else value
        whole = domain.whole if isinstance(domain, Numbers) else True
        return Num(Poly.path(var), whole)

    def pick(self, var: str) -> Any:
        """The path of a choice: its value where only one is left."""
        domain = self.box.get(var)
        if isinstance(domain, Choice) and domain.single and not var.endswith("/op"):
            return domain.single[0]
        return Pick(var)

    # --- operators -------------------------------------------------------------------------------------------------

    def compare(self, expr: tree.Compare, env: Environment) -> Cond:
        """A chained comparison."""
        operands = [self.read(operand, env) for operand in (expr.left, *expr.rights)]
        parts = [self.one_comparison(op, operands[i], operands[i + 1]) for i, op in enumerate(expr.ops)]
        return Cond(both(*(p.true for p in parts)), either(*(p.false for p in parts)))

    def one_comparison(self, op: str, left: Any, right: Any) -> Cond:
        """`left op right`."""
        if op in ("in", "not in"):
            found = self.contains(left, right)
            return found if op == "in" else Cond(found.false, found.true)
        left, right = symbols.plain(self, left), symbols.plain(self, right)
        if isinstance(right, symbols.OptionSet):
            left, right = right, left
        if isinstance(left, symbols.OptionSet):
            found = symbols.compare_option(left, right)
            return Cond(found.false, found.true) if op == "!=" else found
        return compare_terms(op, left, right)

    def contains(self, item: Any, container: Any) -> Cond:
        """`item in container`."""
        item = symbols.plain(self, item)
        if isinstance(container, symbols.OptionSet):
            return cond(container.has(item)) if item in container.choices else cond(FALSE)
        if isinstance(item, Undefined) or isinstance(container, Undefined):
            return Cond(FALSE, FALSE)
        if isinstance(container, Range):
            low = compare_terms("<=", container.low, item)
            high = compare_terms("<=", item, container.high)
            return Cond(both(low.true, high.true), either(low.false, high.false))
        if isinstance(container, frozenset):
            return self.in_set(item, container)
        if isinstance(container, tuple):
            parts = [compare_terms("==", item, member) for member in container]
            return Cond(either(*(p.true for p in parts)), both(*(p.false for p in parts)))
        return open_condition(f"{key_of(item)} in {key_of(container)}", item, container)

    def in_set(self, item: Any, container: frozenset[Any]) -> Cond:
        """Membership in a known set."""
        if isinstance(item, Pick):
            return cond(In(item.var, Choice(container))) if container else Cond(FALSE, TRUE)
        number = as_number(item)
        if number is not None and not isinstance(item, bool):
            members = [m for m in container if isinstance(m, (int, float)) and not isinstance(m, bool)]
            parts = [compare_terms("==", item, member) for member in members]
            return Cond(either(*(p.true for p in parts)), both(*(p.false for p in parts)))
        if isinstance(item, frozenset):
            return cond(TRUE if item and item <= container else FALSE)
        if isinstance(item, Blur):
            return open_condition(f"{key_of(item)} in {shown(container)}", item)
        if isinstance(item, tuple):
            parts = [compare_terms("==", item, member) for member in container]
            return Cond(either(*(p.true for p in parts)), both(*(p.false for p in parts)))
        return cond(TRUE if known(item) and item in container else FALSE)

    def elements(self, term: Any) -> tuple[Any, ...] | LongList | Blur | Undefined:
        """The items of a list or set."""
        if isinstance(term, frozenset):
            return tuple(sorted(term, key=shown))
        if isinstance(term, (tuple, LongList, Undefined)):
            return term
        if isinstance(term, Blur):
            return term
        return Blur(f"items of {key_of(term)}")

    # --- comprehensions --------------------------------------------------------------------------------------------

    def loop(self, node: tree.Comprehension, env: Environment) -> tuple[list[tuple[Cond, Any]], Any]:
        """(filter, element) of each turn, and what is left out: None, or a term that says why."""
        found: list[tuple[Cond, Any]] = []
        rest: list[Any] = []

        def level(index: int, inner: Environment) -> None:
            if index == len(node.clauses):
                self.spent += 1
                if self.spent > MOST_LOOPS:
                    rest.append(Blur(written(self, node, inner)))
                    return
                allowed = cond(TRUE) if node.condition is None else self.condition(node.condition, inner)
                if allowed.true == FALSE:
                    if allowed.false != TRUE:
                        found.append((allowed, UNDEFINED))
                    return
                found.append((allowed, self.read(node.element, inner)))
                return
            clause = node.clauses[index]
            items = self.elements(self.read(clause.iterable, inner))
            if isinstance(items, (Blur, Undefined)):
                rest.append(items)
                return
            if isinstance(items, LongList):
                rest.append(items)
                items = (*items.first, *items.last)
            for item in items:
                parts = (item,) if len(clause.targets) == 1 else item
                if not isinstance(parts, tuple) or len(parts) != len(clause.targets):
                    rest.append(UNDEFINED)
                    continue
                level(index + 1, inner.child(**dict(zip(clause.targets, parts, strict=True))))

        level(0, env)
        return found, rest[0] if rest else None


# --- one reader for each kind of expression ------------------------------------------------------------------------


def _literal(reader: Reader, expr: tree.Literal, env: Environment) -> Any:
    return expr.value


def _name(reader: Reader, expr: tree.Name, env: Environment) -> Any:
    if expr.id in env.names:
        term = env.names[expr.id]
        if callable(term) and not isinstance(term, type):
            return reader.meaning(term, lambda: term(reader))
        return term
    entry = env.scope.lookup(expr.id)
    if entry is None:
        return DTYPES.get(expr.id, _of_partition(expr, env))
    if entry.kind == "ops" and entry.compiled is not None:
        return entry.compiled.value
    if entry.declaration is not None and isinstance(entry.declaration, tree.Let):
        bare = evolve(env, names={}, flags={})
        value = entry.declaration.value
        return reader.meaning((expr.id, env.scope, env.owner, env.rule), lambda: reader.read(value, bare))
    if entry.compiled is not None and entry.compiled.option_only:
        return _frozen(entry.compiled.value)
    return _of_partition(expr, env)


def _of_partition(expr: tree.Name, env: Environment) -> Blur:
    """What only partitions know; those of two rules are two."""
    return Blur(f"{expr.id} of {env.owner}{env.rule}", reason="post")


def written(reader: Reader, expr: tree.Node, env: Environment) -> str:
    """The text of an expression with what its names mean: equal for what is equal, whoever wrote it."""
    names: dict[str, str] = {}
    for node, _ in walk(expr):
        if isinstance(node, tree.Name) and (node.id in env.names or env.scope.lookup(node.id) is not None):
            names.setdefault(node.id, key_of(reader.read(node, env)))
        elif isinstance(node, tree.Call) and (entry := env.scope.lookup(node.function)) is not None:
            names.setdefault(node.function, env.owner if entry.span is None else env.owner + _line(entry.span.text))
        elif isinstance(node, tree.OptionRef) and env.owner:
            names.setdefault(f"option.{node.name}", env.owner)
    meanings = ", ".join(f"{name} = {meaning}" for name, meaning in names.items() if name != meaning)
    return _line(expr.span.text) + (f" with {meanings}" if meanings else "")


def _line(text: str) -> str:
    return " ".join(text.split())


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _option(reader: Reader, expr: tree.OptionRef, env: Environment) -> Any:
    return symbols.option(reader, expr.name, env)


def _attribute(reader: Reader, expr: tree.Attribute, env: Environment) -> Any:
    if not _is_bound(expr, env) and env.scope.is_op_name(expr):
        return env.scope.muted().resolve_ops(expr)
    if isinstance(expr.value, tree.Attribute) and expr.value.name in ("args", "meta"):
        thing = reader.read(expr.value.value, env)
        if expr.value.name == "meta":
            return symbols.mark(reader, thing, expr.name, env.scope)
        return symbols.argument(reader, thing, expr.name)
    return symbols.attribute(reader, reader.read(expr.value, env), expr.name)


def _is_bound(expr: tree.Expr, env: Environment) -> bool:
    while isinstance(expr, tree.Attribute):
        expr = expr.value
    return not isinstance(expr, tree.Name) or expr.id in env.names


def _expansion(reader: Reader, expr: tree.OpExpansion, env: Environment) -> Any:
    return env.scope.muted().resolve_ops(expr)


def _unary(reader: Reader, expr: tree.Unary, env: Environment) -> Any:
    if expr.op == "not":
        found = reader.condition(expr.operand, env)
        return Cond(found.false, found.true)
    term = reader.read(expr.operand, env)
    return term if expr.op == "+" else FUNCTIONS["*"](reader, -1, term)


def _binary(reader: Reader, expr: tree.Binary, env: Environment) -> Any:
    left, right = reader.read(expr.left, env), reader.read(expr.right, env)
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left | right if expr.op == "|" else left - right
    if expr.op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return UNDEFINED
    function = FUNCTIONS.get(expr.op)
    if function is None:
        return Blur(f"{key_of(left)} {expr.op} {key_of(right)}")
    return function(reader, symbols.plain(reader, left), symbols.plain(reader, right))


def _bool(reader: Reader, expr: tree.BoolOp, env: Environment) -> Cond:
    if expr.op == "implies":
        first = reader.condition(expr.operands[0], env)
        if _settles(reader, first.false):
            return cond(TRUE)
        second = _under(reader, [first.true], expr.operands[1], env)
        return Cond(either(first.false, second.true), both(first.true, second.false))
    parts: list[Cond] = []
    before: list[Formula] = []
    for operand in expr.operands:
        # What holds before it is known in a later operand: `x.rank == 4 and x.shape[3] == 1` asks for no other rank.
        found = _under(reader, before, operand, env)
        if _settles(reader, found.false if expr.op == "and" else found.true):
            return cond(FALSE if expr.op == "and" else TRUE)  # what follows need not be read
        parts.append(found)
        before.append(found.true if expr.op == "and" else found.false)
    if expr.op == "and":
        return Cond(both(*(p.true for p in parts)), _first_false(parts))
    return Cond(_first_true(parts), both(*(p.false for p in parts)))


def _first_false(parts: list[Cond]) -> Formula:
    """The falsity of a conjunction: some operand is false, those before it may have been used to read it."""
    return either(*(both(*(p.true for p in parts[:i] if _guards(p)), part.false) for i, part in enumerate(parts)))


def _first_true(parts: list[Cond]) -> Formula:
    return either(*(both(*(p.false for p in parts[:i] if _guards(p)), part.true) for i, part in enumerate(parts)))


def _settles(reader: Reader, formula: Formula) -> bool:
    return formula == TRUE or _is_guard(formula) and reader.entails(formula)


def _guards(part: Cond) -> bool:
    """Only choices of one path are used as guards of what follows; they are never unknown."""
    return _is_guard(part.true) and _is_guard(part.false)


def _is_guard(formula: Formula) -> bool:
    return isinstance(formula, In) and formula.var.rpartition("/")[2] in _STRUCTURE


_STRUCTURE = frozenset({"op", "rank", "origin", "present"})


def _under(reader: Reader, before: list[Formula], expr: tree.Expr, env: Environment) -> Cond:
    """Read a condition where the guards among `before` hold. A fork in there leaves out what the guards exclude, so
    that comes back as a case of its own."""
    box, used = reader.box, []
    for formula in before:
        if _is_guard(formula) and negated(formula) in reader.asserted:
            return Cond(FALSE, FALSE)  # that case was chosen: what follows says nothing
        narrowed = _narrowed(box, formula)
        if narrowed is not box:
            box = narrowed
            used.append(formula)
    try:
        return reader.under(box).condition(expr, env)
    except Fork as fork:
        outside = [negated(formula) for formula in used]
        raise Fork([*fork.alternatives, *(f for f in outside if not reader.refutes(f))]) from None


def _narrowed(box: Box, formula: Formula) -> Box:
    """The box under a formula that is a guard."""
    if not isinstance(formula, In) or not _is_guard(formula):
        return box
    inner = box.copy()
    return inner if inner.narrow(formula.var, formula.domain) else box


def _is_kind(reader: Reader, expr: tree.IsKind, env: Environment) -> Cond:
    found = symbols.kind(reader, reader.read(expr.value, env), expr.kind)
    return Cond(found.false, found.true) if expr.negated else found


def _conditional(reader: Reader, expr: tree.Conditional, env: Environment) -> Any:
    verdict = reader.decide(reader.condition(expr.condition, env))
    if verdict is None:
        return UNDEFINED
    return reader.read(expr.then if verdict else expr.otherwise, env)


def _index(reader: Reader, expr: tree.Index, env: Environment) -> Any:
    thing, index = reader.read(expr.value, env), reader.read(expr.index, env)
    if isinstance(thing, Symbol):
        return symbols.element(reader, thing, index)
    return _item(reader, thing, index)


def _item(reader: Reader, thing: Any, index: Any) -> Any:
    if isinstance(thing, Undefined) or isinstance(index, Undefined):
        return UNDEFINED
    if isinstance(index, Num) and isinstance(thing, tuple) and index.whole:
        index = _settled(reader, index, len(thing))
    if not isinstance(index, int) or not isinstance(thing, (tuple, LongList)):
        return Blur(f"{key_of(thing)}[{key_of(index)}]", of=thing)
    if isinstance(thing, tuple):
        return thing[index] if -len(thing) <= index < len(thing) else UNDEFINED
    if 0 <= index < len(thing.first):
        return thing.first[index]
    if -len(thing.last) <= index < 0:
        return thing.last[index]
    return Blur(f"{thing.key}[{index}]")


def _settled(reader: Reader, index: Num, length: int) -> Any:
    """An index that is a path: forked over the places of the list."""
    var = index.poly.single
    low, high = bounds(reader.box, index.poly)
    if not var or length > 16:
        return index
    inside = [i for i in range(-length, length) if low <= i <= high]
    if not inside:
        return length  # out of range
    outside = Numbers.of(-length, length - 1).complement()
    raise Fork([In(var, Numbers.point(i)) for i in inside] + [In(var, part) for part in outside])


def _slice(reader: Reader, expr: tree.Slice, env: Environment) -> Any:
    thing = reader.read(expr.value, env)
    ends = [None if e is None else reader.read(e, env) for e in (expr.low, expr.high, expr.step)]
    if isinstance(thing, Undefined):
        return UNDEFINED
    if thing == ():
        return ()
    ends = [constant(reader, e) if isinstance(e, Num) else e for e in ends]
    if not all(e is None or isinstance(e, int) for e in ends):
        return Blur(f"{key_of(thing)}[{':'.join('' if e is None else key_of(e) for e in ends)}]")
    if isinstance(thing, tuple):
        return UNDEFINED if ends[2] == 0 else thing[slice(*ends)]
    if isinstance(thing, LongList) and ends[2] is None:
        return _cut(thing, ends[0], ends[1])
    return Blur(f"{key_of(thing)}[{':'.join('' if e is None else str(e) for e in ends)}]")


def _cut(thing: LongList, low: int | None, high: int | None) -> Any:
    key = f"{thing.key}[{'' if low is None else low}:{'' if high is None else high}]"
    start = low or 0
    if start >= 0 and high is None and start <= len(thing.first):
        return LongList(thing.first[start:], thing.last, thing.length.plus(Poly((), -start)), key)
    if start < 0 and high is None and -start <= len(thing.last):
        return thing.last[start:]
    if start >= 0 and high is not None and high < 0 and -high <= len(thing.last) and start <= len(thing.first):
        length = thing.length.plus(Poly((), high - start))
        return LongList(thing.first[start:], thing.last[:high], length, key)
    if high is not None and 0 <= start <= high <= len(thing.first):
        return thing.first[start:high]
    return Blur(key)


def _list(reader: Reader, expr: tree.ListExpr, env: Environment) -> Any:
    return tuple(reader.read(item, env) for item in expr.items)


def _set(reader: Reader, expr: tree.SetExpr, env: Environment) -> Any:
    items = [reader.read(item, env) for item in expr.items]
    if items and all(isinstance(item, frozenset) for item in items):
        return frozenset().union(*items)
    return frozenset(items) if all(map(known, items)) else tuple(items)


def _range(reader: Reader, expr: tree.RangeExpr, env: Environment) -> Any:
    return Range(symbols.plain(reader, reader.read(expr.low, env)), symbols.plain(reader, reader.read(expr.high, env)))


def _call(reader: Reader, expr: tree.Call, env: Environment) -> Any:
    form = _FORMS.get(expr.function)
    if form is not None:
        return form(reader, expr, env)
    entry = env.scope.lookup(expr.function)
    arguments = [reader.read(a, env) for a in expr.arguments if not isinstance(a, tree.Comprehension)]
    if entry is not None and entry.kind == "function":
        return _apply(reader, entry.declaration, arguments, expr, env)
    if entry is not None and entry.kind == "extern":
        name = env.owner + expr.function
        return Blur(f"{name}({', '.join(map(key_of, arguments))})", reason="extern", name=name)
    function = FUNCTIONS.get(expr.function)
    if any(isinstance(a, Undefined) for a in arguments):
        return UNDEFINED
    if function is None:
        return Blur(f"{expr.function}({', '.join(map(key_of, arguments))})")
    return function(reader, *(symbols.plain(reader, a) for a in arguments))


def _apply(reader: Reader, let: tree.Let, arguments: list[Any], expr: tree.Call, env: Environment) -> Any:
    names = dict(zip(let.parameters or (), arguments, strict=False))
    entry = env.scope.lookup(let.name)
    flags = passed_flags(let.parameters or (), expr, env)
    if entry is not None and entry.scope is not None and entry.scope.parent is not None:  # a function of the rule
        return reader.read(let.value, evolve(env, names={**env.names, **names}, flags={**env.flags, **flags}))
    return reader.read(let.value, evolve(env, names=names, flags=flags))


def passed_flags(parameters: tuple[str, ...], expr: tree.Call, env: Environment) -> dict[tuple[str, str], bool]:
    """What `present` and `walked` know of the arguments, for the parameters."""
    flags: dict[tuple[str, str], bool] = {}
    for name, argument in zip(parameters, expr.arguments, strict=False):
        if isinstance(argument, tree.Name):
            for flag in ("presence", "walked"):
                if (argument.id, flag) in env.flags:
                    flags[name, flag] = env.flags[argument.id, flag]
    return flags


# --- forms -----------------------------------------------------------------------------------------------------


def _quantified(reader: Reader, expr: tree.Call, env: Environment) -> Cond | Any:
    (argument,) = expr.arguments
    rest: Any = None
    turns: list[tuple[Cond, Cond]]
    if isinstance(argument, tree.Comprehension):
        pairs, rest = reader.loop(argument, env)
        turns = [(allowed, reader.as_condition(element)) for allowed, element in pairs]
    else:
        spread = _spread(reader, argument, env)
        if isinstance(spread, (Blur, Undefined)):
            return Cond(FALSE, FALSE) if isinstance(spread, Undefined) else open_condition(
                f"{expr.function}({spread.key})", spread)
        if isinstance(spread, LongList):
            rest, spread = spread, (*spread.first, *spread.last)
        turns = [(cond(TRUE), reader.as_condition(item)) for item in spread]
    if expr.function == "all":
        return _all(reader, turns, rest, expr, env)
    if expr.function == "any":
        opposites = [(allowed, Cond(c.false, c.true)) for allowed, c in turns]
        found = _all(reader, opposites, rest, expr, env)
        return Cond(found.false, found.true)
    return _count(reader, turns, rest, expr, env)


def _all(reader: Reader, turns: list[tuple[Cond, Cond]], rest: Any, expr: tree.Call, env: Environment) -> Cond:
    true = both(*(either(allowed.false, c.true) for allowed, c in turns))
    false = either(*(both(allowed.true, c.false) for allowed, c in turns))
    if rest is None:
        return Cond(true, false)
    if isinstance(rest, Undefined):
        return Cond(FALSE, false)
    left = open_condition(f"{expr.function} of the rest of {key_of(rest)}: {written(reader, expr, env)}", rest)
    return Cond(both(true, left.true), either(false, left.false))


def _count(
    reader: Reader, turns: list[tuple[Cond, Cond]], rest: Any, expr: tree.Call, env: Environment
) -> Any:
    if rest is not None:
        return Blur(f"count of {key_of(rest)}: {written(reader, expr, env)}")
    found = 0
    for allowed, condition in turns:
        holds = Cond(both(allowed.true, condition.true), either(allowed.false, condition.false))
        verdict = reader.decide(holds)
        if verdict is None:
            return UNDEFINED
        found += verdict
    return found


def _spread(reader: Reader, argument: tree.Expr, env: Environment) -> Any:
    """The verdicts of a comparison of lists, element by element."""
    if not isinstance(argument, tree.Compare):
        return reader.elements(reader.read(argument, env))
    operands = [reader.read(o, env) for o in (argument.left, *argument.rights)]
    operands = [o if isinstance(o, (Range, frozenset)) else symbols.as_list(reader, o) for o in operands]
    if any(isinstance(o, Undefined) for o in operands):
        return UNDEFINED
    blurred = next((o for o in operands if isinstance(o, Blur)), None)
    if blurred is not None:
        return Blur(written(reader, argument, env) + " of " + ", ".join(map(key_of, operands)))
    lengths = {len(o) for o in operands if isinstance(o, tuple)}
    longs = [o for o in operands if isinstance(o, LongList)]
    if longs:
        if lengths or len(longs) > 1:
            return Blur(written(reader, argument, env) + " of " + ", ".join(map(key_of, operands)))
        first = _verdicts(reader, argument, operands, range(len(longs[0].first)), "first")
        last = _verdicts(reader, argument, operands, range(len(longs[0].last)), "last")
        return LongList(first, last, longs[0].length, longs[0].key)
    if len(lengths) > 1:
        return UNDEFINED
    return _verdicts(reader, argument, operands, range(next(iter(lengths), 1)), "")


def _verdicts(
    reader: Reader, argument: tree.Compare, operands: list[Any], places: range, end: str
) -> tuple[Cond, ...]:
    def item(operand: Any, place: int) -> Any:
        if isinstance(operand, LongList):
            return getattr(operand, end)[place]
        return operand[place] if isinstance(operand, tuple) else operand

    found = []
    for place in places:
        row = [item(o, place) for o in operands]
        parts = [reader.one_comparison(op, row[i], row[i + 1]) for i, op in enumerate(argument.ops)]
        found.append(Cond(both(*(p.true for p in parts)), either(*(p.false for p in parts))))
    return tuple(found)


def _aggregated(reader: Reader, expr: tree.Call, env: Environment) -> Any:
    if len(expr.arguments) == 1 and isinstance(expr.arguments[0], tree.Comprehension):
        pairs, rest = reader.loop(expr.arguments[0], env)
        if rest is not None:
            key = f"{expr.function} of {key_of(rest)}: {written(reader, expr, env)}"
            return UNDEFINED if isinstance(rest, Undefined) else Blur(key)
        items: list[Any] = []
        for allowed, element in pairs:
            verdict = reader.decide(allowed)
            if verdict is None:
                return UNDEFINED
            if verdict:
                items.append(element)
        return FUNCTIONS[expr.function](reader, tuple(items))
    terms = [reader.read(a, env) for a in expr.arguments if not isinstance(a, tree.Comprehension)]
    if any(isinstance(t, Undefined) for t in terms):
        return UNDEFINED
    found = reader.elements(terms[0]) if len(terms) == 1 else tuple(terms)
    return FUNCTIONS[expr.function](reader, found) if isinstance(found, tuple) else Blur(
        f"{expr.function}({key_of(found)})")


def _flag(reader: Reader, expr: tree.Call, env: Environment) -> Any:
    (argument,) = expr.arguments
    flag = "presence" if expr.function == "present" else "walked"
    if isinstance(argument, tree.Name) and (argument.id, flag) in env.flags:
        return env.flags[argument.id, flag]
    if flag == "walked" or isinstance(argument, tree.Comprehension):
        return UNDEFINED
    term = symbols.plain(reader, reader.read(argument, env))
    found = compare_terms("==", term, None)
    return Cond(found.false, found.true)


def _possible(reader: Reader, expr: tree.Call, env: Environment) -> Cond:
    (argument,) = expr.arguments
    if isinstance(argument, tree.Comprehension):
        return Cond(TRUE, FALSE)
    inner = reader.condition(argument, env)
    # True unless known to be false. Where the sizes are numbers that is the condition itself; where they vary, or where
    # it is neither, it may hold although it is not known to, which is left open.
    left = open_condition(f"possible {inner.true}", reason="possible").true
    return Cond(either(inner.true, both(left, *_unknown(inner))), inner.false)


def _unknown(condition: Cond) -> list[Formula]:
    """When a condition may be unknown; nothing where that can't be said."""
    paths = variables(condition.true) | variables(condition.false)
    if has_open(condition.true) or has_open(condition.false):
        return []
    if not all("/shape[" in path or path.rpartition("/")[2] in _ALWAYS_KNOWN for path in paths):
        return []
    varying = [equal(f"{path.rpartition('/')[0]}/symbolic", [True]) for path in sorted(paths) if "/shape[" in path]
    return [either(both(negated(condition.true), negated(condition.false)), *varying)]


_ALWAYS_KNOWN = frozenset({"dtype", "rank", "op", "origin", "present"})


_FORMS: Mapping[str, Callable[[Reader, tree.Call, Environment], Any]] = {
    "all": _quantified,
    "any": _quantified,
    "count": _quantified,
    "sum": _aggregated,
    "min": _aggregated,
    "max": _aggregated,
    "present": _flag,
    "walked": _flag,
    "possible": _possible,
}

_READERS: Mapping[type, Callable[[Reader, Any, Environment], Any]] = {
    tree.Literal: _literal,
    tree.Name: _name,
    tree.OptionRef: _option,
    tree.Attribute: _attribute,
    tree.OpExpansion: _expansion,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.BoolOp: _bool,
    tree.Compare: Reader.compare,
    tree.IsKind: _is_kind,
    tree.Conditional: _conditional,
    tree.RangeExpr: _range,
    tree.Index: _index,
    tree.Slice: _slice,
    tree.ListExpr: _list,
    tree.SetExpr: _set,
    tree.Call: _call,
}
