"""What was compiled once: delegates of equal partitions, found by what the partition computes."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx as fx
from attrs import define, field
from torch.export import ExportedProgram

from apportion.engine.lowering.details import PreprocessResult
from apportion.engine.result import CompileSpec

__all__ = ["Cache", "fingerprint"]


@define(eq=False)
class Cache:
    """The latest results of preprocess, by fingerprint; thread-safe. `hits` and `misses` count."""

    size: int = 64
    hits: int = 0
    misses: int = 0
    _held: OrderedDict[str, PreprocessResult] = field(factory=OrderedDict)
    _lock: threading.Lock = field(factory=threading.Lock)

    def get(self, key: str) -> PreprocessResult | None:
        """What was put under a key."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._held.move_to_end(key)
            return found

    def put(self, key: str, result: PreprocessResult) -> None:
        """Keep a result; the one that was used longest ago makes room."""
        with self._lock:
            self._held[key] = result
            while len(self._held) > self.size:
                self._held.popitem(last=False)


def fingerprint(program: ExportedProgram, backend_id: str, specs: Sequence[CompileSpec]) -> str:
    """Equal for programs that compute the same in the same way from the same constants."""
    digest = hashlib.sha256(f"{backend_id} {list(specs)!r}".encode())
    _add_graph(digest, program.graph_module)
    for spec in program.graph_signature.input_specs:
        digest.update(f"{spec.kind} {spec.target}".encode())
    for spec in program.graph_signature.output_specs:
        digest.update(f"{spec.kind} {spec.target}".encode())
    digest.update(repr(sorted((str(k), str(v)) for k, v in program.range_constraints.items())).encode())
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _add_graph(digest: Any, module: fx.GraphModule) -> None:
    numbers: dict[fx.Node, str] = {}
    for number, node in enumerate(module.graph.nodes):
        numbers[node] = f"%{number}"
        arguments = fx.map_arg((node.args, node.kwargs), lambda n: _Name(numbers[n]))
        target = "" if node.op in ("placeholder", "output") else node.target
        digest.update(f"{node.op} {target} {arguments!r} {_described(node.meta.get('val'))}\n".encode())
        if node.op == "get_attr":
            inner = getattr(module, str(node.target), None)
            if isinstance(inner, fx.GraphModule):
                _add_graph(digest, inner)


class _Name(str):
    def __repr__(self) -> str:
        return str(self)


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}{value.device}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_described, value))}]"
    return str(value)
