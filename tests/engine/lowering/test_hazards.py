"""Programs in which a delegate can go wrong: each is lowered, verified, and run twice beside the model."""

from __future__ import annotations

import logging
import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from apportion import engine
from apportion.engine.lowering.sizes import delegates_of, size_report
from tests.engine.lowering.checks import Tagger, compare, delegates, eager_rules, lowered, ops_in
from tests.engine.lowering.hazards import (
    Branches,
    Counter,
    Loops,
    OneWeight,
    Repeats,
    SeveralOutputs,
    Sizes,
    WritesInput,
)

CALL = "apportion_call_delegate"


def program_of(model: nn.Module, *inputs: Any, dynamic: Any = None) -> Any:
    return torch.export.export(model, inputs, dynamic_shapes=dynamic).run_decompositions()


def inputs(*shape: int, calls: int = 2) -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(shape),) for _ in range(calls)]


@pytest.mark.parametrize("owned", [False, True])
def test_b7_a_buffer_that_is_written_is_right_over_repeated_calls(owned: bool) -> None:
    program = program_of(Counter(), torch.ones(3))
    made = lowered(program, eager_rules("aten.add.Tensor", partition=f"mutable_buffers = {str(owned).lower()}"))
    kinds = {spec.kind.name for spec in made.graph_signature.output_specs}
    assert ("BUFFER_MUTATION" in kinds) is not owned
    assert len(delegates(made)) == 1 and ops_in(made).count(CALL) == 1
    compare(made, Counter(), inputs(3, calls=3))


def test_the_program_handed_in_keeps_its_own_buffer() -> None:
    program = program_of(Counter(), torch.ones(3))
    made = lowered(program, eager_rules())
    made.module()(torch.ones(3))
    assert torch.equal(program.state_dict["b"], torch.zeros(3))


def test_an_input_that_is_written() -> None:
    compare(lowered(program_of(WritesInput(), torch.ones(3)), eager_rules()), WritesInput(), inputs(3))


def test_a_value_returned_several_times() -> None:
    made = lowered(program_of(Repeats(), torch.ones(3)), eager_rules())
    assert len(made.graph_signature.user_outputs) == 5
    compare(made, Repeats(), inputs(3))


def test_b9_a_shared_weight_is_in_each_delegate_and_the_report_says_so() -> None:
    model = OneWeight()
    made = lowered(program_of(model, torch.ones(2, 4)), eager_rules("aten.mm.default"))
    report = size_report(made)
    assert len(report.delegates) == 4 and not made.graph_signature.parameters
    assert report.duplicated == {"w": 3 * 64} and report.duplicated_bytes == 192
    assert "w" in str(report)
    compare(made, model, inputs(2, 4))


def test_b9_unshared_constants_stay_inputs() -> None:
    model = OneWeight()
    program = program_of(model, torch.ones(2, 4))
    made = lowered(program, eager_rules("aten.mm.default", partition='constants = "unshared"'))
    report = size_report(made)
    assert report.kept == {"w": 64} and not report.duplicated
    compare(made, model, inputs(2, 4))


def test_b2_no_copy_keeps_a_shared_constant_outside_with_a_warning_that_names_it(
        caplog: pytest.LogCaptureFixture) -> None:
    model = OneWeight()
    program = program_of(model, torch.ones(2, 4))
    result = engine.partition(program, eager_rules("aten.mm.default"))
    weight = next(node for node in program.graph.nodes if node.name == "p_w")
    weight.meta["no_copy"] = True
    with caplog.at_level(logging.WARNING, "apportion"):
        made = engine.to_backend(program, result)
    assert "p_w" in caplog.text
    assert made.graph_signature.parameters in (("w",), ["w"])
    compare(made, model, inputs(2, 4))


class Checks(nn.Module):
    """The only thing that is taken is a check: it gives nothing, and must still happen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all())
        return x + 1


def test_a_delegate_without_outputs_still_runs(tmp_path: Path) -> None:
    program = torch.export.export(Checks(), (torch.ones(3),))  # decompositions drop checks
    wanted = {node.name for node in program.graph.nodes if node.op == "call_function" and "add" not in node.name}
    made = engine.to_backend(program, Tagger(lambda n: "t" if n.name in wanted else None))
    (one,) = delegates(made)
    assert not one.original_module.graph_signature.user_outputs
    engine.save(made, tmp_path / "m.apl")
    for program in (made, engine.load(tmp_path / "m.apl")):
        assert not delegates(program)[0].original_module.graph_signature.user_outputs
        assert torch.equal(program.module()(torch.ones(3)), torch.full((3,), 2.0))
        with pytest.raises(RuntimeError, match="single nonzero value"):
            program.module()(-torch.ones(3))


def with_signs() -> list[tuple[torch.Tensor, ...]]:
    return [(torch.ones(2, 4),), (-torch.ones(2, 4),), (9 * torch.randn(2, 4),)]


def test_f5_f6_branches_have_delegates_of_their_own() -> None:
    model = Branches()
    program = program_of(model, torch.ones(2, 4))
    made = lowered(program, eager_rules("aten.linear.default", "aten.addmm.default", "aten.relu.default",
                                        "aten.add.Tensor", "aten.mul.Tensor", "aten.permute.default"))
    paths = {name.rpartition(".")[0] for name, _ in delegates_of(made)}
    assert len(paths) >= 4  # the main graph, both branches, and the inner one
    compare(made, model, with_signs())


def test_a_control_flow_op_that_is_taken_whole() -> None:
    model = Branches()
    made = lowered(program_of(model, torch.ones(2, 4)), eager_rules())
    assert ops_in(made).count(CALL) == 1 and "cond" not in ops_in(made)
    compare(made, model, with_signs())


@pytest.mark.parametrize("ops", [(), ("aten.sin.default", "aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default")])
def test_loops_scans_and_maps(ops: tuple[str, ...]) -> None:
    model = Loops()
    program = program_of(model, torch.ones(3, 4))
    made = lowered(program, eager_rules(*ops))
    assert delegates(made)
    compare(made, model, inputs(3, 4))


@pytest.mark.parametrize("untaken", ["sin", "view", "sym_size", "mul"])
def test_k9_sizes_that_cross_a_border(untaken: str) -> None:
    """A size is an input of a delegate, or computed again outside; a delegate never gives one."""
    shapes = ({0: Dim("n", min=2, max=9)}, None)
    program = program_of(Sizes(), torch.ones(3, 4), torch.ones(1, 2), dynamic=shapes)
    wanted = {n.name for n in program.graph.nodes if n.op == "call_function" and untaken not in n.name}
    where = dict.fromkeys(wanted)
    tag = 0
    for node in program.graph.nodes:  # stretches between the untaken nodes can always run
        if node.op == "call_function" and node.name not in wanted:
            tag += 1
        elif node.name in wanted:
            where[node.name] = f"t{tag}"
    made = engine.to_backend(program, Tagger(lambda n: where.get(n.name)))
    made.validate()
    for one in delegates(made):
        (results,) = one.original_module.graph.output_node().args
        assert all(isinstance(node.meta["val"], torch.Tensor) for node in results)
    compare(made, Sizes(), [(torch.randn(n, 4), torch.randn(1, 2)) for n in (2, 3, 7)])


def test_a14_no_tuple_crosses_a_border() -> None:
    program = program_of(SeveralOutputs(), torch.ones(3, 4))
    choose = {"relu": "t", "getitem": "t"}  # a getitem without its producer, whatever its tag says
    made = engine.to_backend(program, Tagger(lambda n: choose.get(n.name)))
    (one,) = delegates(made)
    assert all(node.target is not operator.getitem for node in one.original_module.graph.nodes)
    compare(made, SeveralOutputs(), inputs(3, 4))
    alone = engine.to_backend(program, Tagger(lambda n: "t" if "split" in n.name else None))
    compare(alone, SeveralOutputs(), inputs(3, 4))
    assert delegates(alone)


def test_a9_dead_code_makes_no_delegate() -> None:
    program = program_of(Repeats(), torch.ones(3))
    x = next(node for node in program.graph.nodes if node.op == "placeholder")
    with program.graph.inserting_after(x):
        dead = program.graph.call_function(torch.ops.aten.exp.default, (x,))
    dead.meta["val"] = x.meta["val"]
    made = engine.to_backend(program, Tagger(lambda n: "t" if n is dead or n.name == dead.name else None))
    assert not delegates(made)


class ManyOutputs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.split(2, dim=-1)
        c = (a.relu() + b.sigmoid()).sin()
        d, e = c.split(1, dim=-1)
        return (d.relu() * e.sigmoid()).cos() + a.relu()


def test_a20_several_delegates_with_several_outputs_each() -> None:
    program = program_of(ManyOutputs(), torch.ones(3, 4))
    made = lowered(program, eager_rules("aten.relu.default", "aten.sigmoid.default", "aten.split.Tensor",
                                        "aten.split_with_sizes.default"))
    made.graph.lint()
    names = [node.name for node in made.graph.nodes]
    assert len(names) == len(set(names)) and len(delegates(made)) >= 2
    compare(made, ManyOutputs(), inputs(3, 4))


class SlicesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(24.0).reshape(6, 4))

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x + self.table[:n].sum()


def test_b10_a_slice_of_a_buffer_by_a_number_that_is_an_argument() -> None:
    program = torch.export.export(SlicesBuffer(), (torch.ones(2, 4), 3)).run_decompositions()
    made = lowered(program, eager_rules("aten.slice.Tensor", "aten.sum.default", "aten.sum.dim_IntList"))
    assert delegates(made)
    compare(made, SlicesBuffer(), [(torch.ones(2, 4), 3)] * 2)


def test_b12_a_constant_goes_where_its_only_user_goes() -> None:
    program = program_of(OneWeight(), torch.ones(2, 4))
    made = engine.to_backend(program, Tagger(lambda n: n.name if "mm" in n.name else None))
    assert made.graph_signature.parameters in (("w",), ["w"])  # nobody tagged it: it stays an input
    tagged = engine.to_backend(program, Tagger(lambda n: "t" if n.name in ("mm", "p_w") else None))
    assert tagged.graph_signature.parameters in (("w",), ["w"])  # others use it too
    (one,) = delegates(tagged)
    assert one.original_module.graph_signature.parameters in (("w",), ["w"])


def test_f8_a_rule_on_a_loop_whose_body_is_not_taken_says_which_node_is_left() -> None:
    program = program_of(Loops(), torch.ones(3, 4))
    rules = engine.parse_rules(
        'backend "EagerBackend" language 1\nrule loop { match y = higher_order.while_loop() }')
    left = [reason for reason in engine.partition(program, rules).report.left if "while_loop" in reason.op]
    assert left and "is left" in left[0].message


class Named(nn.Module):
    """An input whose name Python has, too."""

    def forward(self, input: torch.Tensor, max: torch.Tensor) -> torch.Tensor:
        return (input.relu() + max).sin()


def test_names_of_inputs_are_kept() -> None:
    program = program_of(Named(), torch.ones(3), torch.ones(3))
    made = lowered(program, eager_rules("aten.relu.default", "aten.add.Tensor"))
    assert made.graph_signature.user_inputs == program.graph_signature.user_inputs
    compare(made, Named(), [(torch.randn(3), torch.randn(3)) for _ in range(2)])


def test_metadata_is_kept_on_calls_and_getitems() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    program = torch.export.export(model, (torch.ones(2, 4),)).run_decompositions()
    for number, node in enumerate(program.graph.nodes):
        node.meta["debug_handle"] = number
    before = {node.name: dict(node.meta) for node in program.graph.nodes}
    made = lowered(program, eager_rules("aten.addmm.default", "aten.relu.default", "aten.linear.default",
                                        "aten.permute.default"))
    (call,) = [node for node in made.graph.nodes if str(node.target) == CALL]
    (getitem,) = call.users
    last = next(n for n in reversed(program.graph.nodes) if n.op == "call_function")
    for key in ("val", "stack_trace", "nn_module_stack"):
        assert getitem.meta[key] is before[last.name][key]
    assert call.meta["val"] == [last.meta["val"]]
    assert "stack_trace" in call.meta and call.meta["nn_module_stack"]
    (one,) = delegates(made)
    inside = [n.meta["debug_handle"] for n in one.original_module.graph.nodes if n.op == "call_function"]
    assert call.meta["debug_handle"] == max(inside) + 1
    handles = one.meta["debug_handle_map"]
    assert sorted(h for several in handles.values() for h in several) == sorted(inside)
    scratch = {"delegation_tag", "no_copy", "backend_id"}
    assert not any(scratch & node.meta.keys() for node in made.graph.nodes)


def test_a_lowered_program_is_lowered_again_for_the_rest() -> None:
    model = OneWeight()
    first = lowered(program_of(model, torch.ones(2, 4)), eager_rules("aten.mm.default"))
    second = lowered(first, eager_rules())
    assert ops_in(second).count(CALL) == 8
    compare(second, model, inputs(2, 4))


def test_a_lowered_program_decomposes_and_retraces() -> None:
    model = OneWeight()
    first = lowered(program_of(model, torch.ones(2, 4)), eager_rules("aten.mm.default"))
    again = first.run_decompositions()
    assert ops_in(again).count(CALL) == 4
    compare(again, model, inputs(2, 4))
