"""What `apportion compile --show` prints, as data: rules by op, in order, with what they share."""

from __future__ import annotations

import pytest

from apportion.engine import parse_rules
from apportion.engine.cli.main import main
from apportion.engine.explain.decisions import ANY_OP, decisions

RULES = """backend "Test" language 1
contract small(n) { require n.rank <= 4 }
invariant floats { match y = {aten.relu.default, aten.mm.default}()
  require y.dtype == float32 }
rule alone { match y = {aten.relu.default, aten.neg.default}(x)
  require small(y)
  require x.numel > 1 }
rule fused over alone { match { m = aten.mm.default(a, b)
    y = aten.relu.default(m)? }
  require small(y) }
rule rest { match y = _(x) }
"""


def test_each_op_has_its_rules_in_order() -> None:
    found = {op: decision for decision in decisions(parse_rules(RULES)) for op in decision.ops}
    assert sorted(found) == [ANY_OP, "aten.mm.default", "aten.neg.default", "aten.relu.default"]
    relu = found["aten.relu.default"]
    assert [tried.rule for tried in relu.rules] == ["alone", "fused", "rest"]
    assert relu.shared == ("n.rank <= 4",)
    assert [tried.requires for tried in relu.rules] == [("x.numel > 1",), (), ()]
    assert relu.invariants == (("floats", ("y.dtype == float32",)),)
    fused = relu.rules[1]
    assert fused.inner == (("aten.mm.default", 1),) and fused.flexible and fused.over == ("alone",)
    assert [tried.rule for tried in found["aten.mm.default"].rules] == ["fused", "rest"]
    assert [tried.rule for tried in found[ANY_OP].rules] == ["rest"] and not found[ANY_OP].invariants


def test_the_command_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "xnnpack", "--show", "--op", "aten.linear.default"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("1. float_matmul") < shown.index("2. dynamic_product")
    assert "invariant tensors: " in shown and "aten.sqrt.default" not in shown
