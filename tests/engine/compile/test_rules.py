"""Rules, contracts, functions, invariants and policies as data: what the checker makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from apportion.engine.compile.rulesets import CompiledRule, LetStep, Requirement
from apportion.engine.emits import encode_spec_value
from apportion.engine.errors import RulesError
from apportion.engine.load import parse_rules
from apportion.engine.values import Unknown
from tests.engine.compile.evaluating import node

HEADER = 'backend "Test" language 1\n'


def one(text: str, **options: Any) -> CompiledRule:
    """The only rule of a file."""
    (rule,) = parse_rules(HEADER + text, options=options).rules
    return rule


def frame_of(rule: CompiledRule, **values: Any) -> list[Any]:
    """A frame with values for the slots that `take` names, in order."""
    frame: list[Any] = [None] * rule.frame_size
    for slot, value in zip(rule.takes, values.values(), strict=True):
        frame[slot] = value
    return frame


def run(rule: CompiledRule, frame: list[Any]) -> list[Any]:
    """The verdicts of all requirements on nodes, lets computed on the way."""
    verdicts = []
    for step in rule.steps:
        if isinstance(step, LetStep):
            frame[step.slot] = step.evaluate(frame)
        else:
            verdicts.append(step.evaluate(frame))
    return verdicts


def requirements(rule: CompiledRule) -> list[Requirement]:
    return [step for step in rule.steps if isinstance(step, Requirement)]


def errors(text: str) -> list[str]:
    with pytest.raises(RulesError) as caught:
        parse_rules(HEADER + text)
    return [f"{d.code} {d.span.line if d.span else 0}" for d in caught.value.diagnostics]


# --- requirements ----------------------------------------------------------------------------------------------


def test_requirements_in_file_order() -> None:
    rule = one(
        """
        rule r {
          match y = aten.relu.default(x)
          let size = y.rank * 2
          require size == 8      because "eight"
          let next = size + 1
          require next   ==
                  10
          take y
        }
        """
    )
    first, second = requirements(rule)
    assert (first.text, first.because, first.post) == ("size == 8", "eight", False)
    assert second.text == "next == 10"
    assert [type(step).__name__ for step in rule.steps] == ["LetStep", "Requirement", "LetStep", "Requirement"]
    frame = frame_of(rule, y=node("relu"))
    assert run(rule, frame) == [True, False]
    assert [(text, evaluate(frame)) for text, evaluate in second.observed] == [("next", 9)]


CONTRACTS = """
let floats = {float32, float16}
contract small(n, most) { require n.rank <= most  because "small" }
contract tensors(n, dtypes) {
  let inputs_of = n.inputs
  require small(n, 4)
  require n.dtype in dtypes        because "known"
  require all(i is tensor for i in inputs_of)
}
rule r {
  match y = aten.relu.default(x)
  require tensors(y, floats)
  require tensors(y.inputs[0], {float64})
  take y
}
"""


def test_contracts_are_written_out() -> None:
    rule = one(CONTRACTS)
    assert [r.because for r in requirements(rule)] == ["small", "known", None, "small", "known", None]
    assert [r.span.line for r in requirements(rule)] == [4, 8, 9, 4, 8, 9]
    assert [[span.line for span in r.applied] for r in requirements(rule)][:2] == [[13, 7], [13]]
    assert run(rule, frame_of(rule, y=node("relu"))) == [True, True, True, True, False, True]


def test_present_of_a_contracts_parameter() -> None:
    rule = one(
        """
        contract is_there(n) { require present(n) }
        rule r {
          match { y = aten.relu.default(x)  z = aten.tanh.default(y)? }
          require present(z)
          require is_there(z)
          take y
        }
        """
    )
    frame = frame_of(rule, y=node("relu"))
    verdicts = run(rule, frame)
    assert verdicts == [False, False]
    assert len(requirements(rule)) == 2


def test_functions() -> None:
    rule = one(
        """
        let twice(a) = a + a
        let four(a) = twice(twice(a))
        let offset(a, b) = four(a) + b
        rule r {
          match y = aten.relu.default(x)
          let of_y(a) = a * y.rank
          require offset(y.rank, 1) == 17
          require of_y(3) == 12 and of_y(of_y(1)) == 16
          require sum(twice(s) for s in y.shape) == 2 * sum(y.shape)
          require all(offset(a, b) > twice(b) for a in y.shape for b in y.shape)
          take y
        }
        """
    )
    assert run(rule, frame_of(rule, y=node("relu")))[:3] == [True, True, True]


def test_a_function_sees_the_names_of_its_own_place() -> None:
    assert errors("let f() = x.rank\nrule r { match y = aten.relu.default(x)  require f() == 4 }") == ["A005 2"]


def test_names_may_come_later() -> None:
    rule = one(
        """
        rule r { match y = known(x)  require y.dtype in floats and size == 7  take y }
        ops known = more - {aten.tanh.default}
        ops more = {aten.{relu,tanh}.default}
        let floats = {float32} | others
        let others = {float16}
        let size = base + 3
        let base = 4
        """
    )
    assert run(rule, frame_of(rule, y=node("relu"))) == [True]
    assert rule.pattern.ops == frozenset({"aten.relu.default"})


def test_post_conditions_are_apart() -> None:
    rule = one(
        """
        let many = len(nodes) > 1
        let enough(n) = len(nodes) > n
        rule r {
          match y = aten.relu.default(x)
          let inside = count(n.op == aten.relu.default for n in nodes)
          require y.rank == 4
          require inside == 1
          require many and enough(2)
          require y in nodes and all(i is tensor for i in inputs) and len(outputs) == 1
        }
        """
    )
    assert [getattr(step, "text", "") for step in rule.steps] == ["y.rank == 4"]
    assert [type(step).__name__ for step in rule.post] == ["LetStep", "Requirement", "Requirement", "Requirement"]
    assert all(step.post for step in rule.post if isinstance(step, Requirement))
    frame: list[Any] = [None] * rule.frame_size
    frame[0] = (node("relu"), node("convolution"))
    step = rule.post[0]
    assert isinstance(step, LetStep)
    frame[step.slot] = step.evaluate(frame)
    assert [step.evaluate(frame) for step in rule.post[1:3]] == [True, False]


def test_observed_values() -> None:
    rule = one(
        """
        rule r {
          match y = aten.convolution.default(x, w)
          require all(s <= 3 or d == 1 for s, d in zip(y.stride, y.dilation)) and w is constant
                  and prod(w.shape[2:]) <= 2 * y.groups and y.dtype in {float32}
          take y, w
        }
        """
    )
    (requirement,) = requirements(rule)
    frame = frame_of(rule, y=node("convolution"), w=node("convolution").arguments["weight"])
    observed = {text: evaluate(frame) for text, evaluate in requirement.observed}
    assert observed == {
        "s for s, d in zip(y.stride, y.dilation)": (2, 2),
        "d for s, d in zip(y.stride, y.dilation)": (1, 1),
        "w": node("convolution").arguments["weight"],
        "prod(w.shape[2:])": 9,
        "y.groups": 1,
        "y.dtype": torch.float32,
    }


def test_a_guard_takes_the_rule_out_but_it_is_checked() -> None:
    text = "option on: bool = false\nrule r { match y = aten.relu.default(x)  when option.on  require x.dtype == 3 }"
    assert errors(text) == ["A004 3"]


def test_take_and_mark() -> None:
    text = """
        option heavy: bool = false
        rule r {
          match y = aten.convolution.default(x, w, b)
          take w
          take b if option.heavy
          mark y, w as "KEY"
        }
        """
    assert len(one(text).takes) == 1
    heavy = one(text, heavy=True)
    assert len(heavy.takes) == 2
    ((slots, key),) = heavy.marks
    assert key == "KEY" and len(slots) == 2 and slots[1] == heavy.takes[0]


def test_over_is_transitive_also_through_absent_rules() -> None:
    rules = parse_rules(
        HEADER
        + """
        option on: bool = false
        rule a over b { match y = aten.relu.default(x) }
        rule b over c { match y = aten.relu.default(x)  when option.on }
        rule c { match y = aten.relu.default(x) }
        """
    ).rules
    assert {rule.name: rule.over for rule in rules} == {"a": frozenset({"b", "c"}), "c": frozenset()}


def test_emits() -> None:
    rule = one(
        """
        rule r {
          match y = aten.relu.default(x)
          emit kind = "big" if y.rank > 3 else "small"
          emit "a key" = y.rank
          emit raw = x"00ff"
          emit unknown = x.shape[7]
          take y
        }
        """
    )
    frame = frame_of(rule, y=node("relu"))
    values = {emit.key: emit.evaluate(frame) for emit in rule.emits}
    assert isinstance(values.pop("unknown"), Unknown)
    assert values == {"kind": "big", "a key": 4, "raw": b"\x00\xff"}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [("ü", "ü".encode()), (True, b"true"), (3, b"3"), (0.5, b"0.5"), (b"\x00\xff", b"\x00\xff")],
)
def test_encoding_of_specs(value: Any, encoded: bytes) -> None:
    assert encode_spec_value(value) == encoded


def test_encoding_refuses_the_rest() -> None:
    with pytest.raises(TypeError):
        encode_spec_value((1, 2))


def test_subgraphs_are_noticed() -> None:
    text = """
        let whole(n) = all(len(g.partitions) == 1 for g in n.subgraphs)
        rule a { match y = higher_order.cond()  require whole(y) }
        rule b { match y = higher_order.cond()  require y is node }
        """
    rules = {rule.name: rule for rule in parse_rules(HEADER + text).rules}
    assert rules["a"].speaks_of_subgraphs
    assert not rules["b"].speaks_of_subgraphs


def test_an_alternative_leaves_types_open() -> None:
    rule = one(
        """
        rule r {
          match y = {aten.convolution.default, aten.relu.default, aten.max_pool2d.default}(x)
          require y.op == aten.convolution.default implies all(y.stride <= 2)
          require y.op == aten.max_pool2d.default implies not y.ceil_mode
          take y
        }
        """
    )
    assert run(rule, frame_of(rule, y=node("convolution"))) == [True, True]
    assert run(rule, frame_of(rule, y=node("relu"))) == [True, True]


# --- policy ----------------------------------------------------------------------------------------------------


def test_policy() -> None:
    policy = parse_rules(
        HEADER
        + """
        option kib: int = 2
        partition {
          merge = "siblings"
          max_constant_bytes = option.kib * 1024
          constants = "none"
          mutable_buffers = true
          let heavy = sum(n.nbytes for n in nodes)
          trim n.op == aten.relu.default  because "alone"
          reject heavy > 10               because "too heavy"
        }
        """
    ).policy
    assert (policy.merge, policy.max_constant_bytes, policy.constants, policy.mutable_buffers) == (
        "siblings", 2048, "none", True,
    )  # fmt: skip
    frame: list[Any] = [None] * policy.frame_size
    frame[policy.slots["nodes"]] = (node("relu"), node("convolution"))
    for step in policy.steps:
        frame[step.slot] = step.evaluate(frame)
    frame[policy.slots["n"]] = node("relu")
    (trim,) = policy.trims
    (reject,) = policy.rejects
    assert (trim.evaluate(frame), trim.because, trim.text) == (True, "alone", "n.op == aten.relu.default")
    assert (reject.evaluate(frame), reject.because) == (True, "too heavy")


def test_policy_without_a_block() -> None:
    policy = parse_rules(HEADER + "rule r { match y = aten.relu.default(x) }").policy
    assert (policy.merge, policy.constants, policy.min_nodes) == ("adjacent", "all", None)
    assert policy.frame_size > max(policy.slots.values())


def test_preserve() -> None:
    def preserved(text: str) -> Any:
        return parse_rules(HEADER + text + "\nrule r { match y = aten.relu.default(x) }").preserve

    policy = preserved("preserve claimed | {aten.linear.default, aten.silu.default} - {aten.silu.default}")
    assert policy.claimed
    assert policy.added == frozenset({"aten.linear.default"})
    assert policy.removed == frozenset({"aten.silu.default"})
    assert preserved("").claimed


# --- declared ops and marks ------------------------------------------------------------------------------------


def test_a_declared_op_is_checked_against_its_text() -> None:
    declared = 'declare "acme::swish(Tensor x, float beta=1.0) -> Tensor"\n'
    rule = one(declared + "rule r { match y = acme.swish.default(x)  require y.beta > 0.5 }")
    assert rule.pattern.ops == frozenset({"acme.swish.default"})
    assert errors(declared + "rule r { match y = acme.swish.default(x)  require y.bta > 0.5 }") == ["A003 3"]
    assert errors(declared + 'rule r { match y = acme.swish.default(x)  require y.beta == "a" }') == ["A004 3"]


def test_a_declaration_that_differs_is_a_warning() -> None:
    declared = 'declare "aten::relu(Tensor other) -> Tensor"\n'
    rules = parse_rules(HEADER + declared + "rule r { match y = aten.relu.default(x) }")
    assert [warning.code for warning in rules.warnings] == ["A502"]
    assert "argument other is called self" in str(rules.warnings[0])


def test_marks_in_metadata() -> None:
    rule = one(
        """
        meta role: str = "custom.apportion.role"
        meta bits: list of int = "custom.apportion.bits"
        meta wrong: int = "custom.apportion.role"
        rule r {
          match y = aten.relu.default(x)
          require y.meta.role == "edge"
          require all(y.meta.bits <= 8)
          require y.meta.wrong == 3
          take y
        }
        """
    )
    relu = node("relu")
    relu.fx.meta["custom"] = {"apportion": {"role": "edge", "bits": [4, 8]}}
    verdicts = run(rule, frame_of(rule, y=relu))
    del relu.fx.meta["custom"]
    assert verdicts[:2] == [True, True]
    assert verdicts[2] == Unknown("the mark custom.apportion.role is no int")
    assert all(isinstance(verdict, Unknown) for verdict in run(rule, frame_of(rule, y=relu)))
