"""The engine's guarantees over random programs and random rules."""

from __future__ import annotations

import operator
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx
import pytest
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from apportion import engine
from apportion.engine.merge import Unit
from tests.engine.merge_graphs import fewest_by_schedule, is_acyclic
from tests.properties.harness import (
    CLEAN,
    TAG,
    Outcome,
    a_program,
    call_nodes,
    examples,
    graphs_of,
    groups_in,
    is_getitem,
    outcome,
    outcomes,
    pairs_of,
    snapshot,
    tags_in,
    tensors_of,
)
from tests.properties.lowering import CALLS, contracted, lower_plain, order_edges
from tests.properties.rules_text import CHANCE, DEMANDS, EVERY, WRITES, draw_rules
from tests.properties.running import differences, observe

ROOT = Path(__file__).parents[2]
BREAKS = ("", '"', "{", "}", "(", "rule", " or ", "1e999", "\0", "é", "@", "9" * 40, " ", " and ")


# --- 1: valid -----------------------------------------------------------------------------------------------------


def check_valid(found: Outcome) -> None:
    inputs = user_inputs(found.given)
    seen: dict[str, set[fx.Node]] = defaultdict(set)
    for _, module in graphs_of(found.module):
        groups = groups_in(module)
        assert networkx.is_directed_acyclic_graph(contracted(module.graph, groups))
        for node, tag in tags_in(module).items():
            assert tag in found.result.partition_tags
            assert node.op in CALLS or node.op in ("placeholder", "get_attr")
            assert node.name not in inputs
            if node.op in CALLS:
                seen[tag].add(node)
            if node.op in ("placeholder", "get_attr"):
                assert any(groups.get(user) == tag for user in node.users), f"{node} is tagged without a user in {tag}"
        for node in module.graph.nodes:
            if is_getitem(node):
                assert groups.get(node) == groups.get(node.args[0]), f"a tuple crosses a border at {node}"
    for partition in found.result.partitions:
        assert set(partition.nodes) == seen.pop(partition.tag)
        assert not all(is_getitem(node) for node in partition.nodes)
        assert partition.outputs or any(map(has_effects, partition.nodes)), f"{partition.tag} is dead code alone"
    assert not seen
    assert [p.tag for p in found.result.partitions] == list(found.result.partition_tags)


def user_inputs(given: Any) -> set[str]:
    """The names of the placeholders that a caller fills."""
    if isinstance(given, ExportedProgram):
        return set(map(str, given.graph_signature.user_inputs))
    return {node.name for node in given.graph.nodes if node.op == "placeholder"}


# --- 2: same meaning ----------------------------------------------------------------------------------------------


def check_same_meaning(found: Outcome) -> None:
    module, order = found.runnable
    calls = [found.program.inputs(call) for call in range(2)]
    state = tensors_of(module)
    saved = {name: value.detach().clone() for name, value in state.items()}

    def reset() -> None:
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(saved[name])

    plain = observe(module, lambda: state, calls)
    reset()
    lowered = lower_all(found.module, module, order)
    outcome_of_lowered = observe(lowered, lambda: state, calls)
    reset()
    assert not differences(plain, outcome_of_lowered)
    if isinstance(found.given, ExportedProgram) and not is_random(module):
        eager_module = found.program.module()
        eager = observe(eager_module, lambda: tensors_of(eager_module), calls)
        assert not differences(eager, outcome_of_lowered, exact=False)


def is_random(module: fx.GraphModule) -> bool:
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
               for _, inner in graphs_of(module) for node in inner.graph.nodes)


def lower_all(tagged: fx.GraphModule, module: fx.GraphModule, order: list[tuple[fx.Node, fx.Node]]) -> fx.GraphModule:
    """Lower a graph and its branches by the tags of nodes of the same names in `tagged`."""
    tags = {node.name: tag for node, tag in groups_in(tagged).items()}
    groups = {node: tags[node.name] for node in module.graph.nodes if node.name in tags}
    there = {node.name for node in module.graph.nodes}
    users = {node.name: [user.name for user in node.users] for node in tagged.graph.nodes}
    for name in tags.keys() - there:  # `ExportedProgram.module()` drops dead code
        assert there.isdisjoint(users[name])
    inner = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            branch = operator.attrgetter(node.target)(module)
            if isinstance(branch, fx.GraphModule) and hasattr(tagged, node.target):
                inner[node.target] = lower_all(operator.attrgetter(node.target)(tagged), branch, [])
    return lower_plain(module, groups, order, inner)


# --- 3: nothing touched -------------------------------------------------------------------------------------------


def check_nothing_touched(found: Outcome) -> None:
    assert snapshot(found.given) == found.before
    assert found.result.tagged_exported_program is found.given
    tags = [tags_in(module) for _, module in graphs_of(found.module)]
    for _, module in graphs_of(found.module):
        for node in module.graph.nodes:
            node.meta[TAG] = "apportion_stale_77"
    again = engine.partition(found.given, found.rules())
    assert [tags_in(module) for _, module in graphs_of(found.module)] == tags
    assert again.partition_tags == found.result.partition_tags


def check_others_tags_are_respected(found: Outcome) -> None:
    rng = random.Random(found.program.seed)
    foreign = [node for _, module in graphs_of(found.module) for node in call_nodes(module) if rng.random() < 0.2]
    try:
        for node in foreign:
            node.meta[TAG] = "other_3"
        result = engine.partition(found.given, found.rules())
        assert all(node.meta[TAG] == "other_3" for node in foreign)
        assert not {node for partition in result.partitions for node in partition.nodes} & set(foreign)
        reasons = {reason.node for reason in result.report.left}
        assert {node.name for node in foreign} <= reasons
    finally:
        for node in foreign:
            node.meta.pop(TAG, None)


# --- 4: deterministic ---------------------------------------------------------------------------------------------


def check_unrelated_rules_change_nothing(found: Outcome) -> None:
    unrelated = "rule unrelated { match y = aten.erfinv.default(x) }\n"
    text = found.texts[0]
    first = re.search(r"^rule ", text, re.MULTILINE)
    before = text[:first.start()] + unrelated + text[first.start():] if first else text
    for changed in (before, text + unrelated):
        result = engine.partition(found.given, found.rules(changed))
        assert [as_plain(p) for p in result.partitions] == [as_plain(p) for p in found.result.partitions]
        assert result.partition_tags == found.result.partition_tags


def as_plain(partition: engine.Partition) -> tuple[Any, ...]:
    names = [node.name for node in partition.nodes]
    return (partition.tag, partition.graph, names, partition.inputs, partition.outputs, partition.spec,
            partition.matches)


# --- 5: effects ---------------------------------------------------------------------------------------------------


def check_effects_keep_their_order(found: Outcome) -> None:
    for _, module in graphs_of(found.module):
        for node in groups_in(module):
            name = str(node.target)
            if has_effects(node):
                assert name in found.text, f"{name} is claimed, but no rule names it"
    module, order = found.runnable
    tags = {node.name: tag for node, tag in groups_in(found.module).items()}
    groups = {node: tags[node.name] for node in module.graph.nodes if node.name in tags}
    assert networkx.is_directed_acyclic_graph(contracted(module.graph, groups, order))


def has_effects(node: fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return (node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags
            or node.target._schema.name.startswith("aten::_assert"))


# --- 6: whole patterns --------------------------------------------------------------------------------------------


def check_patterns_are_whole(found: Outcome) -> None:
    names = set(re.findall(r"^rule (\w+)", found.text, re.MULTILINE))
    for partition in found.result.partitions:
        members = {node.name for node in partition.nodes if not is_getitem(node)}
        claimed: set[str] = set()
        for rule, nodes in partition.matches:
            assert rule in names
            assert set(nodes) <= members, f"{rule} is torn: {nodes} in {members}"
            claimed |= set(nodes)
        assert claimed == members


@examples(40, 400)
def test_a_failing_requirement_of_a_member_drops_the_match(many: int) -> None:
    claimed = 0
    for seed in range(many):
        _, given = a_program(seed, CLEAN)
        for pair in [pair for pair in pairs_of(given) if pair.element is None][:3]:
            places = "_, " * pair.argument
            rule = f"match {{ y = aten.{pair.producer}(_)  z = aten.{pair.user}({places}y) }}"
            held, broken = (engine.partition(given, engine.parse_rules(
                f'backend "B" language 1 rule r {{ {rule} require y.rank {bound} }}')) for bound in ("< 90", "> 90"))
            assert not broken.partitions and {reason.kind for reason in broken.report.left} <= {
                "no rule", "pattern", "requirement", "inner node"}
            claimed += len(held.partitions)
            assert all(len(nodes) == 2 for partition in held.partitions for _, nodes in partition.matches)
    assert claimed > many / 2


# --- 9: explained -------------------------------------------------------------------------------------------------


def check_explained(found: Outcome) -> None:
    report = found.result.report
    claimed: set[tuple[str, str]] = set()
    every: set[tuple[str, str]] = set()
    inside_claimed: list[fx.GraphModule] = []
    for path, module in graphs_of(found.module):
        for node in call_nodes(module):
            every.add((path, node.name))
            if TAG in node.meta or any(module is inner for inner in inside_claimed):
                claimed.add((path, node.name))
                for source in node.all_input_nodes:
                    if source.op == "get_attr":
                        inner = operator.attrgetter(source.target)(module)
                        inside_claimed += [m for _, m in graphs_of(inner)] if isinstance(inner, fx.GraphModule) else []
    left = Counter((reason.graph, reason.node) for reason in report.left)
    assert max(left.values(), default=0) <= 1
    assert set(left) == every - claimed
    assert report.nodes_total == len(every) and report.claimed == len(claimed)
    for reason in report.left:
        assert reason.message and reason.kind and reason.op
        if reason.kind == "requirement":
            assert reason.rule and reason.location and reason.condition
    assert str(report) and report.to_json()["schema"] == "apportion.report/1"


# --- all of these on the same examples ----------------------------------------------------------------------------

CHECKS = (check_valid, check_same_meaning, check_effects_keep_their_order, check_patterns_are_whole, check_explained,
          check_nothing_touched, check_unrelated_rules_change_nothing, check_others_tags_are_respected)


@examples(200)
def test_guarantees(many: int) -> None:
    """Valid, same meaning, effects in order, whole patterns, explained, nothing touched, deterministic."""
    claimed = Counter()

    def check(found: Outcome) -> None:
        claimed["partitions"] += len(found.result.partitions)
        claimed["several nodes"] += any(len(nodes) > 1 for p in found.result.partitions for _, nodes in p.matches)
        claimed["examples"] += 1
        for one in CHECKS:
            one(found)

    outcomes(many, check)
    assert claimed["partitions"] > claimed["examples"] / 2, "the random rules claim too little to test anything"
    assert claimed["several nodes"] > claimed["examples"] / 20


# --- 2 and 5, the examples they were made for ----------------------------------------------------------------------


def test_a_write_between_two_claimed_reads_keeps_them_apart() -> None:
    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            before = self.total * 2
            self.total.add_(1)
            return before + x, self.total * 2 + x

    program = torch.export.export(Around(), (torch.zeros(1),), strict=False)
    rules = engine.parse_rules('backend "B" language 1 rule r { match y = {aten.mul.Tensor, aten.add.Tensor}(*xs) } '
                               'partition { merge = "all" }')
    engine.partition(program, rules)
    module = program.module(check_guards=False)
    order = order_edges(module, [torch.zeros(1)])
    module.total.zero_()
    lowered = lower_all(program.graph_module, module, order)
    assert [float(v) for v in lowered(torch.zeros(1))] == [0.0, 2.0]


def test_a_write_is_seen_through_every_name_of_a_buffer() -> None:
    """A tracer may name one tensor several times; what reads it before a write and what reads it after stay apart."""

    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = torch.sin(self.total)
            self.total.add_(1)
            return before + torch.tanh(self.total) + x

    holder = Around()
    module = make_fx(lambda x: holder(x), tracing_mode="fake", _allow_non_fake_inputs=True)(torch.zeros(2))
    assert sum(node.op == "get_attr" for node in module.graph.nodes) > 1
    rules = engine.parse_rules('backend "B" language 1 rule r { match y = {aten.sin.default, aten.add.Tensor}(*xs) } '
                               'partition { merge = "all" }')
    partitions = [{node.name for node in partition.nodes} for partition in engine.partition(module, rules).partitions]
    assert {"sin"} in partitions and len(partitions) == 2


# --- 4: other processes --------------------------------------------------------------------------------------------


@examples(12, 60)
def test_same_tags_in_every_process(many: int) -> None:
    """The hash seed and what the process did before change neither tags nor specs nor the order of inputs."""
    printed = []
    for hash_seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.properties.print_tags", str(many), hash_seed], cwd=ROOT, check=True,
            text=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"})
        printed.append(dict(line.split("\t", 1) for line in run.stdout.splitlines() if "\t" in line))
    assert printed[0] == printed[1] and len(printed[0]) == many
    assert any("apportion_" in line for line in printed[0].values())


# --- 7: few ---------------------------------------------------------------------------------------------------------


class Supported(OperatorSupportBase):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node.name in self.names


@examples(60, 600)
def test_few(many: int) -> None:
    """The minimum for `merge = "all"`; for "adjacent" never more than the peer that fuses connected nodes."""
    compared = 0
    for seed in range(many):
        program, given = a_program(3 * seed, CLEAN)
        nodes = call_nodes(given.graph_module)
        place = {node: number for number, node in enumerate(nodes)}
        before = [[place[source] for source in sources_of(node) if source in place] for node in nodes]
        claimed, count = claimed_by_half(given, seed, "all")
        units = [Unit((place[node],)) for node in nodes if node.name in claimed]
        assert count == fewest_by_schedule(before, units), program.describe()
        compared += connected_never_more(given, *claimed_by_half(given, seed, "adjacent"))
    assert compared > many / 2


def connected_never_more(given: ExportedProgram, claimed: set[str], count: int) -> bool:
    """`count` partitions are not more than the peer makes that fuses connected nodes; false where its are cyclic."""
    place = {node: number for number, node in enumerate(call_nodes(given.graph_module))}
    before = [[place[source] for source in sources_of(node) if source in place] for node in place]
    proposed = CapabilityBasedPartitioner(
        given.graph_module, Supported(claimed), allows_single_node_partition=True, skip_horizontal_fusion=True
    ).propose_partitions()
    theirs = [found for one in proposed if (found := [place[node] for node in one.nodes if node in place])]
    acyclic = is_acyclic(before, theirs)
    assert count <= len(theirs) or not acyclic, f"{count} partitions, theirs are {len(theirs)}"
    return acyclic


def claimed_by_half(
    given: ExportedProgram, seed: int, mode: str, names: Sequence[str] = EVERY
) -> tuple[set[str], int]:
    """The nodes of the main graph that rules for a random part of the ops claim, and in how many partitions.

    Modes may differ in dead code: a partition of nothing else is dropped.
    """
    rng = random.Random(seed)
    ops = ", ".join(f"aten.{op}" for op in names if rng.random() < 0.8)
    text = f'backend "B" language 1 rule r {{ match y = {{{ops}}}(*xs) }} partition {{ merge = "{mode}" }}'
    partitions = [p for p in engine.partition(given, engine.parse_rules(text)).partitions if not p.graph]
    return {node.name for partition in partitions for node in partition.nodes}, len(partitions)


def sources_of(node: fx.Node) -> list[fx.Node]:
    """The op nodes that a node takes from, looked at through getitems."""
    found = []
    waiting = list(node.all_input_nodes)
    while waiting:
        source = waiting.pop()
        if is_getitem(source):
            waiting.extend(source.all_input_nodes)
        else:
            found.append(source)
    return found


# --- 10: rules are data ---------------------------------------------------------------------------------------------


@examples(150, 1500)
def test_loading_random_and_broken_rules_runs_nothing_and_ends(many: int) -> None:
    seen: list[str] = []
    watching = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("import", "exec", "os.system", "subprocess.Popen", "socket.connect", "open"):
            if event == "open" and str(arguments[0]).endswith((".rules", ".pyc", ".py")):
                return
            seen.append(f"{event} {arguments[:1]}")

    for text in ('backend "B" language 1 use "std/ops" rule r { match y = _ }', *map(draw_rules, range(5))):
        engine.parse_rules(text)  # whatever is imported on first use is imported now
    sys.addaudithook(hook)
    refused = 0
    for seed in range(many):
        rng = random.Random(seed)
        text = draw_rules(seed)
        if seed % 2:
            for _ in range(rng.choice([1, 1, 2, 5])):
                start = rng.randrange(len(text))
                middle = rng.choice(BREAKS) or text[:rng.randrange(40)]
                text = text[:start] + middle + text[start + rng.choice([0, 1, 5, 30]):]
        started = time.process_time()
        watching = True
        try:
            engine.parse_rules(text)
        except engine.RulesError as error:
            refused += 1
            assert seed % 2 and error.diagnostics
        finally:
            watching = False
        assert time.process_time() - started < 10
    assert not seen
    assert many / 4 < refused <= many / 2


def test_the_rules_draw_ops_with_effects() -> None:
    texts = "".join(draw_rules(seed) for seed in range(100))
    assert all(f"aten.{op}" in texts for op in (*WRITES, *CHANCE, *DEMANDS))


def test_an_outcome_can_be_made_again() -> None:
    one, other = outcome(4, 9), outcome(4, 9)
    assert [as_plain(p) for p in one.result.partitions] == [as_plain(p) for p in other.result.partitions]
    with pytest.raises(engine.RulesError):
        engine.parse_rules("")
