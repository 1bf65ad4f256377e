"""`apportion partition`: which nodes of a program go to which backend, and why the others stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from apportion import engine
from apportion.engine.cli import console, files, programs, settings
from apportion.engine.cli.decompose import decomposed
from apportion.engine.cli.differences import show_difference
from apportion.engine.cli.inputs import change_options, changes_of, tell_unmet
from apportion.engine.explain.changes import NOTHING
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.page import page
from apportion.engine.explain.study import Study

__all__ = ["command"]


@click.command("partition", short_help="Partition a program and explain every node that is left.")
@click.argument("model", metavar="MODEL.pt2")
@click.option("-r", "--rules", "rules", metavar="RULES", multiple=True, required=True,
              help="A rules file, or the name of a shipped one (xnnpack). Repeat it: the first has precedence.")
@click.option("-s", "--set", "assignments", metavar="OPTION=VALUE", multiple=True,
              help="Set an option that a rules file declares; a set is written a,b.")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON too (- for standard output).")
@click.option("--exclude", metavar="WHAT", multiple=True, help="Leave this node, op or module path out.")
@click.option("--only", metavar="WHAT", multiple=True, help="Offer this node, op or module path, and nothing else.")
@click.option("--with-rules", metavar="RULE", multiple=True, help="Use only the rules of these names.")
@click.option("--without-rules", metavar="RULE", multiple=True, help="Do without the rules of these names.")
@click.option("--import", "imports", metavar="MODULE", multiple=True,
              help="Import a Python module first: one that registers ops, or functions for externs.")
@click.option("--decompose/--as-it-is", default=True, show_default=True,
              help="Decompose to core ATen first, keeping the ops that the rules preserve.")
@change_options
@click.option("--html", "html_file", metavar="FILE", help="Write a page that shows the graph and every reason.")
@click.option("--strict", is_flag=True, help="End with status 1 if a node is left.")
def command(model: str, rules: tuple[str, ...], assignments: tuple[str, ...], json_file: str | None,
            exclude: tuple[str, ...], only: tuple[str, ...], with_rules: tuple[str, ...],
            without_rules: tuple[str, ...], imports: tuple[str, ...], decompose: bool, assume: tuple[str, ...],
            relax: tuple[str, ...], html_file: str | None, strict: bool) -> int:
    """Partition the program in MODEL.pt2 (written by torch.export.save) and print, for each backend, how many nodes
    it takes, in how many partitions, the bytes across their borders, and the reasons for the rest.
    """
    files.refuse_targets({"--json": json_file, "--html": html_file}, [model, *rules])
    is_quiet = files.STDOUT in (json_file, html_file)
    programs.import_modules(imports)
    rule_sets = settings.load(rules, assignments)
    with console.progress(f"reading {model}"):
        program = programs.load_program(model)
    if decompose:
        with console.progress("decomposing"):
            program = decomposed(program, rule_sets)
    tell_unmet(program, exclude, only)
    with console.progress("partitioning"):
        result = engine.partition(program, rule_sets, exclude=exclude, only=only, with_rules=with_rules,
                                  without_rules=without_rules)
    if not is_quiet:
        console.show(str(result.report))
    if json_file is not None:
        files.write_to(json_file, json.dumps(result.report.to_json(), indent=2) + "\n")
    chosen: dict[str, Any] = {"exclude": exclude, "only": only}
    chosen |= {"with_rules": with_rules, "without_rules": without_rules}
    changes = changes_of(rule_sets, assume, relax)
    if changes != NOTHING and not is_quiet:
        show_difference(Study.of(program, rule_sets, **chosen).difference(changes))
    if html_file is not None:
        files.write_to(html_file, page(Explainer.of(program, rule_sets, **chosen), title=Path(model).name,
                                       changes=changes))
    return 1 if strict and result.report.left else 0
