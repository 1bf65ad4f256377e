"""Patterns of rules and invariants, compiled to terms that the matcher walks.

A compiled term refers to its names by frame slot. A named pattern is inlined where it is called; its roles become
the caller's terms. Nothing here looks at a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from attrs import define, evolve, field, frozen

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.scope import Entry, Scope
from apportion.engine.compile.types import ANY, Type, join_all, list_of, type_of_argument, value_of
from apportion.engine.ops import Op
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span, nearest

__all__ = [
    "AlternativesTerm",
    "AnyTerm",
    "BindTerm",
    "Choice",
    "ComputeTerm",
    "EachTerm",
    "ElementTerm",
    "ListTerm",
    "LiteralTerm",
    "OpTerm",
    "OptionalTerm",
    "Pattern",
    "Term",
    "ThroughTerm",
    "VariableTerm",
    "compile_pattern",
    "slots_of",
    "subterms",
]

THROUGH_LIMIT = 8
"""How many nodes `through{…}` walks at most."""


@frozen(eq=False)
class AnyTerm:
    """`_`, or an argument that the pattern leaves open."""

    head: frozenset[str] | None = field(default=None, init=False)


@frozen(eq=False)
class VariableTerm:
    """A name without a definition: binds the value, or must equal what it is bound to."""

    slot: int
    head: frozenset[str] | None = field(default=None, init=False)


@frozen(eq=False)
class LiteralTerm:
    """A literal; equal values match."""

    value: Any
    head: frozenset[str] | None = field(default=frozenset(), init=False)


@frozen(eq=False)
class BindTerm:
    """A name with a definition: matched once, afterwards the same value is meant."""

    slot: int
    term: Term
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return self.term.head


@frozen(eq=False)
class OpTerm:
    """A call of one of `ops` (any op where None), its arguments by the schema of each op.

    `layouts` maps an op name to pairs of argument (its schema name, or its position where the op has no schema) and
    term; `layout` has all of these terms, and serves ops without a layout of their own.
    """

    ops: frozenset[str] | None
    layouts: Mapping[str, tuple[tuple[str | int, Term], ...]]
    layout: tuple[tuple[str | int, Term], ...]
    rest: EachTerm | None
    shared: bool
    text: str
    span: Span
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return self.ops


@frozen(eq=False)
class OptionalTerm:
    """`term`, or without it `bypass` (its first argument); `present` is the slot that tells which."""

    term: Term
    bypass: Term
    present: int
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return _union([self.term.head, self.bypass.head])


@frozen(eq=False)
class AlternativesTerm:
    """One of several terms, tried in order."""

    terms: tuple[Term, ...]
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return _union([term.head for term in self.terms])


@frozen(eq=False)
class ElementTerm:
    """Output `index` of a multi-output value that `term` matches."""

    term: Term
    index: int
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return self.term.head


@frozen(eq=False)
class ListTerm:
    """A list argument: `items`, then `rest` for the remaining elements."""

    items: tuple[Term, ...]
    rest: EachTerm | None
    head: frozenset[str] | None = field(default=frozenset(), init=False)


@frozen(eq=False)
class EachTerm:
    """Each element of a list matched by `term`; the slots inside become parallel lists."""

    term: Term
    slots: tuple[int, ...]
    head: frozenset[str] | None = field(default=None, init=False)


@frozen(eq=False)
class ThroughTerm:
    """Zero to eight nodes of `ops` along their first tensor argument, then `term`."""

    ops: frozenset[str]
    term: Term
    walked: int
    shared: bool
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return _union([self.ops, self.term.head])


@frozen(eq=False)
class ComputeTerm:
    """`term`, and roles whose value is computed from what it bound: each result is matched by its own term."""

    term: Term
    computed: tuple[tuple[Callable[[list[Any]], Any], Term], ...]
    head: frozenset[str] | None = field(init=False)

    @head.default
    def _head(self) -> frozenset[str] | None:
        return self.term.head


Term = Union[
    AnyTerm,
    VariableTerm,
    LiteralTerm,
    BindTerm,
    OpTerm,
    OptionalTerm,
    AlternativesTerm,
    ElementTerm,
    ListTerm,
    EachTerm,
    ThroughTerm,
    ComputeTerm,
]


@frozen(eq=False)
class Sink:
    """A binding that no later term uses: where matching starts. `depth` is how far below it a value lies that is
    bound before it is its turn, `anchors` the slots of such values."""

    term: Term
    slot: int | None
    anchors: tuple[int, ...]
    depth: int


@frozen(eq=False)
class Choice:
    """One block of a `match`: its root sink first, then the other sinks in an order in which each is connected."""

    root: Sink
    others: tuple[Sink, ...]
    slots: tuple[int, ...]


@frozen(eq=False)
class Pattern:
    """A whole `match` or `given`.

    `ops` are all ops that its roots can be (None: any op); `mentioned` all op names that occur anywhere in it;
    `uniform` tells that all its variants claim equally many nodes, so that the first that holds is the largest.
    """

    choices: tuple[Choice, ...]
    ops: frozenset[str] | None
    mentioned: frozenset[str]
    uniform: bool
    claims: bool


def subterms(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term."""
    match term:
        case BindTerm() | ElementTerm() | EachTerm() | ThroughTerm():
            return (term.term,)
        case ComputeTerm():
            return (term.term, *(t for _, t in term.computed))
        case OptionalTerm():
            return (term.term, term.bypass)
        case AlternativesTerm():
            return term.terms
        case ListTerm():
            return term.items if term.rest is None else (*term.items, term.rest)
        case OpTerm():
            inner = tuple([t for _, t in term.layout])
            return inner if term.rest is None else (*inner, term.rest)
        case _:
            return ()


def _walk(term: Term) -> Iterator[Term]:
    seen: set[int] = set()
    stack: list[Term] = [term]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        stack.extend(subterms(current))


def slots_of(term: Term) -> tuple[int, ...]:
    """Every slot that matching a term may bind, sorted."""
    found: set[int] = set()
    for current in _walk(term):
        match current:
            case VariableTerm() | BindTerm():
                found.add(current.slot)
            case OptionalTerm():
                found.add(current.present)
            case ThroughTerm():
                found.add(current.walked)
            case _:
                pass
    return tuple(sorted(found))


def _union(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    result: frozenset[str] = frozenset()
    for names in sets:
        if names is None:
            return None
        result |= names
    return result


def _mentioned(terms: list[Term]) -> frozenset[str]:
    names: set[str] = set()
    for term in terms:
        for current in _walk(term):
            match current:
                case OpTerm():
                    names |= current.ops or frozenset()
                case ThroughTerm():
                    names |= current.ops
                case _:
                    pass
    return frozenset(names)


def _uniform(terms: list[Term]) -> bool:
    flexible = (OptionalTerm, ThroughTerm, EachTerm, AlternativesTerm)
    for term in terms:
        for current in _walk(term):
            if not isinstance(current, flexible):
                continue
            if isinstance(current, AlternativesTerm) and len({_op_count(t) for t in current.terms}) == 1:
                continue
            if isinstance(current, EachTerm) and isinstance(current.term, VariableTerm | AnyTerm):
                continue
            return False
    return True


def _op_count(term: Term) -> int:
    return sum(isinstance(t, OpTerm) for t in _walk(term))


def _depth_to(term: Term, slots: frozenset[int]) -> int | None:
    """How many ops lie at most between a term's value and a value in one of `slots`; None where there is none."""
    best: int | None = None
    stack: list[tuple[Term, int]] = [(term, 0)]
    while stack:
        current, depth = stack.pop()
        if isinstance(current, VariableTerm | BindTerm) and current.slot in slots:
            best = depth if best is None else max(best, depth)
            continue
        step = THROUGH_LIMIT if isinstance(current, ThroughTerm) else int(isinstance(current, OpTerm))
        stack.extend((inner, depth + step) for inner in subterms(current))
    return best


# --- compiling -------------------------------------------------------------------------------------------------


@define
class _Names:
    """What names mean at one place: the terms of names, and for names in expressions their slots."""

    terms: dict[str, Term] = field(factory=dict)
    used: set[str] = field(factory=set)
    local: bool = False


@frozen
class _Compiled:
    term: Term
    first: Term | None = None
    type: Type = ANY


@define
class _Compiler:
    """Compiles the terms of one pattern; `stack` are the named patterns being inlined."""

    scope: Scope
    known: set[str] = field(factory=set)
    slots: dict[str, int] = field(factory=dict)
    types: dict[str, list[Type]] = field(factory=dict)
    stack: tuple[str, ...] = ()
    star_depth: int = 0

    # names

    def slot(self, name: str, span: Span) -> int:
        """The slot of a name of this pattern: the one it has outside, or a new one."""
        if name not in self.slots:
            entry = self.scope.lookup(name)
            if entry is not None and entry.slot is not None:
                self.known.add(name)
                self.slots[name] = entry.slot
            else:
                self.slots[name] = self.scope.declare(name, ANY, span)
        return self.slots[name]

    def is_known(self, name: str) -> bool:
        """Is it a value that is bound before this pattern is matched?"""
        if name in self.slots:
            return name in self.known
        entry = self.scope.lookup(name)
        return entry is not None and entry.slot is not None

    def constant(self, name: str) -> LiteralTerm | None:
        """The literal that a dtype's name or a constant `let` stands for."""
        if name in DTYPES:
            return LiteralTerm(DTYPES[name])
        value = self.scope.entry_value(name)
        return LiteralTerm(value.value) if value is not None and value.constant else None

    def note_type(self, name: str, found: Type) -> None:
        self.types.setdefault(name, []).append(found)

    def variable(self, node: tree.VariableTerm, names: _Names, found: Type) -> Term:
        names.used.add(node.name)
        if node.name in names.terms:
            return names.terms[node.name]
        if names.local:
            constant = self.constant(node.name)
            term: Term = constant if constant is not None else VariableTerm(self.scope.frame.slot())
            names.terms[node.name] = term
            return term
        if node.name not in self.slots and not self.is_known(node.name):
            constant = self.constant(node.name)
            if constant is not None:
                return constant
        term = VariableTerm(self.slot(node.name, node.span))
        if node.name not in self.known:
            self.note_type(node.name, list_of(found) if self.star_depth else found)
        if not self.star_depth:
            names.terms[node.name] = term
        return term

    # terms

    def compile(self, node: tree.Term, names: _Names, found: Type = ANY, shared: bool = False) -> _Compiled:
        match node:
            case tree.VariableTerm():
                return _Compiled(self.variable(node, names, found), None, found)
            case tree.WildcardTerm():
                return _Compiled(AnyTerm())
            case tree.LiteralTerm():
                return _Compiled(LiteralTerm(node.value))
            case tree.SharedTerm():
                return self.compile(node.term, names, found, shared=True)
            case tree.CallTerm():
                return self.call(node, names, shared)
            case tree.OptionalTerm():
                return self.optional(node, names, found, shared, None)
            case tree.Alternatives():
                return self.alternatives([self.compile(t, names, found, shared) for t in node.terms])
            case tree.ElementTerm():
                inner = self.compile(node.term, names, ANY, shared)
                return _Compiled(
                    ElementTerm(inner.term, node.index), inner.first, value_of(_ops_of(inner.type), element=True)
                )
            case tree.ListTerm():
                return self.list_term(node, names, found)
            case tree.StarTerm():
                self.scope.error("A001", node.span, "`*` stands only among the arguments of a call or in a list")
                return _Compiled(AnyTerm())
            case tree.ThroughTerm():
                return self.through(node, names, found, shared)
            case tree.WithTerm():
                return self.with_roles(node, names, found, shared)

    def alternatives(self, options: list[_Compiled]) -> _Compiled:
        terms = tuple(o.term for o in options)
        ops = _union([_ops_of(o.type) for o in options])
        return _Compiled(AlternativesTerm(terms), options[0].first, value_of(ops))

    def optional(
        self, node: tree.OptionalTerm, names: _Names, found: Type, shared: bool, name: str | None
    ) -> _Compiled:
        inner = self.compile(node.term, names, found, shared)
        if inner.first is None:
            self.scope.error(
                "A004", node.span, "`?` needs a call whose first argument stands for it where it is absent"
            )
            return inner
        if name:
            self.slot(name, node.span)
        present = self.scope.declare_presence(name) if name else self.scope.frame.slot()
        return _Compiled(OptionalTerm(inner.term, inner.first, present), inner.first, value_of(None))

    def list_term(self, node: tree.ListTerm, names: _Names, found: Type) -> _Compiled:
        element = found.item if found.kind == "list" else ANY
        items: list[Term] = []
        rest: EachTerm | None = None
        for item in node.items:
            if isinstance(item, tree.StarTerm):
                rest = self.each(item, names, element)
            elif rest is None:
                items.append(self.compile(item, names, element).term)
            else:
                self.scope.error("A001", item.span, "nothing can follow `*` in a list pattern")
        if rest is None and all(isinstance(t, LiteralTerm) for t in items):
            return _Compiled(LiteralTerm(tuple(t.value for t in items if isinstance(t, LiteralTerm))))
        return _Compiled(ListTerm(tuple(items), rest))

    def each(self, node: tree.StarTerm, names: _Names, element: Type) -> EachTerm:
        if self.star_depth:
            self.scope.error("A001", node.span, "a `*` inside a `*` is not supported")
            return EachTerm(AnyTerm(), ())
        self.star_depth += 1
        term = self.compile(node.term, names, element).term
        self.star_depth -= 1
        return EachTerm(term, slots_of(term))

    def through(self, node: tree.ThroughTerm, names: _Names, found: Type, shared: bool) -> _Compiled:
        inner = self.compile(node.term, names, found)
        name = node.term.name if isinstance(node.term, tree.VariableTerm) and not names.local else None
        walked = self.scope.declare_walked(name) if name else self.scope.frame.slot()
        return _Compiled(ThroughTerm(self.scope.resolve_ops(node.ops), inner.term, walked, shared), None, ANY)

    def with_roles(self, node: tree.WithTerm, names: _Names, found: Type, shared: bool) -> _Compiled:
        from apportion.engine.compile.expressions import compile_expression

        inner = self.compile(node.term, names, found, shared)
        child = self.scope.child()
        for name, term in names.terms.items():
            if isinstance(term, VariableTerm | BindTerm):
                child.add(Entry(name, "variable", None, ANY, term.slot, frozenset({name})), shadows=True)
        value = compile_expression(node.value, child)
        role = names.terms.get(node.role)
        if role is None:
            role = self.variable(tree.VariableTerm(name=node.role, span=node.span), names, value.type)
        names.used.add(node.role)
        computed = ((value.evaluate, role),)
        if isinstance(inner.term, ComputeTerm):
            return evolve(inner, term=ComputeTerm(inner.term.term, inner.term.computed + computed))
        return evolve(inner, term=ComputeTerm(inner.term, computed))

    # calls

    def call(self, node: tree.CallTerm, names: _Names, shared: bool) -> _Compiled:
        if isinstance(node.callee, tree.Name) and node.callee.id in self.scope.patterns:
            return self.inline(node, self.scope.patterns[node.callee.id], names, shared)
        if isinstance(node.callee, tree.Name) and node.callee.id == "_":
            ops: frozenset[str] | None = None
        else:
            ops = self.scope.resolve_ops(node.callee)
        return self.op_call(node, ops, names, shared)

    def op_call(self, node: tree.CallTerm, ops: frozenset[str] | None, names: _Names, shared: bool) -> _Compiled:
        schemas = {name: self.scope.schema_of(name) for name in sorted(ops or ())}
        plain = [a for a in node.arguments if not isinstance(a.term, tree.StarTerm)]
        compiled: list[tuple[str | int, Term, Span]] = []
        for position, argument in enumerate(plain):
            key: str | int = argument.name if argument.name is not None else position
            found = _argument_type(schemas, key)
            compiled.append((key, self.compile(argument.term, names, found).term, argument.span))
        rest: EachTerm | None = None
        for argument in node.arguments:
            if isinstance(argument.term, tree.StarTerm):
                if rest is not None or argument.name is not None:
                    self.scope.error("A001", argument.span, "one `*` is all that a call can have")
                rest = self.star_argument(argument.term, names)
        layouts, ops = self.layouts(node, schemas, compiled, ops)
        text = _text(node.callee)
        default = tuple((key, term) for key, term, _ in compiled)
        term = OpTerm(ops, layouts, default, rest, shared, text, node.span)
        first = compiled[0][1] if compiled else None
        return _Compiled(term, first, value_of(ops))

    def star_argument(self, node: tree.StarTerm, names: _Names) -> EachTerm:
        """`*TERM`; `*d` of a name with a definition means that definition for each element."""
        inner = node.term
        if isinstance(inner, tree.VariableTerm) and isinstance(names.terms.get(inner.name), BindTerm):
            bound = names.terms[inner.name]
            names.used.add(inner.name)
            return EachTerm(bound, slots_of(bound))
        return self.each(node, names, value_of(None))

    def layouts(
        self,
        node: tree.CallTerm,
        schemas: Mapping[str, Op | None],
        compiled: list[tuple[str | int, Term, Span]],
        ops: frozenset[str] | None,
    ) -> tuple[dict[str, tuple[tuple[str | int, Term], ...]], frozenset[str] | None]:
        """The arguments by each op's own schema; ops of a packet that lack one are left out, an error if all do."""
        layouts: dict[str, tuple[tuple[str | int, Term], ...]] = {}
        failures: dict[str, tuple[str, Span, list[str]]] = {}
        for name, op in schemas.items():
            if op is None or not op.arguments and op.schema is None and op.style != "aten":
                layouts[name] = tuple((key, term) for key, term, _ in compiled)
                continue
            placed: dict[str, Term] = {}
            for key, term, span in compiled:
                known = [a.name for a in op.arguments]
                positional = [a.name for a in op.arguments if not a.kwarg_only]
                actual = key if isinstance(key, str) else (positional[key] if key < len(positional) else None)
                if actual is None:
                    failures[name] = (f"`{name}` takes at most {len(positional)} by position", span, known)
                elif actual not in known:
                    failures[name] = (f"`{name}` has no argument `{actual}`", span, known)
                elif actual in placed:
                    failures[name] = (f"argument `{actual}` of `{name}` is given twice", span, known)
                else:
                    placed[actual] = term
            layouts[name] = tuple(placed.items())
        bases: dict[str, list[str]] = {}
        for name in schemas:
            bases.setdefault(_base(name), []).append(name)
        for members in bases.values():
            if all(name in failures for name in members):
                message, span, known = failures[members[0]]
                wanted = message.split("`")[3] if message.count("`") > 3 else ""
                near = nearest(wanted, known) if wanted else []
                help_text = f"did you mean `{near[0]}`?" if near else f"its arguments are {', '.join(known)}"
                self.scope.error("A003", span, message, help=help_text)
        kept = None if ops is None else frozenset(n for n in ops if n not in failures)
        return {n: layout for n, layout in layouts.items() if n not in failures}, kept

    def inline(self, node: tree.CallTerm, declaration: tree.PatternDecl, names: _Names, shared: bool) -> _Compiled:
        if declaration.name in self.stack:
            self.scope.error("A008", node.span, f"pattern `{declaration.name}` uses itself")
            return _Compiled(AnyTerm())
        roles = self.role_terms(node, declaration, names)
        self.stack = (*self.stack, declaration.name)
        body = declaration.term
        alternatives = body.terms if isinstance(body, tree.Alternatives) else (body,)
        compiled = [self.alternative(term, roles, shared) for term in alternatives]
        self.stack = self.stack[:-1]
        result = compiled[0] if len(compiled) == 1 else self.alternatives(compiled)
        first = next(iter(roles.values()), None)
        return evolve(result, first=first)

    def alternative(self, term: tree.Term, roles: dict[str, Term], shared: bool) -> _Compiled:
        """One alternative of a named pattern, in names of its own; roles that it does not bind are `none`."""
        names = _Names(dict(roles), local=True)
        outer, self.star_depth = self.star_depth, self.star_depth
        compiled = self.compile(term, names, ANY, shared)
        self.star_depth = outer
        absent = tuple((_none, role) for name, role in roles.items() if name not in names.used)
        absent = tuple((f, t) for f, t in absent if not isinstance(t, AnyTerm))
        if not absent:
            return compiled
        if isinstance(compiled.term, ComputeTerm):
            return evolve(compiled, term=ComputeTerm(compiled.term.term, compiled.term.computed + absent))
        return evolve(compiled, term=ComputeTerm(compiled.term, absent))

    def role_terms(self, node: tree.CallTerm, declaration: tree.PatternDecl, names: _Names) -> dict[str, Term]:
        known = [p.name for p in declaration.parameters]
        roles: dict[str, Term] = {name: AnyTerm() for name in known}
        given: set[str] = set()
        position = 0
        for argument in node.arguments:
            if isinstance(argument.term, tree.StarTerm):
                self.scope.error("A003", argument.span, f"pattern `{declaration.name}` takes no `*`")
                continue
            name = argument.name
            if name is None:
                name = known[position] if position < len(known) else None
                position += 1
            if name is None or name not in roles:
                near = nearest(name or "", known)
                hint = f"did you mean `{near[0]}`?" if near else f"its roles are {', '.join(known)}"
                what = f"has no role `{name}`" if name else f"has only {len(known)} roles"
                self.scope.error("A003", argument.span, f"pattern `{declaration.name}` {what}", help=hint)
                continue
            if name in given:
                self.scope.error("A003", argument.span, f"role `{name}` is given twice")
            given.add(name)
            term = self.compile(argument.term, names, ANY).term
            simple = isinstance(term, VariableTerm | LiteralTerm | AnyTerm | BindTerm)
            roles[name] = term if simple else BindTerm(self.scope.frame.slot(), term)
        # a role that the call leaves out is unconstrained, like an argument; in expressions of the body it has a slot
        return {n: BindTerm(self.scope.frame.slot(), t) if isinstance(t, AnyTerm) else t for n, t in roles.items()}


def _none(frame: list[Any]) -> None:
    return None


def _base(name: str) -> str:
    """`aten.add` of `aten.add.Tensor`, and `aten.view` of `aten.view_copy.default`: one packet and its twins."""
    packet = name.rsplit(".", 1)[0] if name.count(".") >= 2 else name
    return packet.removesuffix("_copy")


def _text(callee: tree.Expr) -> str:
    return " ".join(callee.span.text.split())


def _ops_of(found: Type) -> frozenset[str] | None:
    return found.ops if found.kind == "value" else None


def _argument_type(schemas: Mapping[str, Op | None], key: str | int) -> Type:
    """The type of an argument where all ops agree on it."""
    found: set[str] = set()
    for op in schemas.values():
        if op is None:
            return ANY
        arguments = [a for a in op.arguments if not a.kwarg_only] if isinstance(key, int) else list(op.arguments)
        if isinstance(key, int):
            chosen = arguments[key] if key < len(arguments) else None
        else:
            chosen = next((a for a in arguments if a.name == key), None)
        if chosen is not None:
            found.add(chosen.type)
    return type_of_argument(found.pop()) if len(found) == 1 else ANY


def compile_pattern(choices: tuple[tree.Choice, ...], scope: Scope, *, claims: bool) -> Pattern:
    """Compiles the blocks of a `match` (`claims`) or `given`.

    Declares the names that they bind on `scope`, with their types; names already declared there (in a `given`) are
    the values they are bound to. Errors go to the scope's diagnostics.
    """
    compiler = _Compiler(scope)
    compiled = [_choice(compiler, choice) for choice in choices]
    for name, found in compiler.types.items():
        if name not in compiler.known:
            scope.retype(name, join_all(found))
    terms = [sink.term for choice in compiled for sink in (choice.root, *choice.others)]
    sizes = {sum(_op_count(s.term) for s in (c.root, *c.others)) for c in compiled}
    return Pattern(
        tuple(compiled),
        _union([choice.root.term.head for choice in compiled]),
        _mentioned(terms),
        len(sizes) == 1 and _uniform(terms),
        claims,
    )


def _choice(compiler: _Compiler, choice: tree.Choice) -> Choice:
    names = _Names()
    bound: list[tuple[str | None, Term, Span]] = []
    starred = _starred(choice)
    for binding in choice.bindings:
        bound.append((binding.name, *_binding(compiler, binding, names, binding.name in starred)))
    sinks = [
        (name, term, span)
        for name, term, span in bound
        if name is None or name not in names.used or name in compiler.known
    ]
    return _order(compiler, sinks or bound[-1:], choice)


def _starred(choice: tree.Choice) -> set[str]:
    """Names that a later call takes with `*`: their definitions are matched once for each element."""
    found: set[str] = set()
    stack: list[Any] = [b.term for b in choice.bindings]
    while stack:
        node = stack.pop()
        if isinstance(node, tree.StarTerm) and isinstance(node.term, tree.VariableTerm):
            found.add(node.term.name)
        elif isinstance(node, tree.CallTerm):
            stack.extend(a.term for a in node.arguments)
        elif isinstance(node, tree.ListTerm):
            stack.extend(node.items)
        elif isinstance(node, tree.Alternatives):
            stack.extend(node.terms)
        elif hasattr(node, "term"):
            stack.append(node.term)
    return found


def _binding(compiler: _Compiler, binding: tree.Binding, names: _Names, starred: bool) -> tuple[Term, Span]:
    name = binding.name
    if name is not None and compiler.is_known(name):
        term: Term = compiler.compile(binding.term, names).term
        return BindTerm(compiler.slot(name, binding.span), term), binding.span
    if name is not None and name in names.terms:
        compiler.scope.error(
            "A009",
            binding.span,
            f"`{name}` is already bound above",
            help="write bindings in data-flow order, each name once on the left",
        )
        return names.terms[name], binding.span
    compiler.star_depth += int(starred)
    if isinstance(binding.term, tree.OptionalTerm):
        compiled = compiler.optional(binding.term, names, ANY, False, name)
    elif isinstance(binding.term, tree.SharedTerm) and isinstance(binding.term.term, tree.OptionalTerm):
        compiled = compiler.optional(binding.term.term, names, ANY, True, name)
    else:
        compiled = compiler.compile(binding.term, names)
    compiler.star_depth -= int(starred)
    if name is None or name == "_":
        return compiled.term, binding.span
    found = compiled.type if compiled.type.kind == "value" else value_of(None)
    compiler.note_type(name, list_of(found) if starred else found)
    term = BindTerm(compiler.slot(name, binding.span), compiled.term)
    names.terms[name] = term
    return term, binding.span


def _order(compiler: _Compiler, sinks: list[tuple[str | None, Term, Span]], choice: tree.Choice) -> Choice:
    """The last sink is the root; the others follow, each once a value of it is bound."""
    known_slots = {compiler.slots[n] for n in compiler.known}
    name, term, _ = sinks[-1]
    root_slot = compiler.slots.get(name) if name else None
    anchored = _anchor(term, known_slots)
    root = Sink(term, root_slot, anchored[0], anchored[1])
    reached = known_slots | set(slots_of(term))
    others: list[Sink] = []
    waiting = sinks[:-1]
    while waiting:
        ready = next((s for s in waiting if _anchor(s[1], reached)[0]), None)
        if ready is None:
            span = waiting[0][2]
            compiler.scope.error(
                "A007",
                span,
                "this part of the pattern shares no value with the rest",
                help="connect it by a name that both use, or make it a rule of its own",
            )
            break
        waiting.remove(ready)
        anchors, depth = _anchor(ready[1], reached)
        others.append(Sink(ready[1], compiler.slots.get(ready[0]) if ready[0] else None, anchors, depth))
        reached |= set(slots_of(ready[1]))
    slots = tuple(sorted({s for sink in (root, *others) for s in slots_of(sink.term)}))
    return Choice(root, tuple(others), slots)


def _anchor(term: Term, reached: set[int]) -> tuple[tuple[int, ...], int]:
    shared = tuple(s for s in slots_of(term) if s in reached)
    depth = _depth_to(term, frozenset(shared)) if shared else None
    return (shared, depth) if depth is not None else ((), 0)
