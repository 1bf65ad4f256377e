"""Texts made to hang a checker: each ends in seconds, with a refusal at load or an unknown at run time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from apportion.engine.compile.units import shipped_folder
from apportion.engine.errors import ApportionError, RulesError
from apportion.engine.load import parse_rules, shipped_rules

HEADER = 'backend "Test" language 1\n'
RULE = "rule r {{ match y = aten.relu.default(x)  require {} }}\n"


def bomb(kind: str, size: int) -> str:
    """A file in which each definition uses the one before it twice, or the one after it once."""
    lines = {
        "functions": ["let f0(a) = a.rank", *(f"let f{i}(a) = f{i - 1}(a) + f{i - 1}(a)" for i in range(1, size))],
        "lets": ["let a0 = [1]", *(f"let a{i} = a{i - 1} + a{i - 1}" for i in range(1, size))],
        "late lets": ["let b0 = len(nodes)", *(f"let b{i} = b{i - 1} + b{i - 1}" for i in range(1, size))],
        "numbers": ["let n0 = 10", *(f"let n{i} = n{i - 1} * n{i - 1}" for i in range(1, size))],
        "contracts": [
            "contract c0(a) { require a.rank == 1 }",
            *(f"contract c{i}(a) {{ require c{i - 1}(a)  require c{i - 1}(a) }}" for i in range(1, size)),
        ],
        "chain of functions": [*(f"let f{i}(a) = f{i + 1}(a)" for i in range(size)), f"let f{size}(a) = a"],
        "chain of lets": [*(f"let a{i} = a{i + 1}" for i in range(size)), f"let a{size} = 1"],
        "chain of sets": [*(f"ops s{i} = s{i + 1}" for i in range(size)), f"ops s{size} = {{aten.relu.default}}"],
        "chain of contracts": [
            *(f"contract c{i}(a) {{ require c{i + 1}(a) }}" for i in range(size)),
            f"contract c{size}(a) {{ require a.rank == 1 }}",
        ],
    }[kind]
    uses = {
        "functions": f"f{size - 1}(x) == 1", "lets": f"len(a{size - 1}) == 1", "late lets": f"b{size - 1} == 1",
        "numbers": f"n{size - 1} == 1", "contracts": f"c{size - 1}(x)", "chain of functions": "f0(1) == 1",
        "chain of lets": "a0 == 1", "chain of sets": "x.op in s0", "chain of contracts": "c0(x)",
    }  # fmt: skip
    return HEADER + "\n".join(lines) + "\n" + RULE.format(uses[kind])


@pytest.mark.parametrize(
    "kind",
    ["functions", "lets", "late lets", "numbers", "contracts", "chain of functions", "chain of lets", "chain of sets",
     "chain of contracts"],
)  # fmt: skip
def test_bombs_are_refused(kind: str) -> None:
    start = time.monotonic()
    with pytest.raises(RulesError) as caught:
        parse_rules(bomb(kind, 60 if "chain" not in kind else 1000))
    assert {d.code for d in caught.value.diagnostics} == {"A011"}
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "condition",
    [
        " + ".join(["x.rank"] * 2000) + " == 1",
        "not " * 500 + "x is tensor",
        "(" * 500 + "x.rank" + ")" * 500 + " == 1",
        "x" + ".shape" * 500,
        "x.rank == 1" + " implies x.rank == 1" * 500,
        "[" * 300 + "1" + "]" * 300 + " == [1]",
        "all(" * 200 + "x.shape == 1" + ")" * 200,
    ],
)
def test_deep_expressions_end(condition: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_rules(HEADER + RULE.format(condition))
    assert len(caught.value.diagnostics) < 20


def test_a_wide_expression_is_fine() -> None:
    wide = " and ".join(f"x.rank != {i}" for i in range(10, 2000))
    members = ", ".join(str(i) for i in range(5000))
    assert parse_rules(HEADER + RULE.format(wide) + f"let s = {{{members}}}\n").rules


def test_many_rules_load_quickly() -> None:
    text = HEADER + "contract c(n) { require n.rank in 1..4  require n.numel > 0 }\n"
    text += "".join(f"rule r{i} {{ match y = aten.relu.default(x)  require c(y)  require x.rank == {i} }}\n"
                    for i in range(300))  # fmt: skip
    start = time.monotonic()
    assert len(parse_rules(text).rules) == 300
    assert time.monotonic() - start < 20


WORDS = (
    'x y none all( ) == in { } 1 "a" aten.relu.default .rank nodes for not require option. is constant [ ] + ? rule '
    "match take emit let"
).split()


@pytest.mark.parametrize("seed", range(40))
def test_mutated_files_give_diagnostics_and_never_a_traceback(seed: int) -> None:
    chance = random.Random(seed)
    folder: Path = shipped_folder()
    names = [*(folder / f"{name}.rules" for name in shipped_rules()), folder / "std" / "quant.rules"]
    text = names[seed % len(names)].read_text(encoding="utf-8")
    tokens = text.split(" ")
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(tokens))
        action = chance.randrange(4)
        if action == 0:
            del tokens[place]
        elif action == 1:
            tokens.insert(place, chance.choice(WORDS))
        elif action == 2:
            other = chance.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        else:
            tokens[place] = chance.choice(WORDS)
    try:
        parse_rules(" ".join(tokens), name=str(folder / "mutated.rules"))
    except ApportionError as error:
        assert str(error)
