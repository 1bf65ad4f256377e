"""The public names of the engine."""

from apportion.engine.version import __version__

__all__ = ["__version__"]
