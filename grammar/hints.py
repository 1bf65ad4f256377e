"""What went wrong, in words: a table of classic mistakes, each with its message and how to go on after it.

A hint looks at a `Place` (the unexpected token, what stands before and after it, what would have been accepted) and
gives a `Hint`, or None where it does not apply. The first that applies is used; `default` always does.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from apportion.grammar.diagnostics import Label, Span, nearest
from apportion.grammar.lexing import Lexeme
from apportion.grammar.words import CLAUSES, FILE_ONLY, OPERATORS, STATEMENTS, expected, found

__all__ = ["CLOSERS", "Hint", "Place", "explain"]

CLOSERS = {"(": ("RPAR", ")"), "[": ("RSQB", "]"), "{": ("RBRACE", "}")}

MAX_LOOK_BACK = 300
"""How many tokens of a line are looked at."""

_STARTERS = STATEMENTS | CLAUSES
_VALUE_TYPES = frozenset("NAME INT FLOAT STRING BYTES TRUE FALSE NONE INF NAN".split())


@frozen
class Hint:
    """A message about a place and a repair: how the parser goes on.

    `replace`: these tokens instead of the unexpected one; `insert`: these before it; `drop`: without it;
    `skip_line`: at the next line. With none of them the parser skips to the next statement or clause.
    """

    message: str
    help: str | None = None
    label: str = ""
    labels: tuple[Label, ...] = ()
    span: Span | None = None
    replace: tuple[tuple[str, str], ...] = ()
    insert: tuple[tuple[str, str], ...] = ()
    drop: bool = False
    skip_line: bool = False


@frozen
class Place:
    """A token that the grammar does not accept where it stands."""

    lexemes: list[Lexeme]
    position: int
    accepted: frozenset[str]
    bracket: Lexeme | None
    """The innermost bracket that is open, if any."""
    owner: str
    """What the innermost open brace belongs to: "rule `x`", "`match`", or "" for sets and the file level."""
    spelling: dict[str, str]
    keywords: frozenset[str]

    @property
    def token(self) -> Lexeme:
        """The unexpected token."""
        return self.lexemes[self.position]

    def at(self, offset: int) -> Lexeme | None:
        """The token `offset` places further on (or back)."""
        position = self.position + offset
        return self.lexemes[position] if 0 <= position < len(self.lexemes) else None

    def kind(self, offset: int) -> str:
        """Its terminal's name, or ""."""
        lexeme = self.at(offset)
        return lexeme.type if lexeme is not None else ""

    @property
    def starts_line(self) -> bool:
        """Whether it is the first on its line."""
        return self.starts_line_at(self.position)

    def starts_line_at(self, position: int) -> bool:
        """Whether the token at a position is the first on its line."""
        if position == 0:
            return True
        before, after = self.lexemes[position - 1].span.end, self.lexemes[position].span.start
        return any(character in "\r\n" for character in self.token.source.text[before:after])

    def line_start(self) -> int:
        """The position of the first token on this line (of the token before, where this one starts a line)."""
        position = self.position
        lowest = max(0, position - MAX_LOOK_BACK)
        while position > lowest and not self.starts_line_at(position):
            position -= 1
        return position

    def wants(self, *types: str) -> bool:
        """Whether each of these tokens could stand here."""
        return all(type_ in self.accepted for type_ in types)

    @property
    def wants_expression(self) -> bool:
        """Whether an expression could start here."""
        return self.wants("INT", "OPTION")

    @property
    def wants_term(self) -> bool:
        """Whether a pattern could start here."""
        return self.wants("SHARED", "THROUGH")

    @property
    def after_expression(self) -> bool:
        """Whether an expression could go on here."""
        return self.wants("PLUS", "STAR")

    @property
    def at_clause(self) -> bool:
        """Whether a statement or clause could start here."""
        return self.wants("REQUIRE") or self.wants("RULE") or self.wants("TRIM")


Rule = Callable[[Place], "Hint | None"]


# --- comments and statements of other languages --------------------------------------------------------------------


def _slash_comment(place: Place) -> Hint | None:
    start = place.line_start()
    for position in range(start, place.position + 1):
        lexeme = place.lexemes[position]
        if lexeme.type == "FLOORDIV" and (position == place.position or _is_prose(place, position)):
            return Hint("`//` starts no comment", "comments start with `#`", span=lexeme.span, skip_line=True)
    return None


def _is_prose(place: Place, position: int) -> bool:
    """Whether two words follow each other after a `//` and up to the unexpected token, as in a sentence."""
    return place.token.type in place.keywords | {"NAME"} and place.kind(-1) in place.keywords | {"NAME", "INT"}


_STATEMENTS_ELSEWHERE = {
    "def": "a function is `let NAME(a, b) = EXPR`; a bundle of requirements is `contract NAME(a, b) { … }`",
    "fn": "a function is `let NAME(a, b) = EXPR`",
    "func": "a function is `let NAME(a, b) = EXPR`",
    "function": "a function is `let NAME(a, b) = EXPR`",
    "lambda": "a function is `let NAME(a, b) = EXPR`",
    "import": 'another file is read with `use "path"`',
    "include": 'another file is read with `use "path"`',
    "from": 'another file is read with `use "path"`',
    "class": "write `rule NAME { … }`, `pattern` or `contract`",
    "return": "there are no statements that run; a value is `let NAME = EXPR`",
    "assert": "write `require EXPR because \"…\"`",
    "var": "write `let NAME = EXPR`",
    "const": "write `let NAME = EXPR`",
    "set": "write `let NAME = EXPR`",
    "while": "there are no loops; see `all(… for x in xs)`",
    "elif": "write `A if C else B` for a value, or `require C implies A`",
    "switch": "write alternatives `(A | B)` in a pattern, or `A if C else B` for a value",
    "try": "what is not known satisfies nothing; see `possible(E)`",
    "raise": "write `require false because \"…\"`",
    "pass": "a block may have as few clauses as it needs; remove it",
    "export": "every name of a file is seen by the files that `use` it",
    "where": "write `require EXPR`",
    "check": "write `require EXPR`",
    "constraint": "write `require EXPR`",
    "forbid": "write `require not …`, or an `invariant`",
    "deny": "write an `invariant` with `require false because \"…\"`",
    "comment": "comments start with `#`",
    "enum": "write `option NAME: {a, b} = \"a\"`",
    "type": "write `option NAME: {a, b} = \"a\"` for an enumeration",
}  # fmt: skip


def _foreign_statement(place: Place) -> Hint | None:
    token, before = place.token, place.at(-1)
    if before is not None and before.type == "NAME" and before.text == "lambda" and token.type in ("NAME", "COLON"):
        return Hint("there is no `lambda`", "a function is `let NAME(a, b) = EXPR`", span=before.span)
    if token.type == "NAME" and place.at_clause and token.text in _STATEMENTS_ELSEWHERE:
        follows = place.kind(1)
        if follows in ("NAME", "STRING", "LPAR", "LBRACE", "COLON") or place.starts_line or follows in place.keywords:
            return Hint(f"there is no `{token.text}` statement", _STATEMENTS_ELSEWHERE[token.text])
    return None


_IF_HELP = (
    "write `when EXPR` for a guard over options, `require A implies B` for a condition, or `A if C else B` as a value"
)


def _if_statement(place: Place) -> Hint | None:
    if place.token.type == "IF" and place.at_clause and not place.after_expression:
        return Hint("there is no `if` statement", _IF_HELP)
    if place.token.type == "ELSE" and place.at_clause and not place.wants("ELSE"):
        return Hint("there is no `else` statement", _IF_HELP)
    if place.token.type == "FOR" and place.at_clause:
        return Hint("there are no loops", "write `all(… for x in xs)`, or `any count sum min max`")
    first = place.lexemes[place.line_start()]
    if first.type == "IF" and (place.wants("ELSE") or place.token == ":" or place.token.type == "LBRACE"):
        return Hint("there is no `if` statement", _IF_HELP, span=first.span)
    return None


# --- signs ---------------------------------------------------------------------------------------------------------


def _named_argument(place: Place) -> Hint | None:
    if place.token.type != "EQUAL" or place.kind(-1) != "NAME" or place.kind(-2) not in ("LPAR", "COMMA"):
        return None
    if place.wants("COLON"):
        return Hint("arguments are named with `:`", f"write `{place.lexemes[place.position - 1].text}: …`",
                    replace=(("COLON", ":"),))  # fmt: skip
    if place.bracket is not None and place.bracket == "(" and place.wants("EQ"):
        return Hint("functions take their arguments by position", "leave the name out, or write `==` to compare",
                    replace=(("EQ", "=="),))  # fmt: skip
    return None


def _equals(place: Place) -> Hint | None:
    if place.token.type == "EQUAL" and place.wants("EQ"):
        return Hint("`=` gives a name its value and does not compare", "write `==`", replace=(("EQ", "=="),))
    if place.token.type == "EQ" and place.wants("EQUAL"):
        return Hint("`==` compares; a value is given with `=`", "write `=`", replace=(("EQUAL", "="),))
    return None


def _colon_for_equals(place: Place) -> Hint | None:
    if place.token.type == "COLON" and place.accepted == {"EQUAL"} and place.kind(-2) != "LET":
        return Hint("expected `=`, found `:`", replace=(("EQUAL", "="),))
    return None


def _fraction(place: Place) -> Hint | None:
    if place.token.type == "DOT" and place.wants("FLOAT") and place.kind(1) == "INT":
        return Hint("a fraction starts with a digit", "write `0.5`, not `.5`", drop=True)
    return None


def _one_op(place: Place) -> Hint | None:
    if place.token.type == "LBRACE" and place.kind(-1) == "DOT" and place.accepted == {"NAME"}:
        return Hint("an example calls one op", "write one example for each op")
    return None


def _annotation(place: Place) -> Hint | None:
    if place.token == ":" and place.wants("EQUAL") and place.kind(-2) == "LET":
        return Hint("a `let` has no type", "write `let NAME = EXPR`; only `option`, `meta` and `extern` have types")
    return None


def _colon_block(place: Place) -> Hint | None:
    if place.token == ":" and place.wants("LBRACE") and not place.wants_expression:
        doubled = place.kind(1) == "LBRACE"
        return Hint("a block has braces", "write `{ … }` instead of `:`", drop=doubled,
                    replace=() if doubled else (("LBRACE", "{"),))  # fmt: skip
    return None


def _missing_brace(place: Place) -> Hint | None:
    if place.wants("LBRACE") and not place.wants("NAME") and place.token.type in CLAUSES:
        return Hint(f"expected `{{` before `{place.token.text}`", "a block has braces: `{ … }`",
                    insert=(("LBRACE", "{"),))  # fmt: skip
    return None


def _comma(place: Place) -> Hint | None:
    if place.token.type != "COMMA" or place.wants("COMMA"):
        return None
    if place.at_clause or place.owner:
        return Hint("`,` separates nothing here", "remove it: clauses and bindings need no separator", drop=True)
    if place.kind(-1) in ("COMMA", "LPAR", "LSQB", "LBRACE"):
        return Hint(f"expected {expected(place.accepted, place.spelling)}, found `,`", "remove the comma", drop=True)
    return None


def _range(place: Place) -> Hint | None:
    closed = "ranges are closed and have both ends: `in 3..4`; for an open one write `>= 3` or `<= 4`"
    if place.kind(-2) == "RANGE" and place.starts_line_at(place.position - 1):
        # The word that starts the next line was taken for the upper end.
        return Hint("the range has no upper end", closed, span=place.lexemes[place.position - 2].span)
    if place.token.type == "RANGE":
        if place.wants_expression:
            return Hint("the range has no lower end", closed, insert=(("INT", "0"),))
        if place.after_expression:
            return Hint("a range stands only after `in`", closed)
        return None
    if place.kind(-1) == "RANGE" and place.wants("INT"):
        before = place.lexemes[place.position - 1]
        return Hint("the range has no upper end", closed, span=before.span, insert=(("INT", "0"),))
    return None


def _comprehension(place: Place) -> Hint | None:
    if place.token.type == "FOR" and (place.after_expression or place.wants("COMMA")):
        return Hint(
            "a comprehension stands only as the single argument of a function",
            "write `all(… for x in xs)`, or `any count sum min max`",
        )
    return None


def _method(place: Place) -> Hint | None:
    if place.token.type == "LPAR" and place.kind(-1) == "NAME" and place.kind(-2) == "DOT" and place.after_expression:
        name = place.lexemes[place.position - 1].text
        return Hint(
            "values have no methods, and a pattern stands only in `match`, `given` and `pattern`",
            f"write a function `{name}(x)`, or match the op and name it",
        )
    return None


def _op_without_call(place: Place) -> Hint | None:
    if place.accepted and place.accepted <= {"DOT", "LPAR"} and place.kind(-1) in ("NAME", "RBRACE"):
        return Hint("an op in a pattern or an example needs its arguments", "write `aten.relu.default(x)`",
                    insert=(("LPAR", "("), ("RPAR", ")")))  # fmt: skip
    return None


def _bare_binding(place: Place) -> Hint | None:
    signs = ("DOT", "LPAR", "LBRACE", "UNDERSCORE", "SHARED", "THROUGH", "STAR")
    if place.owner not in ("`match`", "`given`") and place.kind(-2) not in ("MATCH", "GIVEN"):
        if place.kind(-1) not in ("MATCH", "GIVEN"):
            return None
    if place.token.type in signs and place.kind(1) != "EQUAL" and (place.accepted == {"EQUAL"} or place.wants("NAME")):
        return Hint("every binding has a name", "write `y = aten.relu.default(x)`, or `y = _` for any op")
    return None


# --- brackets ------------------------------------------------------------------------------------------------------


def _unclosed(place: Place) -> Hint | None:
    token, bracket = place.token, place.bracket
    if bracket is None:
        return None
    type_, text = CLOSERS[bracket.text]
    if not place.wants(type_):
        return None
    if place.owner and token.type in ("RPAR", "RSQB"):
        return None
    if token.type in ("RPAR", "RSQB", "RBRACE"):
        label = Label(bracket.span, "opened here")
        # A brace that ends a block ends the brackets inside it too; any other sign is taken for the right one.
        closer, ends = ((type_, text),), token.type == "RBRACE"
        return Hint(f"expected `{text}`, found `{token.text}`", labels=(label,), insert=closer if ends else (),
                    replace=() if ends else closer)  # fmt: skip
    if not (token.type in _STARTERS or token.type == "$END"):
        return None
    if bracket == "{" and place.owner and not place.owner.startswith("`"):
        if token.type not in FILE_ONLY and token.type != "$END":
            return None
        message = f"the block of {place.owner} is not closed"
    elif bracket == "{" and place.owner:
        message = f"the block of {place.owner} is not closed"
    else:
        message = f"the `{bracket.text}` is not closed"
    return Hint(
        message, None, f"expected `{text}` before {found(token)}", (Label(bracket.span, "opened here"),),
        insert=((type_, text),),
    )  # fmt: skip


def _closes_nothing(place: Place) -> Hint | None:
    token = place.token
    if token.type not in ("RPAR", "RSQB", "RBRACE"):
        return None
    if place.bracket is None or (place.owner and token.type != "RBRACE"):
        return Hint(f"`{token.text}` closes nothing", "remove it, or add what it should close", drop=True)
    return None


# --- words ---------------------------------------------------------------------------------------------------------


_EXPRESSION_STARTS = _VALUE_TYPES | frozenset("NOT OPTION LPAR LSQB LBRACE MINUS PLUS".split())

_FOLLOWS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("REQUIRE", "WHEN", "TRIM", "REJECT"), _EXPRESSION_STARTS),
    **dict.fromkeys(("MATCH", "GIVEN", "ACCEPTS", "REJECTS", "PRESERVE"), frozenset(("NAME", "LBRACE"))),
    **dict.fromkeys(("BACKEND", "USE", "DECLARE"), frozenset(("STRING",))),
    "PARTITION": frozenset(("LBRACE",)),
    "EMIT": frozenset(("NAME", "STRING")),
}
"""What follows a keyword where it starts its statement or clause; a name, where it is not listed."""


_AFTER_NAME = frozenset("EQUAL COMMA RPAR RSQB COLON QMARK EQ NE LE GE LESSTHAN MORETHAN DOT".split())


def _starts_clause(place: Place) -> bool:
    """Whether the unexpected token is a keyword that stands at the start of its own statement or clause."""
    type_ = place.token.type
    if type_ not in _STARTERS:
        return False
    if place.starts_line:
        return place.kind(1) not in _AFTER_NAME
    if place.kind(1) not in _FOLLOWS.get(type_, frozenset(("NAME",))):
        return False
    # `rule match {`: only a name can stand here, and the line goes on.
    return not place.accepted <= {"NAME", "UNDERSCORE", "STRING", "RPAR"}


def _keyword_as_name(place: Place) -> Hint | None:
    token = place.token
    if token.type not in place.keywords or not place.wants("NAME") or _starts_clause(place):
        return None
    operator = token.type in OPERATORS | {"FOR", "ELSE", "BECAUSE", "AS", "WITH"}
    if operator and (place.wants_expression or place.wants_term or place.wants("RBRACE")):
        if place.kind(1) not in ("COMMA", "RPAR", "RSQB", "EQUAL"):
            return None
    return Hint(f"`{token.text}` is a keyword and can't be a name", "choose another name; keywords are names only "
                "after `.`, before `:` and inside op names", replace=(("NAME", token.text),))  # fmt: skip


def _keyword_typo(place: Place) -> Hint | None:
    token = place.token
    if token.type == "NAME" and len(token) > 2:
        words = {place.spelling[name]: name for name in place.accepted if name in place.keywords}
        near = nearest(token.text, words, 1)
        if near and not (place.wants_term or place.wants_expression):
            return Hint(f"unknown word `{token.text}`", f"did you mean `{near[0]}`?",
                        replace=((words[near[0]], near[0]),))  # fmt: skip
    return None


def _clause_typo(place: Place) -> Hint | None:
    """`rejct all(…)` in a block whose keys or bindings are names: the word before was meant for a keyword."""
    before = place.at(-1)
    if place.accepted != {"EQUAL"} or before is None or before.type != "NAME":
        return None
    if place.kind(-2) in place.keywords:
        return None
    words = [place.spelling[name] for name in _STARTERS | {"WITH", "BECAUSE"}]
    near = nearest(before.text, words, 1)
    if near:
        goes_on = (("EQUAL", "="),) if place.token.type in _EXPRESSION_STARTS else ()
        return Hint(f"unknown word `{before.text}`", f"did you mean `{near[0]}`?", span=before.span, insert=goes_on)
    return None


_SENTENCE = frozenset(("NAME", "SLASH", "MINUS", "DOT"))


def _missing_quotes(place: Place) -> Hint | None:
    if place.accepted == {"STRING"} and place.token.type not in _STARTERS | {"STRING", "$END", "RBRACE"}:
        text = place.token.text
        goes_on = place.kind(1) in _SENTENCE or (place.kind(1) in place.keywords and not place.starts_line_at(
            place.position + 1) and place.kind(1) not in _STARTERS | {"LANGUAGE"})  # fmt: skip
        one_word = place.token.type == "NAME" and not goes_on
        return Hint(f"expected a string, found {found(place.token)}", 'write it in double quotes: `"…"`',
                    replace=(("STRING", f'"{text}"'),) if one_word else ())  # fmt: skip
    return None


def _missing_name(place: Place) -> Hint | None:
    if place.accepted == {"NAME"} and place.token.type in ("LBRACE", "EQUAL", "LPAR", "COLON"):
        return Hint(f"expected a name, found {found(place.token)}", insert=(("NAME", "missing"),))
    return None


def _outside(place: Place) -> Hint | None:
    token = place.token
    if token.type in CLAUSES - STATEMENTS and place.wants("RULE"):
        where = "the `partition` block" if token.type in ("TRIM", "REJECT") else "a rule"
        return Hint(f"`{token.text}` stands outside of {where}", "is there a `}` too many before it?")
    if token.type == "REJECT" and place.wants("REJECTS"):
        return Hint("`reject` is for the `partition` block", "for an example write `rejects`, for a rule `require`")
    if token.type == "REJECTS" and place.wants("REJECT"):
        return Hint("`rejects` is for the examples of a rule", "in the `partition` block write `reject EXPR`")
    if token.type in CLAUSES and place.at_clause and not place.wants(token.type):
        block = place.owner or "this block"
        return Hint(f"`{token.text}` has no place in {block}")
    return None


def _missing_sign(place: Place) -> Hint | None:
    """Only one sign can stand here and the line goes on without it: `min_nodes 3`, `option x bool = true`."""
    if len(place.accepted) != 1 or place.starts_line or place.token.type not in _EXPRESSION_STARTS:
        return None
    (type_,) = place.accepted
    text = place.spelling.get(type_)
    if text is None:
        return None
    return Hint(f"expected `{text}`, found {found(place.token)}", insert=((type_, text),))


def _missing_comma(place: Place) -> Hint | None:
    if place.token.type in _VALUE_TYPES and place.wants("COMMA") and place.bracket is not None and not place.owner:
        after_value = place.kind(-1) in _VALUE_TYPES | {"RPAR", "RSQB", "RBRACE"}
        if after_value and not place.starts_line:
            closer = CLOSERS[place.bracket.text][1]
            return Hint(f"expected `,` or `{closer}`, found {found(place.token)}", insert=(("COMMA", ","),))
    return None


def _unknown_clause(place: Place) -> Hint | None:
    if place.token.type == "NAME" and place.starts_line and place.at_clause:
        return Hint(f"unknown word `{place.token.text}`", f"expected {expected(place.accepted, place.spelling)}")
    return None


def default(place: Place) -> Hint:
    """What was expected and what was found."""
    return Hint(f"expected {expected(place.accepted, place.spelling)}, found {found(place.token)}")


_HINTS: tuple[Rule, ...] = (
    _slash_comment,
    _named_argument,
    _equals,
    _colon_for_equals,
    _fraction,
    _one_op,
    _annotation,
    _if_statement,
    _foreign_statement,
    _colon_block,
    _missing_brace,
    _op_without_call,
    _bare_binding,
    _range,
    _comprehension,
    _method,
    _keyword_as_name,
    _clause_typo,
    _keyword_typo,
    _unclosed,
    _closes_nothing,
    _comma,
    _missing_quotes,
    _missing_name,
    _missing_sign,
    _outside,
    _missing_comma,
    _unknown_clause,
)


def explain(place: Place) -> Hint:
    """The first hint of the table that applies to a place, or the default one."""
    for rule in _HINTS:
        hint = rule(place)
        if hint is not None:
            return hint
    return default(place)
