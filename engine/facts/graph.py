"""The values of one graph: of a program, or of a branch of a control-flow op."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from apportion.engine.facts.arguments import nodes_in
from apportion.engine.facts.lazy import lazy
from apportion.engine.facts.value import Value
from apportion.engine.facts.writes import written_values
from apportion.engine.ops import op_of
from apportion.engine.values import Ranges

if TYPE_CHECKING:
    from apportion.engine.facts.alike import Survey
    from apportion.engine.facts.program import ProgramFacts

__all__ = ["GraphFacts"]


class GraphFacts:
    """The facts of one graph. Building it looks at each node once; everything else waits until it is asked for.

    `path` is where its module is in the program's ("" for the program's own). `calls` are the op nodes in graph
    order, without the `getitem` nodes that take outputs out of tuples. `claimed` and `partitions` are for the
    engine: the op nodes of this graph that a rule has claimed, and what they were put into. `by_node` has the value of
    each FX node, of a `getitem` the output it takes. `higher_order` are the calls of higher-order ops.
    """

    def __init__(self, program: ProgramFacts, module: fx.GraphModule, path: str = "") -> None:
        self.program = program
        self.module = module
        self.path = path
        self.owners: list[Value] = []
        self.claimed: set[Value] = set()
        self.partitions: tuple[Any, ...] = ()
        self.higher_order: list[Value] = []
        self.modules: dict[fx.Node, torch.nn.Module] = {}
        self.branches: dict[fx.Node, GraphFacts] = {}
        self.placeholders: list[Value] = []
        self.output: fx.Node | None = None
        self.by_node: dict[fx.Node, Value] = {}
        self._attributes: dict[str, Any] = {}
        self._operands: dict[Value, list[Value | None]] = {}
        self.calls: tuple[Value, ...] = self._build()

    @property
    def nodes(self) -> tuple[Value, ...]:
        """The op nodes, as rules call them: the same as `calls`."""
        return self.calls

    def __repr__(self) -> str:
        return f"GraphFacts({self.path!r}, {len(self.calls)} calls)"

    def _build(self) -> tuple[Value, ...]:
        by_node = self.by_node
        calls: list[Value] = []
        for node in self.module.graph.nodes:
            kind = node.op
            if kind == "call_function" or kind == "call_method" or kind == "call_module":
                if node.target is operator.getitem:
                    element = self._element(node)
                    if element is not None:
                        by_node[node] = element
                        continue
                value = by_node[node] = Value(self, node, len(calls))
                value.__dict__["op"] = op = op_of(node)
                if op is not None and op.style == "higher_order":
                    self.higher_order.append(value)
                calls.append(value)
            elif kind == "output":
                self.output = node
            else:
                value = by_node[node] = Value(self, node, -1)
                if kind == "placeholder":
                    self.placeholders.append(value)
                else:
                    self._note_module(node)
        return tuple(calls)

    def _element(self, node: fx.Node) -> Value | None:
        """The output that a `getitem` takes, if its operand is a node with several."""
        source, index = node.args if len(node.args) == 2 else (None, None)
        if not isinstance(source, fx.Node) or type(index) is not int or source.op == "placeholder":
            return None
        whole = self.by_node[source]
        if whole.element is not None or not whole.is_multi_output:
            return None
        if index < 0 and isinstance(whole.val, (tuple, list)):
            index += len(whole.val)
        return whole.output(index)

    def _note_module(self, node: fx.Node) -> None:
        target = str(node.target)
        found = self.attribute(target) if "." in target else self.module._modules.get(target)
        if isinstance(found, torch.nn.Module):
            self.modules[node] = found

    def attribute(self, target: str) -> Any:
        """What the graph's module has under a dotted path (a tensor, a sub-module); None where nothing is."""
        try:
            return self._attributes[target]
        except KeyError:
            found: Any = self.module
            for part in target.split("."):
                found = _held(found, part)
            self._attributes[target] = found
            return found

    @property
    def owner(self) -> Value | None:
        """The control-flow op whose branch this is (the first, where several share it); None for the program's own."""
        return self.owners[0] if self.owners else None

    @property
    def ranges(self) -> Ranges:
        """What the program proves about its symbolic sizes."""
        return self.program.ranges

    @lazy
    def survey(self) -> Survey:
        """What one look over all calls gives."""
        from apportion.engine.facts.alike import survey

        return survey(self)

    @property
    def likenesses(self) -> Sequence[int]:
        """A number for each op node, equal where a rule that looks no further sees the same (see `alike`)."""
        return self.survey.likenesses

    @property
    def edges(self) -> Sequence[list[int]]:
        """For each op node the positions of the op nodes that it reads, ascending, each once."""
        return self.survey.edges

    @lazy
    def values(self) -> Mapping[str, Value]:
        """Every value by the name of its node; the name of a `getitem` gives the element."""
        return {node.name: value for node, value in self.by_node.items()}

    def value(self, node: fx.Node) -> Value:
        """The value of a node of this graph; of a `getitem`, the output it takes. KeyError for any other node."""
        return self.by_node[node]

    def is_getitem(self, node: fx.Node) -> bool:
        """Whether the node only takes an output out of a tuple, and so is no value of its own."""
        value = self.by_node.get(node)
        return value is not None and value.fx is not node

    def add_caller(self, call: Value, operands: list[Value | None]) -> None:
        """Notes that `call` runs this branch with these operands, one for each placeholder (None: changes)."""
        self.owners.append(call)
        for index, placeholder in enumerate(self.placeholders):
            operand = operands[index] if index < len(operands) else None
            self._operands.setdefault(placeholder, []).append(operand)

    def operands(self, placeholder: Value) -> tuple[Value, ...]:
        """What a branch's placeholder stands for, in each call of the branch; empty where that is not one value."""
        found = self._operands.get(placeholder, [])
        known = tuple(v for v in found if v is not None)
        return known if len(known) == len(found) else ()

    def origins(self, value: Value) -> tuple[Value, ...]:
        """The placeholders or constants of the program that a value is, seen through the branches it was passed to."""
        if value.fx.op != "placeholder" or not self.owners:
            return (value,)
        operands = self.operands(value)
        return tuple(o for v in operands for o in v.graph.origins(v)) if operands else (value,)

    @lazy
    def _shared(self) -> dict[Value, tuple[Value, ...]]:
        """The placeholders and constants that lie in one piece of memory, where there are several."""
        found: dict[int, list[Value]] = {}
        for value in self.by_node.values():
            if value.fx.op in ("placeholder", "get_attr"):
                for place in {self.program.memory_of(origin) for origin in self.origins(value)}:
                    if place is not None:
                        found.setdefault(place, []).append(value)
        return {value: tuple(values) for values in found.values() if len(values) > 1 for value in values}

    def sharing(self, value: Value) -> tuple[Value, ...]:
        """The placeholders and constants of the graph that lie in the memory of one of them, in graph order."""
        return self._shared.get(value, (value,))

    # --- the border --------------------------------------------------------------------------------------------

    @lazy
    def _results(self) -> tuple[frozenset[Value], frozenset[Value]]:
        """What the graph returns, and what is written back by the program's signature."""
        returned: set[Value] = set()
        written: set[Value] = set()
        if self.output is None:
            return frozenset(), frozenset()
        results = self.output.args[0] if self.output.args else ()
        items = results if isinstance(results, (tuple, list)) else (results,)
        written_back = self.program.written_back_outputs if self.path == "" else frozenset()
        for index, item in enumerate(items):
            for node in nodes_in(item):
                value = self.by_node[node]
                (written if index in written_back else returned).update((value, value.node))
        return frozenset(returned), frozenset(written)

    @property
    def returned(self) -> frozenset[Value]:
        """The values that are outputs of the graph, and the nodes that make them."""
        return self._results[0]

    @property
    def written_back(self) -> frozenset[Value]:
        """The values that a buffer or an input is to hold afterwards, and the nodes that make them."""
        return self._results[1]

    @lazy
    def results(self) -> frozenset[Value]:
        """What is returned or written back."""
        return self.returned | self.written_back

    @lazy
    def written(self) -> frozenset[Value]:
        """The values that an op of the graph (or of a branch) writes to, directly or through a view."""
        return written_values(self)

    @lazy
    def order(self) -> Mapping[Value, int]:
        """The place of each node's value among all nodes."""
        return {v: i for i, v in enumerate(v for v in self.by_node.values() if v.element is None)}

    @lazy
    def places(self) -> Mapping[fx.Node, int]:
        """The place of each FX node in the graph, getitems included."""
        return {node: index for index, node in enumerate(self.module.graph.nodes)}

    @lazy
    def constants(self) -> frozenset[Value]:
        """The values of the kind `constant`."""
        from apportion.engine.facts.kinds import constant_values

        return constant_values(self)

    @lazy
    def frozen(self) -> frozenset[Value]:
        """The nodes computed from constants alone, constants included."""
        from apportion.engine.facts.kinds import frozen_values

        return frozen_values(self)


def _held(owner: Any, name: str) -> Any:
    """What a module or another object has under a name, None where nothing is. The way of `nn.Module` is long."""
    if isinstance(owner, torch.nn.Module):
        for held in (owner._parameters, owner._buffers, owner._modules):
            if name in held:
                return held[name]
    return getattr(owner, name, None)
