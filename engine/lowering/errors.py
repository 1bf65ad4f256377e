"""What can go wrong between tags and delegates."""

from __future__ import annotations

from apportion.engine.errors import ApportionError

__all__ = [
    "BackendNotFoundError",
    "BackendUnavailableError",
    "ChangedGraphError",
    "DelegateError",
    "FormatError",
    "MethodError",
    "PartitionerError",
    "PreprocessError",
    "TagError",
]


class BackendNotFoundError(ApportionError, NotImplementedError):
    """No backend of this id is defined, and no installed package brings one."""


class BackendUnavailableError(ApportionError, ImportError):
    """The backend is known, but a library that it needs is not installed."""


class TagError(ApportionError, RuntimeError):
    """Tags that can't become delegates: on an output or a user input, of an unlisted partition, in a cycle."""


class PartitionerError(ApportionError, AssertionError):
    """A partitioner gave back something that is no decision about the program it was given."""


class ChangedGraphError(PartitionerError):
    """A partitioner changed the graph; it may only write metadata."""


class MethodError(ApportionError, AssertionError):
    """A partitioner for a method that the program does not have, or results that don't fit the methods."""


class PreprocessError(ApportionError, RuntimeError):
    """A backend could not compile a partition; the message names it, and `__cause__` is what the backend raised.

    `backend_id`, `tag`, `nodes` and `rules` tell which partition it was.
    """

    def __init__(
        self,
        message: str,
        backend_id: str = "",
        tag: str = "",
        nodes: tuple[str, ...] = (),
        rules: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.backend_id = backend_id
        self.tag = tag
        self.nodes = nodes
        self.rules = rules


class DelegateError(ApportionError, RuntimeError):
    """A delegate can't be loaded or run: damaged bytes, a backend that is gone, results that are no results."""


class FormatError(ApportionError, ValueError):
    """A file or a delegate's bytes are damaged, of another kind, or written by a newer version."""
