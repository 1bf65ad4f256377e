"""Text to lexemes: what Lark's lexer yields, with keywords given back as names where the language allows them, and
with the tokens of other languages reported and replaced by what was meant, so that parsing can go on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import define, field, frozen
from lark import Token

from apportion.grammar.diagnostics import Diagnostic, Severity, Source, Span

__all__ = [
    "ERROR_TERMINALS",
    "MAX_BRACKETS",
    "Lexeme",
    "LexResult",
    "comments_between",
    "make_lexeme",
    "read_bytes",
    "read_lexemes",
    "read_number",
    "read_string",
]

ERROR_TERMINALS = ("FOREIGN", "C_COMMENT", "QUOTED", "OPEN_STRING", "BAD_WORD", "BAD")
"""Terminals that no rule uses: they stand for text that is no part of the language."""

MAX_BRACKETS = 100
"""How deep brackets may nest."""

MAX_DIGITS = 300
"""How long a number may be."""

MAX_LEX_ERRORS = 100

_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())


class Lexeme(Token):
    """A token that knows the text it comes from; `type` is the name of the terminal in the grammar."""

    __slots__ = ("source",)

    source: Source

    @property
    def span(self) -> Span:
        """Where it stands."""
        start, end = self.start_pos or 0, self.end_pos or 0
        return Span(self.source, start, end)

    @property
    def text(self) -> str:
        """The characters it was read from, or stands for."""
        return str.__str__(self)


def make_lexeme(source: Source, type_: str, text: str, start: int, end: int) -> Lexeme:
    """A lexeme of the given terminal at `start:end`."""
    lexeme = Lexeme(type_, text, start, None, None, None, None, end)
    lexeme.source = source
    return lexeme


@define
class LexResult:
    """The lexemes of a text, and what was wrong with it.

    `odd_quotes`: the lines with a quote that has no partner. `stopped`: there is no use in going on.
    """

    lexemes: list[Lexeme] = field(factory=list)
    diagnostics: list[Diagnostic] = field(factory=list)
    odd_quotes: set[int] = field(factory=set)
    stopped: bool = False


# --- literals ------------------------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.S)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "'": "'", "\\": "\\"}


def read_string(text: str) -> str:
    """The value of a string literal with its quotes; unknown escapes stand for themselves."""
    inner = text[1:-1] if len(text) > 1 and text[-1] == text[0] else text[1:]
    return _ESCAPE.sub(_unescape, inner) if "\\" in inner else inner


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    if len(body) > 1:
        point = int(body[1:], 16)
        return chr(point) if point <= 0x10FFFF else match.group(0)
    return _SIMPLE_ESCAPES.get(body, match.group(0))


def _bad_escape(text: str) -> re.Match[str] | None:
    for match in _ESCAPE.finditer(text):
        if _unescape(match) == match.group(0):
            return match
    return None


def read_bytes(text: str) -> bytes:
    """The value of `x"00ff"`; digits that are no pairs of hex digits give no bytes."""
    try:
        return bytes.fromhex(text[2:-1])
    except ValueError:
        return b""


def read_number(text: str) -> int | float:
    """The value of a whole number (decimal or `0x…`) or a decimal fraction; one that is too long is 0."""
    if len(text) > MAX_DIGITS:
        return 0
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    digits = text.replace("_", "")
    return int(digits) if digits.isdigit() else float(digits)


# --- comments ------------------------------------------------------------------------------------------------------

_COMMENT = re.compile(r"#[^\r\n]*")


def comments_between(text: str, lexemes: Iterable[Token]) -> Iterator[tuple[int, str]]:
    """The comments of a text, as (offset, text with its `#`): they stand in the gaps between its lexemes."""
    at = 0
    for lexeme in lexemes:
        start, end = lexeme.start_pos or 0, lexeme.end_pos or 0
        if start > at:
            yield from ((m.start(), m.group().rstrip()) for m in _COMMENT.finditer(text, at, start))
        at = end
    yield from ((m.start(), m.group().rstrip()) for m in _COMMENT.finditer(text, at))


# --- the pass ------------------------------------------------------------------------------------------------------


@define
class _Replacement:
    """What a token of another language becomes: lexemes `(type, text)` and what to say."""

    message: str
    help: str | None
    become: tuple[tuple[str, str], ...]


_FOREIGN: dict[str, _Replacement] = {
    "&&": _Replacement("`&&` is no operator here", "write `and`", (("AND", "and"),)),
    "||": _Replacement("`||` is no operator here", "write `or`; the union of two op sets is `|`", (("OR", "or"),)),
    "!": _Replacement("`!` is no operator here", "write `not`", (("NOT", "not"),)),
    "~": _Replacement("`~` is no operator here", "write `not`", (("NOT", "not"),)),
    "&": _Replacement("`&` is no operator here", "write `and`", (("AND", "and"),)),
    ":=": _Replacement("`:=` is no operator here", "write `=`", (("EQUAL", "="),)),
    "=>": _Replacement("`=>` is no operator here", "write `implies`, or `>=` to compare", (("IMPLIES", "implies"),)),
    "===": _Replacement("`===` is no operator here", "write `==`", (("EQ", "=="),)),
    "!==": _Replacement("`!==` is no operator here", "write `!=`", (("NE", "!="),)),
    "<>": _Replacement("`<>` is no operator here", "write `!=`", (("NE", "!="),)),
    "...": _Replacement("`...` is no range", "ranges are closed and have two dots: `3..4`", (("RANGE", ".."),)),
    "..<": _Replacement(
        "ranges are closed; `..<` does not exist",
        "`3..4` holds for 3 and 4, so write the last value",
        (("RANGE", ".."),),
    ),
    "**": _Replacement("there is no power operator", "multiply, or name the power with `let`", (("STAR", "*"),)),
    ";": _Replacement("`;` separates nothing here", "remove it: each clause starts with its keyword", ()),
}

_ARROW = _Replacement("`->` is no part of the language", "remove it", ())
_VALUE_ARROW = _Replacement("`->` is no part of the language", "write `=`", (("EQUAL", "="),))
_RESULT_ARROW = _Replacement("`->` is no part of the language", "write the result's type after `:`", (("COLON", ":"),))

_PYTHON_LITERALS = {"True": ("TRUE", "true"), "False": ("FALSE", "false"), "None": ("NONE", "none")}

_LOOKALIKES: dict[str, tuple[str, str]] = {
    "–": ("MINUS", "-"),
    "—": ("MINUS", "-"),
    "−": ("MINUS", "-"),
    "×": ("STAR", "*"),
    "≤": ("LE", "<="),
    "≥": ("GE", ">="),
    "≠": ("NE", "!="),
    "…": ("RANGE", ".."),
    "∈": ("IN", "in"),
    "¬": ("NOT", "not"),
    "∧": ("AND", "and"),
    "∨": ("OR", "or"),
}


_NEVER_NAMESPACES = frozenset(("OPTION", "TRUE", "FALSE", "NONE", "INF", "NAN"))
"""Keywords that a dot may follow; any other before a dot is the first word of an op's name."""


_AFTER_STRING = re.compile(r"""[\s)\]},:"#]|\Z""")
"""What follows a string; a string that anything else follows has probably swallowed the start of the next one."""

_LINE_BREAK = re.compile(r"[\r\n]")

_OUTER_END = re.compile(r"[\s)\]}]*\{?\s*\Z")


@frozen
class _Suspect:
    """A string that may lack its closing quote, and the state of the pass before it."""

    start: int
    line_end: int
    lexemes: int
    diagnostics: int
    brackets: tuple[Lexeme, ...]
    op_braces: tuple[bool, ...]


@define
class _Pass:
    """One walk over the tokens of a text."""

    source: Source
    keywords: frozenset[str]
    result: LexResult = field(factory=LexResult)
    brackets: list[Lexeme] = field(factory=list)
    op_braces: list[bool] = field(factory=list)
    suspect: _Suspect | None = None

    def report(self, message: str, span: Span, help: str | None = None, label: str = "", code: str = "A001") -> None:
        self.result.diagnostics.append(Diagnostic(code, Severity.error, message, span, label, help=help))
        if len(self.result.diagnostics) >= MAX_LEX_ERRORS:
            self.result.stopped = True

    def run(self, tokens: Iterator[Token]) -> LexResult:
        out = self.result.lexemes
        following = next(tokens, None)
        while following is not None and not self.result.stopped:
            token, following = following, next(tokens, None)
            start, end = token.start_pos or 0, token.end_pos or 0
            lexeme = make_lexeme(self.source, token.type, str(token), start, end)
            handler = _HANDLERS.get(token.type)
            if handler is not None:
                out.extend(handler(self, lexeme))
                continue
            if token.type in self.keywords:
                if self._is_name(lexeme, following):
                    lexeme.type = "NAME"
            elif token in _OPENING or token in _CLOSING:
                self._bracket(lexeme)
            out.append(lexeme)
        return self.result

    def _previous(self) -> Lexeme | None:
        return self.result.lexemes[-1] if self.result.lexemes else None

    def _is_name(self, lexeme: Lexeme, following: Token | None) -> bool:
        """Whether a keyword stands where the language takes it for a name."""
        previous = self._previous()
        if following == "." and following.start_pos == lexeme.end_pos and lexeme.type not in _NEVER_NAMESPACES:
            return True
        if previous is None:
            return False
        if previous == "." or (self.op_braces and self.op_braces[-1] and previous in ("{", ",")):
            return True
        if following == ":":
            in_arguments = bool(self.brackets) and self.brackets[-1] == "(" and previous in ("(", ",")
            return in_arguments or previous.type in ("OPTION", "META")
        return False

    def _bracket(self, lexeme: Lexeme) -> None:
        if lexeme in _OPENING:
            self.op_braces.append(lexeme == "{" and self._previous() == ".")
            self.brackets.append(lexeme)
            if len(self.brackets) > MAX_BRACKETS:
                self.report(
                    f"brackets nest deeper than {MAX_BRACKETS} levels", lexeme.span,
                    "name a part with `let` or `pattern`", code="A011",
                )  # fmt: skip
                self.result.stopped = True
        elif self.brackets:
            # A wrong closing bracket is the parser's to report; here it only ends a level.
            self.brackets.pop()
            self.op_braces.pop()

    # --- tokens that are wrong, or may be ---

    def foreign(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        replacement = _FOREIGN.get(lexeme.text)
        if replacement is None:
            return self._arrow(lexeme)
        return self._replace(lexeme, replacement)

    def _arrow(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        statement = next((x.type for x in reversed(self.result.lexemes[-40:]) if x.type in self.keywords), "")
        if self._previous() != ")":
            return self._replace(lexeme, _ARROW)
        return self._replace(lexeme, _RESULT_ARROW if statement == "EXTERN" else _VALUE_ARROW)

    def _replace(self, lexeme: Lexeme, replacement: _Replacement) -> Iterable[Lexeme]:
        self.report(replacement.message, lexeme.span, replacement.help)
        span = lexeme.span
        return [make_lexeme(self.source, type_, text, span.start, span.end) for type_, text in replacement.become]

    def c_comment(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        self.report("`/* … */` is no comment here", lexeme.span, "comments start with `#` and end with the line")
        return ()

    def quoted(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        self.report("strings have double quotes", lexeme.span, 'write `"…"`')
        return [make_lexeme(self.source, "STRING", lexeme.text, lexeme.span.start, lexeme.span.end)]

    def open_string(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        """One string up to the end of the line, without a last `{` and brackets that close what was opened before it.

        Where an earlier string of the line looks as if it were the open one, the line is read again from there.
        """
        start, end = lexeme.span.start, lexeme.span.end
        if self.suspect is not None and self.suspect.line_end >= end:
            start = self._back_to(self.suspect)
        text = self.source.text[start:end]
        size = len(text) - _outer_end(text[1:])
        opening = Span(self.source, start, start + 1)
        said = self.result.diagnostics
        while said and said[-1].span is not None and said[-1].span.end_line == opening.line:
            said.pop()
        if text[1:size].strip():
            column = Span(self.source, end, end).column
            where = f'a string ends on its line; put `"` at or before column {column}'
            self.report('the string has no closing `"`', opening, where, "it starts here")
        else:
            self.report('this `"` has no partner', opening, 'a string has `"` on both sides, and ends on its line')
        self.result.odd_quotes.add(opening.line)
        brackets = [
            make_lexeme(self.source, _BRACKET_TYPES[character], character, at, at + 1)
            for at, character in enumerate(text[size:], start + size)
            if not character.isspace()
        ]
        for bracket in brackets:
            self._bracket(bracket)
        return [make_lexeme(self.source, "STRING", text[:size] + '"', start, start + size), *brackets]

    def _back_to(self, suspect: _Suspect) -> int:
        """Forget what was read of a line from a string on."""
        del self.result.lexemes[suspect.lexemes :]
        del self.result.diagnostics[suspect.diagnostics :]
        self.brackets[:], self.op_braces[:] = suspect.brackets, suspect.op_braces
        return suspect.start

    def bad_word(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        self.report("names consist of the letters a to z, digits and `_`", lexeme.span)
        return [make_lexeme(self.source, "NAME", lexeme.text, lexeme.span.start, lexeme.span.end)]

    def bad(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        text = lexeme.text
        if text in _FOREIGN:
            return self._replace(lexeme, _FOREIGN[text])
        if text in _LOOKALIKES:
            type_, meant = _LOOKALIKES[text]
            self.report(f"unexpected character `{text}`", lexeme.span, f"write `{meant}`")
            return [make_lexeme(self.source, type_, meant, lexeme.span.start, lexeme.span.end)]
        if text == "'":
            self.report("unexpected character `'`", lexeme.span, 'strings have double quotes: `"…"`')
        elif text == "@":
            self.report("unexpected character `@`", lexeme.span, "there are no decorators; see `when` and `require`")
        elif text.isprintable():
            shown = "`" + text + "`" if text != "`" else "'`'"
            self.report(f"unexpected character {shown}", lexeme.span)
        else:
            self.report(f"unexpected invisible character U+{ord(text):04X}", lexeme.span, "remove it")
        return ()

    def string(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        start, end = lexeme.span.start, lexeme.span.end
        known = self.suspect is not None and self.suspect.line_end >= end
        if not known and not _AFTER_STRING.match(self.source.text, end):
            self.suspect = _Suspect(
                start, _line_end(self.source.text, end), len(self.result.lexemes), len(self.result.diagnostics),
                tuple(self.brackets), tuple(self.op_braces),
            )  # fmt: skip
        if "\\" in lexeme:
            match = _bad_escape(lexeme.text)
            if match is not None:
                start, end = (lexeme.span.start + at for at in match.span())
                self.report(
                    f"unknown escape `{match.group(0)}` in a string", Span(self.source, start, end),
                    'known are `\\"`, `\\\\`, `\\n`, `\\t`, `\\r`, `\\0`, `\\xHH`, `\\uHHHH`; a backslash is `\\\\`',
                )  # fmt: skip
        return (lexeme,)

    def bytes_(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        try:
            bytes.fromhex(lexeme.text[2:-1])
        except ValueError:
            self.report('bytes are pairs of hex digits: `x"00ff"`', lexeme.span)
        return (lexeme,)

    def number(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        if len(lexeme) > MAX_DIGITS:
            self.report(f"a number has at most {MAX_DIGITS} digits", lexeme.span, code="A011")
        return (lexeme,)

    def name(self, lexeme: Lexeme) -> Iterable[Lexeme]:
        literal = _PYTHON_LITERALS.get(lexeme.text)
        if literal is not None and self._previous() != ".":
            self.report(f"`{lexeme.text}` is written `{literal[1]}` here", lexeme.span, f"write `{literal[1]}`")
            return [make_lexeme(self.source, *literal, lexeme.span.start, lexeme.span.end)]
        return (lexeme,)


_HANDLERS = {
    "FOREIGN": _Pass.foreign,
    "C_COMMENT": _Pass.c_comment,
    "QUOTED": _Pass.quoted,
    "OPEN_STRING": _Pass.open_string,
    "BAD_WORD": _Pass.bad_word,
    "BAD": _Pass.bad,
    "STRING": _Pass.string,
    "BYTES": _Pass.bytes_,
    "INT": _Pass.number,
    "FLOAT": _Pass.number,
    "NAME": _Pass.name,
}


_BRACKET_TYPES = {")": "RPAR", "]": "RSQB", "}": "RBRACE", "{": "LBRACE"}


def _line_end(text: str, at: int) -> int:
    found = _LINE_BREAK.search(text, at)
    return found.start() if found is not None else len(text)


def _outer_end(text: str) -> int:
    """The length of what is at the end of a text and no part of it: a block's `{`, or brackets that close nothing."""
    tail = _OUTER_END.search(text)
    end = tail.group() if tail is not None else ""
    if end.rstrip().endswith("{"):
        return len(end)
    open_ = sum(map(text.count, _OPENING)) - sum(map(text[: len(text) - len(end)].count, _CLOSING))
    for at, character in enumerate(end):
        if character in _CLOSING:
            open_ -= 1
            if open_ < 0:
                return len(end) - at
    return 0


def read_lexemes(source: Source, tokens: Iterator[Token], keywords: frozenset[str]) -> LexResult:
    """Turn Lark's tokens into lexemes. `keywords` are the terminal names of the reserved words."""
    return _Pass(source, keywords).run(tokens)
