"""The one kind of error a user's experiment file can cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """One thing in the file that cannot be, and what could stand there instead."""

    field: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} = {shown(self.value)}: {self.allowed}"


class ExperimentError(Exception):
    """An experiment file was refused. ``str()`` is the one line a user is shown."""

    def __init__(self, file: str, what: Refusal | str) -> None:
        super().__init__(f"{file}: {what}")


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
