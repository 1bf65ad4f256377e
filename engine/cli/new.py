"""`apportion new`: a rules file to start from, with what a model asks for."""

from __future__ import annotations

import re
from pathlib import Path

import click

from apportion import engine
from apportion.engine.cli import console, files, programs
from apportion.engine.cli.decompose import decomposed
from apportion.engine.cli.skeleton import skeleton
from apportion.engine.cli.survey import survey
from apportion.engine.facts import ProgramFacts

__all__ = ["command"]


@click.command("new", short_help="Write a commented rules file with a model's ops.")
@click.argument("file", metavar="FILE")
@click.option("--from", "model", metavar="MODEL.pt2", required=True, help="The program whose ops the file shall list.")
@click.option("--backend", metavar="ID", help="The backend's id; the name of the file if not given.")
@click.option("--import", "imports", metavar="MODULE", multiple=True, help="Import a Python module first.")
@click.option("--decompose/--as-it-is", default=True, show_default=True, help="Decompose to core ATen first.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it is there.")
def command(file: str, model: str, backend: str | None, imports: tuple[str, ...], decompose: bool,
            force: bool) -> int:
    """Write FILE (`-`: show it): one rule for each op of the program, with the dtypes, ranks and arguments seen there.

    As it is written, the file loads and claims what the program uses; the work is to replace what was seen by what
    the datasheet says.
    """
    target = Path(file)
    to_console = file == "-"
    if not to_console:
        files.refuse_targets({"FILE": file}, [model])
    if not to_console and target.exists() and not force:
        raise console.CommandError(f"{file}: is there already; --force overwrites it")
    if backend is not None and (not backend.strip() or not backend.isprintable() or set(backend) & set('"\\')):
        raise console.CommandError(f"--backend {backend!r}: an id has printable characters, and no quote or backslash")
    programs.import_modules(imports)
    with console.progress(f"reading {model}"):
        program = programs.load_program(model)
        if decompose:
            program = decomposed(program, [])
        found = survey(ProgramFacts.of(program))
    text = skeleton(backend or _identifier(target.stem), Path(model).name, found)
    engine.parse_rules(text, name=file)  # what is written must load: a mistake here is ours, and is said
    if to_console:
        click.echo(text, nl=False)
        return 0
    files.write_text(target, text)
    console.show(f"{file}: {len(found)} ops of {Path(model).name}, one rule each; next: apportion check {file}")
    return 0


def _identifier(stem: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", stem) or ["Npu"]
    return "".join(word[:1].upper() + word[1:] for word in words)
