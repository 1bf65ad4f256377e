"""`apportion explain-code`: what a finding means, with an example and how to repair it."""

from __future__ import annotations

import click

from apportion.engine.cli import console
from apportion.engine.cli.console import CommandError
from apportion.engine.lint.pages import page, pages
from apportion.grammar.diagnostics import nearest

__all__ = ["command"]


@click.command("explain-code", short_help="Say what a finding means.")
@click.argument("code", metavar="CODE", required=False)
def command(code: str | None) -> int:
    """Print the page about a finding, such as A101; without CODE list them all."""
    if code is None:
        for name, title in pages().items():
            console.show(f"{name}  {title}")
        return 0
    text = page(code.upper())
    if text is None:
        near = nearest(code.upper(), pages())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise CommandError(f"there is no finding {code}{hint}")
    console.output().print(text.rstrip())
    return 0
