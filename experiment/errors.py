"""The one kind of error a user's experiment file can cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """One thing in the file that cannot be, and what could stand there instead."""

    field: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} = {_shown(self.value)}: {self.allowed}"


class ExperimentError(Exception):
    """An experiment file was refused. ``str()`` is the one line a user is shown."""

    def __init__(self, file: str, what: Refusal | str) -> None:
        super().__init__(f"{file}: {what}")


def _shown(value: Any) -> str:
    """``value`` as YAML would write it, short enough for one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str | list | dict | tuple) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."
