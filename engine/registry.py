"""The registry of compile functions for `torch.compile(backend="name")`.

There is one registry, torch's: what is registered here is known there, and what is known there is listed here and
refused as a duplicate. Installed packages bring theirs through entry points, which are listed without being imported.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any, overload

import torch._dynamo.exc
from torch._dynamo.backends import registry as torchs
from torch._dynamo.backends.registry import CompiledFn, CompilerFn

from apportion.engine.errors import ApportionError
from apportion.grammar.diagnostics import nearest

__all__ = [
    "CompiledFn",
    "CompilerFn",
    "DuplicateBackendError",
    "InvalidBackend",
    "PluginError",
    "list_backends",
    "lookup_backend",
    "register_backend",
    "register_debug_backend",
    "register_experimental_backend",
]

_HIDDEN = ("debug", "experimental")
_lock = threading.RLock()


class InvalidBackend(ApportionError, torch._dynamo.exc.InvalidBackend):
    """There is no compile function of this name; the message has the names that are near."""

    def __init__(self, name: str) -> None:
        torch._dynamo.exc.InvalidBackend.__init__(self, name)
        near = nearest(name, list_backends())
        self.name = name
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(list_backends())}"
        self.msg = f"invalid backend: {name!r}; {hint}"
        self.args = (self.msg,)

    def __str__(self) -> str:
        return self.msg


class DuplicateBackendError(ApportionError, AssertionError):
    """A compile function of this name is registered already, or an installed package brings one."""


class PluginError(ApportionError, ImportError):
    """An installed package lists a compile function that can't be loaded; its own exception is the cause."""


@overload
def register_backend(compiler_fn: CompilerFn, name: str | None = None, tags: Sequence[str] = ()) -> CompilerFn: ...
@overload
def register_backend(
    compiler_fn: None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable[[CompilerFn], CompilerFn]: ...
def register_backend(
    compiler_fn: CompilerFn | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Make a compile function known by a name (its own where none is given); as a call, or as a decorator with or
    without arguments. Gives the function back, with `tags` as its `_tags`.

    A compile function takes a GraphModule and example inputs and gives a callable. Raises DuplicateBackendError (an
    AssertionError) for a name that is taken, also by an entry point that nobody has loaded yet.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise _NotCallableError(f"a compile function must be callable, and {compiler_fn!r} is not")
    chosen = name or compiler_fn.__name__
    with _lock:
        _discover()
        if chosen in torchs._COMPILER_FNS or chosen in torchs._BACKENDS:
            raise DuplicateBackendError(f"duplicate name: {chosen} is {_origin(chosen)}")
        return torchs.register_backend(compiler_fn, name=chosen, tags=tags)


class _NotCallableError(ApportionError, AssertionError, TypeError):
    """What was to be registered can't be called."""


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def lookup_backend(compiler_fn: str | CompilerFn) -> CompilerFn:
    """The compile function of a name; a function is given back as it is.

    An entry point is loaded now, once. Raises InvalidBackend for an unknown name, and PluginError where the package
    that lists it fails to load.
    """
    if not isinstance(compiler_fn, str):
        return compiler_fn
    with _lock:
        _discover()
        if compiler_fn not in torchs._BACKENDS and compiler_fn not in torchs._COMPILER_FNS:
            raise InvalidBackend(compiler_fn)
        if compiler_fn not in torchs._COMPILER_FNS:
            _load(compiler_fn, torchs._BACKENDS[compiler_fn])
        return torchs._COMPILER_FNS[compiler_fn]


def list_backends(exclude_tags: Sequence[str] | None = _HIDDEN) -> list[str]:
    """The names that `torch.compile(backend=...)` takes, sorted, without those that have one of `exclude_tags`.

    None or () excludes nothing. What an installed package lists is there without being imported.
    """
    with _lock:
        _discover()
        excluded = set(exclude_tags or ())
        return sorted(
            name for name in {*torchs._BACKENDS, *torchs._COMPILER_FNS}
            if not excluded.intersection(getattr(torchs._COMPILER_FNS.get(name), "_tags", ()))
        )


def _discover() -> None:
    torchs._lazy_import()


def _origin(name: str) -> str:
    entry = torchs._BACKENDS.get(name)
    if entry is None:
        return "registered already"
    package = entry.dist.name if entry.dist is not None else entry.value
    return f"what the installed package {package} brings"


def _load(name: str, entry: EntryPoint | None) -> None:
    if entry is None:
        raise InvalidBackend(name)
    try:
        found = entry.load()
    except Exception as problem:
        package = entry.dist.name if entry.dist is not None else entry.value
        cause = f"{type(problem).__name__}: {problem}"
        raise PluginError(
            f"the backend {name!r} of the installed package {package} can't be loaded: {cause}"
        ) from problem
    if name not in torchs._COMPILER_FNS:  # its module may have registered it while it was loaded
        torchs.register_backend(found, name=name)
