"""Models lowered with the rules' partitioner, run by ExecuTorch's runtime, compared with the module itself."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from attrs import frozen

from tests.agreement.models import MODELS, Exported, exported
from tests.agreement.record import theirs

__all__ = ["Run", "lower", "execute", "run"]

FLOAT_TOLERANCE = 1e-4
OFF_BY_ONE_SHARE = 1e-3


@frozen
class Run:
    """One model lowered and run: nodes delegated of all, delegates, and how far the result is from the module's.

    For a float model `difference` is the largest one over the largest value. For a quantized one it is in steps of the
    output's quantization (an int8 step over its range, where it is float), and `share` is the part of the elements that
    differ by a tenth of a step or more; `from_theirs` is the largest difference to what the real partitioner's lowering
    computes.
    """

    name: str
    delegated: int
    nodes: int
    delegates: int
    difference: float
    share: float
    quantized: bool
    from_theirs: float

    @property
    def right(self) -> bool:
        """Within 1e-4 in float, one step on at most 0.1 % of the elements when quantized."""
        if self.quantized:
            return self.difference <= 1.001 and self.share <= OFF_BY_ONE_SHARE
        return self.difference <= FLOAT_TOLERANCE

    @property
    def runtime_differs(self) -> bool:
        """Not right, and not because of the rules: lowered by the real partitioner it gives the same to the last bit.

        XNNPACK quantizes the activations of a dynamic 1x1 convolution for each pixel, the converted graph for the whole
        image: the results differ by as much as quantization costs. `test_runs.py` shows it on one convolution.
        """
        return self.quantized and not self.right and self.from_theirs == 0.0


def lower(program: torch.export.ExportedProgram, partitioner: Any) -> Any:
    """The lowered Edge program manager."""
    from executorch.exir import to_edge_transform_and_lower

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return to_edge_transform_and_lower(program, partitioner=[partitioner])


def execute(lowered: Any, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """What the real runtime computes."""
    from executorch.runtime import Runtime

    buffer = lowered.to_executorch().buffer
    program = Runtime.get().load_program(buffer)  # the runtime does not copy: both are kept while it runs
    method = program.load_method("forward")
    return [value.clone() for value in method.execute(list(inputs))]


def delegate_count(lowered: Any) -> int:
    """The number of delegate calls in a lowered program."""
    graph = lowered.exported_program().graph
    return sum("executorch_call_delegate" in str(node.target) for node in graph.nodes)


def output_step(program: torch.export.ExportedProgram) -> float:
    """The step of the output's quantization: the scale of the dequantize before it, 0 where there is none."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    node = output.args[0][0]
    while "dequantize_per_tensor" not in str(node.target):
        sources = node.all_input_nodes
        if len(sources) != 1:
            return 0.0
        node = sources[0]
    scale = node.args[1]
    return scale if isinstance(scale, float) else 0.0


def run(name: str, **options: Any) -> Run:
    """Export a model, lower it with the rules, run it and compare."""
    from apportion.backends.executorch import RulesPartitioner

    model: Exported = exported(name)
    quantized = MODELS[name].quantize is not None
    with torch.no_grad():
        expected = model.module(*model.inputs)
    step = (output_step(model.program) or float(expected.max() - expected.min()) / 255) if quantized else 0.0
    partitioner = RulesPartitioner("xnnpack", **options)
    lowered = lower(model.program, partitioner)
    report = partitioner.report
    assert report is not None
    (found,) = execute(lowered, model.inputs)
    theirs_found = execute(lower(exported(name).program, theirs(())), model.inputs)[0]
    error = (found - expected).abs()
    unit = step or float(expected.abs().max())
    return Run(
        name,
        report.claimed,
        report.nodes_total,
        delegate_count(lowered),
        float(error.max()) / unit,
        float((error > unit * 0.1).float().mean()) if quantized else 0.0,
        quantized,
        float((found - theirs_found).abs().max()),
    )
