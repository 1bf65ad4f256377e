"""Tree to text, in one canonical form: two spaces of indentation, at most 120 columns where that can be had.

Comments stay with what they are about. Blank lines are kept, one at a time; a block that was on one line stays on
one where it fits. `parse(format_file(f))` is `f` again, and formatting twice changes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define

from apportion.grammar import tree
from apportion.grammar.comments import Comments, attach, blank_before, is_short, is_single
from apportion.grammar.layout import Break, Doc, Group, Indent, Suffix, filled, joined, render
from apportion.grammar.lexing import read_number, read_string
from apportion.grammar.parse import keywords, parse

__all__ = ["WIDTH", "format_expression", "format_file", "format_term", "quoted"]

WIDTH = 120

_MAX_ROUNDS = 5

_CONDITIONAL, _IMPLIES, _OR, _AND, _NOT, _COMPARE, _UNION, _SUM, _PRODUCT, _SIGN, _POSTFIX, _ATOM = range(12)

_BINARY = {"|": _UNION, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}

_TERM, _PREFIXED, _ALTERNATIVE, _ALTERNATIVES = 3, 2, 1, 0


def format_file(file: tree.File) -> str:
    """The canonical text of a file that was read without errors."""
    text = _format_once(file)
    for _ in range(_MAX_ROUNDS):
        # Where a comment moved, what it moved to may be laid out anew: go on until nothing changes.
        again = parse(text, file.span.source.name).file
        if again is None:
            return text
        following = _format_once(again)
        if following == text:
            break
        text = following
    return text


def _format_once(file: tree.File) -> str:
    return render(_Formatter(attach(file)).file(file), WIDTH)


def format_expression(expression: tree.Expr) -> str:
    """An expression on one line, as messages and reports show it."""
    return _one_line(_Formatter(Comments()).expr(expression, _CONDITIONAL))


def format_term(term: tree.Term) -> str:
    """A pattern term on one line."""
    return _one_line(_Formatter(Comments()).term(term, _ALTERNATIVES))


def _one_line(doc: Doc) -> str:
    return " ".join(render(doc, 1_000_000).split("\n")).strip()


def quoted(text: str) -> str:
    """A string literal with the given value."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]+|[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def _literal(value: Any, written: str) -> str:
    """A literal as its author wrote it, or else as its value says."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f'x"{value.hex()}"'
    if isinstance(value, str):
        same = len(written) > 1 and written[0] == written[-1] == '"' and read_string(written) == value
        return written if same and "\n" not in written else quoted(value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        return "-" + _literal(-value, written.lstrip("- \t\r\n"))
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if _NUMBER.fullmatch(written) and type(read_number(written)) is type(value) and read_number(written) == value:
        return written
    return repr(value)


@define
class _Formatter:
    """Turns nodes into documents; `comments` are put where they belong."""

    comments: Comments

    # --- pieces with comments ---

    def _piece(self, node: tree.Node, doc: Doc) -> Doc:
        """A part with the comments at its end; those before it are its container's to print."""
        return (doc, *(Suffix(text) for text in self.comments.trailing.get(id(node), ())))

    def _leading(self, node: tree.Node) -> Doc:
        parts: list[Doc] = []
        for comment in self.comments.leading.get(id(node), ()):
            parts += [comment.text, Break(hard=True)]
        return tuple(parts)

    def _block(self, owner: tree.Node, opening: str, items: Sequence[tuple[tree.Node, Doc]], closing: str) -> Doc:
        """A block of clauses: on one line where it was on one and fits, else each on its own."""
        dangling = self.comments.dangling.get(id(owner), [])
        head = tuple(Suffix(text) for text in self.comments.head.get(id(owner), ()))
        if not items and not dangling and not head:
            return opening + closing
        source = owner.span.source.text
        lines: list[Doc] = []
        for node, doc in items:
            for comment in self.comments.leading.get(id(node), ()):
                lines += [Break(hard=True, blank=comment.blank and bool(lines)), comment.text]
            blank = bool(lines) and blank_before(source, node.span.start)
            lines += [Break("  " if lines else " ", blank=blank), self._piece(node, doc)]
        for comment in dangling:
            lines += [Break(hard=True, blank=comment.blank and bool(lines)), comment.text]
        broken = bool(dangling) or _has_line_end(owner)
        return Group((opening, head, Indent(tuple(lines)), Break(" "), closing), broken=broken)

    def _brackets(self, owner: tree.Node, opening: str, items: Sequence[tuple[tree.Node, Doc]], closing: str) -> Doc:
        """A list in brackets, filled into lines."""
        dangling = self.comments.dangling.get(id(owner), [])
        head = tuple(Suffix(text) for text in self.comments.head.get(id(owner), ()))
        if not items and not dangling and not head:
            return opening + closing
        last = len(items) - 1
        entries: list[Doc] = []
        for index, (node, doc) in enumerate(items):
            comma = "," if index < last else ""
            suffixes = tuple(Suffix(text) for text in self.comments.trailing.get(id(node), ()))
            entries.append((self._leading(node), doc, comma, suffixes))
        for comment in dangling:
            entries.append(comment.text)
        if not self.comments.inside(owner):
            return Group((opening, Indent((Break(""), filled(entries))), Break(""), closing))
        lines: list[Doc] = []
        for entry in entries:
            lines += [Break("", hard=True), entry]
        return Group((opening, head, Indent(tuple(lines)), Break("", hard=True), closing), broken=True)

    def _chain(self, items: Sequence[tuple[tree.Node, Doc]], word: str) -> Doc:
        """Operands on one line, or each on its own after its operator."""
        parts: list[Doc] = []
        for index, (node, doc) in enumerate(items):
            if not index:
                parts.append((self._leading(node), self._piece(node, doc)))
            else:
                parts.append((Break(), self._leading(node), word, " ", self._piece(node, doc)))
        return Group((parts[0], Indent(tuple(parts[1:]))))

    # --- statements ---

    def file(self, file: tree.File) -> Doc:
        source = file.span.source.text
        lines: list[Doc] = []
        for statement in file.statements:
            for comment in self.comments.leading.get(id(statement), ()):
                lines += [Break(hard=True, blank=comment.blank and bool(lines)), comment.text]
            blank = bool(lines) and blank_before(source, statement.span.start)
            lines += [Break(hard=True, blank=blank), self._piece(statement, self.statement(statement))]
        for comment in self.comments.dangling.get(id(file), ()):
            lines += [Break(hard=True, blank=comment.blank and bool(lines)), comment.text]
        return tuple(lines)

    def statement(self, node: Any) -> Doc:
        return _PRINTERS[type(node)](self, node)

    def backend(self, node: tree.BackendDecl) -> Doc:
        return _with_doc(f"backend {quoted(node.id)} language {node.language}", node.doc)

    def use(self, node: tree.Use) -> Doc:
        return f"use {quoted(node.path)}"

    def declare(self, node: tree.DeclareOp) -> Doc:
        return f"declare {quoted(node.schema)}"

    def option(self, node: tree.OptionDecl) -> Doc:
        value = self.expr(node.default)
        return _with_doc((f"option {node.name}: {_type(node.type)} = ", value), node.doc)

    def meta(self, node: tree.MetaDecl) -> Doc:
        return f"meta {node.name}: {_type(node.type)} = {quoted(node.path)}"

    def ops(self, node: tree.OpsDecl) -> Doc:
        return Group((f"ops {node.name} = ", self.expr(node.value)))

    def let(self, node: tree.Let) -> Doc:
        parameters = "" if node.parameters is None else f"({', '.join(node.parameters)})"
        return Group((f"let {node.name}{parameters} = ", self.expr(node.value)))

    def pattern(self, node: tree.PatternDecl) -> Doc:
        roles = ", ".join(role.name + ("?" if role.optional else "") for role in node.parameters)
        head = f"pattern {node.name}({roles}) ="
        if not isinstance(node.term, tree.Alternatives):
            return Group((head, Indent((Break(), self.term(node.term, _ALTERNATIVE)))))
        parts: list[Doc] = []
        for index, term in enumerate(node.term.terms):
            bar = "| " if index else ""
            leading = self._leading(term)
            parts.append((Break(), leading, bar, self._piece(term, self.term(term, _ALTERNATIVE))))
        return Group((head, Indent(tuple(parts))), broken=_has_line_end(node.term))

    def contract(self, node: tree.Contract) -> Doc:
        head = f"contract {node.name}({', '.join(node.parameters)}) "
        return (head, self._block(node, "{", self._items(node.body), "}"))

    def extern(self, node: tree.ExternDecl) -> Doc:
        type_ = "" if node.type is None else f": {_type(node.type)}"
        return _with_doc(f"extern {node.name}({', '.join(node.parameters)}){type_}", node.doc)

    def disjoint(self, node: tree.DisjointDecl) -> Doc:
        return f"disjoint {node.left}, {node.right}"

    def rule(self, node: tree.Rule) -> Doc:
        over = f" over {', '.join(node.over)}" if node.over else ""
        doc = "" if node.doc is None else f" {quoted(node.doc)}"
        return (f"rule {node.name}{over}{doc} ", self._block(node, "{", self._items(node.body), "}"))

    def invariant(self, node: tree.Invariant) -> Doc:
        doc = "" if node.doc is None else f" {quoted(node.doc)}"
        return (f"invariant {node.name}{doc} ", self._block(node, "{", self._items(node.body), "}"))

    def partition(self, node: tree.PartitionBlock) -> Doc:
        return ("partition ", self._block(node, "{", self._items(node.body), "}"))

    def preserve(self, node: tree.Preserve) -> Doc:
        parts: list[Doc] = ["preserve "]
        if node.claimed:
            parts.append("claimed")
        for index, (op, value) in enumerate(node.changes):
            if index or node.claimed:
                parts.append(f" {op} ")
            parts.append(self.expr(value, _POSTFIX))
        return tuple(parts)

    def emit(self, node: tree.Emit) -> Doc:
        return Group((f"emit {_name_or_string(node.key)} = ", self.expr(node.value)))

    def _items(self, nodes: Iterable[Any]) -> list[tuple[tree.Node, Doc]]:
        return [(node, self.statement(node)) for node in nodes]

    # --- clauses ---

    def match(self, node: tree.Match) -> Doc:
        return ("match ", self._choices(node))

    def given(self, node: tree.Given) -> Doc:
        return ("given ", self._choices(node))

    def _choices(self, node: tree.Match | tree.Given) -> Doc:
        if len(node.choices) == 1 and is_short(node.choices[0]):
            return self.binding(node.choices[0].bindings[0])
        parts: list[Doc] = []
        for index, choice in enumerate(node.choices):
            leading = self._leading(choice)
            bar = "" if not index else (Break(hard=True), leading, "| ") if leading else " | "
            items = [(binding, self.binding(binding)) for binding in choice.bindings]
            first = leading if not index else ()
            parts += [bar, first, self._piece(choice, self._block(choice, "{", items, "}"))]
        return tuple(parts)

    def binding(self, node: tree.Binding) -> Doc:
        return Group((f"{node.name or '_'} = ", self.term(node.term, _PREFIXED)))

    def when(self, node: tree.When) -> Doc:
        return Group(("when ", self.expr(node.condition)))

    def require(self, node: tree.Require) -> Doc:
        return self._condition("require", node)

    def trim(self, node: tree.Trim) -> Doc:
        return self._condition("trim", node)

    def reject(self, node: tree.Reject) -> Doc:
        return self._condition("reject", node)

    def _condition(self, word: str, node: tree.Require | tree.Trim | tree.Reject) -> Doc:
        because: Doc = () if node.because is None else (Break(), f"because {quoted(node.because)}")
        return Group((word, " ", self.expr(node.condition), Indent(because)))

    def take(self, node: tree.Take) -> Doc:
        condition: Doc = () if node.condition is None else (" if ", self.expr(node.condition))
        return Group((f"take {', '.join(node.names)}", condition))

    def mark(self, node: tree.Mark) -> Doc:
        return f"mark {', '.join(node.names)} as {quoted(node.key)}"

    def partition_key(self, node: tree.PartitionKey) -> Doc:
        return Group((f"{node.key} = ", self.expr(node.value)))

    def example(self, node: tree.Example) -> Doc:
        word = "accepts " if node.accepts else "rejects "
        if is_single(node):
            body = self._example_call(node.steps[0].call)
        else:
            items = [(step, self._step(step)) for step in node.steps]
            body = self._block(node, "{", items, "}")
        tail: list[Doc] = []
        gap: Doc = Break() if is_single(node) else " "
        if node.options:
            values = joined(", ", ((f"{name} = ", self.expr(value)) for name, value in node.options))
            tail += [gap, "with ", values]
        if node.because is not None:
            tail += [gap, f"because {quoted(node.because)}"]
        return Group((word, body, Indent(tuple(tail))))

    def _step(self, node: tree.ExampleStep) -> Doc:
        call = self._example_call(node.call)
        return call if node.name is None else (f"{node.name} = ", call)

    def _example_call(self, node: tree.ExampleCall) -> Doc:
        items = [
            (value, self.example_argument(value) if name is None else (f"{name}: ", self.example_argument(value)))
            for name, value in node.arguments
        ]
        return (self.expr(node.callee, _POSTFIX), self._brackets(node, "(", items, ")"))

    def example_argument(self, node: tree.ExampleArgument) -> Doc:
        if isinstance(node, tree.ExampleTensor):
            kind = f"{node.kind} " if node.kind is not None else ""
            shape = "" if node.shape is None else f"[{','.join(str(dim) for dim in node.shape)}]"
            return f"{kind}{node.dtype}{shape}"
        if isinstance(node, tree.ExampleList):
            return self._brackets(node, "[", [(item, self.example_argument(item)) for item in node.items], "]")
        if isinstance(node, tree.ExampleCall):
            return self._example_call(node)
        return self.expr(node, _SIGN)

    # --- pattern terms ---

    def term(self, node: tree.Term, level: int) -> Doc:
        """A term; in parentheses where it binds more loosely than `level`."""
        own = _TERM_LEVELS.get(type(node), _TERM)
        doc: Doc = _TERMS[type(node)](self, node)
        return doc if own >= level else ("(", doc, ")")

    def _alternatives(self, node: tree.Alternatives) -> Doc:
        return self._chain([(term, self.term(term, _ALTERNATIVE)) for term in node.terms], "|")

    def _with(self, node: tree.WithTerm) -> Doc:
        return (self.term(node.term, _ALTERNATIVE), f" with {node.role} = ", self.expr(node.value, _SUM))

    def _shared(self, node: tree.SharedTerm) -> Doc:
        return ("shared ", self.term(node.term, _PREFIXED))

    def _optional(self, node: tree.OptionalTerm) -> Doc:
        return (self.term(node.term, _TERM), "?")

    def _element(self, node: tree.ElementTerm) -> Doc:
        return (self.term(node.term, _TERM), f"[{node.index}]")

    def _star(self, node: tree.StarTerm) -> Doc:
        return ("*", self.term(node.term, _PREFIXED))

    def _list_term(self, node: tree.ListTerm) -> Doc:
        return self._brackets(node, "[", [(item, self.term(item, _PREFIXED)) for item in node.items], "]")

    def _call_term(self, node: tree.CallTerm) -> Doc:
        items: list[tuple[tree.Node, Doc]] = []
        for argument in node.arguments:
            term = self.term(argument.term, _PREFIXED)
            items.append((argument, term if argument.name is None else (f"{argument.name}: ", term)))
        return (self.expr(node.callee, _POSTFIX), self._brackets(node, "(", items, ")"))

    def _through(self, node: tree.ThroughTerm) -> Doc:
        ops = self.expr(node.ops) if isinstance(node.ops, tree.SetExpr) else ("{", self.expr(node.ops), "}")
        return ("through", ops, "(", self.term(node.term, _PREFIXED), ")")

    def _literal_term(self, node: tree.LiteralTerm) -> Doc:
        return _literal(node.value, node.span.text)

    # --- expressions ---

    def expr(self, node: Any, level: int = _CONDITIONAL) -> Doc:
        """An expression; in parentheses where it binds more loosely than `level`."""
        own, doc = _EXPRESSIONS[type(node)](self, node)
        return doc if own >= level else Group(("(", Indent(doc), ")"))

    def _literal_expr(self, node: tree.Literal) -> tuple[int, Doc]:
        # `1.x` would read as a fraction: numbers are no base of an attribute as they stand.
        numeric = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return (_SIGN if numeric else _ATOM), _literal(node.value, node.span.text)

    def _name(self, node: tree.Name) -> tuple[int, Doc]:
        return _ATOM, node.id

    def _option_ref(self, node: tree.OptionRef) -> tuple[int, Doc]:
        return _ATOM, f"option.{node.name}"

    def _attribute(self, node: tree.Attribute) -> tuple[int, Doc]:
        return _POSTFIX, (self.expr(node.value, _POSTFIX), f".{node.name}")

    def _expansion(self, node: tree.OpExpansion) -> tuple[int, Doc]:
        braces = any(len(segment) > 1 for segment in node.segments)
        words = [
            segment[0] if len(segment) == 1 and (braces or index != 1) else _braced(segment)
            for index, segment in enumerate(node.segments)
        ]
        return _POSTFIX, joined(".", words)

    def _unary(self, node: tree.Unary) -> tuple[int, Doc]:
        if node.op == "not":
            return _NOT, ("not ", self.expr(node.operand, _NOT))
        return _SIGN, (node.op, self.expr(node.operand, _SIGN))

    def _binary(self, node: tree.Binary) -> tuple[int, Doc]:
        level = _BINARY[node.op]
        left, right = self.expr(node.left, level), self.expr(node.right, level + 1)
        return level, Group((left, Indent((Break(), node.op, " ", right))))

    def _bool_op(self, node: tree.BoolOp) -> tuple[int, Doc]:
        if node.op == "implies":
            left, right = self.expr(node.operands[0], _OR), self.expr(node.operands[1], _IMPLIES)
            return _IMPLIES, Group((left, Indent((Break(), "implies ", right))))
        level = _OR if node.op == "or" else _AND
        return level, self._chain([(x, self.expr(x, level + 1)) for x in node.operands], node.op)

    def _compare(self, node: tree.Compare) -> tuple[int, Doc]:
        parts: list[Doc] = [self.expr(node.left, _UNION)]
        for op, right in zip(node.ops, node.rights, strict=True):
            value = self._range(right) if isinstance(right, tree.RangeExpr) else self.expr(right, _UNION)
            parts += [f" {op} ", value]
        return _COMPARE, tuple(parts)

    def _range(self, node: tree.RangeExpr) -> Doc:
        plain = all(
            isinstance(end, tree.Name) or (isinstance(end, tree.Literal) and isinstance(end.value, int))
            for end in (node.low, node.high)
        )
        return (self.expr(node.low, _UNION), ".." if plain else " .. ", self.expr(node.high, _UNION))

    def _range_expr(self, node: tree.RangeExpr) -> tuple[int, Doc]:
        return _COMPARE, self._range(node)

    def _is_kind(self, node: tree.IsKind) -> tuple[int, Doc]:
        return _COMPARE, (self.expr(node.value, _UNION), " is not " if node.negated else " is ", node.kind)

    def _conditional(self, node: tree.Conditional) -> tuple[int, Doc]:
        then, condition = self.expr(node.then, _IMPLIES), self.expr(node.condition, _IMPLIES)
        otherwise = self.expr(node.otherwise, _CONDITIONAL)
        tail = Indent((Break(), "if ", condition, Break(), "else ", otherwise))
        return _CONDITIONAL, Group((then, tail))

    def _index(self, node: tree.Index) -> tuple[int, Doc]:
        return _POSTFIX, (self.expr(node.value, _POSTFIX), "[", self.expr(node.index), "]")

    def _slice(self, node: tree.Slice) -> tuple[int, Doc]:
        low = () if node.low is None else self.expr(node.low)
        high = () if node.high is None else self.expr(node.high)
        step: Doc = () if node.step is None else (":", self.expr(node.step))
        return _POSTFIX, (self.expr(node.value, _POSTFIX), "[", low, ":", high, step, "]")

    def _list(self, node: tree.ListExpr) -> tuple[int, Doc]:
        return _ATOM, self._brackets(node, "[", [(item, self.expr(item)) for item in node.items], "]")

    def _set(self, node: tree.SetExpr) -> tuple[int, Doc]:
        return _ATOM, self._brackets(node, "{", [(item, self.expr(item)) for item in node.items], "}")

    def _call(self, node: tree.Call) -> tuple[int, Doc]:
        items = [(argument, self.argument(argument)) for argument in node.arguments]
        return _ATOM, (node.function, self._brackets(node, "(", items, ")"))

    def argument(self, node: tree.Expr | tree.Comprehension) -> Doc:
        if not isinstance(node, tree.Comprehension):
            return self.expr(node)
        parts: list[Doc] = [self.expr(node.element)]
        for clause in node.clauses:
            parts += [Break(), f"for {', '.join(clause.targets)} in ", self.expr(clause.iterable, _OR)]
        if node.condition is not None:
            parts += [Break(), "if ", self.expr(node.condition)]
        return Group(tuple(parts))


def _braced(names: Sequence[str]) -> Doc:
    """Names in braces, as many on each line as fit."""
    first, *others = [f"{name}," for name in names[:-1]] + [names[-1]]
    return "{", Indent((first, *[Group((Break(flat=""), name)) for name in others])), "}"


def _has_line_end(node: tree.Node) -> bool:
    text = node.span.text
    return "\n" in text or "\r" in text


def _with_doc(head: Doc, doc: str | None) -> Doc:
    return head if doc is None else Group((head, Indent((Break(), quoted(doc)))))


def _name_or_string(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name != "_" and name not in keywords()
    return name if plain else quoted(name)


def _type(node: tree.TypeExpr) -> str:
    name = f"{{{', '.join(_name_or_string(choice) for choice in node.choices)}}}" if node.name == "enum" else node.name
    return f"{'set of ' if node.is_set else 'list of ' if node.is_list else ''}{name}"


_PRINTERS: dict[type[tree.Node], Callable[[_Formatter, Any], Doc]] = {
    tree.BackendDecl: _Formatter.backend,
    tree.Use: _Formatter.use,
    tree.DeclareOp: _Formatter.declare,
    tree.OptionDecl: _Formatter.option,
    tree.MetaDecl: _Formatter.meta,
    tree.OpsDecl: _Formatter.ops,
    tree.Let: _Formatter.let,
    tree.PatternDecl: _Formatter.pattern,
    tree.Contract: _Formatter.contract,
    tree.ExternDecl: _Formatter.extern,
    tree.DisjointDecl: _Formatter.disjoint,
    tree.Rule: _Formatter.rule,
    tree.Invariant: _Formatter.invariant,
    tree.PartitionBlock: _Formatter.partition,
    tree.Preserve: _Formatter.preserve,
    tree.Emit: _Formatter.emit,
    tree.Match: _Formatter.match,
    tree.Given: _Formatter.given,
    tree.When: _Formatter.when,
    tree.Require: _Formatter.require,
    tree.Take: _Formatter.take,
    tree.Mark: _Formatter.mark,
    tree.Example: _Formatter.example,
    tree.PartitionKey: _Formatter.partition_key,
    tree.Trim: _Formatter.trim,
    tree.Reject: _Formatter.reject,
}

_TERM_LEVELS: dict[type[tree.Node], int] = {
    tree.Alternatives: _ALTERNATIVES,
    tree.WithTerm: _ALTERNATIVE,
    tree.SharedTerm: _PREFIXED,
    tree.StarTerm: _PREFIXED,
}

_TERMS: dict[type[tree.Node], Callable[[_Formatter, Any], Doc]] = {
    tree.VariableTerm: lambda self, node: node.name,
    tree.WildcardTerm: lambda self, node: "_",
    tree.LiteralTerm: _Formatter._literal_term,
    tree.ElementTerm: _Formatter._element,
    tree.ListTerm: _Formatter._list_term,
    tree.StarTerm: _Formatter._star,
    tree.CallTerm: _Formatter._call_term,
    tree.OptionalTerm: _Formatter._optional,
    tree.SharedTerm: _Formatter._shared,
    tree.Alternatives: _Formatter._alternatives,
    tree.ThroughTerm: _Formatter._through,
    tree.WithTerm: _Formatter._with,
}

_EXPRESSIONS: dict[type[tree.Node], Callable[[_Formatter, Any], tuple[int, Doc]]] = {
    tree.Literal: _Formatter._literal_expr,
    tree.Name: _Formatter._name,
    tree.OptionRef: _Formatter._option_ref,
    tree.Attribute: _Formatter._attribute,
    tree.OpExpansion: _Formatter._expansion,
    tree.Unary: _Formatter._unary,
    tree.Binary: _Formatter._binary,
    tree.BoolOp: _Formatter._bool_op,
    tree.Compare: _Formatter._compare,
    tree.IsKind: _Formatter._is_kind,
    tree.Conditional: _Formatter._conditional,
    tree.RangeExpr: _Formatter._range_expr,
    tree.Index: _Formatter._index,
    tree.Slice: _Formatter._slice,
    tree.ListExpr: _Formatter._list,
    tree.SetExpr: _Formatter._set,
    tree.Call: _Formatter._call,
}
