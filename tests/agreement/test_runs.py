"""Models lowered with the rules' partitioner and run by ExecuTorch's runtime."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch")

import torch
from torch import nn

from apportion.backends.executorch import RulesPartitioner
from tests.agreement import checks
from tests.agreement.models import MODELS, missing_libraries, quantized
from tests.agreement.runs import execute, lower


def _check(name: str) -> None:
    missing = missing_libraries(name)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    row = checks.run_row(name)
    assert row["delegated"] > 0 and row["delegates"] > 0
    assert row["right"] or row["runtime_differs"], row


@pytest.mark.parametrize("name", ["linear_stack", "linear_stack_static"])
def test_small_models_run(name: str) -> None:
    _check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", list(MODELS))
def test_models_run(name: str) -> None:
    _check(name)


@pytest.mark.parametrize("kernel", [1, 3])
def test_what_a_dynamic_convolution_quantizes_together(kernel: int) -> None:
    """XNNPACK: each pixel by itself where the kernel is 1x1, else the whole image, as the converted graph always does.

    Whichever partitioner asks for it: this is why a dynamically quantized network of 1x1 convolutions is off by more
    than a step from its converted graph.
    """
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    image = torch.randn(1, 4, 3, 3) * torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    module = quantized(nn.Conv2d(4, 6, kernel).eval(), (image,), dynamic=True)
    (found,) = execute(lower(torch.export.export(module, (image,)), RulesPartitioner("xnnpack")), (image,))

    whole = module(image)
    if kernel == 3:
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4)
        return
    rows = [[module(image[:, :, i : i + 1, j : j + 1]) for j in range(3)] for i in range(3)]
    pixels = torch.cat([torch.cat(row, dim=3) for row in rows], dim=2)
    torch.testing.assert_close(found, pixels, rtol=1e-4, atol=1e-4)
    assert (found - whole).abs().max() > 1e-2
