"""Calls through their schema, users and outputs, in every form of a program."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._higher_order_ops.auto_functionalize import auto_functionalized

from apportion.engine.facts import KINDS, ProgramFacts, Value, is_kind
from apportion.engine.values import Dim, Unknown
from tests.engine.programs import exported

x4 = torch.ones(2, 3, 8, 8)


def facts(program: Any) -> dict[str, Value]:
    return dict(ProgramFacts.of(program).main.values)


def only(program: Any, op: str) -> Value:
    (found,) = (c for c in ProgramFacts.of(program).main.calls if c.op is not None and c.op.name == op)
    return found


def test_defaults_and_keywords_are_arguments() -> None:
    call = only(exported(lambda x: torch.add(x, other=x, alpha=2), x4), "aten.add.Tensor")
    x = call.inputs[0]
    assert dict(call.arguments) == {"self": x, "other": x, "alpha": 2}
    assert call.inputs == (x, x) == call.tensor_inputs
    softmax = only(exported(lambda x: torch.softmax(x, -1), x4), "aten._softmax.default")
    assert dict(softmax.arguments) == {"self": softmax.inputs[0], "dim": 3, "half_to_float": False}


def test_keyword_arguments_keep_the_schema_order() -> None:
    program = exported(
        lambda x, w, b: nn.functional.linear(x, w, b),
        torch.ones(4, 4),
        torch.ones(4, 4),
        torch.ones(4),
        decompose=False,
    )
    call = only(program, "aten.linear.default")
    expected = [v.name for v in call.inputs]
    call.fx.kwargs = {"bias": call.fx.args[2], "weight": call.fx.args[1]}
    call.fx.args = call.fx.args[:1]
    again = only(program, "aten.linear.default")
    assert [v.name for v in again.inputs] == expected == ["args_0", "args_1", "args_2"]
    assert list(again.arguments) == ["input", "weight", "bias"]


def test_lists_are_flattened_with_multiplicity() -> None:
    call = only(exported(lambda x: torch.cat([x, x, x + 1], -3), x4), "aten.cat.default")
    assert [v.name for v in call.inputs] == ["args_0", "args_0", "add"]
    assert call.arguments["tensors"] == call.inputs and call.arguments["dim"] == 1


def test_symbolic_sizes_are_dims_and_inputs() -> None:
    dynamic = ({0: torch.export.Dim("n", min=2, max=32)},)
    call = only(
        exported(lambda x: x.view(x.shape[0] * 2, -1), torch.ones(4, 6), dynamic=(dynamic,)), "aten.view.default"
    )
    size = call.arguments["size"]
    assert isinstance(size, tuple) and isinstance(size[0], Dim) and size[1] == -1
    assert size[0].origin is call.inputs[1] and call.inputs[1].op is not None
    assert call.tensor_inputs == call.inputs[:1]
    assert size[0].compare("<=", 64) is True and isinstance(size[0].compare("<=", 63), Unknown)
    assert call.shape == (size[0], 3) and call.numel == 3 * size[0] and call.nbytes == 12 * size[0]


def test_b10_integer_inputs() -> None:
    program = exported(lambda x, n: x[:, :n], torch.ones(4, 6), 3)
    call = only(program, "aten.slice.Tensor")
    assert call.arguments["end"] == 3


def test_getitems_are_invisible() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.topk(x, 2)
        return values + 1, indices

    program = exported(function, x4)
    found = facts(program)
    graph = ProgramFacts.of(program).main
    topk = graph.calls[0]
    assert [str(c.op) for c in graph.calls] == ["aten.topk.default", "aten.add.Tensor"]
    values, indices = topk.outputs
    assert graph.values["getitem"] is values and graph.values["getitem_1"] is indices
    assert topk.users == values.users == (graph.calls[1],) and indices.users == ()
    assert graph.calls[1].inputs == (values,)
    assert (values.returned, indices.returned, topk.returned) == (False, True, True)
    assert isinstance(topk.dtype, Unknown) and "topk[0]" in topk.dtype.reason
    assert indices.dtype == torch.int64 and values.shape == (2, 3, 8, 2)
    assert [n.name for n in topk.getitems] == ["getitem", "getitem_1"]
    assert [n.name for n in indices.getitems] == ["getitem_1"]
    assert values.node is topk and repr(values) == "topk[0]"
    assert all(v.fx.target is not operator.getitem for v in found.values())


def test_users_are_distinct_and_in_graph_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return torch.sin(y) + torch.cat([y, y], 0)[:2] + y

    relu = only(exported(function, x4), "aten.relu.default")
    assert [str(u.op) for u in relu.users] == ["aten.sin.default", "aten.cat.default", "aten.add.Tensor"]


def test_size_queries_and_assertions_are_no_users() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = (x.sum() > 0).to(torch.int64).item()
        torch._check(n <= 4)
        return torch.relu(x).view(x.shape[0] * 2, -1) + n

    found = facts(exported(function, torch.ones(4, 6), dynamic=(({0: torch.export.Dim("n", min=2, max=32)},),)))
    x = found["args_0"]
    assert [str(q.op) for q in x.size_queries] == ["aten.sym_size.int"]
    assert {str(u.op) for u in x.users} == {"aten.sum.dim_IntList", "aten.relu.default"}
    items = [v for v in found.values() if str(v.op) in ("aten.item.default", "aten._local_scalar_dense.default")]
    assert [[str(u.op) for u in i.users] for i in items] == [["aten.add.Tensor"]]


def test_returned_is_not_written_back() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + 1

    graph = ProgramFacts.of(exported(function, torch.ones(2), count=torch.zeros(2))).main
    written = [c for c in graph.calls if c.written_back]
    returned = [c for c in graph.calls if c.returned]
    assert len(written) == len(returned) == 1 and written != returned


def test_auto_functionalized_calls_are_the_op_they_wrap() -> None:
    with torch.library._scoped_library("apportion_wrapped", "FRAGMENT") as library:
        library.define("add_to(Tensor(a!) x, Tensor y, int k=2) -> Tensor")
        library.impl("add_to", lambda x, y, k=2: x.add_(y) * k, "CompositeExplicitAutograd")
        library.impl("add_to", lambda x, y, k=2: torch.empty_like(x), "Meta")

        def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            z = x.clone()
            return torch.ops.apportion_wrapped.add_to(z[1:], y), z

        program = exported(function, torch.ones(3, 4), torch.ones(2, 4))
        call = only(program, "apportion_wrapped.add_to.default")
        assert [v.name for v in call.inputs] == ["clone", "args_1"]
        assert list(call.arguments) == ["x", "y", "k"] and call.arguments["k"] == 2
        assert len(call.outputs) == 2

        graph = fx.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        wrapped = torch.ops.apportion_wrapped.add_to.default
        first = graph.call_function(auto_functionalized, (wrapped,), {"y": y, "x": x})
        graph.output(graph.call_function(operator.getitem, (first, 1)))
        old_form = only(fx.GraphModule(nn.Module(), graph), "apportion_wrapped.add_to.default")
        assert [v.name for v in old_form.inputs] == ["x", "y"] and old_form.output(1).returned


def test_marks_are_plain_data() -> None:
    relu = only(exported(lambda x: torch.relu(x), x4), "aten.relu.default")
    relu.fx.meta["custom"] = {"quant": {"bits": 8, "names": ["a", "b"], "object": object()}, "a.b": 1}
    assert relu.mark("custom.quant.bits") == 8
    assert relu.mark("custom.quant.names") == ("a", "b")
    assert relu.mark("custom.a.b") == 1
    for path in ("custom.quant.object", "custom.quant.absent", "absent", "custom.quant.bits.more"):
        assert isinstance(relu.mark(path), Unknown), path


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x) * 2


@pytest.mark.parametrize("strict", [True, False])
def test_module_and_source(strict: bool) -> None:
    program = torch.export.export(Net(), (torch.ones(2, 4),), strict=strict)
    linear, relu, mul = ProgramFacts.of(program).main.calls
    assert (linear.module, relu.module, mul.module) == ("block.0", "block.1", "")
    assert linear.source == ("nn.Linear" if strict else "linear")


# --- forms of programs -----------------------------------------------------------------------------------------


class Traced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.split(torch.relu(self.linear(x)) + self.weight, 2, dim=1)
        return torch.cat([first, second], 1).view(x.size(0), -1)


def test_c14_c17_a_graph_without_metadata_says_so() -> None:
    graph = ProgramFacts.of(fx.symbolic_trace(Traced())).main
    names = [str(c.op) for c in graph.calls]
    assert names == [
        "nn.Linear",
        "torch.relu",
        "operator.add",
        "torch.split",
        "torch.cat",
        "Tensor.size",
        "Tensor.view",
    ]
    relu, add, view = graph.calls[1], graph.calls[2], graph.calls[-1]
    for attribute in ("dtype", "rank", "shape", "numel", "nbytes", "strides", "storage_offset", "dim_order", "device"):
        found = getattr(relu, attribute)
        assert isinstance(found, Unknown) and "no metadata: relu" in found.reason, attribute
    for kind in KINDS:
        is_kind(relu, kind)
    assert isinstance(is_kind(relu, "tensor"), Unknown) and is_kind(relu, "node") is True
    assert add.inputs[1].shape == (4,) and is_kind(add.inputs[1], "parameter") is True
    assert [v.name for v in view.inputs] == ["cat", "size"] and view.arguments["size"] == (view.inputs[1], -1)
    assert [repr(v) for v in graph.calls[4].inputs] == ["split[0]", "split[1]"]


def test_metadata_of_shape_propagation_is_enough() -> None:
    from torch.fx.passes.shape_prop import ShapeProp

    module = fx.symbolic_trace(Traced())
    ShapeProp(module).propagate(torch.ones(3, 4))
    graph = ProgramFacts.of(module).main
    relu = graph.calls[1]
    assert (relu.dtype, relu.shape, relu.strides, relu.dim_order) == (torch.float32, (3, 4), (4, 1), (0, 1))
    assert isinstance(relu.device, Unknown)
    assert graph.calls[3].output(0).shape == (3, 2)


@pytest.mark.parametrize("aot", [False, True])
def test_graphs_of_torch_compile(aot: bool) -> None:
    from torch._dynamo.backends.common import aot_autograd

    seen: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, _: Any) -> Any:
        seen.append(module)
        return module.forward

    compiler: Any = aot_autograd(fw_compiler=backend) if aot else backend
    with torch.no_grad():
        torch.compile(Net(), backend=compiler, dynamic=True)(torch.ones(3, 4))
    graph = ProgramFacts.of(seen[0]).main
    relu = next(c for c in graph.calls if c.op is not None and c.op.base == "relu")
    assert relu.rank == 2 and isinstance(relu.shape[0], Dim)  # type: ignore[index]
    assert relu.shape[1] == 4 and is_kind(relu, "symbolic") is True  # type: ignore[index]
    sizes = [v for v in graph.placeholders if v.size is not None]
    assert len(sizes) == 1 and is_kind(sizes[0], "int") is True


def test_a_program_is_a_program() -> None:
    with pytest.raises(TypeError, match="ExportedProgram"):
        ProgramFacts.of(nn.Linear(1, 1))  # type: ignore[arg-type]


def test_edge_programs() -> None:
    exir = pytest.importorskip("executorch.exir")
    import io

    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.conv2d(x, self.w, self.b, stride=[2])
        return y.view(x.shape[0], -1).to(torch.float16)

    state = {"w": nn.Parameter(torch.ones(4, 3, 3, 3)), "b": nn.Parameter(torch.ones(4))}
    program = exported(function, x4, dynamic=(({0: torch.export.Dim("n", min=2, max=32)},),), decompose=False, **state)
    edge = exir.to_edge(program).exported_program()
    file = io.BytesIO()
    exir.save(edge, file)
    file.seek(0)
    for form in (edge, exir.load(file)):
        calls = [c for c in ProgramFacts.of(form).main.calls if not c.size_queries and str(c.op) != "aten.sym_size.int"]
        assert [str(c.op) for c in calls] == [
            "aten.convolution.default",
            "aten.view_copy.default",
            "dim_order_ops._to_dim_order_copy.default",
        ]
        convolution, view, cast = calls
        assert convolution.arguments["stride"] == (2, 2) and convolution.arguments["padding"] == (0, 0)
        assert len(convolution.inputs) == 3 and is_kind(convolution.inputs[2], "parameter") is True
        assert is_kind(view.arguments["size"], "symbolic") is True and len(view.inputs) == 2
        assert cast.dtype == torch.float16 and cast.arguments["dim_order"] == (0, 1)


def test_what_draws_no_random_numbers_has_no_effect() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        attend, drop = nn.functional.scaled_dot_product_attention, nn.functional.dropout
        return [attend(x, x, x), attend(x, x, x, dropout_p=0.5), drop(x, 0.5, False), drop(x, 0.5, True), torch.rand(2)]

    calls = ProgramFacts.of(exported(function, torch.ones(1, 2, 4, 8), decompose=False)).main.calls
    assert [c.is_random for c in calls] == [False, True, False, True, True]
    assert [c.has_effects for c in calls] == [False, True, False, True, True]
