"""dim_order against PyTorch's own."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.engine.facts.layout import channels_last, contiguous, dim_order_of


@given(st.lists(st.integers(0, 3), max_size=5), st.randoms(use_true_random=False), st.integers(0, 3))
def test_dim_order_is_pytorchs(shape: list[int], random: object, form: int) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    tensor = torch.empty(shape).permute(order)
    if form == 1 and tensor.dim():
        tensor = tensor.unsqueeze(0).expand(2, *tensor.shape)
    if form == 2:
        tensor = tensor[..., :1] if tensor.dim() else tensor
    if form == 3 and tensor.dim() == 4:
        tensor = tensor.to(memory_format=torch.channels_last)
    assert dim_order_of(tensor.shape, tensor.stride()) == tuple(tensor.dim_order())
    assert contiguous(tensor.shape, tensor.stride()) == tensor.is_contiguous()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() in formats:
        expected = tensor.is_contiguous(memory_format=formats[tensor.dim()])
        assert channels_last(tensor.shape, tensor.stride()) == expected
    else:
        assert channels_last(tensor.shape, tensor.stride()) is False
