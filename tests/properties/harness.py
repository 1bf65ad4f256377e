"""A random program partitioned by random rules, with all that is needed to judge the outcome."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attrs import field, frozen
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from apportion import engine
from tests.properties.lowering import CALLS, order_edges
from tests.properties.programs import Program, draw_program, exported, graph_module
from tests.properties.rules_text import Pair, draw_rules

__all__ = ["CLEAN", "TAG", "Outcome", "a_program", "call_nodes", "examples", "graphs_of", "groups_in", "is_getitem",
           "outcome", "outcomes", "pairs_of", "snapshot", "tags_in", "tensors_of"]

TAG = "delegation_tag"
POOL = 10_000
CLEAN = frozenset({"writes", "random", "asserts"})


@engine.predicate("small_name")
def small_name(node: Any) -> bool:
    return len(node.name) < 8


@engine.predicate("even_rank")
def even_rank(node: Any) -> bool:
    return bool(node.rank % 2 == 0)


@engine.predicate("odd_rank")
def odd_rank(node: Any) -> bool:
    return bool(node.rank % 2 == 1)


def examples(count: int, full: int | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test that takes `many` on `count` examples, and with `-m full` on `full` (ten times as many)."""
    return pytest.mark.parametrize("many", [
        pytest.param(count, id=str(count)),
        pytest.param(full or 10 * count, id=str(full or 10 * count), marks=pytest.mark.full),
    ])


def outcomes(many: int, check: Callable[[Outcome], None]) -> None:
    """Draw programs and rules, partition, and check what came out. Seeds are printed where a check fails."""

    @settings(max_examples=many, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
    @given(st.integers(0, min(POOL, many) - 1), st.integers(0, 2**20))
    def run(program_seed: int, rules_seed: int) -> None:
        found = outcome(program_seed, rules_seed)
        note(f"outcome({program_seed}, {rules_seed})\n{found.program.describe()}\n{found.text}")
        check(found)

    run()


@frozen(eq=False)
class Outcome:
    """A partitioned program. `given` is the ExportedProgram or GraphModule that was handed in, `texts` the rules files
    in order of precedence."""

    program: Program
    given: Any
    texts: tuple[str, ...]
    result: engine.PartitionResult
    before: Any = field(repr=False)

    @property
    def text(self) -> str:
        """The rules files as one text, to look names up in."""
        return "\n".join(self.texts)

    def rules(self, first: str | None = None) -> list[engine.RuleSet]:
        """The rules anew; `first` stands for the first file if it is given."""
        texts = self.texts if first is None else (first, *self.texts[1:])
        return [engine.parse_rules(text) for text in texts]

    @property
    def module(self) -> fx.GraphModule:
        """The graph module that carries the tags."""
        return self.given.graph_module if isinstance(self.given, ExportedProgram) else self.given

    @functools.cached_property
    def runnable(self) -> tuple[fx.GraphModule, list[tuple[fx.Node, fx.Node]]]:
        """The program as a module that runs, its tags left out, and which of its nodes must stay in order."""
        module = self.given.module(check_guards=False) if isinstance(self.given, ExportedProgram) else self.given
        state = tensors_of(module)
        saved = {name: value.detach().clone() for name, value in state.items()}
        with torch.no_grad():
            order = order_edges(module, self.program.inputs())
            for name, value in state.items():
                value.copy_(saved[name])
        return module, order


@functools.lru_cache(maxsize=512)
def a_program(seed: int, without: frozenset[str] = frozenset()) -> tuple[Program, Any]:
    """A random program, exported or as an FX graph. Kept: whoever changes it puts it back.

    PyTorch refuses to export a few of them (a branch of `cond` that may alias its input); then it is the next one.
    """
    for following in range(seed, seed + 10 * POOL, POOL):
        program = draw_program(following, without=without)
        try:
            return program, graph_module(program)[0] if seed % 3 == 2 else exported(program)
        except RuntimeError as refused:
            if "might be aliasing" not in str(refused):
                raise
    raise AssertionError(f"no program of seed {seed} can be exported")


def outcome(program_seed: int, rules_seed: int, without: frozenset[str] = frozenset()) -> Outcome:
    """Partition the program of one seed by the rules of another. Tags of earlier outcomes are still on it."""
    program, given = a_program(program_seed, without)
    pairs = pairs_of(given)
    texts = [draw_rules(rules_seed, pairs)]
    if rules_seed % 4 == 0:  # two backends
        second = draw_rules(rules_seed + 1, pairs)
        texts.append(re.sub('^backend ".*?"', 'backend "Second"', second, flags=re.MULTILINE))
    before = snapshot(given)
    result = engine.partition(given, [engine.parse_rules(text) for text in texts])
    return Outcome(program, given, tuple(texts), result, before)


def pairs_of(given: Any) -> list[Pair]:
    """What the ops of a program take from each other, where rules can name them."""
    module = given.graph_module if isinstance(given, ExportedProgram) else given
    found = []
    for _, inner in graphs_of(module):
        for node in call_nodes(inner):
            for place, argument in enumerate(node.args):
                source = argument[0] if isinstance(argument, (tuple, list)) and argument else argument
                if source is not argument or not isinstance(source, fx.Node):
                    continue
                producer = source.args[0] if is_getitem(source) else source
                names = aten_name(producer), aten_name(node)
                several = isinstance(producer.meta.get("val"), (tuple, list))
                if None not in names and several == (producer is not source):
                    element = None if producer is source else source.args[1]
                    first = producer.args[0] if producer.args and isinstance(producer.args[0], fx.Node) else None
                    earlier = None if first is None or is_getitem(first) else aten_name(first)
                    single = len(producer.users) == 1
                    found.append(Pair(names[0], element, names[1], place, earlier, single, first is not None))
    return found


def aten_name(node: fx.Node) -> str | None:
    """`relu.default` of a node that calls it; None for ops that no rule should claim by chance."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return None
    name = target._schema.name.removeprefix("aten::")
    if torch.Tag.nondeterministic_seeded in target.tags or name.startswith(("_assert", "sym_")):
        return None
    return f"{name}.{target._overloadname}"


# --- looking at graphs --------------------------------------------------------------------------------------------


def graphs_of(module: fx.GraphModule, path: str = "") -> Iterator[tuple[str, fx.GraphModule]]:
    """A graph module and those that its control-flow ops call, each with its path."""
    yield path, module
    for node in module.graph.nodes:
        if node.op == "get_attr":
            inner = operator.attrgetter(node.target)(module)
            if isinstance(inner, fx.GraphModule):
                yield from graphs_of(inner, f"{path}.{node.target}" if path else node.target)


def is_getitem(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem and isinstance(
        node.args[0].meta.get("val"), (tuple, list))


def call_nodes(module: fx.GraphModule) -> list[fx.Node]:
    """The op nodes without getitems."""
    return [node for node in module.graph.nodes if node.op in CALLS and not is_getitem(node)]


def tags_in(module: fx.GraphModule) -> dict[fx.Node, str]:
    """The tag of each node that has one."""
    return {node: node.meta[TAG] for node in module.graph.nodes if TAG in node.meta}


def snapshot(given: Any) -> Any:
    """Everything about a program but tags: graphs, metadata, signature, ranges, and the shape environment's guards."""
    module = given.graph_module if isinstance(given, ExportedProgram) else given
    graphs = []
    for path, inner in graphs_of(module):
        nodes = [(node.name, node.op, str(node.target), repr(node.args), repr(node.kwargs), list(map(str, node.users)),
                  sorted((str(key), _identity(value)) for key, value in node.meta.items() if key != TAG))
                 for node in inner.graph.nodes]
        graphs.append((path, nodes))
    signature = str(given.graph_signature) if isinstance(given, ExportedProgram) else ""
    ranges = str(given.range_constraints) if isinstance(given, ExportedProgram) else ""
    return graphs, signature, ranges, [_environment(env) for env in _environments(module)]


def _identity(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return id(value), str(tuple(value.shape)), str(value.dtype)
    return str(value)


def _environments(module: fx.GraphModule) -> list[Any]:
    found: dict[int, Any] = {}
    for node in module.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            for size in leaf.shape if isinstance(leaf, torch.Tensor) else [leaf]:
                if isinstance(size, torch.SymInt):
                    found[id(size.node.shape_env)] = size.node.shape_env
    return list(found.values())


def _environment(env: Any) -> tuple[Any, ...]:
    deferred = {str(key): list(map(str, value)) for key, value in env.deferred_runtime_asserts.items()}
    return (list(map(str, env.guards)), str(env.var_to_range), str(env.replacements), str(env.axioms), str(deferred),
            str(sorted(map(str, env.divisible))), env.num_deferred_runtime_asserts)


def groups_in(module: fx.GraphModule) -> dict[fx.Node, str]:
    """The tag of each tagged op node and getitem."""
    return {node: tag for node, tag in tags_in(module).items() if node.op in CALLS}


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every tensor that a module holds, by path."""
    found: dict[str, torch.Tensor] = {}
    for path, inner in module.named_modules():
        for name, value in [*inner.__dict__.items(), *inner._parameters.items(), *inner._buffers.items()]:
            if isinstance(value, torch.Tensor):
                found[f"{path}.{name}" if path else name] = value
    return found
