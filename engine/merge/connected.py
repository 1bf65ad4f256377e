"""`merge = "adjacent"` and `"siblings"`: every partition hangs together.

Contracting edges is greedy, and which edge goes first decides how far it gets, so several starts are tried and
the fewest partitions win: the stages of `stages.py` split into connected parts, from the inputs and from the
outputs, and single units, backwards and forwards. The first start that reaches a proven bound ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from apportion.engine.merge.clusters import Budget, Clusters
from apportion.engine.merge.quotient import Quotient, contract
from apportion.engine.merge.stages import UNCLAIMED, stage_groups

__all__ = ["connected_groups"]

Groups = list[list[int]]
Links = Sequence[Sequence[int]]
Reads = Sequence[Sequence[Hashable]]

# Edges that the searches of one start may look at: this many, or so many times the graph's own.
_EDGES = 400_000
_TIMES = 8
# Groups of readers of one value that a further reader is tried with.
_TRIES = 8
_ROUNDS = 6
# The windows in which a bound is proven have so many times the graph's nodes in all.
_WINDOWS = 4


def connected_groups(quotient: Quotient, colours: Sequence[int], reads: Reads | None) -> Groups:
    """Groups of nodes of equal colour, each connected, whose contraction leaves the quotient acyclic.

    Connected by edges; where `reads` (the values that each node reads) is given, by a common value as well.
    """
    values = _readers(colours, reads) if reads is not None else []
    links = _links(quotient, colours, values)
    parts = _components(links, colours)
    if len(parts) == len(colours) - colours.count(UNCLAIMED):
        return parts  # nothing touches
    stages = _sunk(quotient, colours, _split(stage_groups(quotient, colours, thorough=False), links))
    enough = _bound(quotient, parts, stages)
    best = stages
    if len(best) <= enough:
        return best
    for start in _starts(quotient, colours, links, values, stages):
        groups = start()
        if len(groups) < len(best):
            best = groups
        if len(best) <= enough:
            break
    return best


def _starts(
    quotient: Quotient, colours: Sequence[int], links: Links, values: Links, stages: Groups
) -> Iterator[Callable[[], Groups]]:
    back = len(quotient) - 1

    def from_inputs() -> Groups:
        return _grown(quotient, colours, stages, values)

    def from_outputs() -> Groups:
        after = quotient.reversed()
        turned = Quotient([[back - user for user in after[back - node]] for node in range(back + 1)], range(back + 1))
        late = stage_groups(turned, colours[::-1], thorough=False)
        groups = [sorted(back - node for node in group) for group in late]
        return _grown(quotient, colours, _split(groups, links), values)

    def backwards() -> Groups:
        clusters = _clusters(quotient, colours)
        after = quotient.reversed()
        for node in range(back, -1, -1):
            _merge_with(clusters, node, after[node])
        return _finished(clusters, values)

    def forwards() -> Groups:
        clusters = _clusters(quotient, colours)
        for node in range(back + 1):
            _merge_with(clusters, node, sorted(quotient.predecessors[node], reverse=True))
        return _finished(clusters, values)

    yield from (from_inputs, backwards, from_outputs, forwards)


# --- connection ------------------------------------------------------------------------------------------------


def _readers(colours: Sequence[int], reads: Reads) -> Links:
    """The claimed nodes that read each value, ascending, for the values that several of them read."""
    readers: dict[Hashable, list[int]] = {}
    for node, values in enumerate(reads):
        if colours[node] != UNCLAIMED:
            for value in values:
                found = readers.setdefault(value, [])
                if not found or found[-1] != node:
                    found.append(node)
    return [found for found in readers.values() if len(found) > 1]


def _links(quotient: Quotient, colours: Sequence[int], values: Links) -> Links:
    """For each claimed node earlier nodes of its colour that it hangs together with."""
    links: list[list[int]] = [
        [other for other in before if colours[other] == colours[node]] if colours[node] != UNCLAIMED else []
        for node, before in enumerate(quotient.predecessors)
    ]
    for found in values:
        latest: dict[int, int] = {}
        for node in found:
            other = latest.get(colours[node])
            if other is not None:
                links[node].append(other)
            latest[colours[node]] = node
    return links


def _components(links: Links, colours: Sequence[int]) -> Groups:
    """The connected parts of the claimed nodes."""
    return _gather(links, [node for node, colour in enumerate(colours) if colour != UNCLAIMED], colours)


def _split(groups: Groups, links: Links) -> Groups:
    """Each group in its connected parts; acyclic still, as no edge leads from one part to another."""
    group_of = _numbered(groups, len(links))
    return _gather(links, [node for node, number in enumerate(group_of) if number != UNCLAIMED], group_of)


def _numbered(groups: Groups, size: int) -> list[int]:
    group_of = [UNCLAIMED] * size
    for number, group in enumerate(groups):
        for node in group:
            group_of[node] = number
    return group_of


def _gather(links: Links, nodes: Sequence[int], group_of: Sequence[int]) -> Groups:
    """Ascending nodes in parts that links within one group connect."""
    leader = list(range(len(links)))
    for node in nodes:
        root, own = node, group_of[node]
        for other in links[node]:
            if group_of[other] != own:
                continue
            while leader[other] != other:
                leader[other] = other = leader[leader[other]]
            if other < root:
                leader[root] = root = other
            elif other != root:
                leader[other] = root
    parts: dict[int, list[int]] = {}
    for node in nodes:
        root = node
        while leader[root] != root:
            leader[root] = root = leader[leader[root]]
        parts.setdefault(root, []).append(node)
    return list(parts.values())


def _sunk(quotient: Quotient, colours: Sequence[int], groups: Groups) -> Groups:
    """Join each group that feeds one other node or group only, of its colour, to that one.

    Stages put everything as early as can be; no path but that edge leads on, so joining makes no cycle, however
    many groups do it.
    """
    size = len(quotient)
    names = _numbered(groups, size)
    fed: dict[int, int] = {}  # the only one that a group feeds, or -1
    for node, before in enumerate(quotient.predecessors):
        name = names[node] if names[node] != UNCLAIMED else len(groups)
        for other in before:
            feeder = names[other]
            if feeder != name and feeder != UNCLAIMED and fed.setdefault(feeder, name) != name:
                fed[feeder] = UNCLAIMED
    joins = [
        number for number, user in fed.items()
        if 0 <= user < len(groups) and colours[groups[number][0]] == colours[groups[user][0]]
    ]
    if not joins:
        return groups
    target = list(range(len(groups)))
    for number in joins:
        target[number] = fed[number]
    joined: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        end = number
        while target[end] != end:
            target[end] = end = target[target[end]]
        joined.setdefault(end, []).extend(group)
    return [sorted(group) for group in joined.values()]


def _bound(quotient: Quotient, parts: Groups, groups: Groups) -> int:
    """How many partitions the connected parts need at least: each its stages, as if the others stayed apart.

    Only parts that the first attempt divided are looked at, and only while that stays cheap.
    """
    least = len(parts)
    if len(groups) == least:
        return least
    part_of = _numbered(parts, len(quotient))
    divided: dict[int, int] = {}
    for group in groups:
        divided[part_of[group[0]]] = divided.get(part_of[group[0]], 0) + 1
    steps = _WINDOWS * len(quotient)
    labels = [0] * len(quotient)
    for number, count in divided.items():
        if count > 1:
            first, last = parts[number][0], parts[number][-1]
            steps -= last - first + 1
            if steps < 0:
                break
            least += _stages_of(quotient.predecessors, part_of, number, (first, last), labels) - 1
            labels[first:last + 1] = [0] * (last - first + 1)
    return least


def _stages_of(predecessors: Links, part_of: Sequence[int], part: int, window: tuple[int, int],
               labels: list[int]) -> int:
    """How many stages one part needs, labelled inside the window from its first to its last node."""
    most = 1
    for node in range(window[0], window[1] + 1):
        label = 0
        if part_of[node] == part:
            label = 1
            for other in predecessors[node]:
                reached = labels[other]
                if reached and part_of[other] != part:
                    reached += 1
                if reached > label:
                    label = reached
            if label > most:
                most = label
        else:
            for other in predecessors[node]:
                if labels[other] > label:
                    label = labels[other]
        labels[node] = label
    return most


# --- growth ----------------------------------------------------------------------------------------------------


def _clusters(quotient: Quotient, colours: Sequence[int]) -> Clusters:
    edges = sum(map(len, quotient.predecessors))
    return Clusters(quotient, colours, Budget(max(_EDGES, _TIMES * (edges + len(quotient)))))


def _merge_with(clusters: Clusters, node: int, neighbours: Sequence[int]) -> None:
    colour = clusters.colours[node]
    if colour == UNCLAIMED:
        return
    for neighbour in neighbours:
        if clusters.colours[neighbour] == colour:
            one, other = clusters.name(node), clusters.name(neighbour)
            if one != other:
                clusters.try_merge(one, other)


def _grown(quotient: Quotient, colours: Sequence[int], groups: Groups, values: Links) -> Groups:
    """Contract groups, then merge what still can be merged."""
    coarse = contract(quotient.predecessors, groups)
    node_of = coarse.node_of
    if not values and not _touching(coarse, groups, colours):
        return groups
    members: list[list[int]] = [[] for _ in range(len(coarse))]
    tints = [UNCLAIMED] * len(coarse)
    for node, number in enumerate(node_of):
        members[number].append(node)
        tints[number] = colours[node]
    readers = [list(dict.fromkeys(node_of[node] for node in found)) for found in values]
    finished = _finished(_clusters(coarse, tints), readers)
    return [sorted(node for number in group for node in members[number]) for group in finished]


def _touching(coarse: Quotient, groups: Groups, colours: Sequence[int]) -> bool:
    tints = {coarse.node_of[group[0]]: colours[group[0]] for group in groups}
    return any(
        tints.get(other) == tint for number, tint in tints.items() for other in coarse.predecessors[number]
    )


def _finished(clusters: Clusters, values: Links) -> Groups:
    """Merge neighbours, then readers of common values, until nothing more can be merged."""
    _merge_neighbours(clusters)
    for _ in range(_ROUNDS if values else 0):
        merged = False
        for found in values:
            merged |= _merge_readers(clusters, found)
        if not merged or not _merge_neighbours(clusters):
            break
    return clusters.groups()


def _merge_neighbours(clusters: Clusters) -> bool:
    """Contract edges until none can be; tells whether any was."""
    colours, positions = clusters.colours, clusters.positions
    changed = False
    again = [node for node, colour in enumerate(colours) if colour != UNCLAIMED and clusters.names[node] == node]
    for _ in range(_ROUNDS):
        grown: set[int] = set()
        for node in sorted(again, key=positions.__getitem__, reverse=True):
            own = clusters.name(node)
            users = [user for user in clusters.after[own] if colours[user] == colours[own]]
            for user in sorted(users, key=positions.__getitem__):
                one, other = clusters.name(own), clusters.name(user)
                if one != other and clusters.try_merge(one, other):
                    grown.add(clusters.name(one))
        if not grown:
            break
        changed = True
        again = [node for node, colour in enumerate(colours) if colour != UNCLAIMED and clusters.names[node] == node]
    return changed


def _merge_readers(clusters: Clusters, found: Sequence[int]) -> bool:
    """Make readers of one value one cluster where nothing speaks against it; tells whether any was."""
    merged = False
    joined: dict[int, list[int]] = {}
    for node in sorted(dict.fromkeys(map(clusters.name, found)), key=clusters.positions.__getitem__):
        groups = joined.setdefault(clusters.colours[node], [])
        for number, group in enumerate(groups[-_TRIES:], max(0, len(groups) - _TRIES)):
            one, other = clusters.name(group), clusters.name(node)
            if one == other:
                break
            if clusters.try_merge(one, other):
                groups[number] = clusters.name(one)
                merged = True
                break
        else:
            groups.append(node)
    return merged
