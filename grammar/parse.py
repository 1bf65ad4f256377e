"""Text to tree. Every error of a text is reported in one run; no text raises.

    result = parse('rule relu { match y = aten.relu.default(x) }', "acme.rules")
    result.file          # the tree, or None where there are errors
    result.diagnostics   # what is wrong, in the order of the text
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from attrs import define, field, frozen
from lark import Lark, Token, UnexpectedToken
from lark import __version__ as lark_version
from lark.grammar import Rule
from lark.lexer import TerminalDef
from lark.parsers.lalr_parser_state import ParserState

from apportion.grammar import tree
from apportion.grammar.build import Builder
from apportion.grammar.cache import cached
from apportion.grammar.checks import check_tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest
from apportion.grammar.hints import Hint, Place, explain
from apportion.grammar.lexing import ERROR_TERMINALS, Lexeme, comments_between, make_lexeme, read_lexemes
from apportion.grammar.recovery import Stacks
from apportion.grammar.result import ParseResult
from apportion.grammar.words import CLAUSES, DEFINING, FILE_ONLY, STATEMENTS

__all__ = ["MAX_CHARACTERS", "ParseResult", "build_parser", "keywords", "parse", "parse_expression"]

MAX_CHARACTERS = 4 * 1024 * 1024
"""Longer texts are refused."""

MAX_ERRORS = 100
"""After this many errors a parse stops."""

MAX_STACK = 3000
"""How many unfinished parts a parse may have; more come only from texts made to break parsers."""

MAX_GUESSES = 50
"""At how many words a search for the next statement asks whether they are mistyped keywords."""

MAX_INSERTED = 4
"""How often something may be put before one token to repair a text."""

_WORD = re.compile(r"\w+")


class _KeepErrorTerminals:
    """Makes Lark's lexer yield the tokens that no rule uses."""

    always_accept = ERROR_TERMINALS

    def process(self, stream: Any) -> Any:
        return stream


def build_parser(*, strict: bool = False) -> Lark:
    """A new Lark parser of the grammar. `strict` also proves that neither rules nor terminals collide (slow)."""
    return Lark(
        _grammar(), parser="lalr", lexer="basic", start=["file", "expression"], strict=strict, keep_all_tokens=True,
        maybe_placeholders=False, transformer=Builder(), postlex=_KeepErrorTerminals(),
    )  # fmt: skip


def _grammar() -> str:
    return resources.files("apportion.grammar").joinpath("rules.lark").read_text(encoding="utf-8")


def _kept_parser() -> Lark:
    """The parser as it was built before, where that was kept."""
    fresh: list[Lark] = []

    def make() -> Any:
        fresh.append(build_parser())
        return fresh[0].memo_serialize([TerminalDef, Rule])

    tables = cached((_grammar(), lark_version), make)
    if fresh:
        return fresh[0]
    parser: Lark = Lark._load_from_dict(*tables, transformer=Builder(), postlex=_KeepErrorTerminals())
    return parser


@frozen
class _Language:
    """The parser and what it knows of its terminals."""

    lark: Lark
    spelling: dict[str, str]
    keywords: frozenset[str]


@cache
def _language() -> _Language:
    lark = _kept_parser()
    spelling = {t.name: t.pattern.value for t in lark.terminals if t.pattern.type == "str"}
    words = frozenset(name for name, text in spelling.items() if text.isidentifier() and text != "_")
    return _Language(lark, spelling, words)


def keywords() -> frozenset[str]:
    """The reserved words of the language."""
    language = _language()
    return frozenset(language.spelling[name] for name in language.keywords)


def parse(text: str, name: str = "<string>") -> ParseResult:
    """Read a rules file. `name` (a path) is used in messages."""
    source = Source(name, text) if len(text) <= MAX_CHARACTERS else None
    if source is None:
        return ParseResult(None, (_too_long(name, text),))
    run = _Run(source, "file")
    statements = run.result()
    whole = Span(source, 0, len(text))
    if run.diagnostics:
        sound, lost = _sound(run)
        return ParseResult(None, _sorted(run.diagnostics), tree.File(span=whole, statements=sound, comments=()), lost)
    comments = tuple(comments_between(text, run.lexemes))
    file = tree.File(span=whole, statements=statements, comments=comments)
    found = check_tree(file)
    if not found:
        return ParseResult(file)
    sound, lost = _sound(run)
    return ParseResult(None, _sorted(found), tree.File(span=whole, statements=sound, comments=()), lost)


def parse_expression(text: str, name: str = "<expression>") -> tuple[tree.Expr | None, tuple[Diagnostic, ...]]:
    """Read one expression. Gives its tree, or None and what is wrong."""
    if len(text) > MAX_CHARACTERS:
        return None, (_too_long(name, text),)
    run = _Run(Source(name, text), "expression")
    expression = run.result()
    found = run.diagnostics or check_tree(expression)
    return (None if found else expression), _sorted(found)


# --- what is whole in a text with errors -----------------------------------------------------------------------


def _sound(run: _Run) -> tuple[tuple[tree.Statement, ...], frozenset[str] | None]:
    """The statements that are whole, each read by itself, and the names that the rest of the text defines."""
    statements: list[tree.Statement] = []
    lines = {run.source.line_column(offset)[0] for offset in run.left_out}
    lost: set[str] = {word for line in lines for word in _WORD.findall(run.source.line_text(line))}
    unknown = run.stopped
    for piece in _pieces(run.read):
        start, end = piece[0].span.start, piece[-1].span.end
        found = None
        if not any(start <= offset < end for offset in run.left_out):
            found = _statements(run.source, piece)
        if found is None or any(check_tree(statement) for statement in found):
            defined = _defined(run.source, piece)
            lost |= defined or set()
            unknown |= defined is None or _uses(run.source, piece)
        else:
            statements += found
    return tuple(statements), None if unknown else frozenset(lost)


def _pieces(lexemes: list[Lexeme]) -> Iterator[list[Lexeme]]:
    """The text cut before every word that only starts a statement, whatever the braces say."""
    piece: list[Lexeme] = []
    for lexeme, following in zip(lexemes, [*lexemes[1:], None], strict=False):
        if piece and lexeme.type in FILE_ONLY and (following is None or following.type != "DOT"):
            yield piece
            piece = []
        piece.append(lexeme)
    if piece:
        yield piece


def _statements(source: Source, piece: list[Lexeme]) -> tuple[tree.Statement, ...] | None:
    parser = _language().lark.parse_interactive("", start="file")
    end = piece[-1].span.end
    try:
        for lexeme in piece:
            parser.feed_token(lexeme)
        found: tuple[tree.Statement, ...] = parser.feed_token(make_lexeme(source, "$END", "", end, end))
    except UnexpectedToken:
        return None
    return found


def _defined(source: Source, piece: list[Lexeme]) -> frozenset[str] | None:
    """The names that stand where a name is defined: after a keyword or what may be a mistyped one, or first on a line
    or second, where the keyword is gone or something else stands in its place. None where the name itself is gone."""
    if piece[0].type in ("DECLARE", "META"):
        return frozenset(lexeme.text for lexeme in piece if lexeme.type == "NAME")
    if piece[-1].type in DEFINING:
        return None
    pairs = list(zip([None, *piece], piece, strict=False))
    first = [_starts_line(source, before, after) for before, after in pairs]
    if any(before is not None and before.type in DEFINING and after.type != "NAME"
           and (first[at - 1] or after.type != "DOT") for at, (before, after) in enumerate(pairs)):
        return None
    return frozenset(
        after.text
        for at, (before, after) in enumerate(pairs)
        if after.type == "NAME" and (
            before is None or first[at] or before.type in STATEMENTS | {"NAME"}
            or first[at - 1] and before.type not in CLAUSES)
    )


def _uses(source: Source, piece: list[Lexeme]) -> bool:
    """Whether a part of a text with errors holds a `use`, or what is left of one: a string that ends a line which has
    nothing before it but what may stand in place of the keyword."""
    if any(lexeme.type == "USE" for lexeme in piece):
        return True
    for before, opener, lexeme, after in zip(
            [None, None, *piece], [None, *piece], piece, [*piece[1:], None], strict=False):
        if lexeme.type != "STRING" or after is not None and not _starts_line(source, lexeme, after):
            continue
        if lexeme.span.column == 1:
            return True
        if opener is not None and opener.type not in ("BACKEND", "BECAUSE") and _starts_line(source, before, opener):
            return True
    return False


def _starts_line(source: Source, before: Lexeme | None, lexeme: Lexeme) -> bool:
    if before is None:
        return True
    gap = source.text[before.span.end : lexeme.span.start]
    return "\n" in gap or "\r" in gap


def _too_long(name: str, text: str) -> Diagnostic:
    span = Span(Source(name, text[:200]), 0, 0)
    limit = MAX_CHARACTERS // (1024 * 1024)
    return Diagnostic("A011", Severity.error, f"the file is longer than {limit} million characters", span,
                      help="split it, and join the parts with `use`")  # fmt: skip


def _sorted(diagnostics: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(diagnostics, key=lambda d: d.span.start if d.span is not None else -1))


@define
class _Run:
    """One parse of one text."""

    source: Source
    start: str
    lexemes: list[Lexeme] = field(factory=list)
    diagnostics: list[Diagnostic] = field(factory=list)
    left_out: list[int] = field(factory=list)
    odd_quotes: set[int] = field(factory=set)
    read: list[Lexeme] = field(factory=list)
    stopped: bool = False
    position: int = 0
    inserted: int = 0

    def result(self) -> Any:
        """What the start rule gives; only to be used where no diagnostics came up."""
        language = _language()
        parser = language.lark.parse_interactive(self.source.text, start=self.start)
        tokens: Iterator[Token] = iter(parser.lexer_thread.lex(parser.parser_state))
        lexed = read_lexemes(self.source, tokens, language.keywords)
        self.lexemes, self.diagnostics = lexed.lexemes, lexed.diagnostics
        self.read, self.stopped = list(lexed.lexemes), lexed.stopped
        self.odd_quotes = lexed.odd_quotes
        self.left_out = [d.span.start for d in lexed.diagnostics if d.span is not None]
        if lexed.stopped:
            return None
        last = self.lexemes[-1].span.end if self.lexemes else 0
        self.lexemes.append(make_lexeme(self.source, "$END", "", last, last))
        state = parser.parser_state
        while self.position < len(self.lexemes):
            lexeme = self.lexemes[self.position]
            stacks = Stacks.of(state)
            if len(state.state_stack) > MAX_STACK:
                self.report(Hint("this nests too deep", "name a part with `let` or `pattern`"), lexeme, "A011")
                return None
            try:
                value = parser.feed_token(lexeme)
            except UnexpectedToken:
                if not self._go_on(language, stacks, lexeme):
                    return None
                stacks.restore()
                continue
            if lexeme.type == "OPTION" and self._is_misplaced_option(state):
                if not self._go_on(language, stacks, lexeme):
                    return None
                stacks.restore()
                continue
            if lexeme.type == "$END":
                self.lexemes.pop()
                return value
            self.position += 1
            self.inserted = 0
        return None

    def _is_misplaced_option(self, state: ParserState[Any]) -> bool:
        """Whether the `option` of a statement was just taken for the start of `option.NAME`."""
        following = self.lexemes[self.position + 1]
        return following.type == "NAME" and "NAME" not in Stacks.of(state).accepted()

    def report(self, hint: Hint, lexeme: Lexeme, code: str = "A001") -> None:
        self.diagnostics.append(
            Diagnostic(code, Severity.error, hint.message, hint.span or lexeme.span, hint.label, hint.labels,
                       help=hint.help)
        )  # fmt: skip

    def _go_on(self, language: _Language, stacks: Stacks, lexeme: Lexeme) -> bool:
        """Report the unexpected token and make the text or the stacks such that parsing can go on."""
        bracket, owner = stacks.innermost_bracket()
        place = Place(
            self.lexemes, self.position, stacks.accepted(), bracket, owner, language.spelling, language.keywords
        )
        hint = explain(place)
        if not (self.inserted and hint.insert) and not self._follows_error():
            self.report(hint, lexeme)
        if len(self.diagnostics) >= MAX_ERRORS:
            return False
        if hint.replace or hint.insert:
            if self.inserted < MAX_INSERTED or (lexeme.type == "$END" and self.inserted < MAX_STACK):
                self._repair(hint, lexeme)
                return True
        elif hint.drop:
            del self.lexemes[self.position]
            return True
        elif hint.skip_line:
            return self._skip_line(stacks, hint.span or lexeme.span)
        return self._skip(stacks)

    def _follows_error(self) -> bool:
        """Whether the unexpected token comes of an error that was reported before.

        That is, something that is no token was left out directly before it; or the line of it, or of the token
        before it, has a quote without a partner, and it is not the first error there.
        """
        here = self.lexemes[self.position].span
        before = next((x.span for x in self.lexemes[self.position :: -1] if x.span.start < here.start), None)
        if before is None:
            return False
        if any(before.end <= offset < here.start for offset in self.left_out):
            return True
        lines = self.odd_quotes & {before.end_line, here.line}
        return any(d.span is not None and d.span.line in lines and d.span.start <= here.start for d in self.diagnostics)

    def _repair(self, hint: Hint, lexeme: Lexeme) -> None:
        """Put the tokens of a hint in place of, or before, the unexpected one."""
        self.inserted += 1
        span = lexeme.span
        pieces = hint.replace or hint.insert
        new = [make_lexeme(self.source, type_, text, span.start, span.end) for type_, text in pieces]
        # Replaced tokens count as inserted too: a repair that does not help must not go on for ever.
        end = self.position + (1 if hint.replace else 0)
        self.lexemes[self.position : end] = new

    def _skip_line(self, stacks: Stacks, comment: Span) -> bool:
        """Drop what stands on the line of something that was meant as a comment, from the unexpected token on."""
        line = comment.line
        end = self.position
        while self.lexemes[end].type != "$END" and self.lexemes[end].span.line == line:
            end += 1
        if end == self.position:
            return self._skip(stacks)
        del self.lexemes[self.position : end]
        return True

    def _skip(self, stacks: Stacks) -> bool:
        """Go to the next statement, clause, binding or closing brace that has a place on the stack."""
        language = _language()
        header = stacks.header_depth()
        tries = MAX_GUESSES
        braces = 0
        for position in range(self.position, len(self.lexemes)):
            lexeme = self.lexemes[position]
            if lexeme.type == "LBRACE":
                if header is not None and not braces:
                    self._resume(stacks, header, position)
                    return True
                braces += 1
                continue
            if lexeme.type == "RBRACE" and braces:
                braces -= 1
                continue
            if braces and lexeme.type not in FILE_ONLY:
                continue
            following = self.lexemes[position + 1] if position + 1 < len(self.lexemes) else None
            starts_line = _starts_line(self.source, self.lexemes[position - 1] if position else None, lexeme)
            a_word = starts_line and lexeme.type == "NAME" and following is not None and following.type != "EQUAL"
            if a_word and tries and position > self.position:
                tries -= 1
                lexeme = self._meant(language, lexeme)
            depth = stacks.resume_depth(lexeme, following, starts_line)
            if depth is not None:
                self._resume(stacks, depth, position)
                return True
        return False

    def _meant(self, language: _Language, lexeme: Lexeme) -> Lexeme:
        """The keyword that a word at the start of a line was probably meant to be, or the word itself."""
        starters = {language.spelling[type_]: type_ for type_ in STATEMENTS | CLAUSES}
        near = nearest(lexeme.text, starters, 1) if len(lexeme) > 3 else []
        if not near:
            return lexeme
        span = lexeme.span
        return make_lexeme(self.source, starters[near[0]], near[0], span.start, span.end)

    def _resume(self, stacks: Stacks, depth: int, position: int) -> None:
        for brace, owner in stacks.cut(depth):
            if owner.startswith("`"):
                continue
            lexeme = self.lexemes[position]
            if self.lexemes[position - 1].span.end_line in self.odd_quotes:
                continue
            self.report(
                Hint(f"the block of {owner} is not closed", None, "expected `}` before this",
                     (Label(brace.span, "opened here"),)),
                lexeme,
            )  # fmt: skip
        self.position = position
        self.inserted = 0
