"""Examples of a rules file: the small programs that they stand for."""

from __future__ import annotations

from apportion.engine import parse_rules
from apportion.engine.examples import run_examples
from tests.engine.programs import header


def outcomes(rule: str) -> list[str]:
    return [f"{r.outcome} {r.message}".strip() for r in run_examples(parse_rules(header(rule)))]


def test_symbolic_dims_are_arguments() -> None:
    assert outcomes("""rule view {
      match { y = aten.view.default(x, size) }
      require x.rank == 3 and len(size) == 2
      accepts aten.view.default(float32[s,2,2], [s, 4])
    }""")[0] == "holds"


def test_a_call_that_pytorch_refuses_is_an_error_and_no_rejection() -> None:
    found = outcomes("""rule mm {
      match { y = aten.mm.default(x, w) }
      require x.rank == 2
      rejects aten.mm.default(float32[2,3], float32[2,3])
    }""")
    assert found[0].startswith("error PyTorch refuses `aten.mm.default`")


def test_the_reason_of_a_rejection_is_compared() -> None:
    rule = """rule relu {{
      match {{ y = aten.relu.default(x) }}
      require x.rank == 2 because "matrices only"
      rejects aten.relu.default(float32[2]) because "{}"
    }}"""
    assert outcomes(rule.format("matrices"))[0].startswith("holds")
    assert outcomes(rule.format("images"))[0].startswith("fails it is rejected, but the reason is")
