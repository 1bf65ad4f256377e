"""The program that calls the delegates: a new graph, built in one pass, beside the old one."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Union

import torch
import torch.fx as fx
from attrs import define, field
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry
from torch.export.graph_signature import ExportGraphSignature, InputSpec, OutputKind, OutputSpec

from apportion.engine.facts import ProgramFacts
from apportion.engine.lowering.call import apportion_call_delegate, attach
from apportion.engine.lowering.copies import keep_name
from apportion.engine.lowering.cut import NO_COPY, Cut
from apportion.engine.lowering.errors import TagError
from apportion.engine.lowering.module import LoweredBackendModule
from apportion.engine.lowering.owner import Owner
from apportion.engine.ops import op_of
from apportion.engine.order import flow_of
from apportion.engine.tag import TAG

__all__ = ["Lowered", "assemble", "graphs_of"]

Lowered = Mapping[int, LoweredBackendModule]
"""The delegate of each cut, by `id(cut)`; a cut that has none stays in the graph."""

_Item = Union[fx.Node, Cut]
_SCRATCH = (TAG, NO_COPY, "backend_id")


def graphs_of(module: fx.GraphModule, path: str = "") -> Iterator[tuple[str, fx.GraphModule]]:
    """A module and the modules of its branches, each once, with their paths; owners before branches."""
    seen: set[int] = set()
    pending = [(path, module)]
    while pending:
        here, one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield here, one
        for node in one.graph.nodes:
            if node.op == "get_attr":
                found = _attribute(one, str(node.target))
                if isinstance(found, fx.GraphModule):
                    pending.append((f"{here}.{node.target}".lstrip("."), found))


def assemble(owner: Owner, cuts: Mapping[int, Sequence[Cut]], lowered: Lowered) -> ExportedProgram:
    """The program with a call in place of each cut that has a delegate.

    `cuts` are those of each graph by the `id` of its module. Raises TagError where the cuts make a cycle.
    """
    program = owner.program
    done: dict[int, fx.GraphModule] = {}
    main = _rebuild(program.graph_module, owner, cuts, lowered, done)
    names = main.names
    signature, kept = _signature(program, main)
    state_targets = {spec.target for spec in kept}
    gone = {s.target for s in program.graph_signature.input_specs if s.target is not None} - state_targets
    made = ExportedProgram(
        root=main.root,
        graph=main.graph,
        graph_signature=signature,
        state_dict=_own_buffers(program, {n: value for n, value in owner.state_dict.items() if n not in gone}),
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=[_entry(entry, names) for entry in copy.deepcopy(program.module_call_graph)],
        example_inputs=None,
        constants=_own_buffers(program, {n: value for n, value in owner.constants.items() if n not in gone}),
        verifiers=[program.verifier],
    )
    made.graph_module.meta.update(program.graph_module.meta)
    return made


def _own_buffers(program: ExportedProgram, held: dict[str, Any]) -> dict[str, Any]:
    """The same tensors, but for buffers that the program writes: running the new one must not change the old one."""
    written = {spec.target for spec in program.graph_signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}
    return {name: value.clone() if name in written and isinstance(value, torch.Tensor) else value
            for name, value in held.items()}


@define(eq=False)
class _Graph:
    """A new graph in the making."""

    source: fx.GraphModule
    graph: fx.Graph = field(factory=fx.Graph)
    root: torch.nn.Module = field(factory=torch.nn.Module)
    env: dict[fx.Node, fx.Node] = field(factory=dict)
    owned: set[int] = field(factory=set)

    @property
    def module(self) -> fx.GraphModule:
        """It as a module."""
        return fx.GraphModule(self.root, self.graph)

    @property
    def names(self) -> dict[str, str]:
        """The new name of each old node that is still a value of this graph."""
        return {old.name: new.name for old, new in self.env.items()}


def _rebuild(
    module: fx.GraphModule,
    owner: Owner,
    cuts: Mapping[int, Sequence[Cut]],
    lowered: Lowered,
    done: dict[int, fx.GraphModule],
) -> _Graph:
    own = [cut for cut in cuts.get(id(module), ()) if id(cut) in lowered]
    made = _Graph(module)
    moved = _moved_in(own)
    for item in _ordered(module, own):
        if isinstance(item, Cut):
            _emit_call(made, item, lowered[id(item)])
        elif item.op == "get_attr":
            _emit_attribute(made, item, owner, cuts, lowered, done)
        elif item.op == "output":
            _emit_output(made, item, own, owner)
        elif item not in moved:
            _copy(made, item)
    return made


def _branch(
    module: fx.GraphModule, owner: Owner, cuts: Mapping[int, Sequence[Cut]], lowered: Lowered,
    done: dict[int, fx.GraphModule],
) -> fx.GraphModule:
    if id(module) not in done:
        rebuilt = _rebuild(module, owner, cuts, lowered, done)
        found = done[id(module)] = rebuilt.module
        found.meta.update(module.meta)
    return done[id(module)]


# --- order -----------------------------------------------------------------------------------------------------------


def _ordered(module: fx.GraphModule, cuts: Sequence[Cut]) -> list[_Item]:
    """The nodes outside of the cuts and the cuts, each after what it reads; free choices as in the old graph.

    Raises TagError naming a cycle.
    """
    belongs: dict[fx.Node, Cut] = {node: cut for cut in cuts for node in cut.nodes}
    place: dict[_Item, int] = {}
    waits: dict[_Item, int] = {}
    followers: dict[_Item, dict[_Item, None]] = {}
    for index, node in enumerate(module.graph.nodes):
        item = belongs.get(node, node)
        place[item] = index
        waits.setdefault(item, 0)
        followers.setdefault(item, {})
    for before, after in _edges(module, belongs):
        if before is not after and after not in followers[before]:
            followers[before][after] = None
            waits[after] += 1
    # Placeholders come first and the output last, whatever they wait for.
    ready: list[tuple[int, int]] = []
    items = list(place)
    numbers = {item: number for number, item in enumerate(items)}
    for item in items:
        if waits[item] == 0:
            heappush(ready, (place[item], numbers[item]))
    order: list[_Item] = []
    while ready:
        item = items[heappop(ready)[1]]
        order.append(item)
        for after in followers[item]:
            waits[after] -= 1
            if waits[after] == 0:
                heappush(ready, (place[after], numbers[after]))
    if len(order) < len(items):
        raise TagError(_describe_cycle([item for item in items if waits[item] > 0], followers))
    fixed = [item for item in order if isinstance(item, fx.Node) and item.op == "placeholder"]
    last = [item for item in order if isinstance(item, fx.Node) and item.op == "output"]
    apart = {*fixed, *last}
    return [*fixed, *(item for item in order if item not in apart), *last]


def _edges(module: fx.GraphModule, belongs: Mapping[fx.Node, Cut]) -> Iterator[tuple[_Item, _Item]]:
    effects = False
    for node in module.graph.nodes:
        item = belongs.get(node, node)
        for source in node.all_input_nodes:
            yield belongs.get(source, source), item
        op = op_of(node)
        effects = effects or (op is not None and op.has_effects)
    if effects and belongs:
        graph = ProgramFacts.of(module).main
        flow = flow_of(graph)
        for after, before in enumerate(flow.predecessors):
            for one in before:
                first, second = graph.calls[one].fx, graph.calls[after].fx
                yield belongs.get(first, first), belongs.get(second, second)


def _describe_cycle(stuck: Sequence[_Item], followers: Mapping[_Item, Mapping[_Item, None]]) -> str:
    """Follow stuck items backwards until one comes again."""
    inside = set(stuck)
    before: dict[_Item, _Item] = {}
    for item in stuck:
        for after in followers[item]:
            if after in inside:
                before.setdefault(after, item)
    path: list[_Item] = []
    item = stuck[0]
    while item not in path:
        path.append(item)
        item = before[item]
    cycle = [*reversed(path[path.index(item):])]
    names = [f"the delegate {one.tag}" if isinstance(one, Cut) else one.name for one in (*cycle, cycle[0])]
    return "the tags make a cycle, so no delegate of it could run first: " + " -> ".join(names)


# --- nodes -----------------------------------------------------------------------------------------------------------


def _moved_in(cuts: Sequence[Cut]) -> set[fx.Node]:
    """The constants that only delegates read, and that they have a copy of."""
    inside = {node: cut for cut in cuts for node in cut.nodes}
    written = {id(spec) for cut in cuts for _, spec in cut.writes}
    moved: set[fx.Node] = set()
    for cut in cuts:
        for node, spec in cut.constants.items():
            owners = [inside.get(user) for user in node.users]
            if id(spec) in written or all(one is not None and node in one.constants for one in owners):
                moved.add(node)
    return moved


def _copy(made: _Graph, node: fx.Node) -> fx.Node:
    copied = made.graph.node_copy(node, made.env.__getitem__)
    for key in _SCRATCH:
        copied.meta.pop(key, None)
    if node.op == "placeholder":
        keep_name(copied, node.name)
    made.env[node] = copied
    return copied


def _emit_attribute(
    made: _Graph, node: fx.Node, owner: Owner, cuts: Mapping[int, Sequence[Cut]], lowered: Lowered,
    done: dict[int, fx.GraphModule],
) -> None:
    value = _attribute(made.source, str(node.target))
    inside = {id(n) for cut in cuts.get(id(made.source), ()) if id(cut) in lowered for n in cut.nodes}
    if node.users and all(id(user) in inside for user in node.users):
        return
    if isinstance(value, fx.GraphModule):
        value = _branch(value, owner, cuts, lowered, done)
    _set(made.root, str(node.target), value)
    _copy(made, node)


def _emit_call(made: _Graph, cut: Cut, delegate: LoweredBackendModule) -> None:
    for name, value in made.source.named_children():
        if isinstance(value, LoweredBackendModule) and not hasattr(made.root, name):
            made.root.add_module(name, value)  # of an earlier lowering: its name is taken
    graph = made.graph
    name = attach(made.root, delegate)
    target = graph.create_node("get_attr", name, name=name)
    call = graph.call_function(apportion_call_delegate, (target, *(made.env[node] for node in cut.inputs)))
    call.meta = _call_meta(cut)
    target.meta["val"] = None
    for place, node in enumerate(cut.outputs):
        getitem = graph.call_function(operator.getitem, (call, place))
        getitem.meta = {key: value for key, value in node.meta.items() if key not in _SCRATCH}
        made.env[node] = getitem
    for node in cut.repeated:
        _copy(made, node)


def _call_meta(cut: Cut) -> dict[str, Any]:
    """One `val` an output, and what is common to the nodes inside."""
    meta: dict[str, Any] = {"val": [node.meta.get("val") for node in cut.outputs]}
    meta["debug_handle"] = max((_handle(node) for node in cut.nodes), default=0) + 1
    traces = [trace for node in cut.nodes if (trace := node.meta.get("stack_trace"))]
    if traces:
        meta["stack_trace"] = traces[-1]
    stacks = [stack for node in cut.nodes if (stack := node.meta.get("nn_module_stack"))]
    if stacks:
        meta["nn_module_stack"] = _common(stacks)
    return meta


def _handle(node: fx.Node) -> int:
    handle = node.meta.get("debug_handle", 0)
    return max(handle, default=0) if isinstance(handle, (tuple, list)) else int(handle)


def _common(stacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The modules that all nodes are in, outermost first."""
    common = list(stacks[0].items())
    for stack in stacks[1:]:
        if len(common) <= 1:
            break
        size = 0
        for mine, theirs in zip(common, stack.items(), strict=False):
            if mine[0] != theirs[0]:
                break
            size += 1
        common = common[: max(size, 1)]
    return dict(common)


def _emit_output(made: _Graph, node: fx.Node, cuts: Sequence[Cut], owner: Owner) -> None:
    """The output, without what delegates write back themselves."""
    places = {owner.write_back(spec) for cut in cuts for _, spec in cut.writes}
    made.owned = {place for place in places if place is not None}
    results = node.args[0]
    if made.owned and isinstance(results, (tuple, list)):
        results = tuple(item for place, item in enumerate(results) if place not in made.owned)
    output = made.graph.output(fx.map_arg(results, made.env.__getitem__))
    output.meta = {key: value for key, value in node.meta.items() if key not in _SCRATCH}


def _set(root: torch.nn.Module, target: str, value: Any) -> None:
    *path, name = target.split(".")
    for part in path:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def _attribute(module: torch.nn.Module, target: str) -> Any:
    getter: Callable[[Any], Any] = operator.attrgetter(target)
    return getter(module)


# --- signature -------------------------------------------------------------------------------------------------------


def _signature(program: ExportedProgram, main: _Graph) -> tuple[ExportGraphSignature, list[InputSpec]]:
    names = main.names
    signature = program.graph_signature
    inputs = [spec for spec in signature.input_specs if spec.arg.name in names]
    outputs = []
    for place, spec in enumerate(signature.output_specs):
        if place in main.owned:
            continue
        arg = copy.copy(spec.arg)
        if arg.name in names:
            arg.name = names[arg.name]
        outputs.append(OutputSpec(spec.kind, arg, spec.target))
    copies = [InputSpec(spec.kind, copy.copy(spec.arg), spec.target, spec.persistent) for spec in inputs]
    return ExportGraphSignature(input_specs=copies, output_specs=outputs), inputs


def _entry(entry: ModuleCallEntry, names: Mapping[str, str]) -> ModuleCallEntry:
    """A module's calling convention under the new names; one whose values went into a delegate is left out."""
    if entry.signature is None:
        return entry
    for arg in (*entry.signature.inputs, *entry.signature.outputs):
        if not getattr(arg, "name", ""):
            continue
        if arg.name not in names:
            return ModuleCallEntry(entry.fqn, None) if entry.fqn else entry
        arg.name = names[arg.name]
    return entry
