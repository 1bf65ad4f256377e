"""The command `apportion`: the table of commands, and one place where errors become an exit status."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

import click

from apportion.engine.cli import (
    blockers,
    check,
    compile,
    console,
    coverage,
    demo,
    diff,
    docs,
    explain,
    explain_code,
    fmt,
    lint,
    lower,
    lsp,
    new,
    partition,
    run,
    test,
    what_if,
)
from apportion.engine.errors import ApportionError
from apportion.engine.version import __version__

__all__ = ["cli", "main"]

COMMANDS: tuple[click.Command, ...] = (
    demo.command,
    partition.command,
    explain.command,
    blockers.command,
    what_if.command,
    coverage.command,
    docs.command,
    lower.command,
    run.command,
    check.command,
    compile.command,
    new.command,
    lint.command,
    fmt.command,
    test.command,
    diff.command,
    explain_code.command,
    lsp.command,
)
_TRACEBACK = "APPORTION_TRACEBACK"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", message="apportion %(version)s")
def cli() -> None:
    """Decide which parts of a PyTorch program run on which accelerator.

    Exit status: 0 fine, 1 the answer is no (an example fails, a node stays behind under --strict), 2 the question
    could not be answered (a missing or broken file, a wrong option).
    """


for _command in COMMANDS:
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; every error becomes a message, never a traceback.

    Set the environment variable `APPORTION_TRACEBACK` to see where an unexpected error came from.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # torch's remarks to its own developers
    logging.getLogger("apportion").addHandler(logging.NullHandler())  # what is logged is in the report, too
    try:
        status = cli.main(args=None if arguments is None else list(arguments), prog_name="apportion",
                          standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except click.Abort:
        return 130
    except ApportionError as problem:
        console.error(str(problem))
        return 2
    except BrokenPipeError:
        # The reader (`| head`) has gone; keep the interpreter from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except Exception as problem:
        return _unexpected(problem)


def _unexpected(problem: Exception) -> int:
    """Report an error that nobody foresaw."""
    lines = str(problem).strip().splitlines() or [""]
    console.error(f"internal error: {type(problem).__name__}: {lines[0]}")
    if os.environ.get(_TRACEBACK):
        console.note(traceback.format_exc())
    else:
        console.note(f"note: this is a mistake in apportion; {_TRACEBACK}=1 shows where it happened")
    return 2
