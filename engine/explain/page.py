"""One self-contained page: the graph, who owns what, and every reason. It opens from disk and asks for nothing."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from apportion.engine.compile.rulesets import RuleSet
from apportion.engine.explain.changes import NOTHING, Changes, changed
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.explanation import NodeExplanation, RuleAttempt
from apportion.engine.explain.graph import Drawn, drawn

__all__ = ["page", "page_data"]

_PARTS = {
    "{{CSS}}": "page.css",
    "{{CYTOSCAPE}}": "cytoscape.min.js",
    "{{DAGRE}}": "dagre.min.js",
    "{{SCRIPT}}": "page.js",
}


def page(
    explainer: Explainer,
    *,
    title: str = "apportion",
    changes: Changes = NOTHING,
    beside: Explainer | None = None,
    names: Sequence[str] = ("as it is", "changed"),
) -> str:
    """The page of a run. With `changes`, a second run under them stands beside it; or `beside`, another run of the same
    program. `names` are what the two are called.
    """
    runs = [explainer]
    if beside is not None:
        runs.append(beside)
    elif changes != NOTHING:
        runs.append(explainer.again(changed(explainer.sets, changes)))
    return _rendered(page_data(runs, names), title)


def _rendered(data: dict[str, Any], title: str) -> str:
    assets = resources.files("apportion.engine.explain") / "assets"
    text = (assets / "page.html").read_text(encoding="utf-8").replace("{{TITLE}}", html.escape(title))
    for mark, name in _PARTS.items():
        text = text.replace(mark, (assets / name).read_text(encoding="utf-8"))
    # last, so that nothing in the data is taken for a mark; `</script>` must not end the element it is in
    before, after = text.split("{{DATA}}")
    return before + json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/") + after


def page_data(runs: Sequence[Explainer], names: Sequence[str]) -> dict[str, Any]:
    """What the page shows, as plain data."""
    graph = drawn(runs[0])
    sources: dict[str, str] = {}
    shown = [_run(one, name, graph, sources) for one, name in zip(runs, names, strict=False)]
    first = [runs[0].node(place) for place in graph.places]
    return {
        "schema": "apportion.page/1",
        "nodes": [_node(found) for found in first],
        "edges": [list(edge) for edge in graph.edges],
        "runs": shown,
        "sources": sources,
    }


def _node(found: NodeExplanation) -> dict[str, Any]:
    graph = "/".join(part for part in (found.method, found.graph) if part)
    return {"name": found.node, "op": found.op, "module": found.module, "graph": graph, "source": found.source,
            "values": [list(pair) for pair in found.values]}


def _run(explainer: Explainer, name: str, graph: Drawn, sources: dict[str, str]) -> dict[str, Any]:
    result = explainer.result
    number = {partition.tag: index for index, partition in enumerate(result.partitions)}
    explained = [explainer.node(place) for place in explainer.places()]
    owner = [None if one.tag is None else number.get(one.tag) for one in explained]
    members: list[list[int]] = [[] for _ in result.partitions]
    for index, own in enumerate(owner):
        if own is not None:
            members[own].append(index)
    causes = {(r.method, r.graph, r.node): r.cause for r in result.report.left}
    for rules in explainer.sets:
        _add_sources(rules, sources)
    return {
        "name": name,
        "owner": owner,
        "partitions": [
            {"tag": p.tag, "backend": p.spec.backend_id, "nodes": members[i], "bytes_in": p.bytes_in,
             "bytes_out": p.bytes_out, "constant_bytes": p.constant_bytes, "inputs": list(p.inputs),
             "outputs": list(p.outputs)}
            for i, p in enumerate(result.partitions)
        ],
        "reasons": [
            {"cause": causes.get((one.method, one.graph, one.node), one.kind), "message": one.message,
             "attempts": [_attempt(a, explainer) for a in one.attempts[:6]]}
            for one in explained
        ],
        "apart": [_apart(apart, number, members) for apart in explainer.apart()],
    }


def _apart(apart: Any, number: dict[str, int], members: list[list[int]]) -> dict[str, Any]:
    pair = [number[tag] for tag in (apart.first, apart.second) if tag in number]
    first, second = (f"P{number[tag]}" if tag in number else tag for tag in (apart.first, apart.second))
    return {"first": first, "second": second, "why": apart.why, "reasons": [list(r) for r in apart.reasons],
            "members": [member for index in pair for member in members[index]]}


def _attempt(attempt: RuleAttempt, explainer: Explainer) -> dict[str, Any]:
    file, fail, start = "", None, None
    if attempt.location is not None and attempt.condition is not None:
        file, line, _ = attempt.location.rsplit(":", 2)
        fail = [int(line), int(line) + attempt.condition_lines - 1]
        if attempt.line.rsplit(":", 2)[0] == file:
            start = int(attempt.line.rsplit(":", 2)[1])
    return {
        "rule": attempt.rule, "backend": attempt.backend, "kind": attempt.kind, "message": attempt.message,
        "location": attempt.location, "invariant": attempt.invariant, "condition": attempt.condition,
        "observed": [list(pair) for pair in attempt.observed], "because": attempt.because,
        "remedies": list(attempt.remedies), "passed": attempt.passed, "of": attempt.of,
        "file": file, "fail": fail, "start": start,
    }  # fmt: skip


def _add_sources(rules: RuleSet, sources: dict[str, str]) -> None:
    for source in rules.sources:
        sources[source.name] = source.text
