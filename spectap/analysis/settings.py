"""Which settings two runs differ in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectap.config import Config, TestCase

_LONGEST: Final = 60
"""Characters of a value that is shown."""
_LOCATIONS: Final = frozenset({"endpoint", "bucket"})
"""Settings that say where things are, and nothing of what they are."""


def differences(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """Each field that differs: its path, the old value, the new one.

    Test cases and variants are matched by name; those that only one side has are left out.
    """
    yield from _differences("", *(config.model_dump(mode="json") for config in (old, new)))


def incomparable(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """What makes the figures of two runs those of different things: lengths, loads, test cases."""

    def sent(case: TestCase) -> dict[str, Any]:
        source = case.prompts.model_dump(mode="json") if case.prompts else {}
        if source.get("digest"):
            source["file"] = None  # a file is what it holds
        return {"line": case.line, "prompts": source}

    lengths = [name for name in type(old.load).model_fields if name.endswith("_tokens")]
    olds, news = (
        {name: getattr(config.load, name) for name in lengths}
        | {
            "load points": sorted(point.name for point in config.load.points),
            "test cases": sorted(case.name for case in config.test_cases),
            **{case.name: sent(case) for case in config.test_cases},
        }
        for config in (old, new)
    )
    for name in olds.keys() & news.keys():
        yield from _differences(name, olds[name], news[name])


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Each field that differs, by its path, with both values; not items that only one side has."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key not in _LOCATIONS:
                yield from _differences(f"{path}.{key}", old.get(key), new.get(key))
    elif (olds := _by_name(old)) and (news := _by_name(new)):
        for name in olds.keys() & news.keys():
            yield from _differences(f"{path}.{name}", olds[name], news[name])
    elif old != new:
        yield path.removeprefix("."), _written(old), _written(new)


def _by_name(items: Any) -> dict[str, Any]:
    """Items of a list that have names of their own; load points have what they are."""
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return {}
    kinds = ("concurrency", "rate")
    return {
        item.get("name") or next(f"{kind}-{item[kind]:g}" for kind in kinds if kind in item): item
        for item in items
    }


def _written(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
