"""The partitioned graph for other tools: Graphviz, and node data for Google's Model Explorer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.graph import drawn

__all__ = ["graphviz", "model_explorer"]

_COLOURS = ("#bcd9f5", "#ffd9a8", "#c6e8c0", "#e5cdf2", "#f9cbd3", "#c9e9ea", "#efe3a4", "#dbd7cf")


def graphviz(explainer: Explainer) -> str:
    """The op nodes in the DOT language: a cluster for each partition, dashed what is left, its reason as tooltip."""
    head = ["digraph apportion {", '  node [shape=box, fontname="sans-serif"];']
    return "\n".join([*head, *_lines(explainer), "}", ""])


def _lines(explainer: Explainer) -> Iterator[str]:
    graph = drawn(explainer)
    number = {p.tag: i for i, p in enumerate(explainer.result.partitions)}
    clusters: dict[int, list[str]] = {}
    for index, place in enumerate(graph.places):
        found = explainer.node(place)
        label = f"{found.node}\n{found.op}"
        if found.tag is None or found.tag not in number:
            yield f"  n{index} [label={_quoted(label)}, style=dashed, tooltip={_quoted(found.message)}];"
        else:
            clusters.setdefault(number[found.tag], []).append(f"    n{index} [label={_quoted(label)}];")
    for own, lines in sorted(clusters.items()):
        partition = explainer.result.partitions[own]
        yield f"  subgraph cluster_{own} {{"
        yield f"    label={_quoted(f'P{own} {partition.spec.backend_id}')}; style=filled;"
        yield f"    color={_quoted(_COLOURS[own % len(_COLOURS)])};"
        yield from lines
        yield "  }"
    for source, target in graph.edges:
        yield f"  n{source} -> n{target};"


def _quoted(text: str) -> str:
    """A text as a DOT string; its line breaks stay line breaks."""
    return json.dumps(text, ensure_ascii=False)


def model_explorer(explainer: Explainer) -> dict[str, Any]:
    """Node data by node name: the owner as value, a colour for each owner.

    One entry for each graph, as Model Explorer's "add per-node data" reads it; its adapter for `.pt2` files calls the
    program's own graph `graph`. Names are those of the file's nodes where the program was not decomposed.
    """
    result: dict[str, Any] = {}
    for place in explainer.places():
        method = place.method if explainer.several else ""
        name = "/".join(part for part in (method, place.graph.path) if part) or "graph"
        found = explainer.node(place)
        value = f"{found.backend} {found.tag}" if found.backend else found.kind
        graph = result.setdefault(name, {"results": {}, "thresholds": []})
        graph["results"][found.node] = {"value": value, "bgColor": _colour(explainer, found.tag)}
    return result


def _colour(explainer: Explainer, tag: str | None) -> str:
    for index, partition in enumerate(explainer.result.partitions):
        if partition.tag == tag:
            return _COLOURS[index % len(_COLOURS)]
    return "#ffffff"
