"""Our reasons beside XNNPACK's own: every node has one, and what it names is what XNNPACK minds."""

from __future__ import annotations

import pytest

from tests.agreement.models import missing_libraries


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["lstm", "mobilenet_v2_dynamic_batch", "bert", "llama"])
def test_reasons_are_what_xnnpack_minds(name: str) -> None:
    pytest.importorskip("executorch", reason="pip install executorch brings the partitioner that is compared with")
    if missing := missing_libraries(name):
        pytest.skip(f"pip install {' '.join(missing)} builds this model")
    from tests.engine.explain.xnnpack import compare

    found = compare(name)
    assert found.left > 0
    assert found.ours == found.ours_in_the_end == found.left
    assert found.ours_right >= found.theirs_right
    assert found.theirs < found.left
