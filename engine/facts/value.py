"""A value of a graph, and the call that makes it, seen through the op's schema."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union, cast

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.passes.shape_prop import TensorMetadata

from apportion.engine.facts.arguments import Argument, call_arguments, nodes_in, raw_arguments
from apportion.engine.facts.control_flow import CONTROL_FLOW
from apportion.engine.facts.layout import dim_order_of
from apportion.engine.facts.lazy import lazy
from apportion.engine.facts.recorded import mark_of, module_path, source_name
from apportion.engine.ops import Op, is_assertion, is_size_query, op_of
from apportion.engine.values import Dim, Unknown, make_dim

if TYPE_CHECKING:
    from apportion.engine.facts.graph import GraphFacts

__all__ = ["Value"]

Sizes = Union["tuple[int | Dim, ...]", Unknown]

CALLS = frozenset({"call_function", "call_method", "call_module"})


class Value:
    """A node of a graph or one output (`element`) of it. Equality is identity: one object for each.

    `fx` is never a `getitem` that only takes an output out of a tuple: those are invisible. `position` counts the
    op nodes of the graph (-1 for placeholders and constants). `node` is the value of the whole node, itself where
    `element` is None. Facts are computed on first use; what is not known is an `Unknown` that says why.
    """

    __slots__ = ("__dict__", "element", "fx", "graph", "node", "position")

    def __init__(self, graph: GraphFacts, node: fx.Node, position: int) -> None:
        self.graph = graph
        self.fx = node
        self.element: int | None = None
        self.position = position
        self.node: Value = self
        if "val" in node.meta:  # what nearly all rules ask for, ahead of the lazy fact
            self.__dict__["val"] = node.meta["val"]

    @classmethod
    def of_element(cls, whole: Value, element: int) -> Value:
        """Output `element` of a node; `whole.output(i)` interns them."""
        value = cls(whole.graph, whole.fx, whole.position)
        value.__dict__.clear()
        value.element = element
        value.node = whole
        return value

    def __repr__(self) -> str:
        return self.fx.name if self.element is None else f"{self.fx.name}[{self.element}]"

    @property
    def name(self) -> str:
        """The node's name in the graph."""
        return self.fx.name

    @property
    def is_call(self) -> bool:
        """Whether it is an op node (no placeholder, no constant), or an output of one."""
        return self.fx.op in CALLS

    @lazy
    def op(self) -> Op | None:
        """The op that is called; None for placeholders and constants."""
        return op_of(self.fx) if self.element is None else self.node.op

    # --- what it is --------------------------------------------------------------------------------------------

    @lazy
    def val(self) -> Any:
        """`meta["val"]`: a tensor (fake or real), a symbolic size, a number, a tuple of those, or unknown."""
        if self.element is not None:
            return _picked(self.node, self.element)
        meta = self.fx.meta
        for key in ("val", "example_value"):
            if key in meta:
                return meta[key]
        if self.fx.op == "get_attr":
            found = self.graph.attribute(str(self.fx.target))
            if found is not None:
                return found
        if "tensor_meta" in meta:
            return meta["tensor_meta"]
        if self.op is not None and self.op.schema is not None and not self.op.returns:
            return None
        return Unknown(
            f"no metadata: {self.fx.name} has no meta['val'] (torch.export.export gives it; "
            "for a graph of symbolic_trace, run torch.fx.passes.fake_tensor_prop.FakeTensorProp on it)"
        )

    @property
    def is_multi_output(self) -> bool:
        """Whether it is a tuple or list, whose parts are values of their own."""
        val = self.val
        if isinstance(val, torch.Tensor):
            return False
        if isinstance(val, Unknown):
            # Higher-order ops always make tuples.
            several = isinstance(self.fx.target, HigherOrderOperator) or (self.op and self.op.is_multi_output)
            return self.element is None and bool(several)
        return isinstance(val, (tuple, list)) and not isinstance(val, TensorMetadata)

    @lazy
    def _tensor(self) -> Any:
        """The tensor or `TensorMetadata`, or why there is none."""
        val = self.val
        if isinstance(val, (torch.Tensor, TensorMetadata, Unknown)):
            return val
        if self.is_multi_output:
            return Unknown(f"{self.name} has several outputs: take one, as in {self.name}[0]")
        return Unknown(f"{self} is no tensor but {_kind_of(val)}")

    @property
    def is_tensor(self) -> bool | Unknown:
        """Whether it is one tensor; unknown without metadata."""
        if isinstance(self.val, Unknown) and not self.is_multi_output:
            return self.val
        return isinstance(self.val, (torch.Tensor, TensorMetadata))

    @lazy
    def size(self) -> int | Dim | None:
        """The number, where the value is an integer (a size read from a tensor, an integer input); else None."""
        val = self.val
        if isinstance(val, torch.SymInt):
            try:
                return make_dim(val, self.graph.ranges)
            except TypeError:
                return None
        return val if isinstance(val, int) and not isinstance(val, bool) else None

    @lazy
    def dtype(self) -> torch.dtype | Unknown:
        """The element type."""
        tensor = self._tensor
        return tensor if isinstance(tensor, Unknown) else cast(torch.dtype, tensor.dtype)

    @lazy
    def rank(self) -> int | Unknown:
        """The number of dims."""
        tensor = self._tensor
        return tensor if isinstance(tensor, Unknown) else len(tensor.shape)

    @lazy
    def shape(self) -> Sizes:
        """The sizes; symbolic ones as `Dim`."""
        tensor = self._tensor
        return tensor if isinstance(tensor, Unknown) else self._sizes(tensor.shape)

    def _sizes(self, sizes: Any) -> Sizes:
        ranges = self.graph.ranges
        try:
            return tuple([s if type(s) is int else make_dim(s, ranges) for s in sizes])
        except TypeError as error:
            return Unknown(f"{self}: {error}")

    @lazy
    def numel(self) -> int | Dim | Unknown:
        """The number of elements."""
        shape = self.shape
        return shape if isinstance(shape, Unknown) else math.prod(shape)

    @lazy
    def nbytes(self) -> int | Dim | Unknown:
        """The number of bytes of its elements."""
        val = self.val
        if isinstance(val, torch.Tensor) and not val._has_symbolic_sizes_strides:
            return val.numel() * val.dtype.itemsize
        numel, dtype = self.numel, self.dtype
        if isinstance(numel, Unknown):
            return numel
        return dtype if isinstance(dtype, Unknown) else cast("int | Dim", numel * dtype.itemsize)

    @lazy
    def strides(self) -> Sizes:
        """The strides, in elements."""
        tensor = self._tensor
        if isinstance(tensor, Unknown):
            return tensor
        try:
            strides = tensor.stride if isinstance(tensor, TensorMetadata) else tensor.stride()
        except Exception as error:  # sparse tensors and their like have none
            return Unknown(f"{self} has no strides: {error}")
        return self._sizes(strides)

    @lazy
    def storage_offset(self) -> int | Dim | Unknown:
        """Where it starts in its storage, in elements."""
        tensor = self._tensor
        if isinstance(tensor, Unknown):
            return tensor
        try:
            return make_dim(tensor.storage_offset(), self.graph.ranges)
        except Exception as error:  # as above
            return Unknown(f"{self} has no storage offset: {error}")

    @lazy
    def dim_order(self) -> tuple[int, ...] | Unknown:
        """The dims from the outermost to the innermost in memory, as `torch.Tensor.dim_order`."""
        shape, strides = self.shape, self.strides
        if isinstance(shape, Unknown):
            return shape
        return strides if isinstance(strides, Unknown) else dim_order_of(shape, strides)

    @lazy
    def device(self) -> torch.device | Unknown:
        """Where its data is."""
        tensor = self._tensor
        if isinstance(tensor, Unknown):
            return tensor
        found = getattr(tensor, "device", None)
        return found if isinstance(found, torch.device) else Unknown(f"no metadata: the device of {self}")

    # --- the call ----------------------------------------------------------------------------------------------

    @lazy
    def raw_arguments(self) -> Mapping[str, Any]:
        """The arguments as the graph has them (fx nodes), by schema name and in schema order; without defaults."""
        op = self.op
        return {} if op is None else raw_arguments(self.fx, op)

    @lazy
    def arguments(self) -> Mapping[str, Argument]:
        """The normalised call: every argument by its schema name, defaults included. Empty for placeholders."""
        if self.element is not None:
            return self.node.arguments
        op = self.op
        return {} if op is None else call_arguments(self, op)

    @lazy
    def inputs(self) -> tuple[Value, ...]:
        """All value arguments in schema order, lists flattened, with multiplicity, symbolic sizes included."""
        if self.element is not None:
            return self.node.inputs
        node, graph = self.fx, self.graph
        plain = not node.kwargs and not isinstance(node.target, HigherOrderOperator)
        found = nodes_in(node.args if plain else list(self.raw_arguments.values()))
        return tuple([graph.by_node[n] for n in found if n not in graph.modules])

    @lazy
    def tensor_inputs(self) -> tuple[Value, ...]:
        """The inputs that are tensors; without metadata, those that may be."""
        return tuple([v for v in self.inputs if v.is_tensor is not False])

    def output(self, element: int) -> Value:
        """Output `element` of a node with several."""
        elements = self._elements
        value = elements.get(element)
        if value is None:
            value = elements[element] = Value.of_element(self, element)
        return value

    @lazy
    def _elements(self) -> dict[int, Value]:
        return {}

    @lazy
    def outputs(self) -> tuple[Value, ...]:
        """The values that the node makes: itself, or one for each part of its tuple."""
        if self.element is not None:
            return self.node.outputs
        if not self.is_multi_output:
            return (self,)
        val = self.val
        if isinstance(val, Unknown):
            taken = {e for e in self._getitems.values() if e is not None}
            declared = len(self.op.returns) if self.op is not None and len(self.op.returns) > 1 else 0
            return tuple(self.output(i) for i in range(max(declared, 1 + max(taken, default=-1))))
        return tuple(self.output(i) for i in range(len(val)))

    # --- who uses it -------------------------------------------------------------------------------------------

    @lazy
    def _getitems(self) -> Mapping[fx.Node, int | None]:
        """The invisible `getitem` nodes of a node with several outputs, and the output each takes."""
        whole = self.node
        return {n: self.graph.value(n).element for n in whole.fx.users if self.graph.is_getitem(n)}

    @property
    def getitems(self) -> tuple[fx.Node, ...]:
        """The `getitem` nodes that take this output out of the node's tuple (of a whole node: all of them)."""
        if not self._has_getitems:
            return ()
        return tuple(n for n, e in self._getitems.items() if self.element is None or e == self.element)

    def _user_nodes(self) -> Iterator[fx.Node]:
        """Users in the graph, through `getitem`; who uses the whole tuple uses every element."""
        if not self._has_getitems:
            yield from self.fx.users
            return
        for user in self.fx.users:
            if user not in self._getitems:
                yield user
            elif self.element is None or self._getitems[user] == self.element:
                yield from user.users

    @property
    def _has_getitems(self) -> bool:
        return self.is_call and self.node.is_multi_output

    @lazy
    def _users(self) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """The users, and the size queries."""
        users: dict[Value, None] = {}
        queries: dict[Value, None] = {}
        for node in self._user_nodes():
            if node.op == "output":
                continue
            user = self.graph.value(node).node
            if is_size_query(user.op):
                queries[user] = None
            elif not user.is_assertion:
                users[user] = None
        return _in_order(users), _in_order(queries)

    @property
    def users(self) -> tuple[Value, ...]:
        """The op nodes that use it, each once, in graph order; no graph output, no size query, no assertion."""
        return self._users[0]

    @property
    def element_users(self) -> tuple[Value, ...]:
        """The same as `users`: an element has users of its own."""
        return self._users[0]

    @property
    def size_queries(self) -> tuple[Value, ...]:
        """The op nodes that only read its sizes or strides."""
        return self._users[1]

    @lazy
    def readers(self) -> tuple[Value, ...]:
        """Every op node that reads it: users, size queries and assertions, in graph order."""
        found = dict.fromkeys(self.graph.value(n).node for n in self._user_nodes() if n.op != "output")
        return _in_order(found)

    def leaves(self, inside: Container[Value]) -> bool:
        """Whether anything but the nodes `inside` reads it: another op node, or the graph's output."""
        if self._has_getitems:
            return self.returned or self.written_back or any(user not in inside for user in self.readers)
        by_node = self.graph.by_node
        return any(user.op == "output" or by_node[user].node not in inside for user in self.fx.users)

    @property
    def is_constant(self) -> bool:
        """Whether it is of the kind `constant`."""
        return self.position < 0 and self in self.graph.constants

    @property
    def returned(self) -> bool:
        """Whether it (of a whole node: one of its outputs) is an output of its graph."""
        return self in self.graph.returned

    @property
    def written_back(self) -> bool:
        """Whether it is what a buffer or an input is to hold afterwards, by the program's signature."""
        return self in self.graph.written_back

    # --- effects and structure ---------------------------------------------------------------------------------

    @lazy
    def has_effects(self) -> bool:
        """Whether the call writes, is random or checks something, in its branches too."""
        op = self.op
        if op is None:
            return False
        own = op.has_effects and (self.is_random or not op.is_only_random)
        return own or any(c.has_effects for g in self.subgraphs for c in g.calls)

    @lazy
    def is_random(self) -> bool:
        """Whether the call draws random numbers: attention with `dropout_p=0.0` is an op that can, and does not."""
        op = self.op
        if op is None or not op.is_random:
            return False
        if any(self.arguments.get(name) is False for name in ("train", "training")):
            return False
        return not any(self.arguments.get(name) == 0 for name in ("dropout_p", "dropout"))

    @lazy
    def is_assertion(self) -> bool:
        """Whether the call only checks something: an assertion, or a comparison that only assertions use."""
        if is_assertion(self.op):
            return True
        compares = isinstance(self.val, torch.SymBool) and bool(self.fx.users)
        return compares and all(u.op != "output" and is_assertion(op_of(u)) for u in self.fx.users)

    @lazy
    def subgraphs(self) -> tuple[GraphFacts, ...]:
        """The branches of a control-flow op, in the order of its arguments; else empty."""
        op = self.op
        if op is None or op.style != "higher_order" or op.base not in CONTROL_FLOW:
            return ()
        branches = [self.raw_arguments.get(name) for name in CONTROL_FLOW[op.base].branches]
        return tuple(self.graph.branches[n] for n in branches if n in self.graph.branches)

    @lazy
    def module(self) -> str:
        """The path of the `nn.Module` whose code it comes from ("" for the outermost, or if nobody recorded it)."""
        return module_path(self.fx)

    @lazy
    def source(self) -> str:
        """The torch function or module class that the exporter recorded: `nn.Linear`, `torch.relu`, `linear`; else "".

        A strict export records the object itself; otherwise there is only the function's own name.
        """
        return source_name(self.fx)

    def mark(self, path: str) -> Any:
        """What `node.meta` holds under a dotted path: plain data (numbers, strings, lists of them), else unknown."""
        return mark_of(self.fx, path)


def _in_order(values: Mapping[Value, None]) -> tuple[Value, ...]:
    return tuple(values) if len(values) < 2 else tuple(sorted(values, key=lambda v: v.position))


def _picked(whole: Value, element: int) -> Any:
    val = whole.val
    if isinstance(val, Unknown):
        return val
    try:
        return val[element]
    except (IndexError, TypeError, KeyError):
        return Unknown(f"{whole.name} has no output {element}")


def _kind_of(val: object) -> str:
    if val is None:
        return "nothing"
    if isinstance(val, torch.nn.Module):
        return "a sub-graph"
    words = {torch.SymInt: "a size", torch.SymBool: "a truth value", torch.SymFloat: "a number", int: "a number"}
    return words.get(type(val), f"a {type(val).__name__}")
