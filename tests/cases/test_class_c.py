"""Public reports about matching, by their ids."""

from __future__ import annotations

import time

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags


def partition(program, rules, **arguments):
    return engine.partition(program, engine.parse_rules(header(rules)), **arguments)


def claimed(program, rules, **arguments) -> set[str]:
    partition(program, rules, **arguments)
    return set(tags(program))


def test_C6_one_output_used_twice() -> None:
    def normed(x):
        y = torch.ops.aten.native_layer_norm.default(x, [4], None, None, 1e-5)[0]
        return y + y

    rules = "rule ln { match { n = aten.native_layer_norm.default(x) y = aten.add.Tensor(n[0], n[0]) } }"
    assert claimed(exported(normed, torch.randn(2, 4)), rules) == {"native_layer_norm", "getitem", "add"}


def test_C7_a_value_with_another_user_is_not_fused_and_the_reason_says_which() -> None:
    def forked(x):
        s = torch.sin(x)
        return torch.relu(s), torch.neg(s)

    program = exported(forked, torch.randn(3))
    result = partition(program, "rule fused { match y = aten.relu.default(aten.sin.default(x)) }")
    assert not result.partitions
    assert "`neg` uses it too" in result.report.reason("relu").message


@pytest.mark.parametrize("inner", ["a * b", "b * a"])
@pytest.mark.parametrize("outer", ["{m} + c", "c + {m}"])
def test_C9_operands_in_any_order(inner: str, outer: str) -> None:
    function = eval(f"lambda a, b, c: {outer.format(m='(' + inner + ')')}")
    program = exported(function, *(torch.randn(3) for _ in range(3)))
    assert claimed(program, "rule fma { match y = aten.add.Tensor(aten.mul.Tensor(p, q), r) }") == {"mul", "add"}


def test_C9_sub_does_not_commute() -> None:
    program = exported(lambda a, b: b - torch.sin(a), torch.randn(3), torch.randn(3))
    assert claimed(program, "rule s { match y = aten.sub.Tensor(aten.sin.default(p), q) }") == set()


def test_C9_a_deep_chain_of_sums_is_quick() -> None:
    def chain(*xs):
        total = xs[0] * xs[1]
        for x in xs[2:]:
            total = x + total
        return total

    term = "aten.mul.Tensor(x0, x1)"
    for index in range(2, 10):
        term = f"aten.add.Tensor({term}, x{index})"
    program = exported(chain, *(torch.randn(3) for _ in range(10)))
    started = time.process_time()
    assert len(claimed(program, f"rule chain {{ match y = {term} }}")) == 9
    assert time.process_time() - started < 20


def test_C11_a_dynamic_batch_changes_no_claim() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 2))
    rules = """
    ops named = {aten.convolution.default, aten.relu.default, aten.view.default, aten.addmm.default}
    rule all { match y = named(*xs) require y.rank <= 4 }
    """
    fixed = torch.export.export(model, (torch.randn(2, 3, 8, 8),)).run_decompositions()
    batch = torch.export.Dim("batch", min=1, max=64)
    dynamic = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},)).run_decompositions()
    guards = [str(g) for g in _shape_env(dynamic).guards]
    assert claimed(fixed, rules) == claimed(dynamic, rules)
    assert [str(g) for g in _shape_env(dynamic).guards] == guards
    sizes = [n for n in dynamic.graph.nodes if "sym_size" in n.name]
    assert sizes
    assert all("delegation_tag" not in n.meta for n in sizes)


def _shape_env(program):
    for node in program.graph.nodes:
        for dim in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(dim, torch.SymInt):
                return dim.node.shape_env
    raise AssertionError("no symbolic size")


@pytest.mark.parametrize("dims", [(0, 2, 1), (0, -1, -2), (-3, 2, -2)])
def test_C12_negative_and_positive_dims_match_equally(dims) -> None:
    program = exported(lambda x: torch.permute(x, dims), torch.randn(2, 3, 4))
    assert claimed(program, "rule p { match y = aten.permute.default(x, [0, 2, -2]) require y.dims == [0, 2, 1] }")


@pytest.mark.parametrize("dim", [1, -1])
def test_C12_a_sum_over_the_last_dim(dim: int) -> None:
    program = exported(lambda x: x.sum(dim), torch.randn(2, 3))
    assert claimed(program, "rule s { match y = aten.sum.dim_IntList(x, d) require d == [1] }") == {"sum_1"}


def test_C14_a_graph_of_modules_can_be_matched_by_their_names() -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    result = partition(traced, "rule linear { match y = nn.Linear(x) }")
    assert [n.op for n in result.partitions[0].nodes] == ["call_module"]


def test_C14_without_metadata_the_reason_says_how_to_get_it() -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    result = partition(traced, "rule linear { match y = nn.Linear(x) require y.rank == 2 }")
    reason = result.report.reason("_0")
    assert reason.kind == "requirement"
    assert "no metadata" in reason.message


def test_C16_one_value_twice_and_two_values() -> None:
    def both(x, y):
        return x / x, x / y

    program = exported(both, torch.randn(3), torch.randn(3))
    assert claimed(program, "rule d { match y = aten.div.Tensor(a, b) }") == {"div", "div_1"}
    assert claimed(program, "rule d { match y = aten.div.Tensor(a, a) }") == {"div"}
    assert claimed(program, "rule d { match y = aten.div.Tensor(*xs) require len(distinct(xs)) == 2 }") == {"div_1"}


def test_C17_a_node_without_metadata_has_that_reason() -> None:
    program = exported(lambda x: torch.relu(x), torch.randn(3))
    node = next(n for n in program.graph.nodes if n.op == "call_function")
    del node.meta["val"]
    node.meta.pop("tensor_meta", None)
    result = partition(program, "rule r { match y = aten.relu.default(x) require y.dtype == float32 }")
    reason = result.report.reason("relu")
    assert reason.kind == "requirement"
    assert reason.observed[0][0] == "y.dtype"
    assert reason.observed[0][1].startswith("unknown (")
