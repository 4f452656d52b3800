"""The one kind of error a user's experiment file can cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_SHOWN: Final = 20
"""Errors of one file; more would be scrolled past."""


@dataclass(frozen=True)
class Refusal:
    """One thing in the file that cannot be, and what could stand there instead."""

    field: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} = {shown(self.value)}: {self.allowed}"


class ExperimentError(Exception):
    """An experiment file was refused. ``str()`` is what a user is shown: a line for each error."""

    def __init__(self, file: str, *errors: Refusal | str) -> None:
        lines = [f"{file}: {error}" for error in errors]
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN:] = [f"{file}: and {len(lines) - MOST_SHOWN} more"]
        super().__init__("\n".join(lines))


def shown(value: Any) -> str:
    """``value`` as YAML would write it, short enough for one line."""
    text = _flow(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _flow(value: Any) -> str:
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case float() if not math.isfinite(value):
            return str(value).replace("inf", ".inf").replace("nan", ".nan")
        case str():
            return repr(str(value))
        case Mapping():
            pairs = (f"{_flow(key)}: {_flow(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            return str(value)
