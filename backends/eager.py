"""The reference backend: PyTorch itself. A delegate's bytes are the partition as `torch.export.save` writes it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from apportion.backends.bytes import pack, unpack
from apportion.backends.portable import debug_handles, portable
from apportion.engine.lowering.details import BackendDetails, Executable, PreprocessResult
from apportion.engine.lowering.inner import writable
from apportion.engine.result import CompileSpec

__all__ = ["EagerBackend"]

_KIND = "eager/1"


class EagerBackend(BackendDetails):
    """Runs a partition op by op, as PyTorch does without any backend."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Serialize the partition, weights included."""
        program = portable(edge_program)
        handles = debug_handles(edge_program)
        results = len(program.graph_signature.user_outputs)
        buffer = io.BytesIO()
        torch.export.save(writable(program), buffer)
        return PreprocessResult(pack(_KIND, {"program": buffer.getvalue(), "results": b"%d" % results}), handles)

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: list[CompileSpec], named_data: Any = None) -> Executable:
        """Deserialize; buffers that the partition took over live in what is returned."""
        parts = unpack(processed_bytes, _KIND)
        module = torch.export.load(io.BytesIO(parts["program"])).module(check_guards=False)
        results = int(parts["results"])

        def run(*inputs: Any) -> Sequence[Any]:
            outputs = module(*inputs)
            return outputs[:results] if isinstance(outputs, (tuple, list)) else (outputs,)

        return run
