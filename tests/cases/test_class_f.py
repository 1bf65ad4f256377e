"""Public reports about branches, loops and several methods, by their ids."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from apportion.engine.lowering.sizes import delegates_of
from tests.engine.lowering.checks import compare, eager_rules
from tests.engine.programs import exported, header


def backend_rules(body: str) -> engine.RuleSet:
    return engine.parse_rules(f'backend "EagerBackend" language 1\n{body}')


class Shared(nn.Module):
    """One parameter, used by two methods."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.w).relu()

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) @ self.w


class Method(nn.Module):
    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = getattr(self.model, self.name)(x)
        return found


def test_F3_methods_share_a_parameter_and_no_tag(tmp_path: Any) -> None:
    model = Shared()
    methods = {name: Method(model, name) for name in ("encode", "decode")}
    programs = {name: torch.export.export(one, (torch.ones(2, 4),)).run_decompositions()
                for name, one in methods.items()}
    result = engine.partition(programs, eager_rules("aten.mm.default"))
    assert [part.method for part in result.partitions] == ["encode", "decode"]
    assert len({part.tag for part in result.partitions}) == 2
    lowered = engine.to_backend(programs, result)
    engine.save(lowered, tmp_path / "m.apl")
    for both in (lowered, engine.load(tmp_path / "m.apl")):
        for name, program in both.items():
            assert len(delegates_of(program)) == 1
            compare(program, methods[name], [(torch.randn(2, 4),)])


class Nested(nn.Module):
    """A branch in a branch, and after it something that nobody takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def outer(v: torch.Tensor) -> torch.Tensor:
            inner = torch.cond(v.mean() > 1, lambda t: t.relu() + 1, lambda t: t.relu() - 1, (v,))
            return torch.erf(inner) + 1

        return torch.cond(x.sum() > 0, outer, lambda v: v.relu() * 2, (x,)) + 1


NESTED = ("rule some { match y = {aten.{relu,mean,sum}.default, aten.{add,sub,mul}.Tensor, aten.gt.Scalar,"
          " aten.sum.dim_IntList, %s}() }")


def test_F5_a_branch_is_left_if_something_in_it_is() -> None:
    program = torch.export.export(Nested(), (torch.ones(3),)).run_decompositions()
    result = engine.partition(program, backend_rules(NESTED % "higher_order.cond"))
    left = {reason.op: reason.message for reason in result.report.left}
    assert set(left) == {"higher_order.cond", "aten.erf.default"}  # the outer one; the inner one is taken
    assert "`erf` (aten.erf.default)" in left["higher_order.cond"] and "is left" in left["higher_order.cond"]
    lowered = engine.to_backend(program, result)
    inside = [name for name, _ in delegates_of(lowered) if "." in name]
    assert len(inside) == 3  # around the inner cond, after erf, the other branch
    compare(lowered, Nested(), [(torch.ones(3),), (torch.full((3,), 9.0),), (-torch.ones(3),)])


def test_F5_the_whole_is_taken_if_everything_in_it_is() -> None:
    program = torch.export.export(Nested(), (torch.ones(3),)).run_decompositions()
    result = engine.partition(program, backend_rules(NESTED % "higher_order.cond, aten.erf.default"))
    assert not result.report.left and len(result.partitions) == 1


class LinearInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: self.linear(v), lambda v: v * 2, (x,))


def test_F6_a_weight_that_a_branch_gets_as_an_operand_is_constant() -> None:
    program = torch.export.export(LinearInside(), (torch.ones(2, 4),)).run_decompositions()
    rules = backend_rules("rule linear { match y = aten.addmm.default(b, x, aten.permute.default(w))"
                          " require w is constant and w is parameter and b is constant and x is not constant }")
    result = engine.partition(program, rules)
    assert result.report.claimed == 2, [reason.message for reason in result.report.left]
    model = LinearInside()
    model.load_state_dict(program.state_dict)
    compare(engine.to_backend(program, result), model, [(torch.ones(2, 4),), (-torch.ones(2, 4),)], 1e-6)


@pytest.mark.parametrize("taken", [False, True])
def test_F8_a_rule_on_a_loop_says_why_the_loop_is_left(taken: bool) -> None:
    from torch._higher_order_ops import while_loop

    def loop(x: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, v: torch.Tensor) -> Any:
            return i + 1, torch.sin(v)

        return while_loop(lambda i, v: i < 3, body, (torch.zeros((), dtype=torch.int64), x))[1]

    program = exported(loop, torch.ones(3))
    ops = "higher_order.while_loop, aten.add.Tensor, aten.lt.Scalar" + (", aten.sin.default" if taken else "")
    result = engine.partition(program, engine.parse_rules(header(f"rule loop {{ match y = {{{ops}}}() }}")))
    left = [reason.message for reason in result.report.left if reason.op == "higher_order.while_loop"]
    assert bool(left) is not taken
    assert taken or ("`sin` (aten.sin.default)" in left[0] and "is left" in left[0])
