"""What two runs have in common, and what they were told differently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from spectap.analysis.summary import Summary
from spectap.config import Config, TestCase, Variant
from spectap.record import Record


class Run(NamedTuple):
    """One of the two that are compared."""

    name: str
    config: Config
    records: tuple[Record, ...]
    summary: Summary


_Kind = tuple[Any, ...]
"""Whether it is a baseline, then its mode, draft, window and batch."""


def matches(old: Config, new: Config) -> dict[str, str]:
    """The old name of each new variant that has another one.

    A name that both runs have stands for itself. The others match by mode, draft, window and batch,
    where each run has one variant alone of that kind.
    """
    ours, theirs = _by_kind(old), _by_kind(new)
    taken = {variant.name for variant in new.variants}
    named = {variant.name for variant in old.variants}
    return {
        name: ours[kind]
        for kind, name in theirs.items()
        if name not in named and kind in ours and ours[kind] not in taken
    }


def renamed(run: Run, names: Mapping[str, str]) -> Run:
    """The run with other names of variants."""
    if not names:
        return run

    def of(name: str) -> str:
        return names.get(name, name)

    variants = tuple(
        one.model_copy(update={"name": of(one.name), "baseline": one.baseline and of(one.baseline)})
        for one in run.config.variants
    )
    correctness = tuple(
        replace(one, variant=of(one.variant), baseline=of(one.baseline))
        for one in run.summary.correctness
    )
    return run._replace(
        config=run.config.model_copy(update={"variants": variants}),
        records=tuple(replace(one, variant=of(one.variant)) for one in run.records),
        summary=replace(run.summary, correctness=correctness),
    )


def _by_kind(config: Config) -> dict[_Kind, str]:
    """The name of the variant of each kind that there is one variant of."""
    known = [variant for variant in config.variants if _known(variant)]
    counts = Counter(map(_kind, known))
    return {kind: variant.name for variant in known if counts[kind := _kind(variant)] == 1}


def _known(variant: Variant) -> bool:
    """Whether anything says what it is: a server that someone else set up is only a name."""
    return variant.baseline is None or variant.mode is not None or variant.draft is not None


def _kind(variant: Variant) -> _Kind:
    return (
        variant.baseline is None,
        variant.mode,
        variant.draft,
        variant.window,
        variant.batch,
        variant.without,
    )


_OF_THE_PLACE: Final = frozenset({"endpoint", "bucket"})
"""Where things are, which says nothing of what they are."""
_LONGEST: Final = 60


def differences(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """Each field that differs, by its path, with both values.

    Variants, test cases and load points that only one of them has are left out.
    """
    yield from _between("", old.model_dump(mode="json"), new.model_dump(mode="json"))


def incomparable(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """What makes the figures of two runs those of different things: lengths, loads, test cases.

    As ``differences``, and a part of them: rounds may differ, and requests in a round.
    """
    lengths = [name for name in type(old.load).model_fields if name.endswith("_tokens")]
    asked = [
        {name: getattr(config.load, name) for name in lengths}
        | {
            "load points": sorted(point.name for point in config.load.points),
            "test cases": sorted(case.name for case in config.test_cases),
            **{case.name: _prompts(case) for case in config.test_cases},
        }
        for config in (old, new)
    ]
    for name in asked[0].keys() & asked[1].keys():
        yield from _between(name, asked[0][name], asked[1][name])


def _prompts(case: TestCase) -> dict[str, Any]:
    """What a test case sends; a file by what it holds, where that is known."""
    source = case.prompts.model_dump(mode="json") if case.prompts else {}
    if source.get("digest"):
        source["file"] = None
    return {"line": case.line, "prompts": source}


def _between(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key not in _OF_THE_PLACE:
                yield from _between(f"{path}.{key}", old.get(key), new.get(key))
    elif (olds := _by_name(old)) and (news := _by_name(new)):
        for name in olds.keys() & news.keys():
            yield from _between(f"{path}.{name}", olds[name], news[name])
    elif old != new:
        yield path.removeprefix("."), _written(old), _written(new)


def _by_name(items: Any) -> dict[str, Any]:
    """Items of a list that have names of their own; load points have what they are."""
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return {}
    return {_name(item): item for item in items}


def _name(item: Mapping[str, Any]) -> str:
    if "name" in item:
        return str(item["name"])
    return next(f"{key}-{item[key]:g}" for key in ("concurrency", "rate") if key in item)


def _written(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
