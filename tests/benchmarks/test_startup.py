"""What the benchmark of starting times: the warm side finds what was kept, the cold one keeps nothing."""

from __future__ import annotations

from pathlib import Path

from benchmarks.startup import seconds


def test_only_the_warm_side_keeps(tmp_path: Path) -> None:
    assert seconds("load cold", "eager", tmp_path) > 0
    assert not list(tmp_path.iterdir())
    assert seconds("load warm", "eager", tmp_path) > 0
    assert list(tmp_path.glob("*.pickle"))
