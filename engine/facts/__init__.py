"""Programs seen through the schemas of their ops. Nothing is changed in them, and no guard is added."""

from apportion.engine.facts.alike import counterparts, moved, stays
from apportion.engine.facts.arguments import Argument
from apportion.engine.facts.data import (
    all_zero,
    broadcastable,
    constant_data,
    depends_on,
    flops,
    max_value,
    min_value,
    same_qparams,
)
from apportion.engine.facts.graph import GraphFacts
from apportion.engine.facts.kinds import KINDS, LOCAL_KINDS, Kind, is_kind
from apportion.engine.facts.normalise import normalise_call_literal, normalise_literal
from apportion.engine.facts.program import Program, ProgramFacts
from apportion.engine.facts.value import Value

__all__ = [
    "KINDS",
    "LOCAL_KINDS",
    "Argument",
    "GraphFacts",
    "Kind",
    "Program",
    "ProgramFacts",
    "Value",
    "all_zero",
    "broadcastable",
    "constant_data",
    "counterparts",
    "depends_on",
    "flops",
    "is_kind",
    "max_value",
    "min_value",
    "moved",
    "normalise_call_literal",
    "normalise_literal",
    "same_qparams",
    "stays",
]
