"""What tests of lowering share: an eager delegate for named ops, and the comparison with eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from apportion import engine
from apportion.engine.lowering.sizes import delegates_of

__all__ = ["Tagger", "compare", "delegates", "eager_rules", "equal", "lowered", "ops_in"]


def eager_rules(*ops: str, partition: str = "", backend: str = "EagerBackend") -> engine.RuleSet:
    """Rules that claim the calls of these ops, all where none is named."""
    body = f"rule any {{ match y = {'{' + ', '.join(ops) + '}' if ops else '_'}() }}\n"
    block = f"partition {{ {partition} }}" if partition else ""
    return engine.parse_rules(f'backend "{backend}" language 1\n{body}{block}')


class Tagger(engine.Partitioner):
    """A hand-written partitioner: tags nodes as a function says (None: no tag)."""

    def __init__(self, choose: Callable[[torch.fx.Node], str | None], backend: str = "EagerBackend",
                 specs: Iterable[Any] = ()) -> None:
        super().__init__()
        self.choose = choose
        self.backend = backend
        self.specs = list(specs)

    def partition(self, program: Any) -> engine.PartitionResult:
        tags = {}
        for module in program.graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                for node in module.graph.nodes:
                    tag = self.choose(node)
                    if tag is not None:
                        node.meta["delegation_tag"] = tag
                        tags[tag] = engine.DelegationSpec(self.backend, list(self.specs))
        return engine.PartitionResult(program, tags)


def lowered(program: ExportedProgram, rules: Any) -> ExportedProgram:
    """Partitioned and lowered; the result passes its verifier."""
    made = engine.to_backend(program, engine.partition(program, rules))
    made.validate()
    return made


def delegates(program: ExportedProgram) -> list[engine.LoweredBackendModule]:
    return [one for _, one in delegates_of(program)]


def ops_in(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def equal(one: Any, other: Any, tolerance: float = 0.0) -> None:
    left, right = pytree.tree_flatten(one), pytree.tree_flatten(other)
    assert left[1] == right[1]
    for a, b in zip(left[0], right[0], strict=True):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert a == b


def compare(program: ExportedProgram, model: torch.nn.Module, calls: Iterable[tuple[Any, ...]],
            tolerance: float = 0.0) -> None:
    """Each call gives what the model gives, leaves its inputs as the model leaves them, and buffers too."""
    reference = copy.deepcopy(model)
    module = program.module(check_guards=False)
    for inputs in calls:
        mine, theirs = copy.deepcopy(inputs), copy.deepcopy(inputs)
        with torch.no_grad():
            equal(module(*mine), reference(*theirs), tolerance)
        equal(mine, theirs, tolerance)
