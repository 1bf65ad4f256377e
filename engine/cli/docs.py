"""`apportion docs`: the support table of an accelerator, from its rules file."""

from __future__ import annotations

import click

from apportion.engine.cli import files, settings
from apportion.engine.explain.sheets import sheet, sheet_html, sheet_markdown

__all__ = ["command"]


@click.command("docs", short_help="Write the support table of an accelerator from its rules file.")
@click.argument("rules", metavar="FILE.rules")
@click.option("-s", "--set", "assignments", metavar="OPTION=VALUE", multiple=True,
              help="Set an option that the file declares; rules that it leaves out are marked.")
@click.option("--markdown", metavar="FILE", help="Write Markdown there (without any file: on standard output).")
@click.option("--html", "html_file", metavar="FILE", help="Write a page there.")
def command(rules: str, assignments: tuple[str, ...], markdown: str | None, html_file: str | None) -> int:
    """Write what a rules file says as the table that users look for: ops, patterns, constraints in the author's words,
    types, options, and how partitions are made.
    """
    files.refuse_targets({"--markdown": markdown, "--html": html_file}, [rules])
    (loaded,) = settings.load([rules], assignments)
    found = sheet(loaded)
    if markdown is None and html_file is None:
        markdown = files.STDOUT
    if markdown is not None:
        files.write_to(markdown, sheet_markdown(found))
    if html_file is not None:
        files.write_to(html_file, sheet_html(found))
    return 0
