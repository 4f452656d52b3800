"""What two experiment files say differently, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiment import ExperimentError
from experiment.yaml_text import read_yaml
from scripts.diff.tools import DiffError

Fields = Mapping[str, Any]
"""Scalars, and empty lists and mappings, by their dotted paths."""


def read(path: Path) -> Fields:
    """The fields of a file. Raises DiffError."""
    try:
        text = path.read_text(encoding="utf-8")
        return dict(_leaves(json.loads(read_yaml(text, str(path)).json), ""))
    except FileNotFoundError:
        raise DiffError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError, ExperimentError) as error:
        raise DiffError(f"{path}: {str(error).splitlines()[0]}") from None


def differences(old: Fields, new: Fields) -> list[str]:
    """A line for each field that differs: ``path: old -> new``, in the order of the new file."""
    return [
        f"{path}: {_shown(old.get(path))} -> {_shown(new.get(path))}"
        for path in dict.fromkeys([*new, *old])
        if old.get(path) != new.get(path) or (path in old) != (path in new)
    ]


def most_similar(new: Fields, others: Mapping[str, Fields]) -> str | None:
    """The name of what differs from ``new`` in the fewest fields; None where there is nothing."""
    return min(others, key=lambda name: len(differences(others[name], new)), default=None)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Items of a list go by their name, if they have one: an earlier one moves none of them."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            name = item.get("name", number) if isinstance(item, dict) else number
            yield from _leaves(item, f"{path}[{name}]")
    else:
        yield path, value


def _shown(value: Any) -> str:
    """As YAML would have it; a field that is not there or null as ``none``."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
