"""Ops by name: nodes of every form, names of rules files, schemas."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import fx, nn

from apportion.engine.facts import ProgramFacts
from apportion.engine.ops import (
    UnknownOp,
    is_assertion,
    is_commutative,
    is_size_query,
    op_of,
    parse_schema,
    resolve_op,
    schema_difference,
    schema_of,
    twin_of,
)
from tests.engine.programs import exported

DEQUANTIZE = (
    "some_library::dequantize(Tensor input, float scale, int zero_point, ScalarType dtype, *, "
    "ScalarType? out_dtype=None) -> Tensor"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten.relu.default", {"aten.relu.default"}),
        ("aten.view.default", {"aten.view.default", "aten.view_copy.default"}),
        ("aten.view_copy.default", {"aten.view_copy.default"}),
        ("aten.slice.Tensor", {"aten.slice.Tensor", "aten.slice_copy.Tensor"}),
        ("aten.index.Tensor", {"aten.index.Tensor"}),
        ("aten.add", {"aten.add.Tensor", "aten.add.Scalar"}),
        ("aten.add_.Tensor", {"aten.add_.Tensor"}),
        ("higher_order.cond", {"higher_order.cond"}),
        ("torch.relu", {"torch.relu"}),
        ("operator.add", {"operator.add"}),
        ("operator.getitem", {"operator.getitem"}),
        ("Tensor.view", {"Tensor.view"}),
        ("nn.Linear", {"nn.Linear"}),
        ("torch.nn.Linear", {"nn.Linear"}),
        ("nn.functional.relu", {"torch.nn.functional.relu"}),
    ],
)
def test_names_of_a_rules_file(name: str, expected: set[str]) -> None:
    assert resolve_op(name, {}) == expected


def test_a_packet_is_every_functional_overload() -> None:
    found = resolve_op("aten.view")
    assert found == {"aten.view.default", "aten.view.dtype", "aten.view_copy.default", "aten.view_copy.dtype"}
    assert not any("out" in name for name in resolve_op("aten.mean"))


def test_i12_a_misspelt_overload_lists_the_real_ones() -> None:
    with pytest.raises(UnknownOp) as caught:
        resolve_op("aten.upsample_bilinear2d.vek")
    assert caught.value.nearest[0] == "aten.upsample_bilinear2d.vec"
    assert "aten.upsample_bilinear2d.default" in caught.value.nearest
    assert "has no overload vek" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aten.rleu.default", "aten.relu.default"),
        ("atn.relu.default", "aten.relu.default"),
        ("aten.convolutoin", "aten.convolution"),
        ("relu", "aten.relu"),
        ("nn.Linera", "nn.Linear"),
        ("Tensor.veiw", "Tensor.view"),
        ("torch.rleu", "torch.relu"),
        ("higher_order.kond", "higher_order.cond"),
    ],
)
def test_unknown_names_have_near_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownOp) as caught:
        resolve_op(name)
    assert near in caught.value.nearest
    with pytest.raises(UnknownOp):
        schema_of(name)


def test_an_absent_library_is_said_to_be_absent() -> None:
    with pytest.raises(UnknownOp, match="`declare`"):
        resolve_op("some_library.dequantize.default")


def test_looking_up_loads_nothing() -> None:
    script = (
        "import sys, apportion.engine.ops as ops\n"
        "before = set(sys.modules)\n"
        "for name in ('quantized_decomposed.dequantize_per_tensor.default', 'torchvision.nms', 'executorch.x.y'):\n"
        "    try: ops.resolve_op(name)\n"
        "    except ops.UnknownOp: pass\n"
        "    else: raise SystemExit(f'{name} is known')\n"
        "ops.resolve_op('aten.relu.default'), ops.schema_of('aten.relu.default')\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "sys.exit(', '.join(sorted(new)))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stderr.strip() in ("", "torch"), run.stderr


def test_a_custom_op_can_be_named() -> None:
    with torch.library._scoped_library("apportion_test", "DEF") as library:
        library.define("pair(Tensor x) -> Tensor")
        library.define("pair.scaled(Tensor x, float s) -> Tensor")
        library.define("pair.into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        assert resolve_op("apportion_test.pair") == {"apportion_test.pair.default", "apportion_test.pair.scaled"}
        assert resolve_op("apportion_test.pair.scaled") == {"apportion_test.pair.scaled"}
        assert [a.name for a in schema_of("apportion_test.pair.scaled").arguments] == ["x", "s"]


# --- schemas ---------------------------------------------------------------------------------------------------


def test_types_are_written_as_in_schemas() -> None:
    op = schema_of("aten.convolution.default")
    assert [(a.name, a.type) for a in op.arguments][:4] == [
        ("input", "Tensor"),
        ("weight", "Tensor"),
        ("bias", "Tensor?"),
        ("stride", "int[]"),
    ]
    assert op.returns == ("Tensor",)
    mean = schema_of("aten.mean.dim")
    assert [a.type for a in mean.arguments] == ["Tensor", "int[]?", "bool", "ScalarType?"]
    assert mean.argument("dtype").kwarg_only and mean.argument("dim").is_list  # type: ignore[union-attr]
    assert schema_of("aten.add.Tensor").argument("alpha").type == "Scalar"  # type: ignore[union-attr]
    assert schema_of("aten.max_pool2d.default").argument("stride").default == ()  # type: ignore[union-attr]
    assert schema_of("aten.split.Tensor").is_multi_output and schema_of("aten.topk.default").is_multi_output


def test_one_object_for_a_name() -> None:
    program = exported(lambda x: torch.relu(x), torch.ones(2))
    (node,) = (n for n in program.graph.nodes if n.op == "call_function")
    assert op_of(node) is schema_of("aten.relu.default")


def test_effects() -> None:
    assert schema_of("aten.add_.Tensor").is_mutable and schema_of("aten.add_.Tensor").has_effects
    assert schema_of("aten.add_.Tensor").writes == ("self",)
    assert schema_of("aten.bernoulli.default").is_random and schema_of("aten.bernoulli.default").has_effects
    assert schema_of("aten._assert_scalar.default").has_effects
    assert not schema_of("aten.relu.default").has_effects
    assert schema_of("Tensor.add_").is_mutable and schema_of("nn.Dropout").has_effects
    assert schema_of("operator.iadd").is_mutable and not schema_of("operator.add").is_mutable


def test_views_and_their_twins() -> None:
    for name in ("aten.view.default", "aten.view_copy.default", "aten.permute.default", "aten.t.default"):
        assert schema_of(name).is_view, name
    for name in ("aten.relu.default", "aten.index_copy.default", "aten.add_.Tensor", "aten.clone.default"):
        assert not schema_of(name).is_view, name
    assert twin_of("aten.permute.default") == "aten.permute_copy.default" and twin_of("aten.relu.default") is None


def test_declared_ops() -> None:
    op = parse_schema(DEQUANTIZE)
    declared = {op.name: op}
    assert op.name == "some_library.dequantize.default"
    assert resolve_op(op.name, declared) == resolve_op("some_library.dequantize", declared) == {op.name}
    assert schema_of(op.name, declared) is op
    with pytest.raises(UnknownOp) as caught:
        resolve_op("some_library.dequantise.default", declared)
    assert caught.value.nearest == (op.name,)


@pytest.mark.parametrize("text", ["", "foo", "a::b(Tensor x", "b(Tensor x) -> Tensor", "a::b(Tensr x) -> Tensor"])
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(ValueError, match="schema|namespace"):
        parse_schema(text)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("zero_point", "zp"), "zp is called zero_point"),
        (("float scale", "Tensor scale"), "scale is Tensor"),
        (("=None", ""), "another default"),
        ((", *, ", ", "), "keyword-only"),
        ((", *, ScalarType? out_dtype=None", ""), "it has 4 arguments"),
        (("-> Tensor", "-> Tensor[]"), "it returns Tensor[]"),
    ],
)
def test_a_declaration_is_compared_with_the_real_schema(change: tuple[str, str], says: str) -> None:
    real = parse_schema(DEQUANTIZE)
    assert schema_difference(parse_schema(DEQUANTIZE), real) is None
    assert says in (schema_difference(parse_schema(DEQUANTIZE.replace(*change)), real) or "")


# --- nodes -----------------------------------------------------------------------------------------------------


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.linear(x)) + x
        return nn.functional.gelu(y.view(-1, 4))


def test_names_of_a_graph_before_aot() -> None:
    names = [str(op_of(n)) for n in fx.symbolic_trace(Mixed()).graph.nodes if op_of(n) is not None]
    assert names == ["nn.Linear", "torch.relu", "operator.add", "Tensor.view", "torch.nn.functional.gelu"]
    for name in names:
        assert resolve_op(name) == {name}


def test_no_op_of_placeholders_and_outputs() -> None:
    program = exported(lambda x: x + 1, torch.ones(2))
    assert [op_of(n) is None for n in program.graph.nodes] == [True, False, True]


def test_size_queries_and_assertions() -> None:
    assert is_size_query(schema_of("aten.sym_size.int")) and not is_size_query(schema_of("aten.relu.default"))
    assert is_assertion(schema_of("aten._assert_async.msg"))
    assert is_assertion(schema_of("aten.sym_constrain_range.default"))
    assert not is_size_query(None) and not is_assertion(None)


def test_commutative_calls() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x * y, torch.add(x, y), torch.add(x, y, alpha=2), x - y, torch.maximum(x, y), x == y, x / y]

    program = exported(function, torch.ones(2), torch.ones(2))
    verdicts = [is_commutative(call) for call in ProgramFacts.of(program).main.calls]
    assert verdicts == [True, True, False, False, True, True, False]
