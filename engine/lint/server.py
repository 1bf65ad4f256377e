"""The editor server: findings as you type, completion, hover, definitions, formatting, repairs. Needs pygls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from apportion.engine.attributes import ATTRIBUTES
from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.units import read_program
from apportion.engine.facts import KINDS
from apportion.engine.functions import FORMS, FUNCTIONS
from apportion.engine.lint.fixes import edit_of
from apportion.engine.lint.linting import lint_program, lint_rules
from apportion.engine.lint.suppress import apply
from apportion.engine.ops import UnknownOp, schema_of
from apportion.engine.version import __version__
from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Severity, Span
from apportion.grammar.format import format_file
from apportion.grammar.parse import keywords, parse
from apportion.grammar.walk import walk

__all__ = ["make_server"]

_SEVERITY = {
    Severity.error: lsp.DiagnosticSeverity.Error,
    Severity.warning: lsp.DiagnosticSeverity.Warning,
    Severity.note: lsp.DiagnosticSeverity.Information,
}

_OP = re.compile(r"[A-Za-z_]\w*(?:\.\w*)*")


def _path(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path)) if uri.startswith("file:") else Path(uri.rpartition("/")[2])


def findings(text: str, uri: str) -> list[Diagnostic]:
    """Everything that a lint says about a text; only what loading says where it does not load."""
    path = _path(uri)
    program = read_program(text, str(path), path.parent, path)
    file, found = lint_program(program)
    if file is not None:
        found = [*found, *lint_rules(file)[0]]
    left, wrong = apply(found, [program])
    return [d for d in (*left, *wrong) if d.span is None or d.span.source.name == str(path)]


def _range(span: Span | None) -> lsp.Range:
    if span is None:
        return lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))
    return lsp.Range(
        lsp.Position(span.line - 1, _units(span.source.text, span.start)),
        lsp.Position(span.end_line - 1, _units(span.source.text, span.end)),
    )


def _units(text: str, offset: int) -> int:
    """The column in UTF-16 units, as editors count."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return len(text[start:offset].encode("utf-16-le")) // 2


def _offset(text: str, position: lsp.Position) -> int:
    lines = text.splitlines(True)
    before = sum(len(line) for line in lines[: position.line])
    line = lines[position.line] if position.line < len(lines) else ""
    units = 0
    for index, character in enumerate(line):
        if units >= position.character:
            return before + index
        units += 2 if ord(character) > 0xFFFF else 1
    return before + len(line.rstrip("\r\n"))


def _as_lsp(diagnostic: Diagnostic) -> lsp.Diagnostic:
    notes = [n if isinstance(n, str) else f"{n[0]}: {n[1]}" for n in diagnostic.notes]
    text = "\n".join([diagnostic.message, *notes, *([f"help: {diagnostic.help}"] if diagnostic.help else [])])
    return lsp.Diagnostic(
        range=_range(diagnostic.span), message=text, severity=_SEVERITY[diagnostic.severity], code=diagnostic.code,
        source="apportion",
    )


def make_server() -> LanguageServer:
    """A server with every capability registered; `start_io` runs it."""
    server = LanguageServer("apportion", __version__)

    def text_of(uri: str) -> str:
        return server.workspace.get_text_document(uri).source

    def publish(uri: str) -> None:
        items = [_as_lsp(d) for d in findings(text_of(uri), uri)]
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=items))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", " ", "("]))
    def complete(params: lsp.CompletionParams) -> lsp.CompletionList:
        text = text_of(params.text_document.uri)
        items = list(completions(text, _offset(text, params.position)))
        return lsp.CompletionList(is_incomplete=False, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        text = text_of(params.text_document.uri)
        found = hover_text(text, _offset(text, params.position))
        return None if found is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        text = text_of(uri)
        span = definition(text, uri, _offset(text, params.position))
        if span is None:
            return None
        own = span.source.name == str(_path(uri))
        return lsp.Location(uri if own else Path(span.source.name).absolute().as_uri(), _range(span))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def layout(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        text = text_of(params.text_document.uri)
        result = parse(text)
        if result.file is None or any(d.is_error for d in result.diagnostics):
            return []
        end = lsp.Position(len(text.splitlines()) + 1, 0)
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), end), format_file(result.file))]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    def repair(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        return list(_actions(findings(text_of(uri), uri), uri, params.range))

    return server


def _actions(found: list[Diagnostic], uri: str, where: lsp.Range) -> Iterator[lsp.CodeAction]:
    for diagnostic in found:
        span = edit_of(diagnostic)
        if span is None or diagnostic.span is None:
            continue
        place = _range(diagnostic.span)
        if place.start.line <= where.end.line and where.start.line <= place.end.line:
            edit = lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(_range(span), "")]})
            yield lsp.CodeAction(
                title=f"Remove it ({diagnostic.code})", kind=lsp.CodeActionKind.QuickFix, edit=edit,
                diagnostics=[_as_lsp(diagnostic)],
            )


# --- completion ------------------------------------------------------------------------------------------------


def completions(text: str, offset: int) -> Iterator[lsp.CompletionItem]:
    """What can stand at a place: kinds after `is`, ops, attributes and arguments after a dot, else names."""
    before = text[:offset]
    if re.search(r"\bis\s+(not\s+)?\w*$", before):
        for kind in KINDS.values():
            yield _item(kind.name, kind.doc, lsp.CompletionItemKind.EnumMember)
        return
    word = re.search(r"([A-Za-z_][\w.]*)\.(\w*)$", before)
    if word is not None:
        yield from _after_dot(text, word.group(1), word.group(2))
        return
    inside = re.search(r"([A-Za-z_]\w*(?:\.\w+){2})\([^()]*$", before)
    if inside is not None:
        for argument in _arguments(inside.group(1)):
            yield _item(f"{argument[0]}: ", argument[1], lsp.CompletionItemKind.Property)
    for name, doc in _names(text):
        word_kind = lsp.CompletionItemKind.Keyword if name in keywords() else lsp.CompletionItemKind.Function
        yield _item(name, doc, word_kind)


def _item(label: str, doc: str, kind: lsp.CompletionItemKind) -> lsp.CompletionItem:
    return lsp.CompletionItem(label=label, kind=kind, documentation=doc)


def _after_dot(text: str, root: str, begun: str) -> Iterator[lsp.CompletionItem]:
    import torch

    first, *rest = root.split(".")
    space = getattr(torch.ops, first, None) if first in ("aten", "quantized_decomposed", "torchao", "prims") else None
    if space is not None and not rest:
        for name in dir(space):
            if name.startswith(begun) and not name.startswith("__"):
                yield _item(name, f"{first}.{name}", lsp.CompletionItemKind.Method)
    elif space is not None and len(rest) == 1:
        packet = getattr(space, rest[0], None)
        for overload in getattr(packet, "overloads", list)():
            yield _item(overload, _schema(f"{root}.{overload}") or "", lsp.CompletionItemKind.Method)
    elif first == "option":
        for option in _options(text):
            yield _item(option.name, option.doc or "", lsp.CompletionItemKind.Property)
    else:
        for (of, name), row in ATTRIBUTES.items():
            yield _item(name, f"of a {of}: {row.doc}", lsp.CompletionItemKind.Property)
        for name, type_ in _arguments_of_variable(text, first):
            yield _item(name, f"argument: {type_}", lsp.CompletionItemKind.Property)


def _options(text: str) -> list[tree.OptionDecl]:
    result = parse(text)
    return [] if result.file is None else [s for s in result.file.statements if isinstance(s, tree.OptionDecl)]


def _arguments_of_variable(text: str, name: str) -> list[tuple[str, str]]:
    found = re.search(rf"\b{re.escape(name)}\s*=\s*(?:shared\s+)?([A-Za-z_]\w*(?:\.\w+){{2}})\(", text)
    return _arguments(found.group(1)) if found else []


def _arguments(op: str) -> list[tuple[str, str]]:
    try:
        return [(a.name, a.type) for a in schema_of(op).arguments]
    except UnknownOp:
        return []


def _schema(op: str) -> str | None:
    try:
        return str(schema_of(op).text)
    except UnknownOp:
        return None


def _names(text: str) -> Iterator[tuple[str, str]]:
    for word in sorted(keywords()):
        yield word, "keyword"
    for name, row in FUNCTIONS.items():
        yield name, row.doc
    yield from FORMS.items()
    for name in DTYPES:
        yield name, "dtype"
    result = parse(text)
    for statement in result.file.statements if result.file is not None else ():
        declared = getattr(statement, "name", None)
        if isinstance(declared, str):
            yield declared, " ".join(statement.span.text.split())[:200]


# --- hover and definitions -------------------------------------------------------------------------------------


def _word_at(text: str, offset: int) -> str:
    for found in _OP.finditer(text):
        if found.start() <= offset <= found.end():
            return found.group()
    return ""


def hover_text(text: str, offset: int) -> str | None:
    """The schema of an op, the doc of an attribute, function or kind, or what a name is declared as."""
    word = _word_at(text, offset)
    schema = _schema(word) if word.count(".") == 2 else None
    if schema is not None:
        return f"```\n{schema}\n```"
    last = word.rpartition(".")[2]
    for (of, name), row in ATTRIBUTES.items():
        if name == last and "." in word:
            return f"`.{name}` of a {of}: {row.doc}"
    if last in FUNCTIONS:
        return f"`{last}`: {FUNCTIONS[last].doc}"
    if last in FORMS:
        return f"`{last}`: {FORMS[last]}"
    if last in KINDS:
        return f"`{last}`: {KINDS[last].doc}"
    result = parse(text)
    for statement in result.file.statements if result.file is not None else ():
        if getattr(statement, "name", None) == word:
            claim = _claim(statement) if isinstance(statement, tree.Rule) else ""
            return f"```\n{statement.span.text[:600]}\n```{claim}"
    return None


def _claim(rule: tree.Rule) -> str:
    """What a rule claims, in one paragraph: its pattern and its requirements."""
    asked = [" ".join(c.condition.span.text.split()) for c in rule.body if isinstance(c, tree.Require)]
    return "\n\nclaims where " + " and ".join(f"`{text}`" for text in asked) if asked else "\n\nclaims every match"


def definition(text: str, uri: str, offset: int) -> Span | None:
    """Where the name at a place is declared: in the file, or in what it uses; or where the rule binds it."""
    word = _word_at(text, offset).split(".")[0]
    path = _path(uri)
    program = read_program(text, str(path), path.parent, path)
    if program.root is not None:
        for rule in program.root.file.statements:
            if isinstance(rule, (tree.Rule, tree.Invariant)) and rule.span.start <= offset < rule.span.end:
                for node, _ in walk(rule):
                    if isinstance(node, tree.Binding) and node.name == word:
                        return node.span
                    if isinstance(node, tree.VariableTerm) and node.name == word:
                        return node.span
                    if isinstance(node, tree.Let) and node.name == word:
                        return node.span
    for statement, _ in program.statements:
        if getattr(statement, "name", None) == word:
            return statement.span
    return None
