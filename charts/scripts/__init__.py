"""Scripts that the preparation and quality pods run, and locks of what they install."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

Scripts = Mapping[str, str]
"""File name to text."""


def read() -> Scripts:
    """All scripts and locks, in the order of their names."""
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(files(__name__).iterdir(), key=lambda file: file.name)
        if file.name.endswith((".sh", ".py", ".lock")) and file.name != "__init__.py"
    }
