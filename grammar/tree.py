"""The syntax tree of a rules file: what the text says, before any name is looked up.

Every node carries the `Span` of the text it was read from; spans take no part in equality, so two texts that
say the same give equal trees.
"""

from __future__ import annotations

from typing import Union

from attrs import field, frozen

from apportion.grammar.diagnostics import Span

__all__ = [
    "Alternatives",
    "Argument",
    "Attribute",
    "BackendDecl",
    "Because",
    "Binary",
    "Binding",
    "BoolOp",
    "Call",
    "CallTerm",
    "Choice",
    "Clause",
    "Compare",
    "Comprehension",
    "Conditional",
    "Contract",
    "DeclareOp",
    "DisjointDecl",
    "ElementTerm",
    "Emit",
    "Example",
    "ExampleArgument",
    "ExampleCall",
    "ExampleList",
    "ExampleStep",
    "ExampleTensor",
    "Expr",
    "ExternDecl",
    "File",
    "Given",
    "Index",
    "Invariant",
    "IsKind",
    "Let",
    "ListExpr",
    "ListTerm",
    "Literal",
    "LiteralTerm",
    "Mark",
    "Match",
    "MetaDecl",
    "Name",
    "Node",
    "OpExpansion",
    "OpsDecl",
    "OptionDecl",
    "OptionalTerm",
    "OptionRef",
    "Parameter",
    "PartitionBlock",
    "PatternDecl",
    "PartitionKey",
    "Preserve",
    "RangeExpr",
    "Reject",
    "Require",
    "Rule",
    "RuleClause",
    "SetExpr",
    "SharedTerm",
    "Slice",
    "Statement",
    "StarTerm",
    "Take",
    "Term",
    "ThroughTerm",
    "Trim",
    "TypeExpr",
    "Unary",
    "Use",
    "VariableTerm",
    "WildcardTerm",
    "When",
    "WithTerm",
]


@frozen(kw_only=True)
class Node:
    """Anything that was read from a piece of text."""

    span: Span = field(eq=False, repr=False)


def _exactly(value: object) -> tuple[type, object]:
    """What values of literals are compared by: `1`, `1.0` and `true` are three, and `nan` is itself."""
    return type(value), value if value == value else "nan"


# --- expressions -----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Literal(Node):
    """`1`, `1e-5`, `true`, `"text"`, `x"00ff"` (bytes), `none`, `inf`, `nan`."""

    value: int | float | bool | str | bytes | None = field(eq=_exactly)


@frozen(kw_only=True)
class Name(Node):
    """A bare name: a variable, a `let`, an op set, a dtype, a bound partition name such as `nodes`."""

    id: str


@frozen(kw_only=True)
class OptionRef(Node):
    """`option.NAME`."""

    name: str


@frozen(kw_only=True)
class Attribute(Node):
    """`value.name`. A dotted op name such as `aten.relu.default` reads as attributes of the name `aten`."""

    value: Expr
    name: str


@frozen(kw_only=True)
class OpExpansion(Node):
    """An op name with braces, `aten.{abs,neg}.default`: each segment holds its choices, in order."""

    segments: tuple[tuple[str, ...], ...]


@frozen(kw_only=True)
class Unary(Node):
    """`not x`, `-x`, `+x`."""

    op: str
    operand: Expr


@frozen(kw_only=True)
class Binary(Node):
    """`+ - * / // %` on numbers and lists, `|` and `-` on sets."""

    op: str
    left: Expr
    right: Expr


@frozen(kw_only=True)
class BoolOp(Node):
    """`a and b and c`, `a or b`; `implies` has exactly two operands and is right-associative."""

    op: str
    operands: tuple[Expr, ...]


@frozen(kw_only=True)
class Compare(Node):
    """A chained comparison; `ops` are `== != < <= > >= in not in`, one fewer than the operands in all."""

    left: Expr
    ops: tuple[str, ...]
    rights: tuple[Expr, ...]


@frozen(kw_only=True)
class IsKind(Node):
    """`x is constant`, `x is not none`. Several kinds (`is constant or none`) are written with `or`."""

    value: Expr
    kind: str
    negated: bool


@frozen(kw_only=True)
class Conditional(Node):
    """`a if c else b`."""

    then: Expr
    condition: Expr
    otherwise: Expr


@frozen(kw_only=True)
class RangeExpr(Node):
    """The closed range `low..high` after `in`."""

    low: Expr
    high: Expr


@frozen(kw_only=True)
class Index(Node):
    """`value[index]`."""

    value: Expr
    index: Expr


@frozen(kw_only=True)
class Slice(Node):
    """`value[low:high:step]`, each part optional."""

    value: Expr
    low: Expr | None
    high: Expr | None
    step: Expr | None


@frozen(kw_only=True)
class ListExpr(Node):
    """`[a, b]`."""

    items: tuple[Expr, ...]


@frozen(kw_only=True)
class SetExpr(Node):
    """`{a, b}`."""

    items: tuple[Expr, ...]


@frozen(kw_only=True)
class Clause(Node):
    """`for a, b in iterable` of a comprehension."""

    targets: tuple[str, ...]
    iterable: Expr


@frozen(kw_only=True)
class Comprehension(Node):
    """`element for … in … if condition`, the single argument of `all any count sum min max`."""

    element: Expr
    clauses: tuple[Clause, ...]
    condition: Expr | None


@frozen(kw_only=True)
class Call(Node):
    """`name(arguments)`: a function, a `let` with parameters, a contract, an extern."""

    function: str
    arguments: tuple[Expr | Comprehension, ...]
    name_span: Span = field(eq=False, repr=False)


Expr = Union[
    Literal,
    Name,
    OptionRef,
    Attribute,
    OpExpansion,
    Unary,
    Binary,
    BoolOp,
    Compare,
    IsKind,
    Conditional,
    RangeExpr,
    Index,
    Slice,
    ListExpr,
    SetExpr,
    Call,
]

# --- pattern terms ---------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class VariableTerm(Node):
    """A name in a pattern: binds a value, or refers to the one already bound."""

    name: str


@frozen(kw_only=True)
class WildcardTerm(Node):
    """`_`."""


@frozen(kw_only=True)
class LiteralTerm(Node):
    """`1`, `-2.0`, `true`, `"same"`, `none`, `inf` in a pattern. (A dtype name reads as a `VariableTerm`.)"""

    value: int | float | bool | str | None = field(eq=_exactly)


@frozen(kw_only=True)
class ElementTerm(Node):
    """`y[0]`: one output of a multi-output value bound elsewhere (`y[0]`) or of a term (`topk(x)[0]`)."""

    term: Term
    index: int


@frozen(kw_only=True)
class ListTerm(Node):
    """`[a, b]` or `[*xs]` matched against a list argument."""

    items: tuple[Term, ...]


@frozen(kw_only=True)
class StarTerm(Node):
    """`*TERM`: all (remaining) tensor inputs of a call, or elements of a list, each matched by TERM."""

    term: Term


@frozen(kw_only=True)
class Argument(Node):
    """One argument of a call term; `name` is None where it is given by position."""

    name: str | None
    term: Term


@frozen(kw_only=True)
class CallTerm(Node):
    """`CALLEE(arguments)`.

    `callee` is a dotted op name (`Attribute`), a `Name` (an op set or a named pattern), an `OpExpansion`, or a
    `SetExpr` of those; `Name("_")` for any op.
    """

    callee: Expr
    arguments: tuple[Argument, ...]


@frozen(kw_only=True)
class OptionalTerm(Node):
    """`TERM?`."""

    term: Term


@frozen(kw_only=True)
class SharedTerm(Node):
    """`shared TERM`."""

    term: Term


@frozen(kw_only=True)
class Alternatives(Node):
    """`(A | B)`; also the alternatives of a `pattern`."""

    terms: tuple[Term, ...]


@frozen(kw_only=True)
class ThroughTerm(Node):
    """`through{ops}(x)`; `ops` is a `SetExpr` (or a `Name` of an op set inside its braces)."""

    ops: Expr
    term: Term


@frozen(kw_only=True)
class WithTerm(Node):
    """`TERM with role = EXPR`: a role of a pattern computed instead of bound. Nested for several."""

    term: Term
    role: str
    value: Expr


Term = Union[
    VariableTerm,
    WildcardTerm,
    LiteralTerm,
    ElementTerm,
    ListTerm,
    StarTerm,
    CallTerm,
    OptionalTerm,
    SharedTerm,
    Alternatives,
    ThroughTerm,
    WithTerm,
]


@frozen(kw_only=True)
class Binding(Node):
    """`name = TERM`, or a bare TERM (`name` None)."""

    name: str | None
    term: Term


# --- clauses of rules ------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Because(Node):
    """The author's sentence after a requirement."""

    text: str


@frozen(kw_only=True)
class Choice(Node):
    """One block `{…}` of a `match` or `given`: bindings in data-flow order."""

    bindings: tuple[Binding, ...]


@frozen(kw_only=True)
class Match(Node):
    """`match {…} | {…}` or `match y = TERM` (one choice of one binding)."""

    choices: tuple[Choice, ...]


@frozen(kw_only=True)
class Given(Node):
    """`given {…}`: like `match`, claims nothing."""

    choices: tuple[Choice, ...]


@frozen(kw_only=True)
class When(Node):
    """`when EXPR`: a guard over options."""

    condition: Expr


@frozen(kw_only=True)
class Require(Node):
    """`require EXPR because "…"`; applying a contract is a `Call` of its name."""

    condition: Expr
    because: str | None


@frozen(kw_only=True)
class Take(Node):
    """`take w, b if EXPR`."""

    names: tuple[str, ...]
    condition: Expr | None


@frozen(kw_only=True)
class Mark(Node):
    """`mark a, b as "KEY"`."""

    names: tuple[str, ...]
    key: str


@frozen(kw_only=True)
class Emit(Node):
    """`emit KEY = EXPR`, in a rule or at file level."""

    key: str
    value: Expr


@frozen(kw_only=True)
class ExampleTensor(Node):
    """`constant float32[4,8]`, `float32[2,s,8]`, `float32[]` (a scalar tensor), bare dtype as an argument has
    shape None (`int8` in a quantize call). Symbolic dims are strings. `kind` is "constant" or None."""

    dtype: str
    shape: tuple[int | str, ...] | None
    kind: str | None


@frozen(kw_only=True)
class ExampleCall(Node):
    """A call in an example: `op(args)`; each argument is an `ExampleTensor`, an `Expr` of literals and lists
    (a `Name` refers to an earlier step; in a list, items may be ExampleTensor too), positional or named."""

    callee: Expr
    arguments: tuple[tuple[str | None, ExampleArgument], ...]


@frozen(kw_only=True)
class ExampleList(Node):
    """`[…]` in an example's arguments."""

    items: tuple[ExampleArgument, ...]


ExampleArgument = Union[ExampleTensor, ExampleList, ExampleCall, Literal, Name, Unary, Index]


@frozen(kw_only=True)
class ExampleStep(Node):
    """`name = CALL` of an example of several nodes."""

    name: str | None
    call: ExampleCall


@frozen(kw_only=True)
class Example(Node):
    """`accepts …` (`accepts` true) or `rejects …`, with options (`with precisions = {"int8"}, …`)."""

    accepts: bool
    steps: tuple[ExampleStep, ...]
    options: tuple[tuple[str, Expr], ...]
    because: str | None


# --- statements ------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class BackendDecl(Node):
    """`backend "ID" language N "doc"`."""

    id: str
    language: int
    doc: str | None


@frozen(kw_only=True)
class Use(Node):
    """`use "path"`."""

    path: str


@frozen(kw_only=True)
class DeclareOp(Node):
    """`declare "ns::op(Tensor a) -> Tensor"`."""

    schema: str


@frozen(kw_only=True)
class TypeExpr(Node):
    """`bool int float str` (`name`), `{a, b}` (`name` "enum", `choices`), `set of {a, b}` / `set of int`
    (`is_set`), `list of int` (`is_list`); externs and metas may also say `dtype` or `value`."""

    name: str
    choices: tuple[str, ...] = ()
    is_set: bool = False
    is_list: bool = False


@frozen(kw_only=True)
class OptionDecl(Node):
    """`option NAME: TYPE = DEFAULT "doc"`."""

    name: str
    type: TypeExpr
    default: Expr
    doc: str | None


@frozen(kw_only=True)
class MetaDecl(Node):
    """`meta NAME: TYPE = "custom.path"`."""

    name: str
    type: TypeExpr
    path: str


@frozen(kw_only=True)
class OpsDecl(Node):
    """`ops NAME = …`."""

    name: str
    value: Expr


@frozen(kw_only=True)
class Let(Node):
    """`let NAME = EXPR` or `let NAME(a, b) = EXPR` (`parameters` None without parentheses)."""

    name: str
    parameters: tuple[str, ...] | None
    value: Expr


@frozen(kw_only=True)
class Parameter(Node):
    """A role of a pattern, `b?` where it is optional."""

    name: str
    optional: bool


@frozen(kw_only=True)
class PatternDecl(Node):
    """`pattern NAME(a, b?) = A | B`; one alternative is a plain term."""

    name: str
    parameters: tuple[Parameter, ...]
    term: Term


@frozen(kw_only=True)
class Contract(Node):
    """`contract NAME(a, b) { require … }`."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Let | Require, ...]


@frozen(kw_only=True)
class ExternDecl(Node):
    """`extern NAME(a, b): TYPE "doc"`."""

    name: str
    parameters: tuple[str, ...]
    type: TypeExpr | None
    doc: str | None


@frozen(kw_only=True)
class DisjointDecl(Node):
    """`disjoint P, Q`."""

    left: str
    right: str


RuleClause = Union[Match, Given, When, Let, Require, Take, Mark, Emit, Example]


@frozen(kw_only=True)
class Rule(Node):
    """`rule NAME over A, B "doc" { … }`: clauses in file order."""

    name: str
    over: tuple[str, ...]
    doc: str | None
    body: tuple[RuleClause, ...]
    name_span: Span = field(eq=False, repr=False)


@frozen(kw_only=True)
class Invariant(Node):
    """`invariant NAME "doc" { match … given … let … require … }`."""

    name: str
    doc: str | None
    body: tuple[Match | Given | When | Let | Require, ...]
    name_span: Span = field(eq=False, repr=False)


@frozen(kw_only=True)
class PartitionKey(Node):
    """`merge = "all"` and its like in the partition block."""

    key: str
    value: Expr


@frozen(kw_only=True)
class Trim(Node):
    """`trim EXPR because "…"`."""

    condition: Expr
    because: str | None


@frozen(kw_only=True)
class Reject(Node):
    """`reject EXPR because "…"`."""

    condition: Expr
    because: str | None


@frozen(kw_only=True)
class PartitionBlock(Node):
    """`partition { … }`."""

    body: tuple[PartitionKey | Trim | Reject | Let, ...]


@frozen(kw_only=True)
class Preserve(Node):
    """`preserve claimed | {…} - {…}`: `added` and `removed` are op-set expressions, applied in order."""

    claimed: bool
    changes: tuple[tuple[str, Expr], ...]


Statement = Union[
    BackendDecl,
    Use,
    DeclareOp,
    OptionDecl,
    MetaDecl,
    OpsDecl,
    Let,
    PatternDecl,
    Contract,
    ExternDecl,
    DisjointDecl,
    Rule,
    Invariant,
    PartitionBlock,
    Preserve,
    Emit,
]


@frozen(kw_only=True)
class File(Node):
    """A whole rules file, statements in order; `comments` are (offset, text) for the formatter."""

    statements: tuple[Statement, ...]
    comments: tuple[tuple[int, str], ...] = field(eq=False, default=())
