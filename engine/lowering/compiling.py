"""`torch.compile` over rules: the AOT graph is partitioned, its partitions are delegates, the rest runs as told."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx as fx
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch._dynamo.backends.common import aot_autograd
from torch._export.verifier import TrainingIRVerifier
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils._python_dispatch import _disable_current_modes

from apportion.engine.errors import OptionError
from apportion.engine.lowering.backend import lower_decided
from apportion.engine.lowering.cache import Cache
from apportion.engine.lowering.inner import argument_of, call_graph
from apportion.engine.lowering.preprocess import Fallback
from apportion.engine.partition import partition
from apportion.engine.partitioner import RulesPartitioner
from apportion.engine.preserve import preserved_ops
from apportion.engine.sources import Rules, as_list
from apportion.grammar.diagnostics import nearest

__all__ = ["CACHE", "apportion", "as_program", "compile_backend"]

logger = logging.getLogger("apportion")

CACHE: Final = Cache()
"""Delegates that `torch.compile` made in this process."""

_RESTS: Final = ("eager", "inductor")
_OPTIONS: Final = ("rules", "options", "exclude", "only", "with_rules", "without_rules", "compile_specs", "strict",
                   "rest", "fallback", "freeze")


def apportion(module: fx.GraphModule, example_inputs: list[Any], *, options: Mapping[str, Any] | None = None,
              mode: str | None = None) -> Callable[..., Any]:
    """The backend that `torch.compile(model, backend="apportion", options={"rules": [...]})` finds.

    `options` has `rules` and what else `compile_backend` takes. Raises OptionError for an unknown one or no rules.
    """
    given = dict(options or {})
    if "rules" not in given:
        raise OptionError('which rules? torch.compile(model, backend="apportion", options={"rules": ["onnxruntime"]})')
    if mode not in (None, "default"):
        logger.warning("the mode %r means nothing to the backend apportion", mode)
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        near = nearest(unknown[0], _OPTIONS)
        hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_OPTIONS)}"
        raise OptionError(f"the backend apportion has no option `{unknown[0]}`; {hint}")
    rules = given.pop("rules")
    return compile_backend(rules, **given)(module, example_inputs)


def compile_backend(
    rules: Rules,
    *,
    rest: str = "eager",
    fallback: Fallback = (),
    freeze: bool = False,
    options: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]:
    """A compile function for `torch.compile(model, backend=...)`.

    `rules`, `options` and other keywords are `partition`'s; `fallback` is `to_backend`'s. `rest` says who runs the
    nodes that no rule claims: `"eager"`, or `"inductor"` (delegates of its own, which need a C++ compiler). With
    `freeze`, parameters become constants of the delegates, as they are when the model is compiled; training updates
    don't reach them. Equal partitions are compiled once in a process.

    In training, the forward graph is partitioned and the backward graph runs in eager PyTorch.
    """
    if rest not in _RESTS:
        raise OptionError(f"rest is one of {', '.join(_RESTS)}, not {rest!r}")
    sources = as_list(rules)
    loaded = RulesPartitioner([*sources, *(["inductor"] if rest == "inductor" else [])], **dict(options or {})).rules

    def compiler(module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        table = torch.export.default_decompositions()
        for op in preserved_ops(loaded, {str(op) for op in table}):
            table.pop(op, None)
        frozen = _parameters(example_inputs) if freeze and not torch.is_grad_enabled() else {}

        def forward(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            program, kept = as_program(graph, inputs, frozen if len(inputs) == len(example_inputs) else {})
            decision = partition(program, loaded, **arguments)
            with _disable_current_modes():  # backends compile with real tensors
                lowered = lower_decided(program, decision, fallback, CACHE)
            boxed: Callable[..., Any] = make_boxed_func(_runner(lowered, kept))
            return boxed

        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=forward, bw_compiler=_as_it_is, inference_compiler=forward, decompositions=dict(table.items()),
            keep_inference_input_mutations=False,
        )(module, example_inputs)
        return compiled

    compiler.__name__ = "apportion"
    return compiler


def _as_it_is(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    logger.info("the backward graph (%d nodes) runs in eager PyTorch", len(graph.graph.nodes))
    boxed: Callable[..., Any] = make_boxed_func(graph)
    return boxed


def _parameters(example_inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    return {place: value for place, value in enumerate(example_inputs) if isinstance(value, torch.nn.Parameter)}


def _runner(lowered: ExportedProgram, order: Mapping[str, int]) -> Callable[..., Any]:
    """The lowered graph as a function of all arguments of the old one."""
    module = lowered.graph_module
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    places = [order.get(name) for name in names]
    held = [lowered.constants.get(name) for name in names]
    everything = places == list(range(len(order)))

    def run(*args: Any) -> Any:
        if everything:
            return module(*args)
        return module(*[value if place is None else args[place] for place, value in zip(places, held, strict=False)])

    return run


def as_program(
    module: fx.GraphModule, inputs: Sequence[Any], frozen: Mapping[int, torch.Tensor]
) -> tuple[ExportedProgram, dict[str, int]]:
    """A graph of torch.compile as an exported program: all inputs are the user's, but for frozen parameters. Also gives
    the place of each argument by the name of its placeholder."""
    graph = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, env))
    branches = [one.graph for one in module.modules() if isinstance(one, fx.GraphModule) and one is not module]
    for one in (graph, *branches):
        _plain_stacks(one)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    specs: list[InputSpec] = []
    state: dict[str, Any] = {}
    for place, (node, value) in enumerate(zip(placeholders, inputs, strict=False)):
        node.meta.setdefault("val", value)
        if place in frozen:
            state[node.name] = frozen[place]
            specs.append(InputSpec(InputKind.PARAMETER, argument_of(node), node.name))
        else:
            specs.append(InputSpec(InputKind.USER_INPUT, argument_of(node), None))
    order = {node.name: place for place, node in enumerate(placeholders)}
    constants = _lift_tensors(module, graph, specs)
    (results,) = graph.output_node().args
    outputs = [_output(item) for item in results]  # type: ignore[union-attr]
    users = sum(spec.kind == InputKind.USER_INPUT for spec in specs)
    program = ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=ExportGraphSignature(input_specs=specs, output_specs=outputs),
        state_dict=state,
        range_constraints=_ranges(inputs),
        module_call_graph=call_graph(users, len(outputs)),
        constants=constants,
        verifiers=[TrainingIRVerifier],
    )
    return program, order


def _output(item: Any) -> OutputSpec:
    argument = argument_of(item) if isinstance(item, fx.Node) else ConstantArgument(name="", value=item)
    return OutputSpec(OutputKind.USER_OUTPUT, argument, None)


def _lift_tensors(module: fx.GraphModule, graph: fx.Graph, specs: list[InputSpec]) -> dict[str, Any]:
    """Tensors that the graph reads as attributes become constants of the program, behind its other inputs."""
    constants: dict[str, Any] = {}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = operator.attrgetter(str(node.target))(module)
        if not isinstance(value, torch.Tensor):
            continue
        with graph.inserting_before(first):
            made = graph.placeholder(node.name)
        made.meta = {"val": value, **node.meta}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        constants[made.name] = value
        specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(made.name), made.name))
        if first is node:
            first = next(n for n in graph.nodes if n.op != "placeholder")
    return constants


def _plain_stacks(graph: fx.Graph) -> None:
    """Module stacks with the names of classes, as exported programs have them."""
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
                for key, (path, kind) in stack.items()
            }


def _ranges(inputs: Sequence[Any]) -> dict[Any, Any]:
    mode = detect_fake_mode(inputs)
    environment = mode.shape_env if mode is not None else None
    return dict(environment.var_to_range) if environment is not None else {}
