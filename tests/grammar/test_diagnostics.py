"""Places in texts and how findings are shown."""

from __future__ import annotations

import pytest

from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest


def test_lines_end_in_three_ways() -> None:
    source = Source("s", "a\nbc\r\nd\re")
    assert [source.line_column(at) for at in (0, 1, 2, 4, 5, 6, 7, 8, 9)] == [
        (1, 1), (1, 2), (2, 1), (2, 3), (2, 4), (3, 1), (3, 2), (4, 1), (4, 2),
    ]  # fmt: skip
    assert [source.line_text(line) for line in range(1, 5)] == ["a", "bc", "d", "e"]
    assert source.line_column(-3) == (1, 1)
    assert source.line_column(99) == (4, 2)
    assert (Source("s", "").line_column(0), Source("s", "").line_count) == ((1, 1), 1)


def test_spans() -> None:
    span = Span(Source("a/b.rules", "one\ntwo three\nfour"), 8, 16)
    assert str(span) == "a/b.rules:2:5"
    assert (span.text, span.line, span.column, span.end_line, span.end_column) == ("three\nfo", 2, 5, 3, 3)
    assert span.to(Span(span.source, 17, 18)).text == "three\nfour"


def test_a_finding_with_everything() -> None:
    text = "\n" * 11 + 'rule conv2d "2-D convolution" {\n}\n' + "\n" * 26 + "rule conv_any {"
    source = Source("acme.rules", text)
    first, second = text.index("rule conv2d"), text.index("rule conv_any")
    shown = str(
        Diagnostic(
            "A101", Severity.error, "rules `conv2d` and `conv_any` both claim this node",
            Span(source, first, first + 11), "claims it", (Label(Span(source, second, second + 13), "also claims it"),),
            (("witness", "aten.convolution.default(…)"), "two\nlines"), "write `rule conv2d over conv_any`",
        )  # fmt: skip
    )
    assert shown == """\
error[A101]: rules `conv2d` and `conv_any` both claim this node
  --> acme.rules:12:1
   |
12 | rule conv2d "2-D convolution" {
   | ^^^^^^^^^^^ claims it
  ::: acme.rules:40:1
40 | rule conv_any {
   | ------------- also claims it
   = witness: aten.convolution.default(…)
   = note: two
           lines
   = help: write `rule conv2d over conv_any`"""


@pytest.mark.parametrize(
    ("text", "marked", "lines"),
    [
        ("\tlet a", "a", ["1 |     let a", "  |         ^"]),
        ("漢 字 x", "x", ["1 | 漢 字 x", "  |       ^"]),
        ("a\x1b[31m b", "b", ["1 | a�[31m b", "  |        ^"]),
        ("e\u0301 x", "x", ["1 | e\u0301 x", "  |   ^"]),
        ("abc\ndef", "c\nd", ["1 | abc", "  |   ^"]),
        (
            "x" * 500 + " here " + "y" * 500, "here",
            ["1 | …" + "x" * 52 + " here " + "y" * 102 + "…", "  | " + " " * 54 + "^^^^"],
        ),
    ],
)  # fmt: skip
def test_carets(text: str, marked: str, lines: list[str]) -> None:
    at = text.rindex(marked)
    shown = str(Diagnostic("A001", Severity.warning, "m", Span(Source("s", text), at, at + len(marked))))
    assert shown.split("\n")[3:] == lines


def test_without_a_place() -> None:
    assert str(Diagnostic("A010", Severity.note, "nothing here", help="h")) == "note[A010]: nothing here\n  = help: h"


def test_nearest() -> None:
    known = ["convolution", "relu", "relu6", "float32", "float64", "min_nodes"]
    assert nearest("convolutoin", known) == ["convolution"]
    assert nearest("Float32", known)[0] == "float32"
    assert nearest("minNodes", known) == ["min_nodes"]
    assert nearest("relo", known, 1) == ["relu"]
    assert nearest("zzz", known) == []
    assert nearest("x", []) == []
