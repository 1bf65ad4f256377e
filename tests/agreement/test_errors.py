"""Each error of the real partitioner that the comparison excuses, shown by its minimal program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("executorch")

from apportion.backends.executorch import RulesPartitioner
from tests.agreement.errors import ERRORS, TheirError
from tests.agreement.record import judge, record_program, theirs
from tests.agreement.runs import execute, lower


def _errors() -> list[Any]:
    """One of each kind in the quick run, the others in the long one."""
    quick = {error.shown: error.name for error in reversed(ERRORS)}.values()
    return [
        pytest.param(error, id=error.name, marks=[] if error.name in quick else [pytest.mark.full]) for error in ERRORS
    ]


@pytest.mark.parametrize("error", _errors())
def test_error_of_theirs(error: TheirError) -> None:
    module, inputs = error.module().eval(), error.inputs()
    program = torch.export.export(module, inputs, strict=False)
    expected = module(*inputs)

    partitioner = RulesPartitioner("xnnpack")
    lowered = lower(program, partitioner)
    if error.runs:
        (ours,) = execute(lowered, inputs)
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)

    recording = record_program(error.name, program)
    concerned = {n.name for n in recording.program.graph.nodes if error.concerns(n, recording.program)}
    assert concerned
    claimed = judge(recording.program).claimed & concerned
    if error.shown == "refuses":
        assert not claimed
        assert partitioner.report is not None and partitioner.report.claimed == partitioner.report.nodes_total
        return
    assert claimed
    if error.shown == "wrong":
        (found,) = execute(lower(program, theirs(())), inputs)
        assert not torch.allclose(found, expected, rtol=1e-2)
    else:
        with pytest.raises(Exception):  # noqa: B017 - whatever their lowering raises
            lower(program, theirs(()))
