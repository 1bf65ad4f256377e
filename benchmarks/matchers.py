"""The 30 patterns of `benchmarks.rules` for other matchers: as trees of single ops, made from the compiled rules.

What a rule says in one pattern (an optional activation, a choice of ops) is a tree each for a matcher that has no such
thing. Left out are trees with ops that no graph here has, of which `std/quant` knows many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import torch
from attrs import evolve, frozen
from torch._inductor import pattern_matcher as inductor
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from apportion.engine import RuleSet
from apportion.engine.candidates import Attempts, Matcher
from apportion.engine.compile import patterns as p
from apportion.engine.facts import ProgramFacts

__all__ = ["Tree", "inductor_matches", "named", "our_matches", "several", "subgraph_matches", "trees"]

Matches = set[frozenset[Any]]
"""The nodes of each match: ours are values of the engine, theirs nodes of the graph; `named` makes them comparable."""

_QUANTIZATION = frozenset({
    "quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_channel.default",
})  # fmt: skip


@frozen
class Tree:
    """A call of one op; `arguments` are trees, or None where anything may stand. `shared`: others may use it too."""

    op: str
    arguments: tuple[Tree | None, ...]
    shared: bool = False

    @property
    def size(self) -> int:
        """How many calls it has."""
        return 1 + sum(tree.size for tree in self.arguments if tree is not None)


def several(rules: RuleSet) -> RuleSet:
    """The rules of more than one node, without requirements: the patterns alone."""
    bare = [evolve(rule, steps=(), post=(), emits=()) for rule in rules.rules if _has_inner(rule.pattern)]
    return evolve(rules, rules=tuple(bare), invariants=())


def _has_inner(pattern: p.Pattern) -> bool:
    ops = {id(t) for c in pattern.choices for s in (c.root, *c.others) for t in p._walk(s.term)
           if isinstance(t, p.OpTerm)}
    return len(ops) > 1


def trees(rules: RuleSet, counts: dict[str, int]) -> list[Tree]:
    """Every tree of several calls that a pattern stands for; `counts` has the arguments that calls of each op have."""
    found: dict[Tree, None] = {}
    for rule in several(rules).rules:
        for choice in rule.pattern.choices:
            for tree in _expand(choice.root.term, counts, False):
                if tree is not None and tree.size > 1:
                    found[tree] = None
    return list(found)


def _expand(term: p.Term, counts: dict[str, int], shared: bool) -> Iterator[Tree | None]:
    match term:
        case p.BindTerm() | p.ComputeTerm() | p.EachTerm():
            yield from _expand(term.term, counts, shared)
        case p.OptionalTerm():
            yield from _expand(term.term, counts, shared)
            yield from _expand(term.bypass, counts, shared)
        case p.AlternativesTerm():
            for one in term.terms:
                yield from _expand(one, counts, shared)
        case p.OpTerm():
            for op in sorted(term.ops or ()):
                yield from _calls(op, term, counts)
        case p.VariableTerm() | p.AnyTerm() | p.LiteralTerm():
            yield None


def _calls(op: str, term: p.OpTerm, counts: dict[str, int]) -> Iterator[Tree]:
    if op.startswith(("quantized_decomposed.", "torchao.")) and op not in _QUANTIZATION or op not in counts:
        return
    namespace, name, overload = op.split(".")
    schema = getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema
    names = [argument.name for argument in schema.arguments][: counts[op]]
    layout = dict(term.layouts.get(op, term.layout))
    choices: list[list[Tree | None]] = []
    for argument, given in zip(names, schema.arguments, strict=False):
        if argument in layout:
            choices.append(list(islice(_expand(layout[argument], counts, False), 200)))
        elif term.rest is not None and str(given.type) == "Tensor":
            choices.append(list(_expand(term.rest, counts, False)))
        else:
            choices.append([None])
    for arguments in product(*choices):
        yield Tree(op, arguments, term.shared)


def argument_counts(module: GraphModule) -> dict[str, int]:
    """How many arguments the calls of each op have."""
    return {str(node.target): len(node.args) for node in module.graph.nodes if node.op == "call_function"}


def _overload(op: str) -> Any:
    namespace, name, overload = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


# --- the three matchers ----------------------------------------------------------------------------------------


def our_matches(module: GraphModule, patterns: RuleSet) -> Matches:
    """The nodes of each match of several nodes, of all variants, by ours; `patterns` are what `several` gives."""
    graph = ProgramFacts.of(module).main
    matcher = Matcher(patterns, graph, lambda node: None, Attempts(), lambda node, rule: None)
    found: Matches = set()
    for candidate in matcher.candidates():
        found.update(frozenset(heir.claimed) for heir in candidate.heirs)  # these have no other variant
        found.add(frozenset(candidate.claimed))
        while not candidate.is_last and candidate.advance():
            found.add(frozenset(candidate.claimed))
    return {match for match in found if len(match) > 1}


def named(matches: Matches) -> Matches:
    """The matches by the names of their nodes."""
    return {frozenset(node.name for node in match) for match in matches}


def inductor_matches(module: GraphModule, patterns: Sequence[Tree]) -> Callable[[], Matches]:
    """Inductor's matcher, patterns registered by their root op; nothing is replaced."""
    registered = inductor.PatternMatcherPass(pass_name="benchmark")
    found: list[Any] = []

    def refuse(match: Any) -> bool:
        found.append(match.nodes)
        return False

    for tree in patterns:
        inductor.register_graph_pattern(_inductor(tree, True), extra_check=refuse, pass_dict=registered)(_nothing)

    def run() -> Matches:
        found.clear()
        registered.apply(module.graph)
        return {frozenset(node for node in nodes if node.op == "call_function") for nodes in found}

    return run


def _nothing(match: Any, *arguments: Any, **named: Any) -> None:
    return None


def _inductor(tree: Tree, is_root: bool = False) -> Any:
    users = inductor.MULTIPLE if is_root or tree.shared else 1
    arguments = [inductor.Ignored() if one is None else _inductor(one) for one in tree.arguments]
    return inductor.CallFunction(_overload(tree.op), *arguments, _users=users)


def subgraph_matches(module: GraphModule, patterns: Sequence[Tree]) -> Callable[[], Matches]:
    """torch.fx's matcher, a graph for each pattern."""
    matchers = [SubgraphMatcher(_graph(tree), ignore_literals=True, remove_overlapping_matches=False)
                for tree in patterns]

    def run() -> Matches:
        return {
            frozenset(node for node in found.nodes_map.values() if isinstance(node, Node)
                      and node.op == "call_function" and node not in found.placeholder_nodes)
            for matcher in matchers
            for found in matcher.match(module.graph)
        }  # fmt: skip

    return run


def _graph(tree: Tree) -> Graph:
    graph = Graph()
    places: list[int] = []

    def count(one: Tree) -> None:
        for argument in one.arguments:
            if argument is None:
                places.append(0)
            else:
                count(argument)

    count(tree)
    waiting = iter([graph.placeholder(f"p{number}") for number in range(len(places))])

    def build(one: Tree) -> Node:
        arguments = [next(waiting) if argument is None else build(argument) for argument in one.arguments]
        return graph.call_function(_overload(one.op), tuple(arguments))

    graph.output(build(tree))
    return graph
