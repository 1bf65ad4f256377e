"""Values of the rules language that PyTorch has no type for: what is not known, and sizes that are symbolic.

Nothing here evaluates a `SymInt` or a `SymBool`: a comparison is decided by the ranges that the program proves, or
it is `Unknown`. So no operation of this module adds a guard to a shape environment.
"""

from apportion.engine.values.dims import Dim, Number, Ranges, make_dim
from apportion.engine.values.logic import (
    COMPARISONS,
    arith,
    k_all,
    k_and,
    k_any,
    k_compare,
    k_implies,
    k_in,
    k_not,
    k_or,
)
from apportion.engine.values.unknown import UNKNOWN, Kleene, Unknown, is_unknown

__all__ = [
    "COMPARISONS",
    "UNKNOWN",
    "Dim",
    "Kleene",
    "Number",
    "Ranges",
    "Unknown",
    "arith",
    "is_unknown",
    "k_all",
    "k_and",
    "k_any",
    "k_compare",
    "k_implies",
    "k_in",
    "k_not",
    "k_or",
    "make_dim",
]
