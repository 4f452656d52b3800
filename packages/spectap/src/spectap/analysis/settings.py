"""Which settings two runs differ in."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from spectap import wording
from spectap.config import Config, TestCase
from spectap.load_points import Rounds

_LONGEST: Final = 60
"""Characters of a text that is shown."""
_UNMEASURED: Final = frozenset({"endpoint", "bucket", "published"})
"""Settings of nothing that is measured: where things are, and what others have published."""
_TITLES: Final = {"machines": "machines that the servers are on"}


class Difference(NamedTuple):
    """A field that differs, with what is written of both values: of lists what only one has."""

    field: str
    old: str
    new: str

    def __str__(self) -> str:
        """``load.rounds: 4 rounds before, 6 rounds now``."""
        values = ((self.old, "before"), (self.new, "now"))
        return f"{self.field}: {', '.join(f'{value} {when}' for value, when in values if value)}"


def differences(old: Config, new: Config) -> Iterator[Difference]:
    """Each field that differs.

    Test cases and variants are matched by name; those that only one side has are left out.
    """
    yield from _differences("", *map(_content, (old, new)))


def incomparable(old: Config, new: Config) -> Iterator[Difference]:
    """Differences by which two runs measure different things: lengths, loads, test cases."""

    def sent(case: TestCase) -> dict[str, Any]:
        source = _content(case.prompts) or {}
        if source.get("digest"):
            source["file"] = None  # a file is what it holds
        return {"line": case.line, "prompts": source}

    lengths = [name for name in type(old.load).model_fields if name.endswith("_tokens")]
    olds, news = (
        {name: getattr(config.load, name) for name in lengths}
        | {
            "load points": [str(point) for point in config.load.points],
            "test cases": [case.name for case in config.test_cases],
            **{case.name: sent(case) for case in config.test_cases},
        }
        for config in (old, new)
    )
    for name in olds.keys() & news.keys():
        yield from _differences(name, olds[name], news[name])


def _content(value: Any) -> Any:
    """The value without its models. They leave out of JSON what is as it is by default."""
    if isinstance(value, Rounds):
        return str(value)
    if isinstance(value, (BaseModel, Mapping)):
        return {name: _content(each) for name, each in dict(value).items()}
    return [*map(_content, value)] if isinstance(value, (list, tuple)) else value


def _differences(path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Each field that differs, by its path; not items that have a name and that one side lacks."""
    if old == new:
        return
    if all(side is None or isinstance(side, Mapping) for side in (old, new)):
        for key in dict.fromkeys([*(old or ()), *(new or ())]):
            if key not in _UNMEASURED:
                values = (side.get(key) if side else None for side in (old, new))
                yield from _differences(f"{path}.{key}".removeprefix("."), *values)
    elif (olds := _by_name(old)) and (news := _by_name(new)):
        for name in olds.keys() & news.keys():
            yield from _differences(f"{path}.{name}", olds[name], news[name])
    elif isinstance(old, list) and isinstance(new, list):
        sides = (old, new), (new, old)
        only = [[str(each) for each in side if each not in other] for side, other in sides]
        if any(only):
            texts = (f"{wording.listed(items)} only" if items else "" for items in only)
            yield Difference(path, *texts)
    else:
        yield Difference(_TITLES.get(path, path), _written(old), _written(new))


def _by_name(items: Any) -> dict[str, Any]:
    """Items of a list that have names of their own; load points have what they are."""
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return {}
    kinds = ("concurrency", "rate")
    return {
        item.get("name") or next(f"{kind}-{item[kind]:g}" for kind in kinds if item.get(kind)): item
        for item in items
    }


def _written(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.10g}"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
