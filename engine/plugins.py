"""Rules files that installed packages bring."""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

__all__ = ["GROUP", "plugin_rules"]

GROUP = "apportion.rules"
"""The entry point group: a name, and the package whose folder has the file NAME.rules (or `package:file.rules`)."""


def plugin_rules(name: str) -> Path | None:
    """The rules file that an installed package lists under a name; nothing of the package is run to find it."""
    for entry in entry_points(group=GROUP, name=name):
        spec = importlib.util.find_spec(entry.module.partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            inner = entry.module.split(".")[1:]
            path = Path(folder, *inner, entry.attr or f"{name}.rules")
            if path.is_file():
                return path
    return None
