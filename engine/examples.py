"""The examples of a rules file, run: each becomes a small graph of fake tensors that goes through the pipeline."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx as fx
from attrs import define, evolve, field, frozen
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.node import map_aggregate

from apportion.engine.candidates import Attempts
from apportion.engine.claim import claim
from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.compile.rulesets import CompiledRule, PartitionPolicy, RuleSet
from apportion.engine.facts import ProgramFacts, Value
from apportion.engine.load import with_options
from apportion.engine.ops.held_back import register_held_back
from apportion.engine.order import flow_of
from apportion.engine.preserve import target_named
from apportion.engine.reasons import describe
from apportion.grammar import tree
from apportion.grammar.diagnostics import Span

__all__ = ["ExampleError", "ExampleProgram", "ExampleResult", "build_example", "run_example", "run_examples"]


class ExampleError(Exception):
    """An example that is no valid program: PyTorch refuses the call, or an argument can't be read."""


class _Absent(Exception):
    """The library of a declared op is not loaded."""


@frozen
class ExampleResult:
    """How an example came out: `holds`, `fails`, `skipped` (an op's library is absent) or `error`."""

    rule: str
    span: Span
    accepts: bool
    outcome: str
    message: str


@frozen(eq=False)
class ExampleProgram:
    """The graph of an example; `nodes` are its op nodes, in order."""

    module: fx.GraphModule
    nodes: tuple[fx.Node, ...]


def run_examples(rules: RuleSet) -> tuple[ExampleResult, ...]:
    """Run every example of every rule of a file."""
    results = []
    for rule in rules.rules:
        for example, options in zip(rule.examples, rule.example_options, strict=True):
            results.append(run_example(rules, rule, example, options))
    results.extend(_of_absent_rules(rules))
    return tuple(results)


def _of_absent_rules(rules: RuleSet) -> list[ExampleResult]:
    """Examples of rules that the default options switch off: each is run with its own options."""
    results = []
    for absent in rules.absent:
        for example, options in zip(absent.examples, absent.example_options, strict=True):
            results.append(_run_with(rules, absent.name, example, options))
    return results


def run_example(rules: RuleSet, rule: CompiledRule, example: tree.Example, options: Mapping[str, Any]) -> ExampleResult:
    """Run one example of a rule under the options that it sets."""
    if options:
        return _run_with(rules, rule.name, example, options)
    return _judge(rules, rule.name, example)


def _run_with(rules: RuleSet, rule: str, example: tree.Example, options: Mapping[str, Any]) -> ExampleResult:
    return _judge(with_options(rules, dict(options)) if options else rules, rule, example)


def _judge(rules: RuleSet, name: str, example: tree.Example) -> ExampleResult:
    def result(outcome: str, message: str) -> ExampleResult:
        return ExampleResult(name, example.span, example.accepts, outcome, message)

    try:
        program = build_example(example, rules)
    except _Absent as absent:
        return result("skipped", f"the library of `{absent}` is not loaded")
    except ExampleError as error:
        return result("error", str(error))
    rule = next((r for r in rules.rules if r.name == name), None)
    if rule is None:
        if example.accepts:
            return result("fails", f"`{name}` is switched off by the options (its `when`)")
        return result("holds", "the rule is switched off")
    claimed = _claimed_by(evolve(rules, policy=PartitionPolicy()), name, program)
    if example.accepts:
        return result("holds", "") if claimed else result("fails", _why(rules, rule, program, alone=False))
    if claimed:
        return result("fails", "it is claimed")
    reason = _why(rules, rule, program, alone=True)
    if example.because is not None and example.because not in reason:
        return result("fails", f"it is rejected, but the reason is: {reason}")
    return result("holds", reason)


def _claim(rules: RuleSet, program: ExampleProgram) -> tuple[set[str], Attempts, tuple[Value, ...]]:
    graph = ProgramFacts.of(program.module).main
    attempts = Attempts()
    claims = claim(graph, rules, flow_of(graph), (), lambda _: None, lambda _node, _rule: None, attempts)
    names = {match.rule.name for group in claims.groups for match in group.matches}
    return names, attempts, graph.calls


def _claimed_by(rules: RuleSet, name: str, program: ExampleProgram) -> bool:
    return name in _claim(rules, program)[0]


def _why(rules: RuleSet, rule: CompiledRule, program: ExampleProgram, *, alone: bool) -> str:
    """The reason of the node where this rule came furthest; with `alone` no other rule takes part."""
    chosen = evolve(rules, rules=(rule,) if alone else rules.rules, policy=PartitionPolicy())
    names, attempts, calls = _claim(chosen, program)
    found = [attempt for node in calls if (attempt := attempts.of(node)) is not None]
    if not found:
        others = ", ".join(sorted(names - {rule.name}))
        return f"claimed by {others} instead" if others else f"the pattern of {rule.name} does not match"
    return describe(max(found, key=lambda attempt: attempt.progress))


# --- building the program ------------------------------------------------------------------------------------------


@define(eq=False)
class _Builder:
    """Builds the graph of one example: placeholders, constants as attributes, and its calls."""

    rules: RuleSet
    graph: fx.Graph = field(factory=fx.Graph)
    root: torch.nn.Module = field(factory=torch.nn.Module)
    shape_env: ShapeEnv = field(factory=ShapeEnv)
    names: dict[str, fx.Node] = field(factory=dict)
    dims: dict[str, Any] = field(factory=dict)
    calls: list[fx.Node] = field(factory=list)
    mode: FakeTensorMode = field(init=False)
    inputs: int = 0

    @mode.default
    def _mode(self) -> FakeTensorMode:
        return FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=False)

    def dim(self, size: int | str) -> Any:
        if isinstance(size, int):
            return size
        if size not in self.dims:
            from torch._dynamo.source import ConstantSource

            symbol = self.shape_env.create_symbol(
                8, source=ConstantSource(f"__{size}"), dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
            )
            self.dims[size] = self.shape_env.create_symintnode(symbol, hint=8)
        return self.dims[size]

    def tensor(self, node: tree.ExampleTensor) -> fx.Node:
        if node.dtype not in DTYPES:
            raise ExampleError(f"`{node.dtype}` is no dtype")
        sizes = [self.dim(size) for size in node.shape or ()]
        with self.mode:
            value = torch.empty(sizes, dtype=DTYPES[node.dtype], device="cpu")
        self.inputs += 1
        if node.kind == "constant":
            name = f"constant_{self.inputs}"
            self.root.register_buffer(name, value)
            made = self.graph.get_attr(name)
        else:
            made = self.graph.placeholder(f"input_{self.inputs}")
        made.meta["val"] = value
        return made

    def argument(self, node: tree.ExampleArgument | tree.Expr, kind: str) -> Any:
        match node:
            case tree.ExampleTensor(shape=None):
                return self.name(node.dtype, kind)
            case tree.ExampleTensor():
                return self.tensor(node)
            case tree.ExampleList():
                return [self.argument(item, kind) for item in node.items]
            case tree.ExampleCall():
                return self.call(node)
            case tree.Literal():
                return _word(node.value, kind)
            case tree.Name():
                return self.name(node.id, kind)
            case tree.Unary():
                inner = self.argument(node.operand, kind)
                return -inner if node.op == "-" else inner
            case tree.Index():
                return self.element(node)
            case _:
                raise ExampleError(f"`{node.span.text}` can't be an argument of an example")

    def name(self, name: str, kind: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in DTYPES:
            return DTYPES[name]
        if name in self.dims:
            return self.size(name)
        return _word(name, kind)

    def size(self, name: str) -> fx.Node:
        """A symbolic dim as an argument: a placeholder of its own."""
        self.inputs += 1
        made = self.graph.placeholder(f"size_{self.inputs}")
        made.meta["val"] = self.dims[name]
        return made

    def element(self, node: tree.Index) -> fx.Node:
        value, index = self.argument(node.value, "Tensor"), self.argument(node.index, "int")
        if not isinstance(value, fx.Node) or not isinstance(value.meta["val"], tuple | list):
            raise ExampleError(f"`{node.span.text}`: that value has no outputs to choose from")
        if not isinstance(index, int) or not -len(value.meta["val"]) <= index < len(value.meta["val"]):
            raise ExampleError(f"`{node.span.text}`: it has {len(value.meta['val'])} outputs")
        made = self.graph.call_function(operator.getitem, (value, index))
        made.meta["val"] = value.meta["val"][index]
        return made

    def call(self, node: tree.ExampleCall) -> fx.Node:
        target = self.target(node.callee)
        schema = target._schema.arguments
        positional = [a for a in schema if not a.kwarg_only]
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, given in node.arguments:
            if name is None:
                if len(args) >= len(positional):
                    raise ExampleError(f"`{target}` takes at most {len(positional)} by position")
                args.append(self.argument(given, str(positional[len(args)].type)))
            else:
                kind = next((str(a.type) for a in schema if a.name == name), "")
                kwargs[name] = self.argument(given, kind)
        made = self.graph.call_function(target, tuple(args), kwargs)
        made.meta["val"] = self.run(target, args, kwargs)
        self.calls.append(made)
        return made

    def target(self, callee: tree.Expr) -> OpOverload:
        name = "".join(callee.span.text.split())
        if name in self.rules.declared:
            register_held_back(name.partition(".")[0])
        target = target_named(name)
        if target is not None:
            return target
        if name in self.rules.declared:
            raise _Absent(name)
        raise ExampleError(f"`{name}` can't be called in an example; it needs an op with its overload")

    def run(self, target: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Any:
        def value(argument: Any) -> Any:
            return argument.meta["val"] if isinstance(argument, fx.Node) else argument

        try:
            with self.mode, enable_python_dispatcher():
                return target(*map_aggregate(tuple(args), value), **map_aggregate(kwargs, value))
        except Exception as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ExampleError(f"PyTorch refuses `{target}`: {first}") from error


def build_example(example: tree.Example, rules: RuleSet) -> ExampleProgram:
    """The graph of an example, with metadata. Raises `ExampleError` where PyTorch refuses it."""
    builder = _Builder(rules)
    for step in example.steps:
        made = builder.call(step.call)
        if step.name is not None:
            builder.names[step.name] = made
    unused = [node for node in builder.calls if not node.users]
    builder.graph.output(tuple(output for node in unused for output in _outputs(builder.graph, node)))
    return ExampleProgram(fx.GraphModule(builder.root, builder.graph), tuple(builder.calls))


def _outputs(graph: fx.Graph, node: fx.Node) -> list[fx.Node]:
    """What a node gives: itself, or where it has several outputs each of them."""
    value = node.meta["val"]
    if not isinstance(value, tuple | list):
        return [node]
    outputs = []
    for index, item in enumerate(value):
        made = graph.call_function(operator.getitem, (node, index))
        made.meta["val"] = item
        outputs.append(made)
    return outputs


def _word(value: Any, kind: str) -> Any:
    """A string where PyTorch takes a memory format, a layout or a device."""
    if not isinstance(value, str):
        return value
    if kind in ("Device", "Optional[Device]", "Device?"):
        return torch.device(value)
    found = getattr(torch, value, None)
    return found if isinstance(found, torch.memory_format | torch.layout | torch.dtype) else value
