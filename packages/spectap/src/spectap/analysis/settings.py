"""Finds the settings in which two runs differ."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from spectap import wording
from spectap.inputs.config import Config, TestCase
from spectap.inputs.load_points import Rounds

_LONGEST: Final = 60
"""The most characters of a text that are shown."""
_UNMEASURED: Final = frozenset({"endpoint", "bucket", "published"})
"""Settings that change no measurement: addresses, and what others have published."""
_TITLES: Final = {"machines": "machines that the servers are on"}


class Difference(NamedTuple):
    """A field that differs, with both values in words; of lists, what only one side has."""

    field: str
    old: str
    new: str

    def __str__(self) -> str:
        """``load.rounds: 4 rounds before, 6 rounds now``."""
        values = ((self.old, "before"), (self.new, "now"))
        return f"{self.field}: {', '.join(f'{value} {when}' for value, when in values if value)}"


def differences(old: Config, new: Config) -> Iterator[Difference]:
    """Each field that differs.

    Test cases and variants are matched by name. Those of one side alone are left out.
    """
    yield from _differences(old, new)


def incomparable(old: Config, new: Config) -> Iterator[Difference]:
    """Differences by which two runs measure different things: lengths, loads, test cases."""

    def sent(case: TestCase) -> dict[str, Any]:
        source = case.prompts
        if source and source.digest:
            source = source.model_copy(update={"file": None})  # a file is what it holds
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
    common = olds.keys() & news.keys()
    yield from _differences(*({name: side[name] for name in common} for side in (olds, news)))


def _differences(*sides: Any) -> Iterator[Difference]:
    olds, news = ({path: (item, value) for path, item, value in _fields(side)} for side in sides)
    items, others = ({item for item, _ in side.values()} for side in (olds, news))
    for path in dict.fromkeys((*olds, *news)):
        (item, old), (_, new) = (side.get(path, (None, None)) for side in (olds, news))
        alone = (news[path][0] if item is None else item) not in items & others
        if old == new or alone:
            continue
        if isinstance(old or new, (list, tuple)):
            pairs = (old or (), new or ()), (new or (), old or ())
            only = [[str(each) for each in side if each not in other] for side, other in pairs]
            yield Difference(path, *(f"{wording.listed(of)} only" if of else "" for of in only))
        else:
            yield Difference(_TITLES.get(path, path), _written(old), _written(new))


def _fields(value: Any, path: str = "", item: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each value below ``value``: its path, the path of the named item that it belongs to, and the
    value itself."""
    if isinstance(value, (BaseModel, Mapping)) and not isinstance(value, Rounds):
        for name, each in dict(value).items():
            if name not in _UNMEASURED:
                yield from _fields(each, f"{path}.{name}".removeprefix("."), item)
    elif isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
        for each in value:
            place = f"{path}.{each.name}"
            yield from _fields(each, place, place)
    elif value not in (None, ()):
        yield path, item, value


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
