"""Merging claimed units into few partitions, each convex, all of them acyclic together.

Works on plain integers: a `Flow` says which node waits for which, a `Unit` which nodes must stay together.
"""

from apportion.engine.merge.flow import Flow, Unit
from apportion.engine.merge.interleave import interleaved, path_around, path_between
from apportion.engine.merge.merging import MERGE_MODES, merge
from apportion.engine.merge.quotient import Cyclic
from apportion.engine.merge.split import split

__all__ = ["MERGE_MODES", "Cyclic", "Flow", "Unit", "interleaved", "merge", "path_around", "path_between", "split"]
