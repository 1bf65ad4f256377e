"""What a backend is: compiles a program to bytes, and loads those bytes to run them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from attrs import define
from torch.export import ExportedProgram

from apportion.engine.lowering.copies import own_copy
from apportion.engine.lowering.errors import MethodError
from apportion.engine.result import CompileSpec

__all__ = ["BackendDetails", "Executable", "PreprocessResult"]

Executable = Callable[..., Sequence[Any]]
"""A loaded delegate: called with the user inputs of its program in order, gives its user outputs in order."""


@define
class PreprocessResult:
    """What compiling gives: the bytes that run, and optionally a map from the delegate's own nodes to the debug handles
    of the nodes they came from, data that delegates share (`named_data`), and anything to be kept in `meta`.
    """

    processed_bytes: bytes = b""
    debug_handle_map: Mapping[Any, tuple[int, ...]] | None = None
    data_store_output: Any = None
    _delegate_info_meta: Any = None


class BackendDetails(ABC):
    """The base of every backend. A direct subclass is a backend by the name of its class; there is nothing to register.

    A subclass of a backend is refused (TypeError): a backend is final. `preprocess` must be given; a backend that can
    also run here gives `load`.
    """

    _initialized: ClassVar[bool] = False
    _initializing: ClassVar[threading.RLock] = threading.RLock()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for base in cls.__mro__[1:]:
            if base is not BackendDetails and issubclass(base, BackendDetails):
                raise TypeError(
                    f"{cls.__name__} derives from the backend {base.__name__}; backends are final, derive from "
                    "BackendDetails and share code through functions"
                )

    @staticmethod
    @abstractmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile a partition. `edge_program` is the backend's own copy; its user inputs and outputs are flat."""

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: Mapping[str, list[ExportedProgram]],
        compile_specs: Mapping[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compile all partitions of this backend in all methods at once, so that they may share data.

        Both mappings and the result have, by method, one item a partition in the same order. This default compiles each
        alone. Raises MethodError where lengths differ.
        """
        results: dict[str, list[PreprocessResult]] = {}
        for method, programs in edge_programs.items():
            specs = compile_specs.get(method)
            if specs is None or len(specs) != len(programs):
                found = "no" if specs is None else str(len(specs))
                raise MethodError(f"method {method} has {len(programs)} partitions but {found} lists of compile specs")
            results[method] = [cls.preprocess(one, its) for one, its in zip(programs, specs, strict=False)]
        return results

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The backend's own copy of a partition, to change as it likes; weights are copied too."""
        return own_copy(edge_program)

    @classmethod
    def load(
        cls, processed_bytes: bytes, compile_specs: list[CompileSpec], named_data: Any = None
    ) -> Executable:
        """Make what `preprocess` wrote runnable. Raises NotImplementedError for a backend that only compiles."""
        raise NotImplementedError(f"{cls.__name__} compiles for another machine; its delegates don't run here")

    @classmethod
    def initialize(cls) -> None:
        """Called once in a process, before the first `preprocess` or `load`; most backends need nothing."""
        return None

    @classmethod
    def ensure_initialized(cls) -> None:
        """Call `initialize` unless it was called before; thread-safe."""
        with BackendDetails._initializing:
            if not cls.__dict__.get("_initialized", False):
                cls.initialize()
                cls._initialized = True
