"""Rules files from the installed converters: which ops they list, and which of those really convert and run.

    python -m apportion.backends.derive onnxruntime          # compare the shipped file with what is installed
    python -m apportion.backends.derive openvino --write rules/openvino.rules

Every op that the converter lists is called as PyTorch's own test samples call it; each call becomes a program of one
op, is compiled by the backend, run, and compared with PyTorch. An op is claimed for the types for which all calls
agree.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import torch
from attrs import define, field, frozen
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from apportion.engine.load import load_rules
from apportion.engine.lowering.compiling import as_program
from apportion.engine.lowering.find import backend_named

__all__ = ["Call", "Tried", "calls_of", "listed_ops", "main", "render", "try_call"]

_DTYPES: Final = (torch.float32, torch.int64, torch.bool)
_LARGEST: Final = 4096


@frozen
class Engine:
    """An engine to derive rules for: its backend, its extra, the converter's list, what is said about it."""

    backend_id: str
    listed: Callable[[], set[str]]
    doc: str


@frozen(eq=False)
class Call:
    """A call of an op with real values."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The types of its tensors."""
        tensors = [v for v in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(v, torch.Tensor)]
        return tuple(sorted({str(v.dtype).removeprefix("torch.") for v in tensors}))


@define
class Tried:
    """The outcome for one op: for each combination of types the calls that agree, and why others don't."""

    passed: dict[str, int] = field(factory=dict)
    failed: dict[str, list[str]] = field(factory=dict)


# --- what the converters list ----------------------------------------------------------------------------------------


def _onnx_ops() -> set[str]:
    from torch.onnx._internal.exporter import _registration

    registry = _registration.ONNXRegistry.from_torchlib()
    return {_dotted(str(target)) for target in registry.functions}


def _openvino_ops() -> set[str]:
    from openvino.frontend.pytorch.torchdynamo.op_support import OperatorSupport  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return {name.removeprefix("torch.ops.") for name in OperatorSupport({})._support_dict}


def _dotted(name: str) -> str:
    """`aten::add.Tensor` and `aten::relu` as `aten.add.Tensor` and `aten.relu.default`."""
    dotted = name.replace("::", ".")
    return dotted if dotted.count(".") == 2 else f"{dotted}.default"


ENGINES: Final[Mapping[str, Engine]] = {
    "onnxruntime": Engine("OnnxRuntimeBackend", _onnx_ops, "ONNX Runtime on the CPU"),
    "openvino": Engine("OpenVinoBackend", _openvino_ops, "OpenVINO on the CPU"),
}


def listed_ops(engine: str) -> set[str]:
    """The names of the ops that the installed converter of an engine lists."""
    return ENGINES[engine].listed()


# --- calls -----------------------------------------------------------------------------------------------------------


class _Record(TorchDispatchMode):
    """Notes the calls of wanted ops, as long as fewer than `most` of a kind are known."""

    def __init__(self, wanted: set[str], most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wanted = wanted
        self.most = most
        self.calls: dict[tuple[str, tuple[str, ...]], list[Call]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if str(func) in self.wanted and _is_small((args, kwargs)):
            call = Call(func, *pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs)))
            known = self.calls.setdefault((str(func), call.dtypes), [])
            if len(known) < self.most:
                known.append(call)
        return func(*args, **kwargs)


def _is_small(values: Any) -> bool:
    tensors = [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
    return bool(tensors) and all(v.numel() <= _LARGEST and v.device.type == "cpu" and v.layout == torch.strided
                                 and not v.is_complex() and v.numel() > 0 for v in tensors)


def calls_of(wanted: set[str], most: int = 3) -> dict[tuple[str, tuple[str, ...]], list[Call]]:
    """Calls of ops by name and types, at most `most` of each, as PyTorch's samples for its own tests make them."""
    from torch.testing._internal.common_methods_invocations import op_db

    record = _Record(wanted, most)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for info in op_db:
            for dtype in _DTYPES:
                if dtype in info.supported_dtypes("cpu"):
                    _run_samples(info, dtype, record)
    return record.calls


def _run_samples(info: Any, dtype: torch.dtype, record: _Record) -> None:
    try:
        for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if number >= 8:
                return
            with record, torch.no_grad():
                info(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # a sample that PyTorch itself refuses is no call
        return


# --- trying ----------------------------------------------------------------------------------------------------------


def try_call(call: Call, backend_id: str) -> str | None:
    """Compile and run one call; None where it agrees with PyTorch, else why not, in one line."""
    flat, spec = pytree.tree_flatten((call.args, dict(call.kwargs)))
    places = [place for place, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        values = list(flat)
        for place, tensor in zip(places, tensors, strict=False):
            values[place] = tensor
        args, kwargs = pytree.tree_unflatten(values, spec)
        return pytree.tree_leaves(call.op(*args, **kwargs))

    tensors = [flat[place] for place in places]
    try:
        expected = run(*tensors)
        mode = FakeTensorMode()
        fakes = [mode.from_tensor(t, static_shapes=True) for t in tensors]
        program, _ = as_program(make_fx(run)(*fakes), fakes, {})
        backend = backend_named(backend_id)
        found = backend.load(backend.preprocess(program, []).processed_bytes, [])(*tensors)
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [""]
        return f"{type(problem).__name__}: {lines[0][:100]}"
    return _disagreement(expected, found)


def _disagreement(expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    for one, other in zip(expected, found, strict=True):
        if not isinstance(one, torch.Tensor):
            return f"gives a {type(one).__name__}"
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"gives {other.dtype} {tuple(other.shape)}, not {one.dtype} {tuple(one.shape)}"
        if not torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            return "gives other values"
    return None


def try_all(engine: str, only: Iterable[str] = (), most: int = 3) -> Iterator[tuple[str, Tried]]:
    """The outcome for each op that the converter lists and PyTorch's samples call."""
    wanted = {name for name in listed_ops(engine) if _is_core(name)}
    wanted = wanted & set(only) if only else wanted
    by_op: dict[str, Tried] = {}
    calls = calls_of(wanted, most)
    for (name, dtypes), several in sorted(calls.items()):
        tried = by_op.setdefault(name, Tried())
        key = " ".join(dtypes)
        for call in several:
            problem = try_call(call, ENGINES[engine].backend_id)
            if problem is None:
                tried.passed[key] = tried.passed.get(key, 0) + 1
            else:
                tried.failed.setdefault(key, []).append(problem)
    yield from sorted(by_op.items())


def _is_core(name: str) -> bool:
    """Ops that a decomposed program has: PyTorch's core set."""
    parts = name.split(".")
    if len(parts) != 3 or parts[0] != "aten":
        return False
    packet = getattr(torch.ops.aten, parts[1], None)
    target = getattr(packet, parts[2], None) if packet is not None and parts[2] in packet.overloads() else None
    return isinstance(target, OpOverload) and torch.Tag.core in target.tags


# --- writing ---------------------------------------------------------------------------------------------------------

_BEGIN: Final = "# --- derived; `python -m apportion.backends.derive {engine}` writes it again ---"
_END: Final = "# --- end of what is derived ---"


def render(engine: str, outcome: Mapping[str, Tried]) -> str:
    """The derived part of a rules file: op sets by the types they are taken for."""
    groups: dict[tuple[str, ...], list[str]] = {}
    partly: dict[str, str] = {}
    for name, tried in outcome.items():
        good = sorted({dtype for key in tried.passed if key not in tried.failed for dtype in key.split()})
        if good:
            groups.setdefault(tuple(good), []).append(name)
        elif tried.failed:
            partly[name] = next(iter(next(iter(tried.failed.values()))))
    lines = [_BEGIN.format(engine=engine)]
    for dtypes, names in sorted(groups.items()):
        body = ",\n  ".join(names)
        lines.append(f"ops takes_{'_'.join(dtypes)} = {{\n  {body}\n}}")
    lines += [f"# not taken: {name}: {why}" for name, why in sorted(partly.items())]
    return "\n".join([*lines, _END])


def _replaced(text: str, engine: str, derived: str) -> str:
    begin = re.escape(_BEGIN.format(engine=engine))
    return re.sub(f"{begin}.*?{re.escape(_END)}", lambda _: derived, text, flags=re.DOTALL)


@click.command()
@click.argument("engine", type=click.Choice(sorted(ENGINES)))
@click.option("--write", "target", type=click.Path(dir_okay=False, path_type=Path), help="Rules file to update.")
@click.option("--only", multiple=True, metavar="OP", help="Only this op.")
@click.option("--calls", "most", default=3, show_default=True, help="Calls of each op and type.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the outcome of every op as JSON.")
def main(engine: str, target: Path | None, only: tuple[str, ...], most: int, json_file: Path | None) -> None:
    """Try every op that the converter of ENGINE lists, and say where the shipped rules file differs."""
    outcome = dict(try_all(engine, only, most))
    if json_file is not None:
        document = {name: {"passed": tried.passed, "failed": tried.failed} for name, tried in outcome.items()}
        json_file.write_text(json.dumps(document, indent=1))
    if target is not None:
        text = _replaced(target.read_text(encoding="utf-8"), engine, render(engine, outcome))
        target.write_text(text, encoding="utf-8")
    claimed = {name for rule in load_rules(engine).rules for name in rule.pattern.mentioned}
    good = {name for name, tried in outcome.items() if any(key not in tried.failed for key in tried.passed)}
    click.echo(f"{len(outcome)} ops tried, {len(good)} convert and run")
    for name in sorted(good - claimed):
        click.echo(f"works and is not claimed: {name}")
    for name in sorted((claimed & set(outcome)) - good):
        reasons = [why for several in outcome[name].failed.values() for why in several]
        click.echo(f"claimed and does not work: {name}: {reasons[:1]}")


if __name__ == "__main__":
    main()
