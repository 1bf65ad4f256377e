"""The table of argument forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from apportion.engine.facts import ProgramFacts, Value, normalise_call_literal, normalise_literal
from apportion.engine.ops import schema_of
from tests.engine.programs import exported

aten = torch.ops.aten
image, line, cube = torch.ones(2, 4, 8, 8), torch.ones(2, 4, 8), torch.ones(2, 4, 8, 8, 8)
matrix, scalar = torch.ones(3, 5), torch.tensor(1.0)


def call(function: Callable[..., Any], *inputs: torch.Tensor) -> Value:
    """The last op of a function that is exported as it is written."""
    return ProgramFacts.of(exported(function, *inputs, decompose=False)).main.calls[-1]


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (
            lambda x, w: F.conv2d(x, w, stride=[2]),
            (image, torch.ones(4, 4, 3, 3)),
            {"stride": (2, 2), "padding": (0, 0)},
        ),
        (lambda x, w: F.conv1d(x, w, padding=1), (line, torch.ones(4, 4, 3)), {"stride": (1,), "padding": (1,)}),
        (lambda x, w: F.conv3d(x, w, dilation=(1, 2, 1)), (cube, torch.ones(4, 4, 3, 3, 3)), {"dilation": (1, 2, 1)}),
        (
            lambda x, w: aten.convolution.default(x, w, None, [2], [1], [1], False, [0], 1),
            (image, torch.ones(4, 4, 3, 3)),
            {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "output_padding": (0, 0), "groups": 1},
        ),
        (lambda x, w: F.conv2d(x, w, padding="same"), (image, torch.ones(4, 4, 3, 3)), {"padding": "same"}),
        (lambda x, w: F.conv_transpose2d(x, w, stride=2), (image, torch.ones(4, 4, 3, 3)), {"stride": (2, 2)}),
        (lambda x: F.max_pool2d(x, 2), (image,), {"kernel_size": (2, 2), "stride": (2, 2), "dilation": (1, 1)}),
        (lambda x: F.max_pool2d(x, (2, 4), stride=[1]), (image,), {"kernel_size": (2, 4), "stride": (1, 1)}),
        (lambda x: F.avg_pool1d(x, 4), (line,), {"kernel_size": (4,), "stride": (4,), "padding": (0,)}),
        (lambda x: F.avg_pool3d(x, 2), (cube,), {"kernel_size": (2, 2, 2), "stride": (2, 2, 2)}),
        (lambda x: F.adaptive_avg_pool2d(x, 1), (image,), {"output_size": (1, 1)}),
        (lambda x: F.interpolate(x, scale_factor=2.0), (image,), {"scale_factors": (2.0, 2.0)}),
    ],
)
def test_lists_have_the_spatial_rank(function: Any, inputs: Any, expected: dict[str, Any]) -> None:
    arguments = call(function, *inputs).arguments
    assert {name: arguments[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (lambda x: torch.softmax(x, -1), (image,), {"dim": 3}),
        (lambda x: x.permute(0, -2, -1, 1), (image,), {"dims": (0, 2, 3, 1)}),
        (lambda x: x.transpose(-1, -2), (image,), {"dim0": 3, "dim1": 2}),
        (lambda x: x.sum([-1, 1]), (image,), {"dim": (3, 1)}),
        (lambda x: x.sum(-1), (image,), {"dim": (3,)}),
        (lambda x: x.mean((-2, -1), keepdim=True), (image,), {"dim": (2, 3), "keepdim": True}),
        (lambda x: x.unsqueeze(-1), (matrix,), {"dim": 2}),
        (lambda x: x.unsqueeze(-1), (scalar,), {"dim": 0}),
        (lambda x: torch.stack([x, x], -1), (matrix,), {"dim": 2}),
        (lambda x: torch.cat([x, x], -1), (matrix,), {"dim": 1}),
        (lambda x: torch.cat([torch.ones(0), x], -1), (image,), {"dim": 3}),
        (lambda x: x.select(-1, -2), (matrix,), {"dim": 1, "index": -2}),
        (lambda x: aten.slice.Tensor(x, -1, -3, -1), (matrix,), {"dim": 1, "start": -3, "end": -1}),
        (lambda x: x.squeeze(-1), (matrix,), {"dim": 1}),
        (lambda x: torch.cumsum(x, -1), (scalar,), {"dim": 0}),
        (lambda x: torch.flatten(x, 1, -1), (image,), {"start_dim": 1, "end_dim": 3}),
        (lambda x: torch.movedim(x, (-1,), (0,)), (image,), {"source": (3,), "destination": (0,)}),
        (lambda x: torch.argmax(x), (image,), {"dim": None}),
        (lambda x: x.view(-1, 5), (matrix,), {"size": (-1, 5)}),
        (lambda x: x.expand(2, -1, -1), (matrix,), {"size": (2, -1, -1)}),
        (lambda x: aten.tile.default(x, [2, 1]), (matrix,), {"dims": (2, 1)}),
        (lambda x: F.pad(x, [-1, 1]), (matrix,), {"pad": (-1, 1)}),
        (lambda x: F.layer_norm(x, [5]), (matrix,), {"normalized_shape": (5,)}),
        (lambda x: torch.roll(x, -1, -1), (matrix,), {"shifts": (-1,), "dims": (1,)}),
        (lambda x: torch.diagonal(x, -1, -2, -1), (matrix,), {"offset": -1, "dim1": 0, "dim2": 1}),
        (
            lambda x: torch.tensordot(x, torch.ones(5, 3, 1), ([-1], [-3])),
            (matrix,),
            {"dims_self": (1,), "dims_other": (0,)},
        ),
    ],
)
def test_c12_dims_count_from_the_front(function: Any, inputs: Any, expected: dict[str, Any]) -> None:
    arguments = call(function, *inputs).arguments
    assert {name: arguments[name] for name in expected} == expected


def test_an_axis_of_quantization() -> None:
    import torch.ao.quantization.fx._decomposed

    dequantize = torch.ops.quantized_decomposed.dequantize_per_channel.default

    def function(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return dequantize(x, s, z, -1, -128, 127, torch.int8)

    inputs = (torch.ones(3, 5, dtype=torch.int8), torch.ones(5), torch.zeros(5, dtype=torch.int64))
    found = call(function, *inputs)
    assert (found.arguments["axis"], found.arguments["quant_min"], found.arguments["out_dtype"]) == (1, -128, None)


def test_a_copy_twin_has_the_table_of_its_view() -> None:
    found = call(lambda x: aten.unsqueeze_copy.default(x, -1), matrix)
    assert found.arguments["dim"] == 2


def test_an_op_of_somebody_else_is_left_alone() -> None:
    with torch.library._scoped_library("apportion_dims", "FRAGMENT") as library:
        library.define("pick(Tensor x, int dim) -> Tensor")
        library.impl("pick", lambda x, dim: x.clone(), "CompositeExplicitAutograd")
        found = call(lambda x: torch.ops.apportion_dims.pick(x, -1), matrix)
        assert found.arguments["dim"] == -1


@pytest.mark.parametrize(
    ("op", "name", "value", "rank", "expected"),
    [
        ("aten.softmax.int", "dim", -1, 4, 3),
        ("aten.softmax.int", "dim", -1, None, -1),
        ("aten.unsqueeze.default", "dim", -1, 2, 2),
        ("aten.sum.dim_IntList", "dim", -1, 2, (1,)),
        ("aten.sum.dim_IntList", "dim", [-1, 0], 2, (1, 0)),
        ("aten.convolution.default", "stride", [2], 4, (2, 2)),
        ("aten.convolution.default", "stride", 2, 5, (2, 2, 2)),
        ("aten.max_pool2d.default", "kernel_size", 3, None, (3, 3)),
        ("aten.view.default", "size", [-1, 3], 2, (-1, 3)),
        ("aten.select.int", "index", -1, 2, -1),
        ("aten.relu.default", "self", 1, 2, 1),
    ],
)
def test_literals_of_patterns(op: str, name: str, value: Any, rank: int | None, expected: Any) -> None:
    assert normalise_literal(schema_of(op), name, value, rank) == expected


def test_literals_as_they_read_in_a_call() -> None:
    pool = call(lambda x: F.max_pool2d(x, 2), image)
    assert normalise_call_literal(pool, "stride", []) == (2, 2)
    stack = call(lambda x: torch.stack([x, x], 0), matrix)
    assert normalise_call_literal(stack, "dim", -1) == 2
