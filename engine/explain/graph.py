"""The graph as it is drawn: op nodes, and who feeds whom."""

from __future__ import annotations

from attrs import frozen

from apportion.engine.explain.explaining import Explainer, Place

__all__ = ["Drawn", "drawn"]


@frozen(eq=False)
class Drawn:
    """Op nodes in graph order, and the edges between them as pairs of numbers (producer, user), each once.

    A branch of a control-flow op hangs on the op: an edge leads from the branch's last node to it.
    """

    places: tuple[Place, ...]
    edges: tuple[tuple[int, int], ...]


def drawn(explainer: Explainer) -> Drawn:
    """The graph of a run; the same for every run over one program."""
    places = tuple(explainer.places())
    number = {place.node: index for index, place in enumerate(places)}
    edges: dict[tuple[int, int], None] = {}
    for index, place in enumerate(places):
        for value in place.node.inputs:
            source = number.get(value.node)
            if source is not None and source != index:
                edges[source, index] = None
        for inner in place.node.subgraphs:
            last = inner.calls[-1] if inner.calls else None
            if last is not None and last in number:
                edges[number[last], index] = None
    return Drawn(places, tuple(edges))
