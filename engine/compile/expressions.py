"""From an expression to a closure, with every check that can be made before a graph is there.

Importing this module registers the compilers of all kinds of expressions.
"""

from __future__ import annotations

from apportion.engine.compile import access, calls, logic, names, operators
from apportion.engine.compile.core import compile_expression
from apportion.engine.compile.scope import Compiled

__all__ = ["Compiled", "compile_expression"]

_REGISTERED = (access, calls, logic, names, operators)
