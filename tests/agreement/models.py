"""The models both partitioners are shown: random weights, small inputs, nothing downloaded.

`MODELS` lists them by name. `exported(name)` gives the program that goes into `to_edge_transform_and_lower`, the
module that says what it should compute, and the inputs; the same name gives the same weights every time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from attrs import field, frozen
from torch import nn
from torch.export import Dim, ExportedProgram

__all__ = ["MODELS", "Exported", "Model", "exported", "missing_libraries", "quantized"]

Inputs = tuple[Any, ...]
Built = tuple[nn.Module, Inputs]

_torchvision_ops: list[torch.library.Library] = []


@frozen(eq=False)
class Model:
    """How to make one model. `dynamic` is what `torch.export` takes as `dynamic_shapes`; `quantize` is "static",
    "dynamic" or None; `libraries` must be importable; `small` models belong to the quick run."""

    name: str
    build: Callable[[], Built]
    quantize: str | None = None
    dynamic: Any = None
    libraries: tuple[str, ...] = ()
    small: bool = False


@frozen(eq=False)
class Exported:
    """A model ready for lowering: the program, the module to compare with, and its inputs."""

    program: ExportedProgram
    module: nn.Module
    inputs: Inputs = field(repr=False)


def torchvision_models() -> Any:
    """`torchvision.models` beside a CPU torch: the PyPI wheel wants two ops of its C++ part to be declared."""
    if not _torchvision_ops:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _torchvision_ops.append(library)
    from torchvision import models

    return models


class LinearStack(nn.Module):
    """Three linear layers with the activations that a quantized linear may swallow."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 32, bias=False)
        self.third = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.hardtanh(self.second(x)) + x
        return torch.sigmoid(self.third(x))


class Lstm(nn.Module):
    """Two LSTM layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(x)
        return self.head(out[:, -1])  # type: ignore[no-any-return]


class Logits(nn.Module):
    """A language model that returns one tensor."""

    def __init__(self, model: nn.Module, attribute: str) -> None:
        super().__init__()
        self.model = model
        self.attribute = attribute

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(tokens), self.attribute)  # type: ignore[no-any-return]


def _settled(model: nn.Module, inputs: torch.Tensor) -> nn.Module:
    """The model with its batch norms scaling random weights to unit size: values neither vanish nor explode on the way.

    Means stay 0: centred random features make a deep network chaotic, and then one rounding changes every output.
    """

    def settle(norm: nn.BatchNorm2d, given: tuple[torch.Tensor, ...]) -> None:
        norm.running_var = given[0].square().mean(dim=(0, 2, 3))

    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(settle) for norm in norms]
    with torch.no_grad():
        model.eval()(inputs)
    for hook in hooks:
        hook.remove()
    return model


def _linear_stack(batch: int = 2) -> Built:
    return LinearStack(), (torch.randn(batch, 16),)


def _lstm() -> Built:
    return Lstm(), (torch.randn(2, 6, 8),)


def _vision(name: str, batch: int = 1, size: int = 32) -> Built:
    model = getattr(torchvision_models(), name)(weights=None)
    samples = torch.randn(64, 3, size, size)  # of few, the variances in the last layers are a matter of chance
    return _settled(model, samples), (torch.randn(batch, 3, size, size),)


def _mobilenet(batch: int = 1, size: int = 32) -> Built:
    return _vision("mobilenet_v2", batch, size)


def _vit() -> Built:
    torchvision_models()  # timm imports torchvision
    import timm

    model = timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=64)
    return model, (torch.randn(1, 3, 64, 64),)


def _bert() -> Built:
    torchvision_models()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    return Logits(BertModel(config), "last_hidden_state"), (torch.randint(0, 64, (1, 12)),)


def _llama() -> Built:
    torchvision_models()
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        use_cache=False,
    )
    return Logits(LlamaForCausalLM(config), "logits"), (torch.randint(0, 64, (1, 12)),)


_images = ("torchvision",)
_language = ("torchvision", "transformers")
_batch = ({0: Dim("batch", min=1, max=16)},)
_tokens = ({1: Dim("tokens", min=2, max=32)},)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("linear_stack", _linear_stack, small=True),
        Model("linear_stack_static", _linear_stack, quantize="static", small=True),
        # One row: the runtime chooses quantization parameters for each row, the converted graph for all rows together.
        Model("linear_stack_dynamic", lambda: _linear_stack(1), quantize="dynamic", small=True),
        Model("lstm", _lstm, small=True),
        Model("mobilenet_v2", _mobilenet, libraries=_images),
        Model("mobilenet_v2_dynamic_batch", lambda: _mobilenet(2), dynamic=_batch, libraries=_images),
        Model("mobilenet_v2_static", _mobilenet, quantize="static", libraries=_images),
        Model("mobilenet_v2_dynamic", _mobilenet, quantize="dynamic", libraries=_images),
        # One pixel from the first convolution on: the runtime chooses quantization parameters for each pixel of a 1x1
        # convolution, the converted graph for all pixels together.
        Model("mobilenet_v2_dynamic_pixel", lambda: _mobilenet(size=2), quantize="dynamic", libraries=_images),
        Model("resnet18", lambda: _vision("resnet18"), libraries=_images),
        Model("efficientnet_b0", lambda: _vision("efficientnet_b0"), libraries=_images),
        Model("vit_tiny", _vit, libraries=("torchvision", "timm")),
        Model("bert", _bert, libraries=_language),
        Model("llama", _llama, libraries=_language),
        Model("llama_dynamic_sequence", _llama, dynamic=_tokens, libraries=_language),
    )
}


def missing_libraries(name: str) -> list[str]:
    """The libraries that the model needs and that are not installed."""
    from importlib.util import find_spec

    return [library for library in MODELS[name].libraries if find_spec(library) is None]


def exported(name: str) -> Exported:
    """Build, seed, quantize and export the model of that name."""
    model = MODELS[name]
    torch.manual_seed(0)
    module, inputs = model.build()
    module = module.eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if model.quantize is not None:
            module = quantized(module, inputs, dynamic=model.quantize == "dynamic")
        program = torch.export.export(module, inputs, dynamic_shapes=model.dynamic, strict=False)
    return Exported(program, module, inputs)


def quantized(module: nn.Module, inputs: Inputs, *, dynamic: bool) -> nn.Module:
    """The converted graph that `XNNPACKQuantizer` makes: per-channel weights, calibrated on the inputs."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic))
    graph = torch.export.export(module, inputs, strict=False).module(check_guards=False)
    prepared = prepare_pt2e(graph, quantizer)
    prepared(*inputs)
    converted: nn.Module = convert_pt2e(prepared)
    return converted
