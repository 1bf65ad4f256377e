"""`merge = "all"`: as few partitions as there can be, whether their parts touch or not.

With one colour, stage labelling gives the proven minimum in one pass. Several colours are labelled one after the
other, each on what the earlier ones left contracted (labels computed independently are nearly always cyclic
together); several orders are tried, and schedules that serve all colours at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import permutations

from apportion.engine.merge.quotient import Quotient, contract

__all__ = ["UNCLAIMED", "label_stages", "stage_groups"]

UNCLAIMED = -1
Groups = list[list[int]]

# Above this many steps (nodes and edges, times colours, times orders) only one order of the colours is tried.
_WORK = 400_000
_ALL_ORDERS = 3


def label_stages(predecessors: Sequence[Sequence[int]], claimed: Sequence[bool]) -> list[int]:
    """The stage of each node: how many partitions the longest chain up to it needs (0: nothing claimed so far).

    Two claimed nodes with an unclaimed one between them on a path can't share a partition; a label grows exactly
    where a path enters claimed nodes again.
    """
    labels = [0] * len(predecessors)
    for node, before in enumerate(predecessors):
        if claimed[node]:
            label = 1
            for other in before:
                reached = labels[other]
                if reached and not claimed[other]:
                    reached += 1
                if reached > label:
                    label = reached
            labels[node] = label
        elif before:
            labels[node] = max([labels[other] for other in before])
    return labels


def stage_groups(quotient: Quotient, colours: Sequence[int], thorough: bool = True) -> Groups:
    """Groups of nodes of equal colour, as few as possible, whose contraction leaves the quotient acyclic.

    `colours[q]` is a small integer, UNCLAIMED where nothing claims the node. With `thorough` off one attempt is
    made, good enough to start from.
    """
    counts: dict[int, int] = {}
    for colour in colours:
        counts[colour] = counts.get(colour, 0) + 1
    counts.pop(UNCLAIMED, None)
    alone = [[node] for node, colour in enumerate(colours) if counts.get(colour) == 1]
    several = sorted((colour for colour, count in counts.items() if count > 1), key=lambda c: (-counts[c], c))
    if not several:
        return alone
    if len(several) == 1:
        claimed = [colour == several[0] for colour in colours]
        return alone + _by_label(label_stages(quotient.predecessors, claimed), claimed)
    served = set(several)
    masked = [colour if colour in served else UNCLAIMED for colour in colours]
    return alone + _fewest(_attempts(quotient, masked, several, thorough), _bound(quotient, masked, several))


def _by_label(labels: Sequence[int], claimed: Sequence[bool]) -> Groups:
    groups: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        if claimed[node]:
            groups.setdefault(label, []).append(node)
    return list(groups.values())


def _fewest(attempts: Iterator[Groups], enough: int) -> Groups:
    best = next(attempts)
    while len(best) > enough:
        other = next(attempts, None)
        if other is None:
            break
        if len(other) < len(best):
            best = other
    return best


def _bound(quotient: Quotient, colours: Sequence[int], several: Sequence[int]) -> int:
    """What the colours need at least: each its own minimum, as if the others stayed apart."""
    if len(several) > 8:
        return len(several)
    needed = 0
    for colour in several:
        needed += max(label_stages(quotient.predecessors, [other == colour for other in colours]))
    return needed


def _attempts(quotient: Quotient, colours: Sequence[int], several: Sequence[int], thorough: bool) -> Iterator[Groups]:
    edges = sum(map(len, quotient.predecessors)) + len(quotient)
    orders: list[Sequence[int]] = [several]
    if thorough and len(several) <= _ALL_ORDERS:
        orders = list(permutations(several))
    elif thorough:
        orders = [several, several[::-1]]
    affordable = edges * len(several) <= _WORK
    if not affordable:
        yield _schedule(quotient, colours, _deepest)
    else:
        yield _in_order(quotient, colours, orders[0])
    if not thorough:
        return
    if affordable:
        yield _schedule(quotient, colours, _deepest)
    yield _schedule(quotient, colours, _earliest)
    turned, back = _turned(quotient, colours)
    for choice in (_deepest, _earliest):
        yield [[back - node for node in group] for group in _schedule(turned, colours[::-1], choice)]
    if edges * len(several) * len(orders) <= _WORK:
        for order in orders[1:]:
            yield _in_order(quotient, colours, order)


def _in_order(quotient: Quotient, colours: Sequence[int], order: Sequence[int]) -> Groups:
    """Label one colour after the other, each on the quotient that the earlier ones left."""
    found: Groups = []
    node_of: Sequence[int] = range(len(quotient))
    members: list[Sequence[int]] = [(node,) for node in range(len(quotient))]
    current, tints = quotient, colours
    for colour in order:
        claimed = [tint == colour for tint in tints]
        groups = _by_label(label_stages(current.predecessors, claimed), claimed)
        found.extend([node for group_node in group for node in members[group_node]] for group in groups)
        if colour == order[-1]:
            break
        current = contract(current.predecessors, groups)
        node_of = current.node_of
        merged: list[list[int]] = [[] for _ in range(len(current))]
        shades = [UNCLAIMED] * len(current)
        for before, after in enumerate(node_of):
            merged[after].extend(members[before])
            shades[after] = tints[before]
        members, tints = list(merged), shades
    return found


def _turned(quotient: Quotient, colours: Sequence[int]) -> tuple[Quotient, int]:
    """The quotient with every edge turned round, numbered from the outputs; and the last number."""
    back = len(quotient) - 1
    after = quotient.reversed()
    return Quotient([[back - user for user in after[back - node]] for node in range(len(after))], range(back + 1)), back


# A choice ranks a colour that could run now: (colour's ready nodes' facts) -> smaller runs sooner.
Choice = Callable[[int, int, int], float]


def _deepest(height: int, level: int, count: int) -> float:
    return -height


def _earliest(height: int, level: int, count: int) -> float:
    return level / count


def _schedule(quotient: Quotient, colours: Sequence[int], choice: Choice) -> Groups:
    """Run the graph: all that is unclaimed and ready, then everything of one colour that can run, and so on.

    Each run of a colour is a group. Groups are stretches of one topological order, so they are acyclic together.
    """
    after = quotient.reversed()
    waiting = [len(before) for before in quotient.predecessors]
    heights = _switches(after, colours)
    levels = [0] * len(after)
    free: list[int] = []
    ready: dict[int, list[int]] = {}
    sums: dict[int, list[int]] = {}  # colour: highest height, sum of levels, count of its ready nodes
    offers: list[tuple[float, int]] = []

    def release(node: int) -> None:
        colour = colours[node]
        if colour == UNCLAIMED:
            free.append(node)
            return
        ready.setdefault(colour, []).append(node)
        facts = sums.setdefault(colour, [0, 0, 0])
        facts[0] = max(facts[0], heights[node])
        facts[1] += levels[node]
        facts[2] += 1
        heappush(offers, (choice(*facts), colour))

    def finish(node: int) -> None:
        level = levels[node] + 1
        for user in after[node]:
            if level > levels[user]:
                levels[user] = level
            waiting[user] -= 1
            if not waiting[user]:
                release(user)

    for node, count in enumerate(waiting):
        if not count:
            release(node)
    groups: Groups = []
    while True:
        while free:
            finish(free.pop())
        while offers and (not ready.get(offers[0][1]) or choice(*sums[offers[0][1]]) != offers[0][0]):
            heappop(offers)  # an offer of a colour that has run, or gained nodes, since
        if not offers:
            return groups
        colour = heappop(offers)[1]
        group: list[int] = []
        queue = ready[colour]
        while queue:
            node = queue.pop()
            group.append(node)
            finish(node)
        ready.pop(colour, None)
        sums.pop(colour, None)
        groups.append(sorted(group))


def _switches(after: Sequence[Sequence[int]], colours: Sequence[int]) -> list[int]:
    """For each node, how often the colour changes to another claimed one on the longest way down."""
    heights = [0] * len(after)
    for node in range(len(after) - 1, -1, -1):
        height, colour = 0, colours[node]
        for user in after[node]:
            further = heights[user] + (colours[user] != colour)
            if further > height:
                height = further
        heights[node] = height
    return heights
