"""Random rules texts: hypothesis strategies that write every form of the language, with random layout and comments."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "x", "y", "nodes", "matches", "float32", "tensor", "x2", "_y", "set", "list"])
WORDS = st.one_of(NAMES, st.sampled_from(["match", "if", "in", "rule", "none", "not"]))
STRINGS = st.sampled_from(
    ['""', '"text"', '"a \\"quoted\\" one"', '"é → \\\\ \\n\\t"', '"# no comment"', '"\\x00\\u200b"']
)
IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_ ]{0,8}", fullmatch=True).map('"{}"'.format)
NUMBERS = st.sampled_from(["0", "1", "42", "1.5", "1e-5", "2.", "0x1F", "1_000", "1e16", "123456789.25"])
LITERALS = st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "none", "inf", "nan"]))
COMMENTS = st.sampled_from(["# short", "#", "#!x", "# with \"quotes\" { and braces"])

BINARY = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "|", "and", "or", "implies", "==", "!=", "<", ">=", "in", "not in"]
)

GAPS = st.one_of(
    st.just(" "), st.just(" "), st.just("  \t"), st.just("\n"), st.just("\n\n\n"), st.just("\r\n"),
    COMMENTS.map(lambda text: f" {text}\n"), COMMENTS.map(lambda text: f"\n{text}\n\n{text}\n"),
)  # fmt: skip


def _join(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The parts with random gaps between them."""
    strategies = [part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts]

    @st.composite
    def join(draw: st.DrawFn) -> str:
        text = ""
        for strategy in strategies:
            piece = draw(strategy)
            text += piece if not text or not piece else draw(GAPS) + piece
        return text

    return join()


def _many(item: st.SearchStrategy[str], separator: str, low: int = 0, high: int = 3) -> st.SearchStrategy[str]:
    return st.lists(item, min_size=low, max_size=high).flatmap(
        lambda items: _join(*[x for i, text in enumerate(items) for x in ((separator, text) if i else (text,))])
        if items
        else st.just("")
    )


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parenthesised = _join("(", inner, ")")
    either = st.one_of(NAMES, parenthesised)
    op_name = st.sampled_from(["aten.{abs,neg}.default", "aten.add", "aten.{if}.in", "x.y.{a,b}.{c}"])
    clause = _join("for", _many(NAMES, ",", 1, 2), "in", either)
    argument = _join(inner, clause, st.one_of(st.just(""), clause), st.one_of(st.just(""), _join("if", inner)))
    return st.one_of(
        parenthesised, parenthesised,
        _join(either, BINARY, either),
        _join(either, BINARY, either, BINARY, either),
        _join(either, BINARY, either, BINARY, either, BINARY, either),
        _join(either, "and", either, "and", either),
        _join(either, "<", either, "<=", either),
        _join(st.sampled_from(["not", "-", "+"]), either),
        _join(either, "if", either, "else", either),
        _join(either, "in", either, "..", either),
        _join(either, "is", st.sampled_from(["", "not"]), st.one_of(NAMES, st.just("none"))),
        _join(either, ".", WORDS),
        _join("option", ".", WORDS),
        op_name,
        _join(either, "[", inner, "]"),
        _join(either, "[", st.one_of(st.just(""), either), ":", st.one_of(st.just(""), either), "]"),
        _join("[", _many(inner, ","), "]"),
        _join("{", _many(inner, ","), "}"),
        _join(NAMES, "(", _many(inner, ","), ")"),
        _join(NAMES, "(", argument, ")"),
    )  # fmt: skip


EXPRESSIONS = st.recursive(st.one_of(NAMES, LITERALS, st.just('x"00fF"')), _expressions, max_leaves=6)

CALLEES = st.sampled_from(["aten.relu.default", "f", "_", "{aten.{a,b}.c, d}", "aten.{if,b}.in"])


def _terms(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    item = st.one_of(inner, _join("*", inner))
    argument = st.one_of(item, _join(WORDS, ":", inner))
    group = _join("(", _many(st.one_of(inner, _join(inner, "with", NAMES, "=", NUMBERS)), "|", 1), ")")
    call = _join(CALLEES, "(", _many(argument, ","), ")")
    return st.one_of(
        call, call, group,
        _join("shared", inner),
        _join(st.one_of(NAMES, group, call), "?"),
        _join(st.one_of(NAMES, group, call), "[", st.sampled_from(["0", "1"]), "]"),
        _join("[", _many(item, ","), "]"),
        _join("through", "{", _many(st.sampled_from(["a.b", "ops1"]), ","), "}", "(", inner, ")"),
    )  # fmt: skip


_LEAVES = st.one_of(NAMES, st.sampled_from(["_", "1", "-2.5", '"s"', "true", "none", "-inf", "nan", "float16"]))
TERMS = st.recursive(_LEAVES, _terms, max_leaves=5)

BECAUSE = st.one_of(st.just(""), _join("because", STRINGS))
BINDINGS = _join(NAMES, "=", TERMS)
BLOCKS = _join("{", BINDINGS, st.one_of(st.just(""), BINDINGS), "}")
NAME_LISTS = _many(NAMES, ",", 1)
PARAMETERS = _join("(", _many(NAMES, ","), ")")
REQUIRES = _join("require", EXPRESSIONS, BECAUSE)
LETS = _join("let", NAMES, st.one_of(st.just(""), PARAMETERS), "=", EXPRESSIONS)
EMITS = _join("emit", st.one_of(NAMES, STRINGS), "=", EXPRESSIONS)


def _values(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    call = _join(st.sampled_from(["f", "a.b.c"]), "(", _many(st.one_of(inner, _join(WORDS, ":", inner)), ","), ")")
    return st.one_of(_join("[", _many(inner, ","), "]"), call)


VALUES = st.recursive(
    st.sampled_from(["float32[2,s]", "constant int8[]", "y", "y[0]", "int8", "-1", "none", '"s"', "1.5", "true"]),
    _values, max_leaves=5,
)  # fmt: skip
CALLS = _join(st.sampled_from(["f", "a.b.c"]), "(", _many(VALUES, ","), ")")
STEPS = _join("{", "y", "=", CALLS, st.one_of(st.just(""), _join("z", "=", CALLS), CALLS), "}")
OPTIONS = st.one_of(st.just(""), _join("with", NAMES, "=", EXPRESSIONS), _join("with a = 1 ,", NAMES, "=", LITERALS))
EXAMPLES = _join(st.sampled_from(["accepts", "rejects"]), st.one_of(CALLS, STEPS), OPTIONS, BECAUSE)

CLAUSES = st.one_of(
    REQUIRES, LETS, EMITS, EXAMPLES,
    _join(st.sampled_from(["match", "given"]), st.one_of(BINDINGS, BLOCKS, _join(BLOCKS, "|", BLOCKS))),
    _join("when", EXPRESSIONS),
    _join("take", NAME_LISTS, st.one_of(st.just(""), _join("if", EXPRESSIONS))),
    _join("mark", NAME_LISTS, "as", STRINGS),
)  # fmt: skip


def _body(clauses: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return _join("{", st.lists(clauses, max_size=3).flatmap(lambda items: _join(*items) if items else st.just("")), "}")


TYPES = st.one_of(
    st.sampled_from(["bool", "int", "float", "str", "set of int"]),
    _join("set of", "{", _many(st.one_of(NAMES, STRINGS), ",", 1), "}"),
)
DOCS = st.one_of(st.just(""), STRINGS)
ROLES = _join("(", _many(st.one_of(NAMES, _join(NAMES, "?")), ","), ")")
COMPUTED = _join(TERMS, "with", NAMES, "=", st.one_of(NUMBERS, _join("a", "+", "b")))
ALTERNATIVES = _many(st.one_of(TERMS, COMPUTED), "|", 1)

STATEMENTS = st.one_of(
    _join("backend", IDS, "language", "1", DOCS),
    _join("use", STRINGS),
    _join("declare", STRINGS),
    _join("option", WORDS, ":", TYPES, "=", EXPRESSIONS, DOCS),
    _join("meta", WORDS, ":", TYPES, "=", STRINGS),
    _join("ops", NAMES, "=", EXPRESSIONS),
    LETS,
    EMITS,
    _join("pattern", NAMES, ROLES, "=", ALTERNATIVES),
    _join("contract", NAMES, PARAMETERS, _body(st.one_of(REQUIRES, LETS))),
    _join("extern", NAMES, PARAMETERS, st.one_of(st.just(""), _join(":", TYPES)), DOCS),
    _join("disjoint", NAMES, ",", NAMES),
    _join("rule", NAMES, st.one_of(st.just(""), _join("over", NAME_LISTS)), DOCS, _body(CLAUSES)),
    _join("invariant", NAMES, DOCS, _body(st.one_of(REQUIRES, LETS))),
    _join("partition", _body(st.one_of(
        LETS, _join(NAMES, "=", EXPRESSIONS), _join(st.sampled_from(["trim", "reject"]), EXPRESSIONS, BECAUSE)))),
    _join("preserve", st.sampled_from(["claimed | c", "{a.b}"]), st.sampled_from(["|", "-"]), "{a.b}"),
)  # fmt: skip

FILES = st.lists(STATEMENTS, max_size=4).flatmap(
    lambda items: _join(st.one_of(st.just(""), COMMENTS.map(lambda text: text + "\n")), *items, st.just("\n"))
)
