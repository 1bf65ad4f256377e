"""What the grammar can't say about a tree: limits, empty blocks, words that only some places allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Severity, Span, nearest
from apportion.grammar.walk import walk

__all__ = ["MAX_DEPTH", "TYPES", "check_tree"]

MAX_DEPTH = 100
"""How deep the parts of one statement may nest. Everything that walks a tree may rely on it and recurse."""

TYPES = ("bool", "int", "float", "str", "dtype", "value")
"""The names of types; the last two only for `extern` and `meta`."""

_OPTION_TYPES = TYPES[:4]


def _error(message: str, node: tree.Node, help: str | None = None, code: str = "A001") -> Diagnostic:
    return Diagnostic(code, Severity.error, message, node.span, help=help)


def check_tree(root: tree.Node) -> list[Diagnostic]:
    """Everything that is wrong with a tree although the grammar accepts it."""
    found: list[Diagnostic] = []
    statements = root.statements if isinstance(root, tree.File) else (root,)
    for statement in statements:
        found += _check_statement(statement)
    return found


def _check_statement(statement: tree.Node) -> Iterator[Diagnostic]:
    for node, depth in walk(statement):
        if depth > MAX_DEPTH:
            yield _too_deep(statement)
            return
        check = _CHECKS.get(type(node))
        if check is not None:
            yield from check(node)


def _too_deep(statement: tree.Node) -> Diagnostic:
    start = statement.span.start
    keyword = Span(statement.span.source, start, start + len((statement.span.text.split() or ["?"])[0]))
    return Diagnostic(
        "A011", Severity.error, f"this nests deeper than {MAX_DEPTH} levels", keyword,
        help="each operator of a chain such as `a + b + c` is a level; name parts with `let` or `pattern`, or use "
        "`sum(…)`",
    )  # fmt: skip


def _choice(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, tree.Choice) and not node.bindings:
        yield _error("the block binds nothing", node, "write `{ y = aten.relu.default(x) }`")


def _example(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, tree.Example) and not node.steps:
        yield _error("the example has no call", node, "write `accepts aten.relu.default(float32[4])`")


def _tensor(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, tree.ExampleTensor) and node.kind not in (None, "constant"):
        yield _error(
            f"`{node.kind}` says nothing about a tensor of an example", node, "only `constant` may stand before a dtype"
        )


def _type_name(type_: tree.TypeExpr | None, known: tuple[str, ...], where: str) -> Iterator[Diagnostic]:
    if type_ is None or type_.name == "enum" or type_.name in known:
        return
    near = nearest(type_.name, known, 1)
    help = f"did you mean `{near[0]}`?" if near else f"{where} may be {', '.join(known)} or an enumeration `{{a, b}}`"
    yield _error(f"unknown type `{type_.name}`", type_, help, "A005")


def _option(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, tree.OptionDecl):
        yield from _type_name(node.type, _OPTION_TYPES, "an option")
        if node.type.is_list:
            yield _error("an option is no list", node.type, "write `set of …`")


def _extern(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, (tree.ExternDecl, tree.MetaDecl)):
        yield from _type_name(node.type, TYPES, "this")


def _expansion(node: tree.Node) -> Iterator[Diagnostic]:
    if isinstance(node, tree.OpExpansion) and len(node.segments) < 2:
        yield _error("braces after a dot expand the name of an op", node, "write `aten.{abs,neg}.default`")


def _disjunction(node: tree.Node) -> Iterator[Diagnostic]:
    """`b is constant or none`: the second kind needs its own `is`."""
    if not isinstance(node, tree.BoolOp) or node.op != "or":
        return
    for before, after in zip(node.operands, node.operands[1:], strict=False):
        if isinstance(before, tree.IsKind) and isinstance(after, tree.Literal) and after.value is None:
            value = before.value.span.text
            yield _error("`none` alone is no condition", after, f"write `{value} is none`")


def _backend(node: tree.Node) -> Iterator[Diagnostic]:
    """The id names partitions and files, and is looked up as it is."""
    if isinstance(node, tree.BackendDecl) and (not node.id.strip() or not node.id.isprintable()):
        yield _error("the id of a backend is a word of printable characters", node, 'write `backend "AcmeNpu"`')


_CHECKS: dict[type[tree.Node], Callable[[tree.Node], Iterator[Diagnostic]]] = {
    tree.BackendDecl: _backend,
    tree.Choice: _choice,
    tree.Example: _example,
    tree.ExampleTensor: _tensor,
    tree.OptionDecl: _option,
    tree.ExternDecl: _extern,
    tree.MetaDecl: _extern,
    tree.OpExpansion: _expansion,
    tree.BoolOp: _disjunction,
}
