"""Reading texts: trees, spans, names and keywords, limits."""

from __future__ import annotations

import time

import pytest

from apportion.grammar import tree
from apportion.grammar.parse import MAX_CHARACTERS, build_parser, keywords, parse, parse_expression
from apportion.grammar.walk import walk
from tests.grammar.texts import ACME, EVERYTHING, SHIPPED


def read(text: str) -> tree.File:
    result = parse(text)
    assert result.file is not None, "\n".join(map(str, result.diagnostics))
    return result.file


def only(text: str) -> tree.Node:
    (statement,) = read(text).statements
    return statement


def expression(text: str) -> tree.Expr:
    found, diagnostics = parse_expression(text)
    assert found is not None, "\n".join(map(str, diagnostics))
    return found


def plain(node: object) -> str:
    """A short form of an expression that shows how it was grouped."""
    match node:
        case tree.Literal(value=value):
            return repr(value)
        case tree.Name(id=name):
            return name
        case tree.Unary(op=op, operand=operand):
            return f"({op} {plain(operand)})"
        case tree.Binary(op=op, left=left, right=right):
            return f"({plain(left)} {op} {plain(right)})"
        case tree.BoolOp(op=op, operands=operands):
            return "(" + f" {op} ".join(map(plain, operands)) + ")"
        case tree.Compare(left=left, ops=ops, rights=rights):
            return "(" + plain(left) + "".join(f" {op} {plain(r)}" for op, r in zip(ops, rights, strict=True)) + ")"
        case tree.RangeExpr(low=low, high=high):
            return f"{plain(low)}..{plain(high)}"
        case tree.IsKind(value=value, kind=kind, negated=negated):
            return f"({plain(value)} is {'not ' if negated else ''}{kind})"
        case tree.Conditional(then=then, condition=condition, otherwise=otherwise):
            return f"({plain(then)} if {plain(condition)} else {plain(otherwise)})"
        case tree.Attribute(value=value, name=name):
            return f"{plain(value)}.{name}"
        case tree.Index(value=value, index=index):
            return f"{plain(value)}[{plain(index)}]"
    return repr(node)


def test_the_grammar_has_no_conflicts() -> None:
    pytest.importorskip("interegular")
    build_parser(strict=True)


def test_the_complete_example() -> None:
    file = read(ACME)
    kinds = [type(statement).__name__ for statement in file.statements]
    assert kinds == [
        "BackendDecl", "Use", "OptionDecl", "OptionDecl", "OpsDecl", "Let", "Contract", "Rule", "Rule", "Emit",
        "Rule", "Rule", "Invariant", "PartitionBlock",
    ]  # fmt: skip
    assert len(file.comments) == ACME.count("#")
    rule = file.statements[7]
    assert isinstance(rule, tree.Rule)
    assert (rule.name, rule.name_span.text, rule.span.line) == ("conv2d", "conv2d", 19)
    assert [type(clause).__name__ for clause in rule.body].count("Require") == 8


def test_every_class_of_the_tree_can_be_read() -> None:
    """No node without a text that gives it."""
    seen = {type(node) for node, _ in walk(read(EVERYTHING))}
    abstract = {tree.Node, tree.Because}
    every = {c for c in vars(tree).values() if isinstance(c, type) and issubclass(c, tree.Node)} - abstract
    assert every - seen == set()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files(path) -> None:  # type: ignore[no-untyped-def]
    read(path.read_text(encoding="utf-8"))


def test_spans_are_what_was_written() -> None:
    for node, _ in walk(read(EVERYTHING)):
        if isinstance(node, tree.File):
            continue
        text = node.span.text
        assert text == text.strip()
        if isinstance(node, (tree.Name, tree.VariableTerm)):
            assert text.strip("()") == (node.id if isinstance(node, tree.Name) else node.name)
        if isinstance(node, tree.Require):
            assert text.startswith("require ")
    condition = expression("(a + b) * c")
    assert isinstance(condition, tree.Binary)
    assert (condition.span.text, condition.left.span.text) == ("(a + b) * c", "(a + b)")


def test_children_lie_inside_their_parents() -> None:
    pending: list[tree.Node] = [read(EVERYTHING)]
    from apportion.grammar.walk import children

    while pending:
        node = pending.pop()
        for child in children(node):
            assert node.span.start <= child.span.start <= child.span.end <= node.span.end
            pending.append(child)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a implies b implies c", "(a implies (b implies c))"),
        ("a or b implies c or d", "((a or b) implies (c or d))"),
        ("a and b or c and not d", "((a and b) or (c and (not d)))"),
        ("not a == b", "(not (a == b))"),
        ("not not a", "(not (not a))"),
        ("a < b <= c", "(a < b <= c)"),
        ("a not in b", "(a not in b)"),
        ("a in 1..n + 1", "(a in 1..(n + 1))"),
        ("a in 3..4 and b", "((a in 3..4) and b)"),
        ("a not in 3..4", "(a not in 3..4)"),
        ("x is constant or x is not none", "((x is constant) or (x is not none))"),
        ("a | b - c", "(a | (b - c))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a * b", "((- a) * b)"),
        ("- -a", "(- (- a))"),
        ("a + b * c % d // e", "(a + (((b * c) % d) // e))"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("a implies b if c else d", "((a implies b) if c else d)"),
        ("-a.b[0]", "(- a.b[0])"),
        ("a.match.if", "a.match.if"),
        ("1.5 + 2. + 1e3 + 0x1F + 1_000", "((((1.5 + 2.0) + 1000.0) + 31) + 1000)"),
        ("x in 1.5..2.5", "(x in 1.5..2.5)"),
        ('x"00fF"', "b'\\x00\\xff'"),
        (r'"a\"\\\n\x41é"', "'a\"\\\\\\nAAé'".replace("AA", "A")),
        ("inf", "inf"),
        ("matches + ruler + inner + notes", "(((matches + ruler) + inner) + notes)"),
        ("percent % percent", "(percent % percent)"),
    ],
)
def test_expressions(text: str, grouped: str) -> None:
    assert plain(expression(text)) == grouped


def test_slices_and_calls() -> None:
    slices = [expression(f"x[{inner}]") for inner in (":", "1:", ":2", "1:2", "::3", "1:2:3")]
    parts = [
        tuple(None if part is None else plain(part) for part in (s.low, s.high, s.step))
        for s in slices
        if isinstance(s, tree.Slice)
    ]
    assert parts == [
        (None, None, None), ("1", None, None), (None, "2", None), ("1", "2", None), (None, None, "3"), ("1", "2", "3")
    ]  # fmt: skip
    call = expression("all(a if b else c for x, _ in zip(p, q) or r for y in z if x and y)")
    assert isinstance(call, tree.Call)
    (comprehension,) = call.arguments
    assert isinstance(comprehension, tree.Comprehension)
    assert [clause.targets for clause in comprehension.clauses] == [("x", "_"), ("y",)]
    assert comprehension.condition is not None


def test_names_of_ops() -> None:
    ops = only("ops a = {aten.{abs,neg}.default, x.y.{z}, b, in.is.not}")
    assert isinstance(ops, tree.OpsDecl)
    assert isinstance(ops.value, tree.SetExpr)
    first, second, third, fourth = ops.value.items
    assert isinstance(first, tree.OpExpansion)
    assert first.segments == (("aten",), ("abs", "neg"), ("default",))
    assert isinstance(second, tree.OpExpansion)
    assert second.segments == (("x",), ("y",), ("z",))
    assert isinstance(third, tree.Name)
    assert plain(fourth) == "in.is.not"


def test_patterns() -> None:
    pattern = only("pattern p(x, b?) = T(x) with b = e[2] - 1 | (U(x)? | shared V(*xs))[0]")
    assert isinstance(pattern, tree.PatternDecl)
    assert [(role.name, role.optional) for role in pattern.parameters] == [("x", False), ("b", True)]
    assert isinstance(pattern.term, tree.Alternatives)
    computed, element = pattern.term.terms
    assert isinstance(computed, tree.WithTerm)
    assert plain(computed.value) == "(e[2] - 1)"
    assert isinstance(element, tree.ElementTerm)
    assert isinstance(element.term, tree.Alternatives)
    optional, shared = element.term.terms
    assert isinstance(optional, tree.OptionalTerm)
    assert isinstance(shared, tree.SharedTerm)


def test_match_in_short() -> None:
    short, long = (only(f"rule r {{ {text} }}") for text in ("match y = f(x)", "match { y = f(x) }"))
    assert short == long


def test_alternatives_of_a_binding_need_no_parentheses() -> None:
    assert only("rule r { match y = f(x) | g(x) }") == only("rule r { match { y = (f(x) | g(x)) } }")


def test_examples_tell_steps_from_dtypes() -> None:
    rule = only("rule r { match y = f(x) accepts { y = f(float32[2], int8)  z = g(y, y[1], int8[1], [y], k(y)) } }")
    assert isinstance(rule, tree.Rule)
    example = rule.body[1]
    assert isinstance(example, tree.Example)
    kinds = [type(value).__name__ for _, value in example.steps[1].call.arguments]
    assert kinds == ["Name", "Index", "ExampleTensor", "ExampleList", "ExampleCall"]
    tensor = example.steps[0].call.arguments[1][1]
    assert tensor == tree.ExampleTensor(span=tensor.span, dtype="int8", shape=None, kind=None)


def test_types() -> None:
    option = only('option o: set of {a, "b c"} = {"a"}')
    assert isinstance(option, tree.OptionDecl)
    assert (option.type.name, option.type.choices, option.type.is_set) == ("enum", ("a", "b c"), True)
    extern = only("extern f(a): list of int")
    assert isinstance(extern, tree.ExternDecl)
    assert extern.type is not None
    assert (extern.type.name, extern.type.is_list) == ("int", True)


def test_preserve_is_read_in_order() -> None:
    preserve = only("preserve claimed | {a.b} - {c.d} | e")
    assert isinstance(preserve, tree.Preserve)
    assert (preserve.claimed, [op for op, _ in preserve.changes]) == (True, ["|", "-", "|"])
    preserve = only("preserve {a.b} - {c.d}")
    assert isinstance(preserve, tree.Preserve)
    assert (preserve.claimed, [op for op, _ in preserve.changes]) == (False, ["|", "-"])


def test_white_space_and_comments_mean_nothing() -> None:
    squeezed = 'rule r"doc"{match y=f(x)require y.a==1because"b"take w}'
    spread = (
        '# a\n rule r\n\t"doc"\r\n{ # b\r match\ny = f ( x )\n\nrequire y . a\n'
        '==\n1 # c\nbecause # d\n"b"\ntake\nw }#e'
    )
    assert read(squeezed) == read(spread)
    assert [text for _, text in read(spread).comments] == ["# a", "# b", "# c", "# d", "#e"]
    assert read("\ufefflet\u00a0a = 1") == read("let a = 1")


@pytest.mark.parametrize("word", sorted(keywords()))
def test_i4_every_keyword_is_refused_as_a_name_in_the_same_words(word: str) -> None:
    for template in (
        "rule {} {{ match y = f(x) }}", "let {} = 3", "rule r {{ match {{ {} = f(x) }} }}", "pattern p({}) = f(x)",
        "ops {} = {{a.b}}", "contract {}(n) {{ require n.a }}", "rule r {{ match y = f(x) take {} }}",
    ):  # fmt: skip
        found = [d.message for d in parse(template.format(word)).diagnostics]
        assert found[0] == f"`{word}` is a keyword and can't be a name", (template, found)


@pytest.mark.parametrize("word", sorted(keywords()))
def test_i4_keywords_are_names_where_the_language_says_so(word: str) -> None:
    read(
        f"ops o = {{aten.{word}.default, aten.{{{word},b}}.{word}}} option {word}: int = 3 meta {word}: int = \"a\"\n"
        f"rule r {{ match y = aten.{word}(x, {word}: a, b) require y.{word} == option.{word} and n.meta.{word}\n"
        f"accepts aten.{word}(float32[2], {word}: 3) }} let {word}x = 3 let x{word} = x{word}_"
    )  # fmt: skip


def test_empty_texts() -> None:
    for text in ("", " \n", "# only a comment"):
        file = read(text)
        assert file.statements == ()


def test_too_long_a_text() -> None:
    result = parse("#" * (MAX_CHARACTERS + 1))
    assert result.file is None
    assert [d.code for d in result.diagnostics] == ["A011"]


@pytest.mark.parametrize(
    "text",
    [
        "let a = " + "(" * 101 + "1" + ")" * 101,
        "let a = " + "[" * 3000,
        "let a = 1" + " + a" * 5000,
        "let a = x" + ".b" * 5000,
        "let a = " + "not " * 5000 + "b",
        "let a = " + "-" * 50_000 + "1",
        "let a = " + "1 if 2 else " * 5000 + "3",
        "let a = b" + " implies b" * 5000,
        "rule r { match y = " + "f(" * 101 + "x" + ")" * 101 + "}",
        "rule r { match y = x" + "?" * 500 + "}",
        "rule r { match y = " + "shared " * 5000 + "x }",
    ],
)
def test_deep_texts_are_refused_in_words(text: str) -> None:
    result = parse(text)
    assert [d.code for d in result.diagnostics] == ["A011"]
    assert len(str(result.diagnostics[0])) < 2000


def test_long_flat_texts_are_fine() -> None:
    read("let a = " + " and ".join(["b"] * 2000))
    read("let a = " + " < ".join(["b"] * 2000))
    read("ops a = {" + ", ".join(["a.b.c"] * 2000) + "}")
    read("rule r { match { " + " ".join(f"y{i} = f(y{i + 1})" for i in range(2000)) + " } }")
    read("let a = " + "(" * 100 + "1" + ")" * 100)


def test_a_long_file_is_read_fast() -> None:
    text = next(path for path in SHIPPED if path.name == "xnnpack.rules").read_text(encoding="utf-8")
    read("")
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 1


def test_errors_have_the_place_in_the_text() -> None:
    result = parse("let a = [\r\n  1\r\n]\r\nlet b = = 3\r\n", "x.rules")
    (diagnostic,) = result.diagnostics
    assert str(diagnostic.span) == "x.rules:4:9"


def test_errors_come_in_the_order_of_the_text() -> None:
    result = parse("let a = = 1\nlet b = 'x'\nlet c = = 2\nlet d := 4\n")
    assert [d.span.line for d in result.diagnostics if d.span is not None] == [1, 2, 3, 4]
