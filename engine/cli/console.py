"""Where the commands print: results on standard output, everything else on standard error.

Colours go away by themselves when the stream is no terminal, and where `NO_COLOR` is set.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.text import Text

from apportion.engine.errors import ApportionError

__all__ = ["CommandError", "error", "note", "output", "progress", "quiet", "show", "status_line", "styled"]

# What is coloured in a diagnostic or a report; the text itself is never changed.
_STYLES: tuple[tuple[str, str], ...] = (
    (r"(?m)^error(\[A\d+\])?(?=:)", "bold red"),
    (r"(?m)^warning(\[A\d+\])?(?=:)", "bold yellow"),
    (r"(?m)^note(\[A\d+\])?(?=:)", "bold cyan"),
    (r"(?m)^ *-->.*$|^ *:::.*$", "blue"),
    (r"(?m)^ *\| *\^+.*$", "red"),
    (r"(?m)^ *= (help|note|witness|differs):", "cyan"),
    (r"\b[\w./-]+\.rules:\d+(:\d+)?", "blue"),
    (r'(?<=because )"[^"\n]*"', "italic"),
)
_PATTERNS = tuple((re.compile(pattern), style) for pattern, style in _STYLES)


class CommandError(click.ClickException, ApportionError):
    """What a command can't do, in one sentence for its user; ends the run with status 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Print the sentence on standard error."""
        error(self.message)


def output() -> Console:
    """The console for results; made anew so that a redirected standard output is seen."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def _messages() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def styled(text: str) -> Text:
    """The same text with colours for severities, places and sentences."""
    result = Text(text)
    for pattern, style in _PATTERNS:
        for found in pattern.finditer(text):
            result.stylize(style, *found.span())
    return result


def show(text: str) -> None:
    """Print a report or other result."""
    output().print(styled(text))


def note(text: str) -> None:
    """Print a remark that is no result."""
    _messages().print(styled(text))


def error(text: str) -> None:
    """Print an error; rendered diagnostics already begin with `error[...]`."""
    _messages().print(styled(text if text.startswith(("error", "warning", "note")) else f"error: {text}"))


def status_line(good: bool, text: str) -> None:
    """Print one line of a list of results, green or red where there are colours."""
    output().print(Text(text, style="green" if good else "bold red"))


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say on standard error what is being done, as long as it takes; nothing where that is no terminal."""
    console = _messages()
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what foreign code writes to standard error, in Python or below it, away from the terminal."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    disabled = logging.root.manager.disable
    os.dup2(nowhere, 2)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
