"""Our reasons beside XNNPACK's own: `python -m tests.engine.explain.xnnpack [MODEL...] [--file results.json]`.

Each model is lowered as far as the partitioner. XNNPACK's reasons are what its configs give to their loggers, at the
level where they do (DEBUG). A reason is right if XNNPACK's own partitioner claims the node once the obstacle that the
reason names, and it alone, is taken out of a copy of the graph. Where several stand in the way, the next one is asked
for and taken out, too, and so on: right in the end is what is claimed then. Results in the file are not made again.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import operator
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, frozen

from apportion import engine
from tests.agreement.models import MODELS
from tests.agreement.record import TAG, clean, record, theirs

__all__ = ["Compared", "compare", "main"]

_LOGGERS = "executorch.backends.xnnpack.partition"


@frozen
class Compared:
    """Nodes that both leave in one model; of those with a reason, of those where it is right, and where it is right in
    the end, theirs and ours. `apart` are nodes that only one of them leaves. `open` are texts that name an obstacle for
    which nothing here knows how to take it away: they count as not right. `wrong` are nodes that XNNPACK leaves all the
    same, with what was said of them last."""

    model: str
    left: int
    theirs: int
    theirs_right: int
    theirs_in_the_end: int
    ours: int
    ours_right: int
    ours_in_the_end: int
    apart: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@contextmanager
def _listening() -> Iterator[dict[str, list[str]]]:
    """What their configs say about each node, first things first."""
    heard: dict[str, list[str]] = {}

    class Handler(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            why: Any = entry.msg
            if hasattr(why, "node") and hasattr(why, "reason"):
                heard.setdefault(why.node.name, []).append(why.reason)

    names = [name for name in list(logging.root.manager.loggerDict) if name.startswith(_LOGGERS)]
    handler, before = Handler(logging.DEBUG), [(logging.getLogger(n), logging.getLogger(n).level) for n in names]
    parent = logging.getLogger(_LOGGERS)
    propagate = parent.propagate
    parent.addHandler(handler)
    parent.propagate = False
    for logger, _ in before:
        logger.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        parent.removeHandler(handler)
        parent.propagate = propagate
        for logger, level in before:
            logger.setLevel(level)


def compare(name: str) -> Compared:
    """One model."""
    program = record(name, ()).program
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    _, claimed = _theirs(program)
    ours = _ours(program)[0]
    left = [n.name for n in nodes if n.name not in claimed and n.name in ours]
    apart = [n.name for n in nodes if (n.name in claimed) == (n.name in ours)]
    counts: list[int] = []
    unknown: dict[str, None] = {}
    wrong: list[str] = []
    for who, ask in (("XNNPACK", _theirs), ("apportion", _ours)):
        said = ask(program)[0]
        found = [_followed(program, node, said, ask) for node in left if node in said]
        counts += [len(found), sum(f.steps == 1 for f in found), sum(f.steps > 0 for f in found)]
        unknown |= {f.unknown: None for f in found if f.unknown}
        wrong += [f"{f.node}: {who} said `{f.said}`" for f in found if f.steps == 0 and not f.unknown]
    return Compared(name, len(left), *counts, tuple(apart), tuple(unknown), tuple(wrong))


Asked = tuple[dict[str, str], set[str]]
"""What was said about each node, and the nodes that were claimed."""


def _theirs(program: Any) -> Asked:
    clean(program)
    with _listening() as heard:
        theirs(()).partition(program)
    claimed = {n.name for n in program.graph.nodes if TAG in n.meta}
    clean(program)
    return {node: texts[0] for node, texts in heard.items()}, claimed


def _ours(program: Any) -> Asked:
    """Our reasons; who claims a node is XNNPACK's word all the same."""
    clean(program)
    report = engine.partition(program, "xnnpack").report
    return {reason.node: _obstacle(reason) for reason in report.left if reason.message}, _theirs(program)[1]


def _obstacle(reason: Any) -> str:
    """The condition and the author's sentence; for an op that nothing names, just that."""
    because = reason.because or ""
    return "no rule names" if reason.kind == "no rule" else f"{reason.kind}: {reason.condition} ({because})"


@frozen
class _Followed:
    """What was said of a node last, and in how many steps what is named led to a claim: 0 if it never did."""

    node: str
    said: str
    steps: int
    unknown: str = ""


_MOST = 4
"""So many obstacles are taken away one after the other."""


def _followed(program: Any, name: str, reasons: Mapping[str, str], ask: Callable[[Any], Asked]) -> _Followed:
    said: list[str] = []
    changed = program
    while name in reasons and reasons[name] not in said and len(said) < _MOST:
        said.append(reasons[name])
        edit = next((edit for pattern, edit in _EDITS if re.search(pattern, said[-1])), None)
        if edit is None:
            return _Followed(name, said[-1], 0, said[-1])
        changed = _copied(changed)
        edit(changed, next(n for n in changed.graph.nodes if n.name == name))
        reasons, claimed = ask(changed)
        if name in claimed:
            return _Followed(name, said[-1], len(said))
    return _Followed(name, said[-1], 0)


def _copied(program: Any) -> Any:
    """A copy whose graph, metadata and signature are its own; weights (fake ones) are shared."""
    graph = torch.fx.Graph()
    names: dict[Any, Any] = {}
    output = graph.graph_copy(program.graph, names)
    graph.output(output)
    for node, twin in zip(program.graph.nodes, graph.nodes, strict=True):
        twin.meta, twin.name = dict(node.meta), node.name
    changed = copy.copy(program)
    changed._graph_module = torch.fx.GraphModule(program.graph_module, graph)
    changed._graph_module.meta = dict(program.graph_module.meta)
    signature = program.graph_signature
    changed._graph_signature = type(signature)(list(signature.input_specs), list(signature.output_specs))
    changed._state_dict = dict(program.state_dict)
    return changed


# --- taking an obstacle out of a graph ----------------------------------------------------------------------------


def _tensor(node: Any) -> Any:
    val = node.meta.get("val")
    return val[0] if isinstance(val, (tuple, list)) else val


def _another_op(program: Any, node: Any) -> None:
    """The same place, with an op that XNNPACK has."""
    from executorch.exir.dialects._ops import ops

    source = next(n for n in program.graph.nodes if isinstance(_tensor(n), torch.Tensor)
                  and _tensor(n).dtype == torch.float32 and not isinstance(n.meta.get("val"), (tuple, list)))
    inputs = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)
              and n.meta["val"].dtype == torch.float32]
    node.target = ops.edge.aten.sigmoid.default
    node.args, node.kwargs = ((inputs or [source])[0],), {}
    node.meta["val"] = node.args[0].meta["val"]


def _float(program: Any, node: Any) -> None:
    """Everything the node reads and gives is float32."""
    for one in (node, *node.all_input_nodes):
        if isinstance(one.meta.get("val"), torch.Tensor):
            one.meta["val"] = one.meta["val"].to(torch.float32)
            one.meta["tensor_meta"] = None


def _static(program: Any, node: Any) -> None:
    """Sizes are numbers."""

    def fixed(value: Any) -> Any:
        if isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.SymInt):
            return value.meta["val"].node.hint or 7
        if isinstance(value, (list, tuple)):
            return type(value)(map(fixed, value))
        return value

    node.args = tuple(map(fixed, node.args))
    for one in (node, *node.all_input_nodes):
        val = one.meta.get("val")
        if isinstance(val, torch.Tensor):
            sizes = [size if isinstance(size, int) else (size.node.hint or 7) for size in val.shape]
            with val.fake_mode:
                one.meta["val"] = torch.empty(sizes, dtype=val.dtype)


def _last_dim(program: Any, node: Any) -> None:
    """It works along the last dim."""
    args = list(node.args)
    args[1] = _tensor(node).dim() - 1
    node.args = tuple(args)


def _kept_dims(program: Any, node: Any) -> None:
    """The dims that it reduces stay, with size 1."""
    node.args = (*node.args[:2], True)


def _image(program: Any, node: Any) -> None:
    """What it reads has four dims."""
    source = node.all_input_nodes[0]
    val = _tensor(source)
    source.meta["val"] = val.new_empty((1,) * (4 - val.dim()) + tuple(val.shape))


def _inner_dims(program: Any, node: Any) -> None:
    """It reduces height and width."""
    node.args = (node.args[0], [2, 3], *node.args[2:])


def _constant_weight(program: Any, node: Any) -> None:
    """Its second matrix is a parameter."""
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    at = 2 if "addmm" in str(node.target) else 1
    with program.graph.inserting_before(next(iter(program.graph.nodes))):
        weight = program.graph.placeholder("p_replayed")
    weight.meta.update(node.args[at].meta)
    val = weight.meta["val"]
    sizes = [size if isinstance(size, int) else (size.node.hint or 7) for size in val.shape]
    with val.fake_mode:
        weight.meta["val"] = torch.empty(sizes, dtype=val.dtype)
    program.graph_signature.input_specs.insert(
        0, InputSpec(InputKind.PARAMETER, TensorArgument("p_replayed"), "replayed"))
    program.state_dict["replayed"] = torch.nn.Parameter(torch.randn(sizes))
    node.update_arg(at, weight)


_EDITS: tuple[tuple[str, Callable[[Any, Any], None]], ...] = (
    (r"no rule names", _another_op),
    (r"invalid dtype|dtype", _float),
    (r"trailing dimension|y\.dim == x\.rank|last dim|y\.dim ==", _last_dim),
    (r"keepdim|keep_dim", _kept_dims),
    (r"innermost|\[2, 3\]", _inner_dims),
    (r"4D tensors|x\.rank == 4", _image),
    (r"ymbolic|dynamic|static|size that varies|non-zero, int", _static),
    (r"static param|is constant|weight", _constant_weight),
)
"""What a reason says, theirs or ours, and how that is taken away."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--file", type=Path, help="keep results there")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("apportion").setLevel(logging.ERROR)
    known = json.loads(given.file.read_text()) if given.file is not None and given.file.exists() else {}
    head = f"{'reason':>10} {'right':>6} {'in the end':>11}"
    print(f"{'':26} {'':>5}  {'XNNPACK':>29}  {'apportion':>29}\n{'model':26} {'left':>5}  {head}  {head}")
    for name in given.models:
        if name not in known:
            known[name] = asdict(compare(name))
            if given.file is not None:
                given.file.write_text(json.dumps(known, indent=1))
        one = known[name]
        print(_row(name, one), flush=True)
        for node in one["apart"]:
            print(f"    left by one alone: {node}")
        for text, count in Counter(text.partition(": ")[2] for text in one["wrong"]).items():
            print(f"    not right, {count} times: {text}")
        for text in one["open"]:
            print(f"    nothing known takes away: {text}")
    print(_row("all", {key: sum(known[name][key] for name in given.models) for key in _COUNTS}))
    return 0


_COUNTS = ("left", "theirs", "theirs_right", "theirs_in_the_end", "ours", "ours_right", "ours_in_the_end")


def _row(name: str, counts: Mapping[str, Any]) -> str:
    left, *rest = (counts[key] for key in _COUNTS)
    halves = [f"{a:10} {b:6} {c:11}" for a, b, c in (rest[:3], rest[3:])]
    return f"{name:26} {left:5}  {'  '.join(halves)}"


if __name__ == "__main__":
    raise SystemExit(main())
