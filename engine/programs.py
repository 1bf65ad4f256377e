"""What counts as a program, and the methods in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch.fx as fx
from torch.export import ExportedProgram

from apportion.engine.errors import ProgramError

__all__ = ["methods_of"]


def methods_of(program: Any) -> Iterator[tuple[str, Any]]:
    """Each method of a program with its name, in order; a program without methods is `forward`.

    Raises `ProgramError` for what is no program, with what to do.
    """
    if isinstance(program, Mapping):
        if not program:
            raise ProgramError("a dict of methods without any method; give at least one program")
        for name, one in program.items():
            for _, inner in methods_of(one):
                yield str(name), inner
        return
    if isinstance(program, ExportedProgram | fx.GraphModule):
        yield "forward", program
        return
    methods = getattr(program, "methods", None)
    exported = getattr(program, "exported_program", None)
    if callable(methods) and callable(exported):
        for name in sorted(methods()):
            yield name, exported(name)
        return
    raise ProgramError(f"{_what(program)} is no program that can be partitioned; {_advice(program)}")


def _what(program: Any) -> str:
    return f"a {type(program).__module__}.{type(program).__qualname__}"


def _advice(program: Any) -> str:
    import torch

    if isinstance(program, torch.nn.Module):
        return "export it first: torch.export.export(model, example_inputs)"
    if isinstance(program, str):
        return "load it first: torch.export.load(path)"
    return "give an ExportedProgram, a GraphModule with metadata, or a dict of them"
