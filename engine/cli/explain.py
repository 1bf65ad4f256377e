"""`apportion explain`: why nodes are where they are, and what would change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from apportion.engine.cli import console, files, inputs
from apportion.engine.cli.differences import show_difference
from apportion.engine.explain.changes import NOTHING
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.explanation import Explanation, NodeExplanation
from apportion.engine.explain.exports import graphviz, model_explorer
from apportion.engine.explain.page import page
from apportion.engine.explain.study import Study

__all__ = ["command"]


@click.command("explain", short_help="Explain a node, an op or a module: how far each rule came.")
@click.argument("model", metavar="MODEL.pt2")
@inputs.program_options
@click.option("--node", metavar="NAME", multiple=True, help="This node (a glob pattern).")
@click.option("--op", metavar="OP", multiple=True, help="The nodes of this op (aten.add.Tensor, aten.add, aten.*).")
@click.option("--module", metavar="PATH", multiple=True, help="The nodes of this module of the model, and within it.")
@inputs.change_options
@click.option("--json", "json_file", metavar="FILE", help="Write the explanation as JSON (- for standard output).")
@click.option("--html", "html_file", metavar="FILE", help="Write a page that shows the graph and every reason.")
@click.option("--dot", "dot_file", metavar="FILE", help="Write the partitioned graph for Graphviz.")
@click.option("--model-explorer", "explorer_file", metavar="FILE", help="Write node data for Google's Model Explorer.")
def command(model: str, node: tuple[str, ...], op: tuple[str, ...], module: tuple[str, ...], assume: tuple[str, ...],
            relax: tuple[str, ...], json_file: str | None, html_file: str | None, dot_file: str | None,
            explorer_file: str | None, **options: Any) -> int:
    """Say of each node who took it; of one that is left, every rule that names its op, the one that came furthest
    first: the requirement that failed with its place, the values it saw, what would have to be seen instead. Without
    --node, --op and --module: every node that is left, alike ones together, and why neighbouring partitions were not
    merged.
    """
    targets = {"--json": json_file, "--html": html_file, "--dot": dot_file, "--model-explorer": explorer_file}
    files.refuse_targets(targets, [model, *options["rules"]])
    given = inputs.read(model, **options)
    with console.progress("partitioning"):
        explainer = Explainer.of(given.program, given.sets, **given.wishes)
        found = explainer.explanation(node=node, op=op, module=module)
    changes = inputs.changes_of(given.sets, assume, relax)
    if files.STDOUT not in targets.values():
        console.show(str(found) if node or op or module else grouped(found))
        if changes != NOTHING:
            show_difference(Study.of(given.program, given.sets, **given.wishes).difference(changes))
    texts: Mapping[str, Callable[[], str]] = {
        "--json": lambda: json.dumps(found.to_json(), indent=2) + "\n",
        "--html": lambda: page(explainer, title=Path(model).name, changes=changes),
        "--dot": lambda: graphviz(explainer),
        "--model-explorer": lambda: json.dumps(model_explorer(explainer), indent=1) + "\n",
    }
    for option, target in targets.items():
        if target is not None:
            files.write_to(target, texts[option]())
    return 0


def grouped(found: Explanation) -> str:
    """Nodes with the same op and reason together, the first of each in full."""
    groups: dict[tuple[str, str], list[NodeExplanation]] = {}
    for node in found.nodes:
        place = node.attempts[0].location or "" if node.attempts else ""
        groups.setdefault((node.op, place or node.message), []).append(node)
    parts = list(found.warnings)
    for alike in sorted(groups.values(), key=len, reverse=True):
        parts.append(str(alike[0]))
        if len(alike) > 1:
            names = ", ".join(node.node for node in alike[1:9])
            parts.append(f"  and {len(alike) - 1} more: {names}{', …' if len(alike) > 9 else ''}")
    if found.apart:
        parts.append("not merged:")
        parts += [f"  {apart}" for apart in found.apart[:30]]
    return "\n".join(parts) if parts else "no node is left"
