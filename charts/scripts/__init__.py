"""Scripts that the preparation pods run, and locks of what they install."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from experiment.runtimes.inference_demo import medusa_tree_files

RELAUNCH: Final = "relaunch.py"
"""The benchmark's own, which has it beside its configuration."""

Scripts = Mapping[str, str]
"""File name to text."""


def read() -> Scripts:
    """All scripts and locks, and what they read, in the order of their names."""
    found = {
        file.name: file.read_text(encoding="utf-8")
        for file in files(__name__).iterdir()
        if file.name.endswith((".sh", ".py", ".lock"))
        and file.name not in ("__init__.py", RELAUNCH)
    }
    return dict(sorted((found | medusa_tree_files()).items()))


def read_relaunch() -> str:
    """The text of the script that restarts the services."""
    return (files(__name__) / RELAUNCH).read_text(encoding="utf-8")
