"""`apportion run`: call a lowered program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from apportion import engine
from apportion.engine.cli import console, files, programs
from apportion.engine.cli.console import CommandError
from apportion.engine.errors import ApportionError

__all__ = ["command"]


@click.command("run", short_help="Run a lowered program.")
@click.argument("file", metavar="OUT")
@click.option("-i", "--inputs", "inputs", metavar="FILE", multiple=True,
              help="A .pt file (torch.save) with a tensor or a tuple of arguments; repeat it for several. "
                   "Without it, inputs are drawn at random.")
@click.option("-o", "--output", "output", metavar="FILE", help="Write the results there with torch.save.")
@click.option("--method", metavar="NAME", default="forward", show_default=True, help="The method to call.")
@click.option("--seed", default=0, show_default=True, help="Where random inputs start from.")
@click.option("--import", "imports", metavar="MODULE", multiple=True, help="Import a Python module first.")
def command(file: str, inputs: tuple[str, ...], output: str | None, method: str, seed: int,
            imports: tuple[str, ...]) -> int:
    """Run the program that `apportion lower` wrote to OUT, and print what its results look like."""
    files.refuse_binary_targets({"--output": output}, [file, *inputs])
    target = None if output is None else Path(output)
    programs.import_modules(imports)
    program = _method(file, method)
    args, kwargs = _arguments(program, inputs, seed)
    try:
        with torch.no_grad():
            results = program.module(check_guards=False)(*args, **kwargs)
    except ApportionError:
        raise
    except Exception as problem:  # what the operators of the program say of values that they can't take
        raise CommandError(f"{file}: running it failed: {type(problem).__name__}: {problem}") from problem
    for number, value in enumerate(pytree.tree_leaves(results)):
        console.show(f"{number}: {_described(value)}")
    if target is not None:
        torch.save(results, target)
        console.note(f"note: wrote {target}")
    return 0


def _method(file: str, method: str) -> ExportedProgram:
    try:
        loaded = engine.load(file)
    except OSError as problem:
        raise CommandError(f"{file}: {(problem.strerror or str(problem)).lower()}") from problem
    if isinstance(loaded, ExportedProgram):
        return loaded
    if method not in loaded:
        raise CommandError(f"{file}: has no method {method}; it has {', '.join(loaded)}")
    return loaded[method]


def _arguments(program: ExportedProgram, files_given: Sequence[str], seed: int) -> tuple[Any, Any]:
    flat = [value for path in files_given for value in _read(path)]
    examples = _examples(program)
    if not files_given:
        flat = _drawn(examples, seed)
    spec = program.call_spec.in_spec
    if spec is None or len(flat) != spec.num_leaves:
        takes = "?" if spec is None else spec.num_leaves
        raise CommandError(f"the program takes {takes} inputs, {len(flat)} were given")
    for position, (value, example) in enumerate(zip(flat, examples, strict=True)):
        if not _fits(value, example):
            raise CommandError(f"input {position} is {_kind(value)}, the program takes {_kind(example)}")
    args, kwargs = pytree.tree_unflatten(flat, spec)
    return args, kwargs


def _fits(value: Any, example: Any) -> bool:
    """Has it the type, dtype and sizes that the program was exported for? A size that may vary is not looked at."""
    if not isinstance(example, torch.Tensor):
        return not isinstance(value, torch.Tensor)
    if not isinstance(value, torch.Tensor) or value.dtype != example.dtype or value.dim() != example.dim():
        return False
    return all(not isinstance(size, int) or size == got for got, size in zip(value.shape, example.shape, strict=True))


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{value!r} of type {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _read(path: str) -> list[Any]:
    try:
        return pytree.tree_leaves(torch.load(path, weights_only=True))
    except OSError as problem:
        raise CommandError(f"{path}: {(problem.strerror or str(problem)).lower()}") from problem
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise CommandError(f"{path}: torch can't read it: {lines[0]}") from problem


def _examples(program: ExportedProgram) -> list[Any]:
    """What the program says of each of its inputs."""
    names = {s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
    return [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def _drawn(examples: Sequence[Any], seed: int) -> list[Any]:
    """Random values of the right shapes; a size that may vary is what it was when the program was exported."""
    generator = torch.Generator().manual_seed(seed)
    return [_random(value, generator) for value in examples]


def _random(value: Any, generator: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = [size if isinstance(size, int) else size.node.hint or 2 for size in value.shape]
    if value.dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(value.dtype)
    return torch.randint(0, 2, shape, generator=generator).to(value.dtype)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value}"
    text = _kind(value)
    if value.numel() == 0 or not value.dtype.is_floating_point:
        return text
    return f"{text} mean {value.mean().item():.6g}, from {value.min().item():.6g} to {value.max().item():.6g}"
