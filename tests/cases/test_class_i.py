"""Public reports about rule languages and their errors, by their ids."""

from __future__ import annotations

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags


def messages(text: str) -> list[str]:
    with pytest.raises(engine.RulesError) as raised:
        engine.parse_rules(text, name="bad.rules")
    return [str(d) for d in raised.value.diagnostics]


def test_I1_a_message_has_place_source_caret_and_plain_words() -> None:
    (message,) = messages(header("rule r { match y = aten.relu.default(x  require x.rank == 2 }"))
    assert "--> bad.rules:2:" in message
    assert "^" in message
    assert "require" in message
    for internal in ("RPAR", "LBRACE", "NAME", "Token(", "{'", "__ANON"):
        assert internal not in message


@pytest.mark.parametrize("word", ["match", "require", "rule", "in", "partition", "emit"])
def test_I4_keywords_are_no_names_and_the_message_is_always_the_same(word: str) -> None:
    first = messages(header(f"let {word} = 3"))[0].splitlines()[0]
    second = messages(header(f"rule {word} {{ match y = aten.relu.default(x) }}"))[0].splitlines()[0]
    assert word in first
    assert first == second


def test_I4_op_names_that_begin_with_keywords_parse() -> None:
    rules = engine.parse_rules(header("rule r { match y = aten.{index_select,isnan,any,all,nan_to_num}.default(x) }"))
    assert "aten.isnan.default" in rules.rules[0].pattern.mentioned


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_I6_the_line_is_right_after_long_constructs(newline: str) -> None:
    text = newline.join(
        [
            'backend "B" language 1',
            "ops many = {",
            "  aten.relu.default,",
            "  aten.sin.default",
            "}",
            "",
            "rule r {",
            "  match y = many(x)",
            "  require x.rnak == 2",
            "}",
        ]
    )
    (message,) = messages(text)
    assert "bad.rules:9:" in message
    assert "`x.rank`" in message or "`rank`" in message


def test_I7_a_percent_sign_and_a_name_like_it_coexist() -> None:
    rules = engine.parse_rules(
        header("let percent = 5 rule r { match y = aten.relu.default(x) require x.numel % percent == 0 }")
    )
    program = exported(lambda x: torch.relu(x), torch.randn(10))
    engine.partition(program, rules)
    assert tags(program)


def test_I11_an_unknown_attribute_or_option_names_the_nearest() -> None:
    text = header("rule r { match y = aten.relu.default(x) require x.dytpe == float32 require option.fast }")
    joined = "\n".join(messages(text))
    assert "`dtype`" in joined
    assert "fast" in joined


@pytest.mark.parametrize(
    ("op", "found"),
    [
        ("aten.sum.dim_IntLst", "aten.sum.dim_IntList"),
        ("aten.rellu.default", "aten.relu.default"),
        ("aten.sum.vec", "aten.sum."),
    ],
)
def test_I12_a_misspelt_op_lists_real_ones(op: str, found: str) -> None:
    assert found in messages(header(f"rule r {{ match y = {op}(x) }}"))[0]


def test_I12_a_packet_means_every_overload_and_an_overload_itself() -> None:
    program = exported(lambda x: (x + 1, torch.sum(x), torch.sum(x, 0)), torch.randn(3, 3), decompose=False)
    engine.partition(program, engine.parse_rules(header("rule r { match y = aten.sum(x) }")))
    assert len(tags(program)) == 2
    engine.partition(program, engine.parse_rules(header("rule r { match y = aten.sum.dim_IntList(x) }")))
    assert len(tags(program)) == 1


def test_I12_an_op_of_a_library_of_ones_own() -> None:
    with torch.library._scoped_library("acme_cases", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        program = exported(lambda x: torch.ops.acme_cases.twice(x), torch.randn(3), decompose=False)
        engine.partition(program, engine.parse_rules(header("rule r { match y = acme_cases.twice.default(x) }")))
        assert tags(program)


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("rule r { match y = aten.relu.default(x)", ["}"]),  # a brace that is missing
        ("rule r { match y = aten.relu.default(x) require x.rank = 2 }", ["=="]),
        ("rule r { match y = aten.relu.default(x) require x.rank == 2 && x.numel > 0 }", ["and"]),
        ("rule r { match y = aten.relu.default(x) require !x.rank }", ["not"]),
        ("rule r { match y = aten.relu.default(x) require x is None }", ["none"]),
        ("rule r { match y = aten.relu.default(x) require x.dtype == torch.float32 }", ["float32"]),
        ("rule r { match y = aten.relo.default(x) }", ["aten.relu"]),
        ("rule r { match y = aten.relu.default(x) require x.rnak == 2 }", ["rank"]),
        ("rule r { match y = aten.relu.default(x) require w is constant }", ["w"]),
        ("rule r { match y = aten.relu.default(x) require x.dtype == 'float32' }", ['"']),
    ],
)
def test_I2_classic_mistakes_get_a_hint_of_their_own(text: str, hints: list[str]) -> None:
    said = "\n".join(messages(header(text)))
    explained = "\n".join(line for line in said.splitlines() if not line.lstrip()[:1].isdigit())  # without the source
    assert all(hint in explained for hint in hints), said
    assert "--> bad.rules:2:" in said


def test_I2_hints_differ() -> None:
    texts = ["require x.rank = 2", "require x.rank == 2 && true", "require !true", "require x is None"]
    said = {messages(header(f"rule r {{ match y = aten.relu.default(x) {t} }}"))[0].splitlines()[0] for t in texts}
    assert len(said) == len(texts)
