"""ONNX Runtime on the CPU. A delegate's bytes are an ONNX model, made by `torch.onnx` (onnxscript)."""

from __future__ import annotations

import functools
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from apportion.backends.bytes import pack, unpack
from apportion.backends.portable import debug_handles, needed, portable, without_writes
from apportion.engine.lowering.details import BackendDetails, Executable, PreprocessResult
from apportion.engine.result import CompileSpec

__all__ = ["OnnxRuntimeBackend"]

_KIND = "onnxruntime/1"
_EXTRA = "onnxruntime"


class OnnxRuntimeBackend(BackendDetails):
    """Runs a partition in ONNX Runtime with its CPU provider."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Convert the partition to an ONNX model, weights included."""
        needed(_EXTRA, "onnxscript")
        needed(_EXTRA, "onnx")
        program = without_writes(portable(edge_program), "ONNX Runtime")
        with _quiet():
            converted = _converted(program)
        model = converted.model_proto
        held = {tensor.name for tensor in model.graph.initializer}
        names = {
            "inputs": [value.name for value in model.graph.input if value.name not in held],
            "outputs": [value.name for value in model.graph.output],
        }
        parts = {"names": json.dumps(names).encode(), "model": model.SerializeToString()}
        return PreprocessResult(pack(_KIND, parts), debug_handles(edge_program))

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: list[CompileSpec], named_data: Any = None) -> Executable:
        """Open a session; inputs and outputs are passed without copies where they are contiguous."""
        runtime = needed(_EXTRA, "onnxruntime")
        parts = unpack(processed_bytes, _KIND)
        names = json.loads(parts["names"])
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        session = runtime.InferenceSession(parts["model"], options, providers=["CPUExecutionProvider"])
        taken = {value.name for value in session.get_inputs()}

        def run(*inputs: Any) -> Sequence[Any]:
            pairs = zip(names["inputs"], inputs, strict=True)
            fed = {name: _to_numpy(value) for name, value in pairs if name in taken}
            return [torch.from_numpy(value) if value.ndim else torch.tensor(value)
                    for value in session.run(names["outputs"], fed)]

        return run


@functools.cache
def _registry() -> Any:
    """The converters of all ops; reading their sources takes longer than converting a partition."""
    from torch.onnx._internal.exporter import _registration

    return _registration.ONNXRegistry.from_torchlib()


def _converted(program: ExportedProgram) -> Any:
    from torch.onnx._internal.exporter import _core

    converted = _core.export(program, registry=_registry(), verbose=False)
    converted.optimize()
    return converted


def _to_numpy(value: Any) -> Any:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return tensor.detach().contiguous().numpy()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the converter's progress from standard output and its remarks from the log."""
    from contextlib import redirect_stdout

    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=False):
            one.setLevel(level)
