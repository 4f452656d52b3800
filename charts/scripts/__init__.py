"""Scripts that the preparation and quality pods run, and locks of what they install."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from experiment.runtimes.inference_demo import medusa_tree_files

Scripts = Mapping[str, str]
"""File name to text."""


def read() -> Scripts:
    """All scripts and locks, and what they read, in the order of their names."""
    found = {
        file.name: file.read_text(encoding="utf-8")
        for file in files(__name__).iterdir()
        if file.name.endswith((".sh", ".py", ".lock")) and file.name != "__init__.py"
    }
    return dict(sorted((found | medusa_tree_files()).items()))
