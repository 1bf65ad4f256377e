"""The model of `apportion demo`: a small image classifier in plain torch, with random weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SmallVision", "example_inputs"]


class Block(nn.Module):
    """A depthwise and a pointwise convolution around a residual connection: (N, C, H, W) to the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The block applied to x."""
        y = nn.functional.hardswish(self.norm(self.depthwise(x)))
        return torch.relu(x + self.pointwise(y))


class SmallVision(nn.Module):
    """A (1, 3, 32, 32) image to its three most likely classes of ten: their probabilities and numbers."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential(Block(channels), Block(channels))
        self.pool = nn.MaxPool2d(2)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, 10)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities, highest first, and class numbers."""
        features = self.pool(self.blocks(self.stem(image)))
        pooled = self.norm(features.mean(dim=(2, 3)))
        probabilities = torch.softmax(self.head(pooled), dim=-1)
        values, classes = torch.topk(probabilities, 3)
        return values, classes


def example_inputs() -> tuple[Tensor, ...]:
    """One image of noise, the same on every call."""
    return (torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)),)
