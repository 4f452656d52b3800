"""The one kind of error that a user's experiment file can cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from spectap.printing import printable


class Refusal(NamedTuple):
    """A field of an experiment file, and what is allowed in it."""

    field: str
    """Dotted path, e.g. ``benchmark.test_cases[0].name``."""
    allowed: str


Refusals = Iterator[Refusal]


class ExperimentError(Exception):
    """A file was refused. ``str()`` is what the user is shown: one line per error."""


def as_json(value: Any) -> str:
    """``value`` as JSON, which is YAML, short enough for one line."""
    text = printable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else text[:77] + "..."
