"""Ops by name: what a rules file may call them, and what their schemas say.

Every op of a graph has one name, whatever form the graph is in: `aten.relu.default` (an `OpOverload`, or the Edge
form of it), `torch.relu`, `operator.add` (plain functions), `Tensor.view` (methods), `nn.Linear` (leaf modules),
`higher_order.cond`. Looking a name up imports and loads nothing: an op is known when its library is there already.
"""

from apportion.engine.ops.commutative import COMMUTATIVE, is_commutative
from apportion.engine.ops.names import resolve_op, schema_of, twin_of
from apportion.engine.ops.nodes import op_of, op_of_overload
from apportion.engine.ops.op import Op, OpArgument, OpSchemaDecl, UnknownOp, is_assertion, is_size_query, op_named
from apportion.engine.ops.python import python_name
from apportion.engine.ops.schemas import parse_schema, schema_difference

__all__ = [
    "COMMUTATIVE",
    "Op",
    "OpArgument",
    "OpSchemaDecl",
    "UnknownOp",
    "is_assertion",
    "is_commutative",
    "is_size_query",
    "op_named",
    "op_of",
    "op_of_overload",
    "parse_schema",
    "python_name",
    "resolve_op",
    "schema_difference",
    "schema_of",
    "twin_of",
]
