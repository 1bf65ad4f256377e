"""A delegate: the bytes that a backend made of a partition, callable like any module."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from apportion.engine.lowering.call import apportion_call_delegate
from apportion.engine.lowering.details import Executable
from apportion.engine.lowering.errors import BackendNotFoundError, DelegateError
from apportion.engine.lowering.find import backend_named
from apportion.engine.result import CompileSpec

__all__ = ["LoweredBackendModule"]


class LoweredBackendModule(torch.nn.Module):
    """What a backend made of a program.

    `processed_bytes` are what runs: they are handed to the backend's `load` at the first call, once. `original_module`
    is the program they were made of, for readers; it is never executed. `meta` has `debug_handle_map` and, where the
    backend gave it, `_delegate_info_meta`.
    """

    def __init__(
        self,
        edge_program: ExportedProgram,
        backend_id: str,
        processed_bytes: bytes,
        compile_specs: Sequence[CompileSpec],
        named_data_store_output: Any = None,
    ) -> None:
        super().__init__()
        self._original = edge_program
        self._backend_id = backend_id
        self._processed_bytes = processed_bytes
        self._compile_specs = list(compile_specs)
        self._named_data = named_data_store_output
        self.meta: dict[str, Any] = {"debug_handle_map": None}
        self._executable: Executable | None = None
        self._loading = threading.Lock()

    @property
    def backend_id(self) -> str:
        """The backend that runs it."""
        return self._backend_id

    @property
    def processed_bytes(self) -> bytes:
        """What the backend made; setting other bytes unloads the old ones."""
        return self._processed_bytes

    @processed_bytes.setter
    def processed_bytes(self, value: bytes) -> None:
        with self._loading:
            self._processed_bytes = value
            self._executable = None

    @property
    def compile_specs(self) -> list[CompileSpec]:
        """The settings it was compiled with."""
        return self._compile_specs

    @property
    def original_module(self) -> ExportedProgram:
        """The program it was made of, as it was before the backend saw its copy."""
        return self._original

    @property
    def named_data_store_output(self) -> Any:
        """Data that the backend shares between delegates, as it gave it."""
        return self._named_data

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run it as the program that it was made of: the same arguments, the same structure of results."""
        spec = self._original.call_spec
        flat = self._flat_inputs(args, kwargs)
        outputs = apportion_call_delegate(self, *flat)
        return outputs if spec.out_spec is None else pytree.tree_unflatten(list(outputs), spec.out_spec)

    def _flat_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        expected = self._original.call_spec.in_spec
        flat, given = pytree.tree_flatten((args, kwargs))
        if expected is not None and given != expected:
            raise DelegateError(f"{self._name()} takes arguments like {expected}, not like {given}")
        return flat

    def run(self, *args: Any) -> list[Any]:
        """Run the bytes: user inputs in order, gives the user outputs in order. Raises DelegateError."""
        executable = self._executable or self._load()
        with torch.no_grad():
            outputs = list(executable(*args))
        expected = len(self._output_nodes())
        if len(outputs) != expected:
            raise DelegateError(f"{self._name()} gave {len(outputs)} outputs, not {expected}")
        return outputs

    def _load(self) -> Executable:
        with self._loading:
            if self._executable is None:
                try:
                    backend = backend_named(self._backend_id)
                except BackendNotFoundError as problem:
                    raise DelegateError(f"{self._name()} can't run: {problem}") from problem
                self._executable = backend.load(self._processed_bytes, self._compile_specs, self._named_data)
            return self._executable

    def describe(self, *args: Any) -> list[Any]:
        """Shapes and dtypes of the outputs for fake inputs; nothing is computed, the backend is not asked."""
        outputs: list[Any] = [n.meta.get("val") if isinstance(n, fx.Node) else n for n in self._output_nodes()]
        if all(isinstance(v, torch.Tensor) and _is_static(v) for v in outputs):
            return [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in outputs]
        return _propagate(self._original, args)

    def _output_nodes(self) -> list[Any]:
        """The nodes of the original program that are user outputs, in order."""
        (results,) = self._original.graph_module.graph.output_node().args
        specs = self._original.graph_signature.output_specs
        return [node for node, spec in zip(results, specs, strict=False) if spec.kind == OutputKind.USER_OUTPUT]

    def _name(self) -> str:
        names = [getattr(node, "name", "?") for node in self._output_nodes()]
        return f"the delegate of {self._backend_id} that computes {', '.join(names) or 'nothing'}"

    def extra_repr(self) -> str:
        """For `print`."""
        return f"{self._backend_id}, {len(self._processed_bytes)} bytes"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_loading"]
        state["_executable"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._loading = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredBackendModule:
        """A delegate with the same bytes and a state of its own; the program it was made of never changes: shared."""
        made = LoweredBackendModule(
            self._original, self._backend_id, self._processed_bytes, self._compile_specs, self._named_data
        )
        made.meta = dict(self.meta)
        memo[id(self)] = made
        return made


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in (*value.shape, *value.stride()))


def _propagate(program: ExportedProgram, args: Sequence[Any]) -> list[Any]:
    """The outputs of a program for fake inputs, by running its graph on them."""
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = detect_fake_mode(args) or FakeTensorMode()
    state: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            break
        held = program.state_dict.get(spec.target, program.constants.get(spec.target))
        state.append(mode.from_tensor(held) if isinstance(held, torch.Tensor) else held)
    outputs = fx.Interpreter(program.graph_module).run(*state, *args)
    specs = program.graph_signature.output_specs
    return [value for value, spec in zip(outputs, specs, strict=False) if spec.kind == OutputKind.USER_OUTPUT]
