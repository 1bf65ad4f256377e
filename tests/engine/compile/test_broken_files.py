"""A file with errors of syntax is still checked: what is whole in it, and nothing that only follows from the errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.engine.errors import RulesError
from apportion.engine.load import load_rules, parse_rules

SHIPPED = load_rules("xnnpack").sources[0].text
TOKENS = [match.span() for match in re.finditer(r"\w+|[^\w\s]", re.sub(r"#.*", lambda m: " " * len(m[0]), SHIPPED))]


def _codes(text: str) -> list[str]:
    try:
        parse_rules(text, "broken.rules")
    except RulesError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


def _agree(count: int) -> None:
    @settings(max_examples=count, deadline=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(TOKENS), st.sampled_from(["", "{", "}", "(", ")", "=", "rule", " rule ", "@", '"', "."]))
    def check(token: tuple[int, int], instead: str) -> None:
        start, end = token
        codes = _codes(SHIPPED[:start] + instead + SHIPPED[end:])
        if "A001" in codes:
            assert set(codes) == {"A001"}, "the rest of the file is right"

    check()


def test_nothing_follows_from_an_error_of_syntax() -> None:
    _agree(15)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_nothing_follows_from_many_errors_of_syntax() -> None:
    _agree(2000)


@pytest.mark.parametrize("right, wrong", [
    ('use "std/quant"', '"std/quant"'), ('use "std/quant"', '{ "std/quant"'), ('use "std/quant"', 'rule "std/quant"'),
    ('use "std/quant"', ' rule  "std/quant"'),
    ('use "std/quant"', 'use .std/quant"'), ('use "std/quant"', '" "std/quant"'),
    ("option per_op_mode: bool", '" per_op_mode: bool'), ("option per_op_mode: bool", "{ per_op_mode: bool"),
    ("option per_op_mode: bool", "option per_op_mode rule bool"), ("ops dqs =", "ops rule ="), ("ops dqs =", "ops ="),
    ("option per_op_mode: bool", "option per_op_moderulebool"), ("option per_op_mode: bool", "optionper_op_mode: bool"),
])
def test_nothing_follows_from_what_these_break(right: str, wrong: str) -> None:
    assert right in SHIPPED
    assert set(_codes(SHIPPED.replace(right, wrong, 1))) == {"A001"}


def test_what_is_whole_is_checked() -> None:
    text = """backend "Test" language 1
rule one { match y = aten.relu.default(x) require x.rnak == 4 }
rule two { match y = aten.neg.default(x) require x.rank == }
rule three { match y = aten.abs.default(x) require x.rank == "4" }
"""
    assert _codes(text) == ["A005", "A001", "A004"]


def test_names_of_broken_statements_are_not_missed() -> None:
    text = """backend "Test" language 1
let most =
ops few = {aten.relu.default
rule one { match y = few(x) require x.rank <= most and x.rank <= least }
"""
    assert _codes(text) == ["A001", "A001", "A005"]


def test_nothing_is_missed_of_a_file_that_is_not_there() -> None:
    text = """backend "Test" language 1
use "nowhere"
rule one { match y = few(x) require x.rank <= most and x.dtype == 3 }
"""
    assert _codes(text) == ["A010", "A004"]
