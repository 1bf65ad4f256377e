"""`apportion lsp`: the editor server, over standard input and output."""

from __future__ import annotations

import click

from apportion.engine.cli.console import CommandError

__all__ = ["command"]


@click.command("lsp", short_help="Serve an editor (needs the extra `lsp`).")
def command() -> int:
    """Run the editor server over standard input and output; editors start it, see editors/vscode."""
    try:
        from apportion.engine.lint.server import make_server
    except ImportError as problem:
        raise CommandError("the editor server needs pygls: pip install 'apportion[lsp]'") from problem
    make_server().start_io()
    return 0
