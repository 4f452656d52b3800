"""The one kind of error that a user's experiment file can cause, and how it names fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from spectap.printing import printable

MOST_SHOWN: Final = 20
"""Errors shown for one file. Nobody reads more at once."""

ABSENT: Final = object()
"""The value of a field that is not in the file."""

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value, e.g. ``("test_cases", 0, "name")``."""


@dataclass(frozen=True)
class Refusal:
    """A refused value, and what is allowed in its place."""

    field: str
    """Dotted path, e.g. ``benchmark.test_cases[0].name``."""
    value: Any
    """What the file has; ``ABSENT`` where it has nothing."""
    allowed: str
    line: int | None = None
    """The line of the file, from 1; None where no file was read."""

    def __str__(self) -> str:
        value = "" if self.value is ABSENT else f" = {shown(self.value)}"
        return f"{self.field}{value}: {self.allowed}"


@dataclass(frozen=True)
class Elsewhere:
    """An error in another file that the experiment names; its line names that file."""

    line: str


class ExperimentError(Exception):
    """An experiment file was refused. ``str()`` is what the user is shown: one line per error."""

    def __init__(self, file: str, *errors: Refusal | Elsewhere | str) -> None:
        lines = [
            error.line if isinstance(error, Elsewhere) else f"{_position(file, error)}: {error}"
            for error in errors
        ]
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN:] = [f"{file}: and {len(lines) - MOST_SHOWN} more"]
        super().__init__("\n".join(lines))


def _position(file: str, error: Refusal | str) -> str:
    line = error.line if isinstance(error, Refusal) else None
    return file if line is None else f"{file}:{line}"


def dotted(path: Path) -> str:
    """``("test_cases", 0, "name")`` as ``test_cases[0].name``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path)
    return "".join(steps).removeprefix(".")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else shown(key)


def steps(field: str) -> Path:
    """``test_cases[0].name`` as ``("test_cases", 0, "name")``; for fields of the schema."""
    names = re.findall(r"[^.\[\]]+", field)
    return tuple(int(name) if name.isdigit() else name for name in names)


def shown(value: Any) -> str:
    """``value`` as JSON, which is YAML, short enough for one line."""
    text = printable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else text[:77] + "..."
