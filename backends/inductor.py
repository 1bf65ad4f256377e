"""Inductor ahead of time (AOTInductor). A delegate's bytes are a package with a compiled library for this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputSpec, TensorArgument

from apportion.backends.bytes import pack, unpack
from apportion.backends.portable import debug_handles, portable, without_writes
from apportion.engine.lowering.details import BackendDetails, Executable, PreprocessResult
from apportion.engine.lowering.errors import BackendUnavailableError
from apportion.engine.result import CompileSpec

__all__ = ["InductorBackend"]

_KIND = "inductor/1"


class InductorBackend(BackendDetails):
    """Compiles a partition to native code with AOTInductor; needs a C++ compiler where it compiles."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile the partition, weights included. Raises BackendUnavailableError where there is no C++ compiler."""
        _need_compiler()
        program = _sizes_as_tensors(without_writes(portable(edge_program), "AOTInductor"))
        program.example_inputs = (_examples(program), {})
        from torch._inductor import aoti_compile_and_package

        with tempfile.TemporaryDirectory() as folder:
            path = aoti_compile_and_package(program, package_path=str(Path(folder, "model.pt2")))
            package = Path(path).read_bytes()
        return PreprocessResult(pack(_KIND, {"package": package}), debug_handles(edge_program))

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: list[CompileSpec], named_data: Any = None) -> Executable:
        """Load the library."""
        parts = unpack(processed_bytes, _KIND)
        from torch._inductor import aoti_load_package

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.pt2")
            path.write_bytes(parts["package"])
            module = aoti_load_package(str(path))

        def run(*inputs: Any) -> Sequence[Any]:
            outputs = module(*[v.detach() if isinstance(v, torch.Tensor) else _carrier(v) for v in inputs])
            return outputs if isinstance(outputs, (tuple, list)) else (outputs,)

        return run


def _carrier(size: Any) -> Any:
    """AOTInductor takes tensors only: a size comes as that of one without elements."""
    return torch.empty((size, 0)) if isinstance(size, (int, torch.SymInt)) else size


def _sizes_as_tensors(program: ExportedProgram) -> ExportedProgram:
    """The program with an empty tensor of that size in place of each size that it takes."""
    graph, signature = program.graph, program.graph_signature
    placeholders = graph.find_nodes(op="placeholder")
    sizes = [node for node in placeholders if isinstance(node.meta.get("val"), torch.SymInt)]
    if not sizes:
        return program
    with graph.inserting_after(placeholders[-1]):
        for node in sizes:
            read = graph.call_function(torch.ops.aten.sym_size.int, (node, 0))
            read.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(read, delete_user_cb=lambda user, read=read: user is not read)
    mode = detect_fake_mode([node.meta.get("val") for node in placeholders]) or FakeTensorMode()
    with mode:
        for node in sizes:
            node.meta["val"] = _carrier(node.meta["val"])
    names = {node.name for node in sizes}
    specs = [InputSpec(spec.kind, TensorArgument(spec.arg.name), spec.target) if spec.arg.name in names else spec
             for spec in signature.input_specs]
    program.graph_module.recompile()
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=ExportGraphSignature(specs, signature.output_specs),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[program.verifier],
    )


def _examples(program: ExportedProgram) -> tuple[Any, ...]:
    """What the user inputs look like: fake tensors, symbolic where they may vary."""
    names = set(program.graph_signature.user_inputs)
    return tuple(node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names)


def _need_compiler() -> None:
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else ["g++", "clang++", "c++"])):
        raise BackendUnavailableError(
            "InductorBackend needs a C++ compiler to compile with; install the package g++ (apt install g++, "
            "dnf install gcc-c++) or name one in the environment variable CXX"
        )
