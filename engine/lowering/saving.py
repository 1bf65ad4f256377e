"""Lowered programs in one file: the programs as torch writes them, and beside them the bytes of the delegates.

While a program is written, the calls of its delegates are calls of an ordinary op that holds the delegate's number;
reading puts the delegates back. Nothing in the file is code.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

import torch
import torch.fx as fx
from attrs import define, field
from torch.export import ExportedProgram

from apportion.engine.errors import ProgramError
from apportion.engine.lowering.assemble import graphs_of
from apportion.engine.lowering.call import apportion_call_delegate, attach
from apportion.engine.lowering.copies import copied
from apportion.engine.lowering.errors import BackendNotFoundError, FormatError
from apportion.engine.lowering.find import backend_named
from apportion.engine.lowering.inner import ranges_in, without_outputs, writable
from apportion.engine.lowering.module import LoweredBackendModule
from apportion.engine.result import CompileSpec
from apportion.engine.version import __version__

__all__ = ["load", "save"]

_FORMAT = "apportion.lowered"
_VERSION = 1
_MANIFEST = "apportion.json"

_library = torch.library.Library("apportion", "DEF")
_library.define("delegate(int number, str kinds, Tensor[] tensors, SymInt[] sizes) -> Tensor[]")
# PyTorch can't read an empty list of results.
_library.define("delegate.nothing(int number, str kinds, Tensor[] tensors, SymInt[] sizes) -> ()")


@torch.library.impl(_library, "delegate", "CompositeExplicitAutograd")
@torch.library.impl(_library, "delegate.nothing", "CompositeExplicitAutograd")
def _never(number: int, kinds: str, tensors: list[torch.Tensor], sizes: list[int]) -> list[torch.Tensor]:
    raise RuntimeError("a lowered program that is read without apportion.engine.load has no delegates to call")


def save(program: ExportedProgram | Mapping[str, ExportedProgram], path: str | os.PathLike[str]) -> None:
    """Write a lowered program, or the methods of one, to a file that `load` reads in any process.

    Raises ProgramError for what is no exported program or can't be written; the file is written whole or not at all.
    """
    single = isinstance(program, ExportedProgram)
    programs: Mapping[str, ExportedProgram] = {"forward": program} if isinstance(program, ExportedProgram) else program
    writer = _Writer()
    if not isinstance(programs, Mapping):
        raise ProgramError(f"a {type(program).__qualname__} can't be saved; engine.to_backend gives exported programs")
    for name, one in programs.items():
        if not isinstance(one, ExportedProgram):
            raise ProgramError(f"a {type(one).__qualname__} can't be saved; engine.to_backend gives exported programs")
        writer.add(name, one)
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        writer.write(beside, single)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


@define(eq=False)
class _Writer:
    parts: dict[str, bytes] = field(factory=dict)
    delegates: list[dict[str, Any]] = field(factory=list)
    numbers: dict[int, int] = field(factory=dict)
    methods: list[str] = field(factory=list)

    def add(self, name: str, program: ExportedProgram) -> None:
        """Take in the program of one method."""
        self.parts[f"programs/{len(self.methods)}.pt2"] = _exported_bytes(self._without_delegates(program))
        self.methods.append(name)

    def write(self, path: Path, single: bool) -> None:
        """Write everything that was taken in."""
        manifest = {
            "format": _FORMAT, "version": _VERSION, "single": single, "methods": self.methods,
            "delegates": self.delegates, "torch": torch.__version__, "apportion": __version__,
            "digests": {name: hashlib.sha256(data).hexdigest() for name, data in self.parts.items()},
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
            file.writestr(_MANIFEST, json.dumps(manifest, indent=1))
            for name, data in self.parts.items():
                file.writestr(name, data)

    def _without_delegates(self, program: ExportedProgram) -> ExportedProgram:
        module = copied(program.graph_module)
        for _, one in graphs_of(module):
            for node in list(one.graph.nodes):
                if node.op == "call_function" and node.target is apportion_call_delegate:
                    self._hide(one, node)
            for name, child in list(one.named_children()):
                if isinstance(child, LoweredBackendModule):
                    delattr(one, name)
        return _with_module(program, module)

    def _hide(self, module: fx.GraphModule, node: fx.Node) -> None:
        holder, *operands = node.args
        lowered = getattr(module, str(holder.target))  # type: ignore[union-attr]
        kinds = ["s" if _is_size(arg) else "t" for arg in operands]
        tensors = [arg for arg, kind in zip(operands, kinds, strict=False) if kind == "t"]
        sizes = [arg for arg, kind in zip(operands, kinds, strict=False) if kind == "s"]
        number = self._number(lowered, str(holder.target), node)  # type: ignore[union-attr]
        node.target = torch.ops.apportion.delegate.default if node.users else torch.ops.apportion.delegate.nothing
        node.args = (number, "".join(kinds), tensors, sizes)
        if not holder.users:  # type: ignore[union-attr]
            module.graph.erase_node(holder)  # type: ignore[arg-type]

    def _number(self, lowered: LoweredBackendModule, name: str, node: fx.Node) -> int:
        known = self.numbers.get(id(lowered))
        if known is not None:
            return known
        number = self.numbers[id(lowered)] = len(self.delegates)
        self.parts[f"delegates/{number}"] = lowered.processed_bytes
        self.parts[f"originals/{number}.pt2"] = _exported_bytes(writable(_without_weights(lowered.original_module)))
        handles = lowered.meta.get("debug_handle_map")
        self.delegates.append({
            "name": name,
            "backend_id": lowered.backend_id,
            "compile_specs": [[s.key, base64.b64encode(s.value).decode()] for s in lowered.compile_specs],
            "debug_handle": node.meta.get("debug_handle"),
            "debug_handle_map": None if handles is None else [[key, list(value)] for key, value in handles.items()],
            "named_data": _named_data(lowered),
            "gives_nothing": not lowered.original_module.graph_signature.output_specs,
        })
        return number


def _is_size(node: Any) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (torch.SymFloat, torch.SymBool, float)):
        raise ProgramError(f"{node.name} goes into a delegate and is a {type(value).__name__}; that can't be saved")
    return isinstance(value, (int, torch.SymInt))


def _named_data(lowered: LoweredBackendModule) -> Any:
    data = lowered.named_data_store_output
    if data is None:
        return None
    if isinstance(data, Mapping) and all(isinstance(v, bytes) for v in data.values()):
        return {str(key): base64.b64encode(value).decode() for key, value in data.items()}
    raise ProgramError(f"the shared data of a delegate of {lowered.backend_id} is a {type(data).__qualname__}; "
                       "only a dict of bytes can be saved")


def _exported_bytes(program: ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    try:
        torch.export.save(program, buffer)
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise ProgramError(f"torch {torch.__version__} can't write this program: {lines[0]}") from problem
    return buffer.getvalue()


def _with_module(program: ExportedProgram, module: fx.GraphModule, **changed: Any) -> ExportedProgram:
    state = {"state_dict": program.state_dict, "constants": program.constants, **changed}
    return ExportedProgram(
        root=module, graph=module.graph, graph_signature=program.graph_signature,
        range_constraints=ranges_in(module, module.graph, program.range_constraints),
        module_call_graph=program.module_call_graph,
        verifiers=[program.verifier], **state,
    )


def _without_weights(program: ExportedProgram) -> ExportedProgram:
    """The program a delegate was made of, for readers: its weights have their shapes, but are all zeros."""

    def hollow(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.zeros((), dtype=value.dtype).expand(value.shape)
        return torch.nn.Parameter(made, requires_grad=False) if isinstance(value, torch.nn.Parameter) else made

    return _with_module(
        program, copied(program.graph_module),
        state_dict={name: hollow(value) for name, value in program.state_dict.items()},
        constants={name: hollow(value) for name, value in program.constants.items()},
    )


# --- reading ---------------------------------------------------------------------------------------------------------

Loaded = Union[ExportedProgram, dict[str, ExportedProgram]]


def load(path: str | os.PathLike[str]) -> Loaded:
    """Read what `save` wrote: an exported program, or the dict of methods that was saved.

    Raises FileNotFoundError, FormatError for a file that is damaged, of another kind or of a newer version, and
    BackendNotFoundError where the backend of a delegate is not installed.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            if _MANIFEST not in names:
                raise FormatError(f"{path}: is no lowered program (engine.save writes them); it has no {_MANIFEST}")
            manifest = json.loads(archive.read(_MANIFEST))
            _check_version(path, manifest)
            parts = {name: archive.read(name) for name in manifest["digests"]}
    except (zipfile.BadZipFile, KeyError, EOFError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise FormatError(f"{path}: is damaged or cut off, or no lowered program ({problem})") from problem
    for name, digest in manifest["digests"].items():
        if hashlib.sha256(parts[name]).hexdigest() != digest:
            raise FormatError(f"{path}: {name} is damaged: its checksum is wrong")
    _check_backends(path, manifest)
    delegates = [_delegate(number, one, parts) for number, one in enumerate(manifest["delegates"])]
    programs = {
        name: _with_delegates(_read(path, parts[f"programs/{number}.pt2"]), delegates, manifest["delegates"])
        for number, name in enumerate(manifest["methods"])
    }
    return programs["forward"] if manifest["single"] else programs


def _check_version(path: Any, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise FormatError(f"{path}: is no lowered program; its manifest says {str(manifest)[:60]}")
    if manifest["version"] > _VERSION:
        raise FormatError(
            f"{path}: was written in format {manifest['version']} by apportion {manifest.get('apportion')}; "
            f"apportion {__version__} reads up to format {_VERSION}"
        )


def _check_backends(path: Any, manifest: Mapping[str, Any]) -> None:
    missing = []
    for backend_id in sorted({one["backend_id"] for one in manifest["delegates"]}):
        try:
            backend_named(backend_id)
        except BackendNotFoundError:
            missing.append(backend_id)
    if missing:
        raise BackendNotFoundError(
            f"{path}: needs {', '.join(missing)}; install the package that brings it, or import the module that has it"
        )


def _read(path: Any, data: bytes) -> ExportedProgram:
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return torch.export.load(io.BytesIO(data))
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise FormatError(f"{path}: torch {torch.__version__} can't read the program in it: {lines[0]}") from problem
    finally:
        logger.setLevel(level)


def _delegate(number: int, entry: Mapping[str, Any], parts: Mapping[str, bytes]) -> LoweredBackendModule:
    original = torch.export.load(io.BytesIO(parts[f"originals/{number}.pt2"]))
    original = without_outputs(original) if entry["gives_nothing"] else original
    specs = [CompileSpec(key, base64.b64decode(value)) for key, value in entry["compile_specs"]]
    data = entry["named_data"]
    named = None if data is None else {key: base64.b64decode(value) for key, value in data.items()}
    made = LoweredBackendModule(original, entry["backend_id"], parts[f"delegates/{number}"], specs, named)
    handles = entry["debug_handle_map"]
    made.meta = {"debug_handle_map": None if handles is None else {key: tuple(value) for key, value in handles}}
    return made


def _with_delegates(
    program: ExportedProgram, delegates: list[LoweredBackendModule], entries: list[Mapping[str, Any]]
) -> ExportedProgram:
    module = program.graph_module
    for _, one in graphs_of(module):
        for node in list(one.graph.nodes):
            if node.target in (torch.ops.apportion.delegate.default, torch.ops.apportion.delegate.nothing):
                _restore(one, node, delegates[node.args[0]], entries[node.args[0]])
        one.recompile()
    return _with_module(program, module)


def _restore(module: fx.GraphModule, node: fx.Node, lowered: LoweredBackendModule, entry: Mapping[str, Any]) -> None:
    arguments: Any = node.args
    _, kinds, tensors, sizes = arguments
    queues = {"t": iter(tensors), "s": iter(sizes)}
    operands = [next(queues[kind]) for kind in kinds]
    name = str(entry["name"])
    if getattr(module, name, lowered) is not lowered:
        name = attach(module, lowered)
    module.add_module(name, lowered)
    with module.graph.inserting_before(node):
        holder = module.graph.create_node("get_attr", name, name=name)
        holder.meta["val"] = None
        call = module.graph.call_function(apportion_call_delegate, (holder, *operands))
    call.meta = {"val": [], **node.meta}
    if entry["debug_handle"] is not None:
        call.meta["debug_handle"] = entry["debug_handle"]
    node.replace_all_uses_with(call)
    module.graph.erase_node(node)
