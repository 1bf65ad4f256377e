"""How messages speak of tokens: as they are typed, and in groups that have a name."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from apportion.grammar.lexing import Lexeme

__all__ = ["CLAUSES", "DEFINING", "FILE_ONLY", "OPERATORS", "STATEMENTS", "expected", "found", "listed"]

FILE_ONLY = frozenset(
    "BACKEND USE DECLARE OPTION META OPS PATTERN CONTRACT EXTERN DISJOINT RULE INVARIANT PARTITION PRESERVE".split()
)
"""Keywords that start a statement at file level and nothing else."""

STATEMENTS = FILE_ONLY | {"LET", "EMIT"}
"""Keywords that start a statement of a file."""

DEFINING = frozenset("OPTION OPS PATTERN EXTERN LET".split())
"""Keywords that a name follows which the rest of the file may use."""

CLAUSES = frozenset("MATCH GIVEN WHEN LET REQUIRE TAKE MARK EMIT ACCEPTS REJECTS TRIM REJECT".split())
"""Keywords that start a clause of a block."""

OPERATORS = frozenset(
    "AND OR IMPLIES IF IN IS NOT EQ NE LESSTHAN MORETHAN LE GE PLUS MINUS STAR SLASH FLOORDIV PERCENT VBAR "
    "DOT LPAR LSQB".split()
)
"""What may go on after an expression."""

_VALUES = frozenset("INT FLOAT STRING TRUE FALSE NONE INF NAN".split())


@frozen
class _Group:
    """A set of tokens with one name: it is spoken of where all of `signs` are expected, and stands for `members`."""

    phrase: str
    signs: frozenset[str]
    members: frozenset[str]


def _group(phrase: str, signs: str, members: Iterable[str]) -> _Group:
    return _Group(phrase, frozenset(signs.split()), frozenset(members) | frozenset(signs.split()))


_GROUPS = (
    _group("an expression", "NOT OPTION BYTES", _VALUES | set("NAME LSQB LBRACE LPAR MINUS PLUS".split())),
    _group("a value", "OPTION BYTES", _VALUES | set("NAME LSQB LBRACE LPAR MINUS PLUS".split())),
    _group("a pattern", "SHARED THROUGH", _VALUES | set("NAME LSQB LBRACE LPAR MINUS UNDERSCORE STAR".split())),
    _group("an argument such as `float32[2,3]`", "TRUE NAN NAME LSQB MINUS", _VALUES),
    _group("an operator", "EQ PLUS AND", OPERATORS),
    _group("an operator", "EQ PLUS", OPERATORS),
    _group("an operator", "PLUS STAR DOT", OPERATORS),
    _group("a statement such as `rule`", "RULE USE OPS", STATEMENTS),
    _group("a clause such as `require`", "MATCH REQUIRE", CLAUSES),
    _group("a clause such as `require`", "REQUIRE LET", CLAUSES),
    _group("a clause such as `reject`", "TRIM REJECT", CLAUSES),
)

_SINGLE = {
    "NAME": "a name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": 'a string `"…"`',
    "BYTES": 'bytes `x"…"`',
    "$END": "the end of the file",
    "SET_OF": "`set of`",
    "LIST_OF": "`list of`",
}

_LAST = ("RPAR", "RSQB", "RBRACE", "$END")
_MAX_LISTED = 6


def listed(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def expected(accepted: Iterable[str], spelling: dict[str, str]) -> str:
    """What may stand at a place, in words. `spelling` has the text of each keyword and sign by terminal name."""
    rest = set(accepted)
    groups: list[str] = []
    for group in _GROUPS:
        if group.signs <= rest:
            groups.append(group.phrase)
            rest -= group.members
    if {"INT", "FLOAT"} <= rest:
        rest.discard("FLOAT")
        rest.discard("INT")
        groups.append("a number")
    singles = sorted(rest - set(_LAST), key=lambda name: _SINGLE.get(name, spelling.get(name, name)))
    ends = [name for name in _LAST if name in rest]
    words = [_word(name, spelling) for name in singles]
    if len(words) > _MAX_LISTED:
        words = words[:_MAX_LISTED]
    statements = [phrase for phrase in groups if phrase.startswith(("a statement", "a clause"))]
    others = [phrase for phrase in groups if phrase not in statements]
    closers = [_word(name, spelling) for name in ends]
    return listed([*others, *words, *statements, *closers] or ["something else"])


def _word(name: str, spelling: dict[str, str]) -> str:
    return _SINGLE.get(name) or f"`{spelling.get(name, name.lower())}`"


def found(lexeme: Lexeme) -> str:
    """How a message names the token that was found."""
    if lexeme.type == "$END":
        return "the end of the file"
    text = " ".join(lexeme.text.split())
    if len(text) > 40:
        text = text[:37] + "…" + (text[-1] if lexeme.type == "STRING" else "")
    if lexeme.type == "STRING":
        return f"the string `{text}`"
    return f"`{text}`"
