"""Programs and arguments that can't be meant: one clear message each, nothing lost, never a bare traceback's error."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags

RELU = header(
    'option fast: bool = false option modes: set of {a, b} = {"a"} rule relu { match y = aten.relu.default(x) }'
)


def program() -> torch.export.ExportedProgram:
    return exported(lambda x: torch.relu(x), torch.randn(3))


def relu(**options: object) -> engine.RuleSet:
    return engine.parse_rules(RELU, name="relu.rules", options=options)


CASES: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    (
        "a module that was not exported",
        lambda: engine.partition(torch.nn.ReLU(), relu()),
        engine.ProgramError,
        "a torch.nn.modules.activation.ReLU is no program that can be partitioned; "
        "export it first: torch.export.export(model, example_inputs)",
    ),
    (
        "a path instead of a program",
        lambda: engine.partition("model.pt2", relu()),
        engine.ProgramError,
        "a builtins.str is no program that can be partitioned; load it first: torch.export.load(path)",
    ),
    (
        "nothing",
        lambda: engine.partition(None, relu()),
        engine.ProgramError,
        "a builtins.NoneType is no program that can be partitioned; "
        "give an ExportedProgram, a GraphModule with metadata, or a dict of them",
    ),
    (
        "no methods",
        lambda: engine.partition({}, relu()),
        engine.ProgramError,
        "a dict of methods without any method; give at least one program",
    ),
    (
        "a method that is no program",
        lambda: engine.partition({"forward": program(), "other": 3}, relu()),
        engine.ProgramError,
        "a builtins.int is no program that can be partitioned; "
        "give an ExportedProgram, a GraphModule with metadata, or a dict of them",
    ),
    (
        "no rules",
        lambda: engine.partition(program(), []),
        engine.ProgramError,
        "no rules were given; name a shipped file, a path, or a loaded rule set",
    ),
    (
        "something that is no rules",
        lambda: engine.partition(program(), [3]),
        engine.ProgramError,
        "3 is no rules; give a shipped name, a path, or what load_rules gives",
    ),
    (
        "a number for rules",
        lambda: engine.partition(program(), 3),
        engine.ProgramError,
        "3 is no rules; give a shipped name, a path, or what load_rules gives",
    ),
    (
        "an option that is not there",
        lambda: engine.partition(program(), relu(), options={"fats": True}),
        engine.OptionError,
        "there is no option `fats` in relu.rules; did you mean `fast`?",
    ),
    (
        "an option of no backend",
        lambda: engine.partition(program(), relu(), options={"Other.fast": True}),
        engine.OptionError,
        "there is no option `Other.fast` in relu.rules; the backends are called `Test`",
    ),
    (
        "a rule that is not there",
        lambda: engine.partition(program(), relu(), without_rules="rellu"),
        engine.OptionError,
        "there is no rule `rellu` in relu.rules; did you mean `relu`?",
    ),
    (
        "strict with a node left",
        lambda: engine.partition(exported(lambda x: torch.sin(x), torch.randn(3)), relu(), strict=True),
        engine.StrictError,
        "1 of 1 nodes were not delegated:\n  sin (aten.sin.default): no rule of Test names aten.sin.default",
    ),
    (
        "options that are no dict",
        lambda: engine.partition(program(), relu(), options="fast=true"),  # type: ignore[arg-type]
        engine.OptionError,
        "options are a dict of values by name, not 'fast=true'",
    ),
    (
        "an option whose name is no text",
        lambda: engine.parse_rules(RELU, options={1: True}),  # type: ignore[dict-item]
        engine.OptionError,
        "options are a dict of values by name, not {1: True}",
    ),
    (
        "an excluded node that is no text",
        lambda: engine.partition(program(), relu(), exclude=[3]),  # type: ignore[list-item]
        engine.OptionError,
        "exclude is a string or several, not [3]",
    ),
    (
        "a number of rules",
        lambda: engine.partition(program(), relu(), with_rules=3),  # type: ignore[arg-type]
        engine.OptionError,
        "with_rules is a string or several, not 3",
    ),
    (
        "compile specs that are none",
        lambda: engine.partition(program(), relu(), compile_specs=[("k", b"v")]),  # type: ignore[list-item]
        engine.OptionError,
        "compile_specs are a sequence of CompileSpec, or such by backend id, not [('k', b'v')]",
    ),
    (
        "compile specs of a backend that are none",
        lambda: engine.partition(program(), relu(), compile_specs={"Test": 3}),  # type: ignore[dict-item]
        engine.OptionError,
        "compile_specs are a sequence of CompileSpec, or such by backend id, not {'Test': 3}",
    ),
    (
        "compile specs of another backend",
        lambda: engine.partition(program(), relu(), compile_specs={"Tast": []}),
        engine.OptionError,
        "compile_specs for `Tast`, which none of the rules is about; did you mean `Test`?",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_message(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("name", "value"), [("fast", "yes"), ("fast", 1), ("modes", {"c"}), ("modes", "a"), ("modes", 3)]
)
def test_a_value_that_an_option_cannot_take(name: str, value: object) -> None:
    with pytest.raises(engine.OptionError) as raised:
        engine.partition(program(), relu(), options={name: value})
    assert str(raised.value).startswith(f"option {name} is a ")


def test_rules_given_twice_are_one_backend() -> None:
    report = engine.partition(program(), [relu(), relu()]).report
    assert [one.backend_id for one in report.coverage] == ["Test"]


def test_rules_that_are_not_there() -> None:
    with pytest.raises(engine.RulesNotFoundError) as raised:
        engine.partition(program(), "xnnpak")
    assert "did you mean `xnnpack`?" in str(raised.value)


def test_rules_without_a_name_or_text() -> None:
    with pytest.raises(engine.RulesNotFoundError, match="the name of a rules file is empty"):
        engine.load_rules("")
    with pytest.raises(TypeError, match="the text of rules is a str, not bytes"):
        engine.parse_rules(b"backend")  # type: ignore[arg-type] # what is tested


def test_a_predicate_is_a_function() -> None:
    with pytest.raises(engine.PredicateError, match="registered for a function, not for 3"):
        engine.predicate("three")(3)  # type: ignore[type-var] # what is tested


def test_a_library_is_no_backend() -> None:
    with pytest.raises(engine.RulesError) as raised:
        engine.partition(program(), "std/quant")
    assert "library" in str(raised.value)


def test_a_pattern_that_means_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="apportion"):
        engine.partition(program(), relu(), exclude=["layer9.*"])
    assert "`layer9.*`" in caplog.text


def test_few_claimed_nodes_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def mostly_sines(x):
        for _ in range(9):
            x = torch.sin(x)
        return torch.relu(x)

    with caplog.at_level(logging.WARNING, logger="apportion"):
        result = engine.partition(exported(mostly_sines, torch.randn(3)), relu())
    assert "1 of 10 nodes claimed (10%)" in caplog.text
    assert result.report.coverage[0].nodes == ("relu",)


def test_an_error_leaves_the_tags_of_an_earlier_run() -> None:
    one = program()
    engine.partition(one, relu())
    before = dict(tags(one))
    with pytest.raises(engine.OptionError):
        engine.partition(one, relu(), options={"nonsense": 1})
    assert dict(tags(one)) == before == {"relu": "apportion_Test_0"}
