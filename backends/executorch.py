"""ExecuTorch: a rules file as a partitioner of `to_edge_transform_and_lower`, driving the real backend compilers.

    from apportion.backends.executorch import RulesPartitioner
    edge = to_edge_transform_and_lower(program, partitioner=[RulesPartitioner("xnnpack")])
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.export import ExportedProgram

try:
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
except ImportError as error:
    raise ImportError(
        f"apportion.backends.executorch needs ExecuTorch ({error}); install it with `pip install executorch` "
        "or `pip install apportion[executorch]`. Partitioning alone needs torch only: apportion.engine.RulesPartitioner"
    ) from error

from apportion.engine.partitioner import RulesPartitioner as Rules
from apportion.engine.report import Report
from apportion.engine.result import PartitionResult as Decision

__all__ = ["COMPILERS", "RulesPartitioner"]

COMPILERS: dict[str, str] = {
    "CoreMLBackend": "executorch.backends.apple.coreml.compiler",
    "EthosUBackend": "executorch.backends.arm.ethosu.backend",
    "OpenvinoBackend": "executorch.backends.openvino.preprocess",
    "TOSABackend": "executorch.backends.arm.tosa.backend",
    "VulkanBackend": "executorch.backends.vulkan.vulkan_preprocess",
    "XnnpackBackend": "executorch.backends.xnnpack.xnnpack_preprocess",
}
"""The module that holds the compiler of a backend: ExecuTorch finds compilers by class name once they are imported."""


class RulesPartitioner(Partitioner):  # type: ignore[misc,unused-ignore]
    """A partitioner of ExecuTorch that rules files drive.

    Takes what `apportion.engine.RulesPartitioner` takes: rules (a shipped name, a path, a `RuleSet`, or several), the
    options of the rules files, and `exclude`, `only`, `with_rules`, `without_rules`, `compile_specs`, `strict`.

    `report` is that of the latest `partition`: why each node that stayed behind did so.
    """

    def __init__(self, rules: Any, **options: Any) -> None:
        self._rules = Rules(rules, **options)
        self.report: Report | None = None
        super().__init__(self._rules.spec)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of an Edge program and write the marks that the backend's passes look for."""
        decision = self.decide(exported_program)
        for spec in decision.partition_tags.values():
            load_compiler(spec.backend_id)
        tags = {
            tag: DelegationSpec(spec.backend_id, [CompileSpec(one.key, one.value) for one in spec.compile_specs])
            for tag, spec in decision.partition_tags.items()
        }
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def decide(self, program: ExportedProgram) -> Decision:
        """The engine's decision, with tags and marks in the program's metadata; imports nothing of any backend."""
        decision = self._rules.partition(program)
        for node, key in decision.marks:
            node.meta[key] = True
        self.report = decision.report
        return decision

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """The ops that the rules will claim and that decomposition would take apart, and which of their nodes."""
        return self._rules.ops_to_not_decompose(ep)


def load_compiler(backend_id: str) -> None:
    """Make a backend's compiler known to ExecuTorch; one that is not listed must have been imported by the caller."""
    module = COMPILERS.get(backend_id)
    if module is not None:
        import_module(module)
