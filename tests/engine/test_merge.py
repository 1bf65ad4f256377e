"""Merging: minimal, connected, convex, acyclic; judged by networkx, brute force and torch's partitioner."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.engine.merge import MERGE_MODES, Cyclic, Flow, Unit, interleaved, merge, path_between, split
from apportion.engine.merge.clusters import Budget, Clusters
from apportion.engine.merge.quotient import contract
from tests.engine.merge_graphs import (
    capability_partitions,
    check,
    contracted,
    fewest_by_enumeration,
    fewest_by_schedule,
    is_acyclic,
    is_connected,
    is_convex,
    random_predecessors,
    singles,
)

SEEDS = st.integers(0, 2**32 - 1)

# The smallest graph found on which torch's partitioner, without horizontal fusion, makes partitions with a cycle.
CYCLIC_FOR_TORCH = [[], [], [], [2], [1], [5 - 1], [3], [1, 6], [], [8], [0, 2], [0], [8, 11], [5, 9]]


def some_graph(rng: random.Random, largest: int) -> list[list[int]]:
    size = rng.randint(1, largest)
    return random_predecessors(rng, size, rng.choice([None, None, 2 / size, 3 / size]), rng.choice([99, 6]))


def some_claims(rng: random.Random, size: int) -> list[int]:
    share = rng.choice([0.5, 0.8, 0.95])
    return [node for node in range(size) if rng.random() < share]


def some_units(
    rng: random.Random, predecessors: list[list[int]], colours: int = 1
) -> tuple[list[Unit], list[list[int]]]:
    """Units of one to four nodes and fixed partitions, acyclic together."""
    free = list(range(len(predecessors)))
    units: list[Unit] = []
    fixed: list[list[int]] = []
    rng.shuffle(free)
    while free:
        start = free.pop()
        nodes = [start]
        for other in predecessors[start]:
            if other in free and rng.random() < 0.5 and len(nodes) < 4:
                free.remove(other)
                nodes.append(other)
        draw = rng.random()
        if draw < 0.15:
            fixed.append(nodes)
        elif draw < 0.85:
            units.append(Unit(tuple(nodes), rng.randrange(colours)))
    while not is_acyclic(predecessors, fixed):
        fixed.pop()
    lost = interleaved(Flow(predecessors), units, fixed)
    return [unit for index, unit in enumerate(units) if index not in lost], fixed


# --- minimal ----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_all_is_the_minimum_of_every_grouping(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = random_predecessors(rng, rng.randint(1, 11), rng.choice([None, 0.2, 0.4]))
    claimed = rng.sample(range(len(predecessors)), min(len(predecessors), 7))
    partitions = merge(Flow(predecessors), singles(sorted(claimed)), "all")
    check(Flow(predecessors), singles(sorted(claimed)), partitions)
    assert len(partitions) == fewest_by_enumeration(predecessors, sorted(claimed))


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_all_is_the_minimum_with_units_of_several_nodes_and_fixed_partitions(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 14)
    units, fixed = some_units(rng, predecessors)
    partitions = merge(Flow(predecessors), units, "all", fixed)
    check(Flow(predecessors), units, partitions, fixed)
    assert len(partitions) == fewest_by_schedule(predecessors, units, fixed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_all_is_the_minimum_at_length(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(500):
        size = rng.randint(2, 14)
        predecessors = random_predecessors(rng, size, rng.choice([None, None, 2 / size, 3 / size]))
        units = singles(some_claims(rng, size))
        partitions = merge(Flow(predecessors), units, "all")
        check(Flow(predecessors), units, partitions)
        assert len(partitions) == fewest_by_schedule(predecessors, units)


def test_all_with_colours_stays_at_the_minimum_on_nearly_every_graph() -> None:
    rng = random.Random(5)
    missed = 0
    for _ in range(150):
        predecessors = some_graph(rng, 14)
        colours = rng.choice([2, 3, 5])
        units = singles(range(len(predecessors)), [rng.randrange(colours) for _ in predecessors])
        partitions = merge(Flow(predecessors), units, "all")
        check(Flow(predecessors), units, partitions)
        missed += len(partitions) - fewest_by_schedule(predecessors, units)
    assert missed <= 1


# --- connected --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_adjacent_is_connected_and_never_more_than_the_capability_based_partitioner(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, rng.choice([12, 60]))
    claimed = some_claims(rng, len(predecessors))
    units = singles(claimed)
    partitions = merge(Flow(predecessors), units)
    check(Flow(predecessors), units, partitions)
    assert all(is_connected(predecessors, units, partition) for partition in partitions)
    theirs = capability_partitions(predecessors, claimed)
    if is_acyclic(predecessors, theirs):
        assert len(partitions) <= len(theirs)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_adjacent_never_more_than_the_capability_based_partitioner_at_length(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        size = rng.choice([rng.randint(15, 60), rng.randint(15, 300)])
        predecessors = random_predecessors(rng, size, rng.choice([None, None, 2 / size, 3 / size]), rng.choice([99, 6]))
        claimed = some_claims(rng, size)
        theirs = capability_partitions(predecessors, claimed)
        partitions = merge(Flow(predecessors), singles(claimed))
        groups = [[claimed[unit] for unit in partition] for partition in partitions]
        assert sorted(node for group in groups for node in group) == sorted(claimed)
        assert is_acyclic(predecessors, groups)
        if is_acyclic(predecessors, theirs):
            assert len(partitions) <= len(theirs)


def test_the_graph_that_is_cyclic_for_torch() -> None:
    claimed = [node for node in range(14) if node != 9]
    assert not is_acyclic(CYCLIC_FOR_TORCH, capability_partitions(CYCLIC_FOR_TORCH, claimed))
    for mode in MERGE_MODES:
        partitions = merge(Flow(CYCLIC_FOR_TORCH), singles(claimed), mode)
        check(Flow(CYCLIC_FOR_TORCH), singles(claimed), partitions)
    assert len(merge(Flow(CYCLIC_FOR_TORCH), singles(claimed), "all")) == 2


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_every_mode_with_units_colours_and_fixed_partitions(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 30)
    units, fixed = some_units(rng, predecessors, colours=rng.choice([1, 2, 4]))
    flow = Flow(predecessors)
    made = {mode: merge(flow, units, mode, fixed) for mode in MERGE_MODES}
    for partitions in made.values():
        check(flow, units, partitions, fixed)
    for partition in made["adjacent"]:
        assert is_connected(predecessors, units, partition)
    for partition in made["siblings"]:
        assert is_connected(predecessors, units, partition, reads=predecessors)
    assert len(made["none"]) == len(units)
    assert len(made["siblings"]) <= len(made["adjacent"]) <= len(units)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_adjacent_leaves_no_neighbours_that_could_be_merged(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 25)
    units, fixed = some_units(rng, predecessors, colours=rng.choice([1, 2]))
    partitions = merge(Flow(predecessors), units, "adjacent", fixed)
    groups = [[node for unit in partition for node in units[unit].nodes] for partition in partitions]
    graph = contracted(predecessors, groups)
    for i, one in enumerate(groups):
        for j, other in enumerate(groups):
            if graph.has_edge(("group", i), ("group", j)):
                if units[partitions[i][0]].colour != units[partitions[j][0]].colour:
                    continue
                rest = [group for k, group in enumerate(groups) if k not in (i, j)]
                assert not is_acyclic(predecessors, [*rest, [*one, *other], *fixed])


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_several_backends_one_after_the_other_are_acyclic_together(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 40)
    owner = [rng.randrange(4) for _ in predecessors]
    fixed: list[list[int]] = []
    for backend in range(3):
        claimed = [node for node, own in enumerate(owner) if own == backend]
        partitions = merge(Flow(predecessors), singles(claimed), rng.choice(["all", "adjacent", "siblings"]), fixed)
        check(Flow(predecessors), singles(claimed), partitions, fixed)
        fixed.extend([claimed[unit] for unit in partition] for partition in partitions)
    assert is_acyclic(predecessors, fixed)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_order_of_the_units_and_names_of_colours_do_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 30)
    units, fixed = some_units(rng, predecessors, colours=2)
    shuffled = units[:]
    rng.shuffle(shuffled)
    for mode in MERGE_MODES:
        one = [[units[i].nodes for i in partition] for partition in merge(Flow(predecessors), units, mode, fixed)]
        other = [[shuffled[i].nodes for i in part] for part in merge(Flow(predecessors), shuffled, mode, fixed[::-1])]
        assert one == other


# --- cases ------------------------------------------------------------------------------------------------------


def test_a2_crossing_branches_merge_at_most_once() -> None:
    """x1 -> u1 -> y2 and x2 -> u2 -> y1: {x1, y1} and {x2, y2} are each fine, both are a cycle."""
    x1, x2, u1, u2, y1, y2 = range(6)
    predecessors = [[], [], [x1], [x2], [x1, u2], [x2, u1]]
    units = singles([x1, x2, y1, y2])
    for mode, count in {"adjacent": 3, "siblings": 3, "all": 2, "none": 4}.items():
        partitions = merge(Flow(predecessors), units, mode)
        check(Flow(predecessors), units, partitions)
        assert len(partitions) == count


def test_a5_unclaimed_node_in_the_middle() -> None:
    """s1 -> u -> s2 and s1 -> s2: two partitions; one when all are claimed."""
    predecessors = [[], [0], [0, 1]]
    for mode in ("adjacent", "siblings", "all"):
        assert merge(Flow(predecessors), singles([0, 2]), mode) == [[0], [1]]
        assert merge(Flow(predecessors), singles([0, 1, 2]), mode) == [[0, 1, 2]]


def test_a17_two_claimed_consumers_of_one_unclaimed_node() -> None:
    """Sine and cosine of an unclaimed product: apart when adjacent, together as siblings."""
    predecessors = [[], [0], [0]]
    assert merge(Flow(predecessors), singles([1, 2]), "adjacent") == [[0], [1]]
    assert merge(Flow(predecessors), singles([1, 2]), "siblings") == [[0, 1]]
    assert merge(Flow(predecessors), singles([1, 2]), "all") == [[0, 1]]


def test_a19_a_constant_does_not_merge_its_readers() -> None:
    """A constant read by P and Q with P -> u -> Q: never one partition; without u siblings don't count constants."""
    constant, p, u, q = range(4)
    predecessors = [[], [constant], [p], [constant, u]]
    reads = [[], [], [p], [u]]
    for mode in ("adjacent", "siblings", "all"):
        assert merge(Flow(predecessors, reads), singles([p, q]), mode) == [[0], [1]]
    apart = Flow([[], [0], [0]], reads=[[], [], []])
    assert merge(apart, singles([1, 2]), "siblings") == [[0], [1]]
    assert merge(apart, singles([1, 2]), "all") == [[0, 1]]


def test_e4_ladder_of_claimed_and_unclaimed_nodes() -> None:
    predecessors = [[node - 1] if node else [] for node in range(2000)]
    units = singles(range(0, 2000, 2))
    for mode in MERGE_MODES:
        assert merge(Flow(predecessors), units, mode) == [[unit] for unit in range(1000)]


def test_e6_two_thousand_consumers_of_one_producer() -> None:
    predecessors = [[], *([0] for _ in range(2000))]
    consumers = singles(range(1, 2001))
    assert len(merge(Flow(predecessors), consumers, "adjacent")) == 2000
    assert merge(Flow(predecessors), consumers, "siblings") == [list(range(2000))]
    assert merge(Flow(predecessors), consumers, "all") == [list(range(2000))]
    assert merge(Flow(predecessors), singles(range(2001)), "adjacent") == [list(range(2001))]


# --- interleaved ------------------------------------------------------------------------------------------------


def test_the_smaller_then_the_later_of_two_interleaved_units_gives_way() -> None:
    predecessors = [[], [], [1], [0], [2]]  # 0 -> 3 and 1 -> 2 -> 4
    assert interleaved(Flow(predecessors), [Unit((0, 2)), Unit((1, 3))]) == {1}
    assert interleaved(Flow(predecessors), [Unit((1, 3)), Unit((0, 2))]) == {0}
    assert interleaved(Flow(predecessors), [Unit((0, 2)), Unit((1, 3, 4))]) == {1}  # 1 -> 2 -> 4: not convex
    crossing = [[], [], [0], [1], [2]]
    assert interleaved(Flow(crossing), [Unit((0, 3)), Unit((1, 2, 4))]) == {0}


def test_a_unit_that_goes_round_a_fixed_partition_gives_way() -> None:
    predecessors = [[], [0], [1]]
    assert interleaved(Flow(predecessors), [Unit((0, 2))]) == {0}
    assert interleaved(Flow(predecessors), [Unit((0, 2)), Unit((1,))]) == {0}
    crossing = [[], [], [1], [0]]
    assert interleaved(Flow(crossing), [Unit((0, 2))], fixed=[[1, 3]]) == {0}
    with pytest.raises(Cyclic):
        interleaved(Flow(predecessors), [Unit((1,))], fixed=[[0, 2]])


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_interleaved_is_what_a_plain_greedy_finds(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 16)
    free = list(range(len(predecessors)))
    rng.shuffle(free)
    units = []
    while free:
        size = rng.choice([1, 2, 2, 3])
        units.append(Unit(tuple(free[:size])))
        free = free[size:]
    fixed = [list(units.pop().nodes)] if units and rng.random() < 0.3 else []
    if not is_acyclic(predecessors, fixed):
        fixed = []
    kept: list[list[int]] = list(fixed)
    lost = set()
    for index in sorted(range(len(units)), key=lambda i: (-len(units[i].nodes), min(units[i].nodes))):
        if is_acyclic(predecessors, [*kept, units[index].nodes]):
            kept.append(list(units[index].nodes))
        else:
            lost.add(index)
    assert interleaved(Flow(predecessors), units, fixed) == lost


# --- split ------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_pieces_fit_and_stay_convex_and_acyclic(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 30)
    units, fixed = some_units(rng, predecessors)
    weights = [rng.choice([1, 1, 2, 3, 9]) for _ in units]
    flow = Flow(predecessors)
    connected = rng.random() < 0.5
    partitions = merge(flow, units, "adjacent" if connected else "all", fixed)
    others = [[node for unit in partition for node in units[unit].nodes] for partition in partitions]
    limit = rng.choice([1, 3, 5, 8])
    for number, partition in enumerate(partitions):
        own = [units[unit] for unit in partition]

        def fits(piece: list[int], partition: list[int] = partition) -> bool:
            return sum(weights[partition[unit]] for unit in piece) <= limit

        pieces, withdrawn = split(flow, own, fits, connected=connected)
        assert sorted([*withdrawn, *(unit for piece in pieces for unit in piece)]) == list(range(len(own)))
        assert all(fits(piece) for piece in pieces) and not any(fits([unit]) for unit in withdrawn)
        groups = [[node for unit in piece for node in own[unit].nodes] for piece in pieces]
        lost = [own[unit].nodes for unit in withdrawn]
        assert is_acyclic(predecessors, [*groups, *lost, *fixed, *others[:number], *others[number + 1:]])
        assert all(is_convex(predecessors, group) for group in groups)
        if connected:
            assert all(is_connected(predecessors, own, piece) for piece in pieces)
        for one, earlier in enumerate(groups):  # pieces come in the order in which they can run
            for later in groups[one + 1:]:
                assert not {other for node in earlier for other in predecessors[node]} & set(later)


def test_a_chain_is_cut_into_full_pieces_with_few_questions() -> None:
    predecessors = [[node - 1] if node else [] for node in range(4000)]
    asked = []

    def fits(piece: list[int]) -> bool:
        asked.append(len(piece))
        return len(piece) <= 64

    pieces, withdrawn = split(Flow(predecessors), singles(range(4000)), fits)
    assert [len(piece) for piece in pieces] == [64] * 62 + [32] and withdrawn == []
    assert len(asked) < 300


def test_a_bigger_piece_may_fit_where_a_smaller_does_not() -> None:
    """A limit on inputs: 0 and 1 read two values each, 2 joins them; all three read two values in all."""
    predecessors: list[list[int]] = [[], [], [0, 1]]
    inputs = {(0,): 2, (1,): 2, (2,): 2, (0, 1): 3, (0, 1, 2): 2}
    assert split(Flow(predecessors), singles(range(3)), lambda piece: inputs[tuple(piece)] <= 2) == ([[0, 1, 2]], [])


# --- paths ------------------------------------------------------------------------------------------------------


def test_path_between_names_what_lies_outside() -> None:
    predecessors = [[], [0], [1], [0, 2], [3]]
    flow = Flow(predecessors)
    assert path_between(flow, [[0], [3]], 0, 1) == [1, 2]
    assert path_between(flow, [[0], [3]], 1, 0) == [1, 2]
    assert path_between(flow, [[0], [4]], 0, 1) == [3]
    assert path_between(flow, [[3], [4]], 0, 1) is None
    assert path_between(flow, [[0], [1, 2], [3]], 0, 2) == [1, 2]


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_there_is_a_path_exactly_where_merging_would_be_a_cycle(seed: int) -> None:
    rng = random.Random(seed)
    predecessors = some_graph(rng, 14)
    units, fixed = some_units(rng, predecessors)
    partitions = [list(unit.nodes) for unit in units] + fixed
    for a in range(len(partitions)):
        for b in range(a):
            path = path_between(Flow(predecessors), partitions, a, b)
            rest = [group for k, group in enumerate(partitions) if k not in (a, b)]
            assert (path is None) == is_acyclic(predecessors, [*rest, [*partitions[a], *partitions[b]]])
            assert path is None or (path and not set(path) & {*partitions[a], *partitions[b]})


# --- bounds -----------------------------------------------------------------------------------------------------


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="not in topological order"):
        Flow([[1], []])
    with pytest.raises(ValueError, match="reads of 1"):
        Flow([[], []], reads=[[]])
    with pytest.raises(ValueError, match="without nodes"):
        Unit(())
    with pytest.raises(ValueError, match="adjacent, all, siblings, none"):
        merge(Flow([[]]), singles([0]), "adjacnt")
    with pytest.raises(Cyclic):
        merge(Flow([[], [0], [1]]), [Unit((0, 2))])
    assert merge(Flow([]), []) == []


def test_a_search_that_uses_up_its_budget_refuses() -> None:
    quotient = contract([[], [0], [1], [0, 2]], [])
    assert Clusters(quotient, [0] * 4, Budget(100)).try_merge(2, 3)
    starved = Clusters(quotient, [0] * 4, Budget(0))
    assert not starved.try_merge(2, 3)
    assert starved.groups() == [[0], [1], [2], [3]]


def test_dense_graphs_end_and_stay_valid() -> None:
    rng = random.Random(1)
    size = 700
    predecessors = [rng.sample(range(node), node // 4) for node in range(size)]
    claimed = [node for node in range(size) if rng.random() < 0.8]
    started = time.process_time()
    partitions = merge(Flow(predecessors), singles(claimed))
    assert time.process_time() - started < 20
    groups = [[claimed[unit] for unit in partition] for partition in partitions]
    assert is_acyclic(predecessors, groups)


def transformer(size: int) -> tuple[list[list[int]], list[int]]:
    """Blocks of attention and a gated feed-forward part on a residual stream; norms and softmax unclaimed."""
    predecessors: list[list[int]] = [[]]
    claimed: list[int] = []

    def add(*before: int, claim: bool = True) -> int:
        predecessors.append(sorted(set(before)))
        if claim:
            claimed.append(len(predecessors) - 1)
        return len(predecessors) - 1

    stream = 0
    while len(predecessors) < size:
        norm = add(stream, claim=False)
        query, key, value = add(add(norm)), add(add(norm)), add(add(norm))
        weights = add(add(add(query, add(key))), claim=False)
        stream = add(stream, add(add(weights, value)))
        norm = add(stream, claim=False)
        stream = add(stream, add(add(add(add(norm)), add(norm))))
    return predecessors, claimed


def test_thirty_thousand_nodes_take_a_moment() -> None:
    predecessors, claimed = transformer(30_000)
    for mode in MERGE_MODES:
        started = time.process_time()
        partitions = merge(Flow(predecessors), singles(claimed), mode)
        assert time.process_time() - started < 5  # about a tenth of a second when nothing else runs
        assert len(partitions) < len(claimed) / 5 or mode == "none"


def test_time_grows_with_the_graph_and_not_with_its_square() -> None:
    took = []
    for size in (5_000, 20_000):
        predecessors, claimed = transformer(size)
        flow, units = Flow(predecessors), singles(claimed)
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            merge(flow, units)
            best = min(best, time.process_time() - started)
        took.append(best)
    assert took[1] < 10 * took[0]
