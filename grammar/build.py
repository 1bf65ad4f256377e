"""What Lark calls when a rule of the grammar is complete: builds the nodes of the tree, one method per rule.

Every child is a lexeme, a node or a `Group`, and each knows its span; all tokens are kept, so a node's span is
that of its first and last child. The builder has no state: one serves all texts.
"""

# Each method is named after its rule or alias in the grammar, which says more than a docstring could.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from apportion.grammar import tree
from apportion.grammar.diagnostics import Span
from apportion.grammar.lexing import Lexeme, read_bytes, read_number, read_string

__all__ = ["Builder", "Group"]

_WORDS: dict[str, float | bool | None] = {
    "TRUE": True,
    "FALSE": False,
    "NONE": None,
    "INF": float("inf"),
    "NAN": float("nan"),
}


@frozen
class Group:
    """Something of a clause that is no node of its own: a parameter list, a block, a list of options."""

    kind: str
    span: Span
    items: tuple[Any, ...] = ()


Children = list[Any]


def _span(children: Children) -> Span:
    first: Span = children[0].span
    last: Span = children[-1].span
    return Span(first.source, first.start, max(first.end, last.end))


def _nodes(children: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(child for child in children if isinstance(child, tree.Node))


def _lexemes(children: Iterable[Any], *types: str) -> list[Lexeme]:
    return [child for child in children if isinstance(child, Lexeme) and child.type in types]


def _names(children: Iterable[Any], *types: str) -> tuple[str, ...]:
    return tuple(lexeme.text for lexeme in _lexemes(children, *(types or ("NAME",))))


def _groups(children: Iterable[Any], kind: str) -> list[Group]:
    return [child for child in children if isinstance(child, Group) and child.kind == kind]


def _group(children: Iterable[Any], kind: str) -> Group | None:
    found = _groups(children, kind)
    return found[0] if found else None


def _doc(children: Iterable[Any], skip: int = 0) -> str | None:
    strings = _lexemes(children, "STRING")[skip:]
    return read_string(strings[0].text) if strings else None


def _because(children: Children) -> str | None:
    return next((child.text for child in children if isinstance(child, tree.Because)), None)


def _value(lexeme: Lexeme) -> int | float | bool | str | bytes | None:
    if lexeme.type in _WORDS:
        return _WORDS[lexeme.type]
    if lexeme.type == "STRING":
        return read_string(lexeme.text)
    if lexeme.type == "BYTES":
        return read_bytes(lexeme.text)
    return read_number(lexeme.text)


class Builder:
    """One method per rule or alias of `rules.lark`; each takes the children and gives a node or a `Group`."""

    # --- statements ---

    def file(self, children: Children) -> tuple[tree.Statement, ...]:
        return tuple(children)

    def expression(self, children: Children) -> Any:
        return children[0]

    def backend(self, children: Children) -> tree.BackendDecl:
        language = read_number(_lexemes(children, "INT")[0].text)
        return tree.BackendDecl(
            span=_span(children), id=read_string(children[1].text), language=int(language), doc=_doc(children, 1)
        )

    def use(self, children: Children) -> tree.Use:
        return tree.Use(span=_span(children), path=read_string(children[1].text))

    def declare(self, children: Children) -> tree.DeclareOp:
        return tree.DeclareOp(span=_span(children), schema=read_string(children[1].text))

    def option(self, children: Children) -> tree.OptionDecl:
        return tree.OptionDecl(
            span=_span(children), name=children[1].text, type=children[3], default=children[5], doc=_doc(children)
        )

    def meta(self, children: Children) -> tree.MetaDecl:
        return tree.MetaDecl(
            span=_span(children), name=children[1].text, type=children[3], path=read_string(children[5].text)
        )

    def ops(self, children: Children) -> tree.OpsDecl:
        return tree.OpsDecl(span=_span(children), name=children[1].text, value=children[3])

    def let(self, children: Children) -> tree.Let:
        parameters = _group(children, "parameters")
        return tree.Let(
            span=_span(children), name=children[1].text,
            parameters=parameters.items if parameters else None, value=children[-1],
        )  # fmt: skip

    def pattern(self, children: Children) -> tree.PatternDecl:
        return tree.PatternDecl(
            span=_span(children), name=children[1].text, parameters=children[2].items, term=children[4]
        )

    def contract(self, children: Children) -> tree.Contract:
        return tree.Contract(
            span=_span(children), name=children[1].text, parameters=children[2].items, body=_nodes(children)
        )

    def extern(self, children: Children) -> tree.ExternDecl:
        types = [child for child in children if isinstance(child, tree.TypeExpr)]
        return tree.ExternDecl(
            span=_span(children), name=children[1].text, parameters=children[2].items,
            type=types[0] if types else None, doc=_doc(children),
        )  # fmt: skip

    def disjoint(self, children: Children) -> tree.DisjointDecl:
        return tree.DisjointDecl(span=_span(children), left=children[1].text, right=children[3].text)

    def preserve(self, children: Children) -> tree.Preserve:
        first, rest = children[1], children[2:]
        claimed = isinstance(first, tree.Name) and first.id == "claimed"
        changes: list[tuple[str, tree.Expr]] = [] if claimed else [("|", first)]
        changes += [(op.text, value) for op, value in zip(rest[::2], rest[1::2], strict=True)]
        return tree.Preserve(span=_span(children), claimed=claimed, changes=tuple(changes))

    def emit(self, children: Children) -> tree.Emit:
        key = children[1]
        name = read_string(key.text) if key.type == "STRING" else key.text
        return tree.Emit(span=_span(children), key=name, value=children[3])

    def parameters(self, children: Children) -> Group:
        return Group("parameters", _span(children), _names(children))

    def roles(self, children: Children) -> Group:
        return Group("parameters", _span(children), _nodes(children))

    def role(self, children: Children) -> tree.Parameter:
        return tree.Parameter(span=_span(children), name=children[0].text, optional=len(children) > 1)

    # --- types ---

    def type(self, children: Children) -> tree.TypeExpr:
        element: tree.TypeExpr = children[0]
        return element

    def plain_type(self, children: Children) -> tree.TypeExpr:
        return tree.TypeExpr(span=_span(children), name=children[0].text)

    def enum_type(self, children: Children) -> tree.TypeExpr:
        choices = (
            read_string(lexeme.text) if lexeme.type == "STRING" else lexeme.text
            for lexeme in _lexemes(children, "NAME", "STRING")
        )
        return tree.TypeExpr(span=_span(children), name="enum", choices=tuple(choices))

    def set_type(self, children: Children) -> tree.TypeExpr:
        element: tree.TypeExpr = children[1]
        return evolve(element, span=_span(children), is_set=True)

    def list_type(self, children: Children) -> tree.TypeExpr:
        element: tree.TypeExpr = children[1]
        return evolve(element, span=_span(children), is_list=True)

    # --- rules ---

    def rule(self, children: Children) -> tree.Rule:
        over = _group(children, "over")
        return tree.Rule(
            span=_span(children), name=children[1].text, name_span=children[1].span,
            over=over.items if over else (), doc=_doc(children), body=_nodes(children),
        )  # fmt: skip

    def over(self, children: Children) -> Group:
        return Group("over", _span(children), _names(children))

    def invariant(self, children: Children) -> tree.Invariant:
        return tree.Invariant(
            span=_span(children), name=children[1].text, name_span=children[1].span,
            doc=_doc(children), body=_nodes(children),
        )  # fmt: skip

    def partition(self, children: Children) -> tree.PartitionBlock:
        return tree.PartitionBlock(span=_span(children), body=_nodes(children))

    def match(self, children: Children) -> tree.Match:
        return tree.Match(span=_span(children), choices=_choices(children))

    def given(self, children: Children) -> tree.Given:
        return tree.Given(span=_span(children), choices=_choices(children))

    def block(self, children: Children) -> tree.Choice:
        return tree.Choice(span=_span(children), bindings=_nodes(children))

    def binding(self, children: Children) -> tree.Binding:
        return tree.Binding(span=_span(children), name=children[0].text, term=children[2])

    def when(self, children: Children) -> tree.When:
        return tree.When(span=_span(children), condition=children[1])

    def require(self, children: Children) -> tree.Require:
        return tree.Require(span=_span(children), condition=children[1], because=_because(children))

    def because(self, children: Children) -> tree.Because:
        return tree.Because(span=_span(children), text=read_string(children[1].text))

    def take(self, children: Children) -> tree.Take:
        conditions = _nodes(children)
        return tree.Take(
            span=_span(children), names=_names(children), condition=conditions[0] if conditions else None
        )

    def mark(self, children: Children) -> tree.Mark:
        return tree.Mark(span=_span(children), names=_names(children), key=read_string(children[-1].text))

    def partition_key(self, children: Children) -> tree.PartitionKey:
        return tree.PartitionKey(span=_span(children), key=children[0].text, value=children[2])

    def trim(self, children: Children) -> tree.Trim:
        return tree.Trim(span=_span(children), condition=children[1], because=_because(children))

    def reject(self, children: Children) -> tree.Reject:
        return tree.Reject(span=_span(children), condition=children[1], because=_because(children))

    # --- pattern terms ---

    def alternatives(self, children: Children) -> tree.Term:
        terms = _nodes(children)
        if len(terms) == 1:
            single: tree.Term = terms[0]
            return single
        return tree.Alternatives(span=_span(children), terms=terms)

    def with_term(self, children: Children) -> tree.WithTerm:
        return tree.WithTerm(span=_span(children), term=children[0], role=children[2].text, value=children[4])

    def shared(self, children: Children) -> tree.SharedTerm:
        return tree.SharedTerm(span=_span(children), term=children[1])

    def optional(self, children: Children) -> tree.OptionalTerm:
        return tree.OptionalTerm(span=_span(children), term=children[0])

    def element(self, children: Children) -> tree.ElementTerm:
        index = int(read_number(children[2].text))
        return tree.ElementTerm(span=_span(children), term=children[0], index=index)

    def variable(self, children: Children) -> tree.VariableTerm:
        return tree.VariableTerm(span=_span(children), name=children[0].text)

    def wildcard(self, children: Children) -> tree.WildcardTerm:
        return tree.WildcardTerm(span=_span(children))

    def literal_term(self, children: Children) -> tree.LiteralTerm:
        value = _value(children[-1])
        if len(children) == 2 and isinstance(value, (int, float)):
            value = -value
        return tree.LiteralTerm(span=_span(children), value=None if isinstance(value, bytes) else value)

    def list_term(self, children: Children) -> tree.ListTerm:
        return tree.ListTerm(span=_span(children), items=_nodes(children))

    def star(self, children: Children) -> tree.StarTerm:
        return tree.StarTerm(span=_span(children), term=children[1])

    def star_argument(self, children: Children) -> tree.Argument:
        return tree.Argument(span=_span(children), name=None, term=children[0])

    def argument(self, children: Children) -> tree.Argument:
        return tree.Argument(span=_span(children), name=None, term=children[0])

    def named_argument(self, children: Children) -> tree.Argument:
        return tree.Argument(span=_span(children), name=children[0].text, term=children[2])

    def call_term(self, children: Children) -> tree.CallTerm:
        return tree.CallTerm(span=_span(children), callee=children[0], arguments=_nodes(children[1:]))

    def through(self, children: Children) -> tree.ThroughTerm:
        return tree.ThroughTerm(span=_span(children), ops=children[1], term=children[3])

    # --- names of ops ---

    def attribute(self, children: Children) -> tree.Expr:
        value, name = children[0], children[2]
        if isinstance(value, tree.OpExpansion):
            return tree.OpExpansion(span=_span(children), segments=(*value.segments, (name.text,)))
        return tree.Attribute(span=_span(children), value=value, name=name.text)

    def expansion(self, children: Children) -> tree.OpExpansion:
        value, segment = children[0], children[2]
        return tree.OpExpansion(span=_span(children), segments=(*_segments(value), segment.items))

    def op_segment(self, children: Children) -> Group:
        return Group("segment", _span(children), _names(children))

    # --- examples ---

    def example(self, children: Children) -> tree.Example:
        steps: tuple[tree.ExampleStep, ...]
        if isinstance(children[1], tree.ExampleCall):
            steps = (tree.ExampleStep(span=children[1].span, name=None, call=children[1]),)
        else:
            steps = children[1].items
        options = tuple(item for group in _groups(children, "options") for item in group.items)
        return tree.Example(
            span=_span(children), accepts=children[0].type == "ACCEPTS", steps=_resolve_steps(steps),
            options=options, because=_because(children),
        )  # fmt: skip

    def steps(self, children: Children) -> Group:
        return Group("steps", _span(children), _nodes(children))

    def step(self, children: Children) -> tree.ExampleStep:
        return tree.ExampleStep(span=_span(children), name=children[0].text, call=children[2])

    def unnamed_step(self, children: Children) -> tree.ExampleStep:
        return tree.ExampleStep(span=_span(children), name=None, call=children[0])

    def with_options(self, children: Children) -> Group:
        return Group("options", _span(children), tuple(item.items for item in _groups(children, "option")))

    def option_value(self, children: Children) -> Group:
        return Group("option", _span(children), (children[0].text, children[2]))

    def example_call(self, children: Children) -> tree.ExampleCall:
        arguments = tuple(group.items for group in _groups(children, "argument"))
        return tree.ExampleCall(span=_span(children), callee=children[0], arguments=arguments)

    def example_argument(self, children: Children) -> Group:
        return Group("argument", _span(children), (None, children[0]))

    def named_example(self, children: Children) -> Group:
        return Group("argument", _span(children), (children[0].text, children[2]))

    def example_name(self, children: Children) -> tree.ExampleTensor:
        return tree.ExampleTensor(span=_span(children), dtype=children[0].text, shape=None, kind=None)

    def example_tensor(self, children: Children) -> tree.ExampleTensor:
        kind = children[0].text if isinstance(children[1], Lexeme) and children[1].type == "NAME" else None
        dims = children[3:] if kind is not None else children[2:]
        shape = tuple(
            lexeme.text if lexeme.type == "NAME" else int(read_number(lexeme.text))
            for lexeme in _lexemes(dims, "NAME", "INT")
        )
        return tree.ExampleTensor(
            span=_span(children), dtype=children[1 if kind is not None else 0].text, shape=shape, kind=kind
        )

    def example_list(self, children: Children) -> tree.ExampleList:
        return tree.ExampleList(span=_span(children), items=_nodes(children))

    def negative(self, children: Children) -> tree.Unary:
        return tree.Unary(span=_span(children), op="-", operand=self.literal(children[1:]))

    # --- expressions ---

    def conditional(self, children: Children) -> tree.Conditional:
        then, _, condition, _, otherwise = children
        return tree.Conditional(span=_span(children), then=then, condition=condition, otherwise=otherwise)

    def implies(self, children: Children) -> tree.BoolOp:
        return tree.BoolOp(span=_span(children), op="implies", operands=_nodes(children))

    def disjunction(self, children: Children) -> tree.BoolOp:
        return tree.BoolOp(span=_span(children), op="or", operands=_nodes(children))

    def conjunction(self, children: Children) -> tree.BoolOp:
        return tree.BoolOp(span=_span(children), op="and", operands=_nodes(children))

    def unary(self, children: Children) -> tree.Unary:
        return tree.Unary(span=_span(children), op=children[0].text, operand=children[1])

    def binary(self, children: Children) -> tree.Binary:
        return tree.Binary(span=_span(children), op=children[1].text, left=children[0], right=children[2])

    def compare(self, children: Children) -> tree.Compare:
        ops: list[str] = []
        for child in children[1:]:
            if isinstance(child, Lexeme):
                if ops and ops[-1] == "not" and child == "in":
                    ops[-1] = "not in"
                else:
                    ops.append(child.text)
        left, *rights = _nodes(children)
        return tree.Compare(span=_span(children), left=left, ops=tuple(ops), rights=tuple(rights))

    def range_expr(self, children: Children) -> tree.RangeExpr:
        return tree.RangeExpr(span=_span(children), low=children[0], high=children[2])

    def is_kind(self, children: Children) -> tree.IsKind:
        return tree.IsKind(
            span=_span(children), value=children[0], kind=children[-1].text, negated=len(children) == 4
        )

    def index(self, children: Children) -> tree.Index:
        return tree.Index(span=_span(children), value=children[0], index=children[2])

    def index_slice(self, children: Children) -> tree.Slice:
        low, high, step = children[2].items
        return tree.Slice(span=_span(children), value=children[0], low=low, high=high, step=step)

    def slice(self, children: Children) -> Group:
        parts: list[Any] = [None]
        for child in children:
            if isinstance(child, Lexeme):
                parts.append(None)
            else:
                parts[-1] = child
        return Group("slice", _span(children), tuple([*parts, None][:3]))

    def literal(self, children: Children) -> tree.Literal:
        return tree.Literal(span=_span(children), value=_value(children[0]))

    def name(self, children: Children) -> tree.Name:
        return tree.Name(span=_span(children), id=children[0].text)

    def option_ref(self, children: Children) -> tree.OptionRef:
        return tree.OptionRef(span=_span(children), name=children[2].text)

    def call(self, children: Children) -> tree.Call:
        return tree.Call(
            span=_span(children), function=children[0].text, name_span=children[0].span,
            arguments=_nodes(children[1:]),
        )  # fmt: skip

    def comprehension(self, children: Children) -> tree.Comprehension:
        clauses = tuple(child for child in children if isinstance(child, tree.Clause))
        condition = children[-1] if _lexemes(children, "IF") else None
        return tree.Comprehension(span=_span(children), element=children[0], clauses=clauses, condition=condition)

    def for_clause(self, children: Children) -> tree.Clause:
        return tree.Clause(
            span=_span(children), targets=_names(children, "NAME", "UNDERSCORE"), iterable=children[-1]
        )

    def list_expr(self, children: Children) -> tree.ListExpr:
        return tree.ListExpr(span=_span(children), items=_nodes(children))

    def set_expr(self, children: Children) -> tree.SetExpr:
        return tree.SetExpr(span=_span(children), items=_nodes(children))

    def parenthesised(self, children: Children) -> Any:
        """The node between the parentheses, with a span that includes them."""
        return evolve(children[1], span=_span(children))


def _choices(children: Children) -> tuple[tree.Choice, ...]:
    found = _nodes(children)
    if isinstance(found[0], tree.Binding):
        return (tree.Choice(span=found[0].span, bindings=found),)
    return found


def _segments(value: tree.Expr) -> tuple[tuple[str, ...], ...]:
    """The dotted segments of an op name; empty for what is none (the checks refuse that)."""
    names: list[tuple[str, ...]] = []
    while isinstance(value, tree.Attribute):
        names.append((value.name,))
        value = value.value
    if isinstance(value, tree.OpExpansion):
        return (*value.segments, *reversed(names))
    if isinstance(value, tree.Name):
        return ((value.id,), *reversed(names))
    return ()


def _resolve_steps(steps: tuple[tree.ExampleStep, ...]) -> tuple[tree.ExampleStep, ...]:
    """Tell references to earlier steps (`y`, `y[0]`) from dtypes and tensors (`int8`, `int8[4]`)."""
    known: set[str] = set()
    resolved = []
    for step in steps:
        resolved.append(evolve(step, call=_resolve(step.call, known)))
        if step.name is not None:
            known.add(step.name)
    return tuple(resolved)


def _resolve(argument: Any, known: set[str]) -> Any:
    if isinstance(argument, tree.ExampleTensor):
        return _reference(argument) if argument.kind is None and argument.dtype in known else argument
    if isinstance(argument, tree.ExampleList):
        return evolve(argument, items=tuple(_resolve(item, known) for item in argument.items))
    if isinstance(argument, tree.ExampleCall):
        return evolve(argument, arguments=tuple((name, _resolve(value, known)) for name, value in argument.arguments))
    return argument


def _reference(argument: tree.ExampleTensor) -> tree.ExampleArgument:
    span = argument.span
    end = span.start + len(argument.dtype)
    name = tree.Name(span=Span(span.source, span.start, end), id=argument.dtype)
    if argument.shape is None:
        return name
    at = argument.shape[0] if len(argument.shape) == 1 else None
    if not isinstance(at, int):
        return argument
    return tree.Index(span=span, value=name, index=tree.Literal(span=span, value=at))
