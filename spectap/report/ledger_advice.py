"""Advice from ledgers that no configuration belongs to: what they show is taken for what was asked.

Modes, drafts and prices are not known, and a window is what its steps yield at most. Nor is it
known whether two variants have the same draft. So nothing is predicted and nothing recommended.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from spectap.analysis import grouping
from spectap.analysis.advice import advise as analysis
from spectap.analysis.advice.advice import Advice
from spectap.config import Config, TestCase, Variant
from spectap.load_points import Load, LoadPoint, Rounds
from spectap.names import WARM_UP
from spectap.record import Record

_UNKNOWN: Final = "unknown"
_NOT_CONFIGURED: Final = (
    "No configuration: windows are what the steps show, every other variant is compared with the "
    "first one, and what a token costs is not known. Nor is it known which variants have the same "
    "draft, so no other window is predicted, and none is recommended."
)


def advise(records: Sequence[Record], mix: Mapping[str, float] | None) -> Advice | None:
    """What the ledgers show; None where no variant shows that it speculates.

    Raises ConfigError where the mix cannot be.
    """
    counted = [record for record in records if record.round > WARM_UP]
    if len({record.variant for record in counted}) < 2:
        return None
    by_load = defaultdict(list)
    for record in counted:
        by_load[record.load].append(record)
    # Where the name of a load says no load point, it is as many as were in flight.
    points = {
        name: point or LoadPoint(concurrency=_in_flight(by_load[name]), requests=1)
        for name, point in grouping.recorded_points(counted).items()
    }
    at_points = [
        dataclasses.replace(record, load=points[record.load].name)
        for record in records
        if record.load in points
    ]
    advice = analysis.advise(_config(counted, points), at_points, mix=mix)
    if not advice.prospects:
        return None
    guessed = tuple(f"Of {series.name} one window was measured" for series in advice.lines)
    return dataclasses.replace(
        advice,
        prospects=tuple(prospect for prospect in advice.prospects if prospect.measured),
        recommendations=(),
        notes=(_NOT_CONFIGURED, *(note for note in advice.notes if not note.startswith(guessed))),
    )


def _config(records: Sequence[Record], points: Mapping[str, LoadPoint]) -> Config:
    """A configuration made up from what was recorded."""
    first, *compared = dict.fromkeys(record.variant for record in records)
    rounds = max(record.round for record in records)
    baselines = {first: None} | dict.fromkeys(compared, first)
    return Config(
        experiment=_UNKNOWN,
        model=_UNKNOWN,
        variants=tuple(
            Variant(name=name, endpoint="http://unknown/v1", baseline=baseline)
            for name, baseline in baselines.items()
        ),
        load=Load(
            mean_input_tokens=1000,
            mean_output_tokens=1000,
            points=tuple({point.name: point for point in points.values()}.values()),
            rounds=Rounds(at_least=rounds, at_most=rounds),
            timeout_seconds=1,
        ),
        test_cases=tuple(
            TestCase(name=name) for name in dict.fromkeys(record.case for record in records)
        ),
    )


def _in_flight(records: Sequence[Record]) -> int:
    """The most requests of one variant that were in flight at once."""
    changes = sorted(
        change
        for record in records
        for change in (
            (record.variant, record.sent, 1),
            (record.variant, record.sent + record.end, -1),
        )
    )
    return max(1, *accumulate(change for *_, change in changes))
