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
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import torch
from attrs import define, evolve, field, frozen
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.compile.units import shipped_folder
from apportion.engine.errors import ProgramError
from apportion.engine.load import load_rules, parse_rules
from apportion.engine.lowering.compiling import as_program
from apportion.engine.lowering.find import backend_named
from apportion.engine.partition import partition
from apportion.grammar.format import format_file
from apportion.grammar.parse import parse

__all__ = ["Call", "Tried", "calls_of", "claimed_in_vain", "listed_ops", "main", "render", "tried", "updated"]

_DTYPES: Final = (torch.float32, torch.int64, torch.int32, torch.bool)
_LARGEST: Final = 4096


@frozen
class Engine:
    """An engine to derive rules for: its backend, its extra, the converter's list, what is said about it."""

    backend_id: str
    listed: Callable[[], set[str]]
    doc: str


@frozen(eq=False)
class Call:
    """A call of an op with real values; perhaps only for the first of its results."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    only_first: bool = False

    def __str__(self) -> str:
        tensors = pytree.tree_map_only(torch.Tensor, lambda t: f"{str(t.dtype)[6:]}{list(t.shape)}", self.args)
        named = "".join(f", {key}={value}" for key, value in self.kwargs.items() if value is not None)
        return f"{self.op}({', '.join(map(str, tensors))}{named}){'[0]' if self.only_first else ''}"

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Its tensors, in order."""
        return [v for v in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(v, torch.Tensor)]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The types of its tensors."""
        return tuple(sorted({str(v.dtype).removeprefix("torch.") for v in self.tensors}))

    def run(self, *tensors: torch.Tensor) -> list[Any]:
        """The results for these tensors in place of its own."""
        given = iter(tensors)
        flat, spec = pytree.tree_flatten((self.args, dict(self.kwargs)))
        args, kwargs = pytree.tree_unflatten([next(given) if isinstance(v, torch.Tensor) else v for v in flat], spec)
        found = pytree.tree_leaves(self.op(*args, **kwargs))
        return found[:1] if self.only_first else found


@define
class Tried:
    """The outcome for one op: for each combination of types the calls that agree, and why others don't; the programs of
    those others."""

    passed: dict[str, int] = field(factory=dict)
    failed: dict[str, list[str]] = field(factory=dict)
    programs: list[tuple[ExportedProgram, str]] = field(factory=list)

    @property
    def is_good(self) -> bool:
        """Whether there is a combination of types of which all calls agree; calls without tensors must agree, too."""
        return "" not in self.failed and any(key not in self.failed for key in self.passed)


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
    return all(v.numel() <= _LARGEST and v.device.type == "cpu" and v.layout == torch.strided
                                 and not v.is_complex() and v.numel() > 0 for v in tensors)


def calls_of(wanted: set[str], most: int = 3) -> dict[tuple[str, tuple[str, ...]], list[Call]]:
    """Calls of ops by name and types, at most `most` of each, as PyTorch's samples for its own tests make them.

    Ops that none of these calls (PyTorch has a kernel of its own for what they are a part of) are called as
    `_more_calls` does.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    record = _Record(wanted, most)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for info in op_db:
            for dtype in _DTYPES:
                if dtype in info.supported_dtypes("cpu"):
                    _run_samples(info, dtype, record)
        rest = _Record(wanted - {name for name, _ in record.calls}, most)
        with rest:
            for op, *args in _more_calls():
                op(*args)
    return record.calls | rest.calls


def _more_calls() -> list[tuple[Any, ...]]:
    """Calls of core ops that no sample comes to."""
    aten = torch.ops.aten
    x, image, volume = torch.randn(2, 3, 4), torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4, 4)
    n, index = torch.arange(24).reshape(2, 3, 4), torch.tensor([[[0, 1, 1, 0]]])
    ones = torch.ones(2)
    return [
        (aten._native_batch_norm_legit_no_training.default, image, ones, ones, ones, ones * 0.5, 0.1, 1e-5),
        (aten._native_batch_norm_legit_no_training.default, image, None, None, ones, ones * 0.5, 0.1, 1e-3),
        (aten.slice_scatter.default, x, x[:, :1], 1, 1, 2), (aten.slice_scatter.default, n, n[..., :2], 2, 0, 4, 2),
        (aten.gt.Scalar, x, 0.1), (aten.gt.Scalar, n, 3),
        (aten.avg_pool1d.default, x, [2]), (aten.avg_pool1d.default, x, [3], [2], [1], True, False),
        *((op.Scalar, n, 3) for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)),
        *((op.Scalar, n > 3, True) for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)),
        (aten.col2im.default, torch.randn(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
        *((partial(aten.div.Scalar_mode, rounding_mode=mode), *args)
          for mode in ("floor", "trunc") for args in ((x, 0.3), (n, 3))),
        (aten.fmod.Scalar, x, 0.7), (aten.fmod.Scalar, n - 5, 3), (aten.pow.Scalar, 2.0, x), (aten.pow.Scalar, 2, n),
        (aten.reflection_pad3d.default, volume, [1, 2, 1, 1, 2, 0]),
        (aten.replication_pad3d.default, volume, [1, 2, 1, 1, 2, 0]),
        (aten.scatter.value, x, 1, index, 0.5), (aten.scatter.value, n, 2, index, 7),
        (aten.upsample_nearest2d.vec, image, [8, 6], None), (aten.upsample_nearest2d.vec, image, None, [2.0, 1.5]),
        (aten.upsample_bilinear2d.vec, image, [8, 6], False, None),
        (aten.upsample_bilinear2d.vec, image, [8, 6], True, None),
        (aten.upsample_bilinear2d.vec, image, None, False, [2.0, 1.5]),
    ]


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


def program_of(call: Call) -> ExportedProgram | str:
    """A program of that one call, its tensors as inputs; why there is none, in one line."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in call.tensors]
    try:
        program, _ = as_program(make_fx(call.run)(*fakes), fakes, {})
    except Exception as problem:
        return _in_a_line(problem)
    return program


def try_program(program: ExportedProgram, call: Call, backend_id: str) -> str | None:
    """Compile and run the program of a call; None where it agrees with PyTorch, else why not, in one line."""
    try:
        expected = call.run(*call.tensors)
        backend = backend_named(backend_id)
        found = backend.load(backend.preprocess(program, []).processed_bytes, [])(*call.tensors)
    except Exception as problem:
        return _in_a_line(problem)
    return _disagreement(expected, found)


def _in_a_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines() or [""]
    return f"{type(problem).__name__}: {lines[0][:100]}"


def _disagreement(expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    for one, other in zip(expected, found, strict=True):
        if not isinstance(one, torch.Tensor):
            return f"gives a {type(one).__name__}"
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"gives {other.dtype} {tuple(other.shape)}, not {one.dtype} {tuple(one.shape)}"
        if not torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            return "gives other values"
    return None


def try_all(engine: str, only: Iterable[str] = (), most: int = 3) -> dict[str, Tried]:
    """The outcome for each op that the converter lists and PyTorch's samples call."""
    wanted = {name for name in listed_ops(engine) if _is_core(name)}
    calls = calls_of(wanted & set(only) if only else wanted, most)
    return tried(engine, [call for several in calls.values() for call in several])


def tried(engine: str, calls: Iterable[Call]) -> dict[str, Tried]:
    """The outcome for the ops of these calls, by name; of several results all are wanted, then the first alone.

    Calls that the part of the rules file written by hand refuses are left out: nobody promises them.
    """
    by_op: dict[str, Tried] = {}
    given = list(calls)
    known = [*given, *(evolve(one, only_first=True) for one in given if len(one.op._schema.returns) > 1)]
    wide = _without_derived(engine, {str(call.op) for call in known})
    for call in sorted(known, key=lambda one: (str(one.op), one.dtypes)):
        outcome = by_op.setdefault(str(call.op), Tried())
        key = " ".join(call.dtypes)
        program = program_of(call)
        if isinstance(program, str):
            outcome.failed.setdefault(key, []).append(f"{call}: {program}")
        elif is_claimed(program, wide):
            problem = try_program(program, call, ENGINES[engine].backend_id)
            if problem is None:
                outcome.passed[key] = outcome.passed.get(key, 0) + 1
            else:
                outcome.failed.setdefault(key, []).append(f"{call}: {problem}")
                outcome.programs.append((program, f"{call}: {problem}"))
    return dict(sorted(by_op.items()))


def claimed_in_vain(by: RuleSet, outcome: Mapping[str, Tried]) -> list[str]:
    """The calls that rules take and that fail, each with why."""
    return [why for one in outcome.values() for program, why in one.programs if is_claimed(program, by)]


def is_claimed(program: ExportedProgram, by: RuleSet) -> bool:
    """Whether rules take all of a program."""
    return not partition(program, by).report.left


def _without_derived(engine: str, ops: set[str]) -> RuleSet:
    """The rules file of an engine as it is written by hand, with all of `ops` taken."""
    text = (shipped_folder() / f"{engine}.rules").read_text(encoding="utf-8")
    return parse_rules(_replaced(text, engine, f"ops taken = {{{', '.join(sorted(ops))}}}"), name=f"{engine}.rules")


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
    """The derived part of a rules file: the ops that are taken, and the types for which some of them are not.

    An op is taken for a combination of types where every call of that combination agrees.
    """
    good = {name for name, one in outcome.items() if one.is_good}
    refused: dict[str, list[str]] = {}
    for name in sorted(good):
        for key in outcome[name].failed:
            refused.setdefault(key, []).append(name)
    lines = [_BEGIN.format(engine=engine), *_op_set("ops taken = {", sorted(good))]
    for key, names in sorted(refused.items()):
        kinds = key.split()
        lines += [
            f'\ninvariant not_for_{"_".join(kinds)} "calls that do not convert, or give other results" {{',
            *_op_set("  match y = {", names, after="()"),
            f"  require {_other_than(kinds)}",
            f'          because "the engine does not compute this on {" and ".join(kinds)} as PyTorch does"',
            "}",
        ]
    left = {name: whys[0] for name, one in outcome.items() if name not in good for whys in one.failed.values()}
    lines += [f"# not taken, {why[:110]}" for _, why in sorted(left.items())]
    return "\n".join([*lines, _END])


def _other_than(kinds: Sequence[str]) -> str:
    """The condition that the types of the inputs are not exactly these."""
    only = f"all(i.dtype in {{{', '.join(kinds)}}} for i in y.inputs if i is tensor)"
    each = [f"any(i.dtype == {kind} for i in y.inputs if i is tensor)" for kind in kinds] if len(kinds) > 1 else []
    return f"not ({' and '.join([only, *each])})"


def _op_set(start: str, names: Sequence[str], after: str = "") -> list[str]:
    """A set of ops, those of one overload together, in lines that are not too long."""
    by_overload: dict[str, list[str]] = {}
    for name in names:
        space, op, overload = name.split(".")
        by_overload.setdefault(f"{space}.{{}}.{overload}", []).append(op)
    items = [key.format("{" + ",".join(ops) + "}" if len(ops) > 1 else ops[0]) for key, ops in by_overload.items()]
    wrapped = textwrap.wrap(", ".join(items).replace(",", ", ").replace(",  ", ", "), 110, break_long_words=False)
    return [start, *(f"    {line}" for line in wrapped), f"  }}{after}"]


def updated(text: str, engine: str, outcome: Mapping[str, Tried]) -> str:
    """The text of a rules file with its derived part written anew."""
    written = parse(_replaced(text, engine, render(engine, outcome)), engine).file
    if written is None:
        raise ProgramError(f"the rules for {engine} that were written can't be read again")
    return format_file(written)


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
    """Try every op that the converter of ENGINE lists, and say where the shipped rules file differs. Ends with status 1
    where the file claims a call that does not work."""
    outcome = try_all(engine, only, most)
    if json_file is not None:
        document = {name: {"passed": one.passed, "failed": one.failed} for name, one in outcome.items()}
        json_file.write_text(json.dumps(document, indent=1))
    if target is not None:
        target.write_text(updated(target.read_text(encoding="utf-8"), engine, outcome), encoding="utf-8")
    claimed = {name for rule in load_rules(engine).rules for name in rule.pattern.mentioned}
    good = {name for name, one in outcome.items() if one.is_good}
    click.echo(f"{len(outcome)} ops tried, {len(good)} convert and run")
    for name in sorted(good - claimed):
        click.echo(f"works and is not claimed: {name}")
    wrong = claimed_in_vain(load_rules(engine), outcome)
    for why in wrong:
        click.echo(f"claimed and does not work: {why}")
    sys.exit(int(bool(wrong)))


if __name__ == "__main__":
    main()
