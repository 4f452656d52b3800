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

_OF_THE_PLACE: Final = frozenset({"endpoint", "bucket"})
"""Where things are, which says nothing of what they are."""
_LONGEST: Final = 60


class Run(NamedTuple):
    """One of the two that are compared."""

    name: str
    config: Config
    records: tuple[Record, ...]
    summary: Summary


def matches(old: Config, new: Config) -> dict[str, str]:
    """The old name of each new variant that has another one.

    A name that both runs have stands for itself. The others match by mode, draft, window and batch,
    where each run has one variant alone of that kind.
    """
    olds, news = _by_kind(old), _by_kind(new)
    new_names = {variant.name for variant in new.variants}
    old_names = {variant.name for variant in old.variants}
    return {
        name: olds[kind]
        for kind, name in news.items()
        if name not in old_names and kind in olds and olds[kind] not in new_names
    }


def _by_kind(config: Config) -> dict[tuple[Any, ...], str]:
    """The name of the variant of each kind that there is one variant of.

    A server that someone else set up is only a name, and of no kind.
    """

    def kind(variant: Variant) -> tuple[Any, ...]:
        is_baseline = variant.baseline is None
        window, batch = variant.window, variant.batch
        return is_baseline, variant.mode, variant.draft, window, batch, variant.without

    known = [v for v in config.variants if v.baseline is None or v.mode or v.draft]
    counts = Counter(map(kind, known))
    return {kind(variant): variant.name for variant in known if counts[kind(variant)] == 1}


def renamed(run: Run, names: Mapping[str, str]) -> Run:
    """The run with other names of variants."""

    def of(name: str) -> str:
        return names.get(name, name)

    variants = tuple(
        v.model_copy(update={"name": of(v.name), "baseline": v.baseline and of(v.baseline)})
        for v in run.config.variants
    )
    correctness = tuple(
        replace(check, variant=of(check.variant), baseline=of(check.baseline))
        for check in run.summary.correctness
    )
    return run._replace(
        config=run.config.model_copy(update={"variants": variants}),
        records=tuple(replace(record, variant=of(record.variant)) for record in run.records),
        summary=replace(run.summary, correctness=correctness),
    )


def incomparable(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """What makes the figures of two runs those of different things: lengths, loads, test cases.

    Rounds may differ, and requests in a round.
    """
    lengths = [name for name in type(old.load).model_fields if name.endswith("_tokens")]
    olds, news = (
        {name: getattr(config.load, name) for name in lengths}
        | {
            "load points": sorted(point.name for point in config.load.points),
            "test cases": sorted(case.name for case in config.test_cases),
            **{case.name: _prompts(case) for case in config.test_cases},
        }
        for config in (old, new)
    )
    for name in olds.keys() & news.keys():
        yield from differences(name, olds[name], news[name])


def _prompts(case: TestCase) -> dict[str, Any]:
    """What a test case sends; a file by what it holds, where that is known."""
    source = case.prompts.model_dump(mode="json") if case.prompts else {}
    if source.get("digest"):
        source["file"] = None
    return {"line": case.line, "prompts": source}


def differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Each field that differs, by its path, with both values; not items that only one side has."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key not in _OF_THE_PLACE:
                yield from differences(f"{path}.{key}", old.get(key), new.get(key))
    elif (olds := _by_name(old)) and (news := _by_name(new)):
        for name in olds.keys() & news.keys():
            yield from differences(f"{path}.{name}", olds[name], news[name])
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
