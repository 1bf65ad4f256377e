"""OpenVINO on the CPU. A delegate's bytes are OpenVINO's intermediate representation: a model, and its weights."""

from __future__ import annotations

import functools
import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from apportion.backends.bytes import pack, unpack
from apportion.backends.portable import debug_handles, needed, portable, without_writes
from apportion.engine.lowering.details import BackendDetails, Executable, PreprocessResult
from apportion.engine.result import CompileSpec

__all__ = ["OpenVinoBackend"]

_KIND = "openvino/1"
_EXTRA = "openvino"


class OpenVinoBackend(BackendDetails):
    """Runs a partition in OpenVINO's CPU plugin.

    Compile specs named like properties of the device are handed to it (`PERFORMANCE_HINT`);
    `INFERENCE_PRECISION_HINT` is f32 where they do not say otherwise.
    """

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Convert the partition, weights included."""
        openvino = needed(_EXTRA, "openvino")
        program = without_writes(portable(edge_program), "OpenVINO")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.getLogger("openvino").setLevel(logging.ERROR)
            model = openvino.convert_model(_decoder().from_exported_program(program))
        _declare_inputs(openvino, model, program)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.xml")
            openvino.save_model(model, path, compress_to_fp16=False)
            parts = {"model": path.read_bytes(), "weights": path.with_suffix(".bin").read_bytes()}
        return PreprocessResult(pack(_KIND, parts), debug_handles(edge_program))

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: list[CompileSpec], named_data: Any = None) -> Executable:
        """Compile for the CPU of this machine."""
        openvino = needed(_EXTRA, "openvino")
        parts = unpack(processed_bytes, _KIND)
        core = openvino.Core()
        model = core.read_model(parts["model"], parts["weights"])
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        settings.update({one.key: one.value.decode() for one in compile_specs if one.key.isupper()})
        compiled = core.compile_model(model, "CPU", settings)
        places = range(len(compiled.outputs))
        takes = len(compiled.inputs)

        def run(*inputs: Any) -> Sequence[Any]:
            request = compiled.create_infer_request()
            results = request.infer([_to_numpy(value) for value in inputs[:takes]], share_inputs=True)
            return [torch.from_numpy(results[place].copy()) for place in places]

        return run


def _declare_inputs(openvino: Any, model: Any, program: ExportedProgram) -> None:
    """Say what the converter leaves open: the sizes of tensors that don't vary, and that a size is a number."""
    names = set(program.graph_signature.user_inputs)
    values = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    for parameter, value in zip(model.get_parameters(), values, strict=False):
        if isinstance(value, torch.Tensor):
            sizes = [size if isinstance(size, int) else -1 for size in value.shape]
            parameter.set_partial_shape(openvino.PartialShape(sizes))
        else:
            parameter.set_partial_shape(openvino.PartialShape([]))
            parameter.set_element_type(openvino.Type.i64)
    model.validate_nodes_and_infer_types()


@functools.cache
def _decoder() -> Any:
    """OpenVINO's reader of programs, for graphs that compute the bounds of slices."""
    known = needed(_EXTRA, "openvino.frontend.pytorch.fx_decoder").TorchFXPythonDecoder

    class Decoder(known):  # type: ignore[misc, valid-type]
        def __init__(self, module: Any, *arguments: Any, **keywords: Any) -> None:
            if isinstance(module, fx.GraphModule):
                _bounds_with_a_dim(module.graph)
            super().__init__(module, *arguments, **keywords)

    return Decoder


def _bounds_with_a_dim(graph: fx.Graph) -> None:
    """The frontend takes the bounds of a slice as tensors of one dim, and arithmetic on sizes gives none."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor):
        with graph.inserting_before(node):
            bounds = [graph.call_function(torch.ops.aten.view.default, (bound, [-1]))
                      if isinstance(bound, fx.Node) else bound for bound in node.args[2:4]]
        node.args = (*node.args[:2], *bounds, *node.args[4:])


def _to_numpy(value: Any) -> Any:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return tensor.detach().contiguous().numpy()
