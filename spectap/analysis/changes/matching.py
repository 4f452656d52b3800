"""Which variants of two runs are the same, though their names differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from spectap.analysis.summary import Summary
from spectap.config import Config, Variant
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
    return {kind: one.name for one in known if counts[kind := _kind(one)] == 1}


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
