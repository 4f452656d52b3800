"""What two experiment files say differently, field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from experiment import ExperimentError
from experiment.known_models import KNOWN_MODELS
from experiment.yaml_text import read_yaml
from scripts.diff.tools import DiffError

_ITEM: Final = re.compile(r"(.*?\[[^\]]+\])\.")
"""What a path of a field in a list begins with: ``spectap.test_cases[counting].``"""

_MODE: Final = re.compile(r"(speculation|sweep)(\[[^\]]+\])?\.mode")

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
    """A line for each field that differs: ``path: old -> new``, in the order of the new file.

    An item of a list that only one side has, such as a test case, is one line.
    """
    lines: dict[str, str] = {}
    for path in dict.fromkeys([*new, *old]):
        if path in old and path in new and old[path] == new[path]:
            continue
        item = _ITEM.match(path)
        of_item = item[1] if item else path
        if item and not _has(old, of_item):
            lines[of_item] = f"{of_item}: new"
        elif item and not _has(new, of_item):
            lines[of_item] = f"{of_item}: gone"
        else:
            lines[path] = f"{path}: {_shown(old, path)} -> {_shown(new, path)}"
    return [*lines.values()]


def _has(fields: Fields, item: str) -> bool:
    return any(path.startswith(f"{item}.") for path in fields)


def most_similar(new: Fields, others: Mapping[str, Fields]) -> str | None:
    """The name of what differs from ``new`` in the fewest fields; None where there is nothing.

    Of the same family of models and of the same modes, where there is any.
    """

    def difference(name: str) -> tuple[int, int]:
        other = others[name]
        kinds = (_family(other) != _family(new)) + (_modes(other) != _modes(new))
        return kinds, len(differences(other, new))

    return min(others, key=difference, default=None)


def _family(fields: Fields) -> str | None:
    """The target's; None where nothing is known of it."""
    known = KNOWN_MODELS.get(fields.get("models.target.id", ""))
    family = known.family if known else fields.get("models.target.architecture.family")
    return None if family is None else str(family)


def _modes(fields: Fields) -> set[Any]:
    """Of all variants that speculate."""
    return {value for path, value in fields.items() if _MODE.fullmatch(path)}


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


def _shown(fields: Fields, path: str) -> str:
    """As YAML would have it; with quotes where a text begins or ends with a space."""
    if path not in fields:
        return "absent"
    value = fields[path]
    return value if isinstance(value, str) and value.strip() == value else json.dumps(value)
