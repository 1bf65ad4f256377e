"""Which class a backend id means: a subclass that exists, one that an installed package brings, one that ships here."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import EntryPoint, entry_points

from apportion.engine.load import load_rules, shipped_rules
from apportion.engine.lowering.details import BackendDetails
from apportion.engine.lowering.errors import BackendNotFoundError, BackendUnavailableError
from apportion.grammar.diagnostics import nearest

__all__ = ["GROUP", "backend_named", "known_backends"]

GROUP = "apportion.backends"
"""The entry point group in which a package lists its backends: the id, and the class or its module."""

_SHIPPED = "apportion.backends"


def backend_named(backend_id: str) -> type[BackendDetails]:
    """The backend of this id.

    Raises BackendNotFoundError (a NotImplementedError) where there is none, and BackendUnavailableError where a package
    lists it and can't be imported; the package's own exception is its cause.
    """
    backend = _defined(backend_id)
    if backend is None and _import(backend_id):
        backend = _defined(backend_id)
    if backend is None:
        near = nearest(backend_id, known_backends())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise BackendNotFoundError(f"Backend {backend_id} was not found{hint}")
    backend.ensure_initialized()
    return backend


def known_backends() -> list[str]:
    """The ids of backends that are defined, listed by packages or ship here, sorted; none is imported for it."""
    defined = [one.__name__ for one in BackendDetails.__subclasses__()]
    shipped = [backend for name in shipped_rules() if _ships(backend := load_rules(name).backend_id)]
    return sorted({*defined, *(entry.name for entry in entry_points(group=GROUP)), *shipped})


def _defined(backend_id: str) -> type[BackendDetails] | None:
    """The latest class of this name: a module that was loaded again has defined it anew."""
    found = [one for one in BackendDetails.__subclasses__() if one.__name__ == backend_id]
    return found[-1] if found else None


def _import(backend_id: str) -> bool:
    for entry in entry_points(group=GROUP):
        if entry.name == backend_id:
            return _load(entry)
    if not _ships(backend_id):
        return False
    importlib.import_module(_module(backend_id))
    return True


def _ships(backend_id: str) -> bool:
    if not backend_id.endswith("Backend") or not backend_id.isidentifier():
        return False
    return importlib.util.find_spec(_module(backend_id)) is not None


def _module(backend_id: str) -> str:
    """What ships here is found by name, so that adding a backend is adding a module."""
    return f"{_SHIPPED}.{backend_id.removesuffix('Backend').lower()}"


def _load(entry: EntryPoint) -> bool:
    try:
        entry.load()
    except Exception as problem:
        package = entry.dist.name if entry.dist is not None else entry.value
        raise BackendUnavailableError(
            f"the backend {entry.name} of the installed package {package} can't be loaded: "
            f"{type(problem).__name__}: {problem}"
        ) from problem
    return True
