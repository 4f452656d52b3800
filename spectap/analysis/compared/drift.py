"""Whether something changed from the first round to the last."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from spectap import metrics
from spectap.analysis import units
from spectap.analysis.compared import claims
from spectap.analysis.estimates.estimate import ALPHA, Estimate
from spectap.analysis.keys import Cells
from spectap.analysis.summary import Drift

FEWEST: Final = 5
"""The fewest rounds that a line is fitted to: it fits nearly everything else."""


def drifts(
    cells: Cells, baselines: Mapping[str, str | None], *, apart: bool = False
) -> tuple[Drift, ...]:
    """For each variant, and for each one against its baseline, how its time per token drifted.

    A straight line is fitted to all rounds of the run, over the mean of the logarithms of the
    medians of those test cases that were measured in every one of them, at each of their load
    points. Holm's correction holds the chance that any drift is claimed where there is none to 5 %.
    Empty where there are too few rounds. Where variants were measured ``apart``, a round of one has
    nothing to do with that of another, and a speed-up has no drift.
    """
    series = {
        variant: times
        for variant in baselines
        if (times := _logs(cells, variant)) and len(times) >= FEWEST
    }
    found: dict[tuple[str, str | None], dict[int, float]] = {}
    for variant, times in series.items():
        found[variant, None] = times
        baseline = baselines[variant]
        if not apart and baseline in series and series[baseline].keys() == times.keys():
            found[variant, baseline] = {
                number: series[baseline][number] - time for number, time in times.items()
            }
    lines = {key: _line(times) for key, times in found.items()}
    family = claims.holm({key: line.p for key, line in lines.items()}, ALPHA, len(lines))
    return tuple(
        Drift(
            variant=variant,
            baseline=baseline,
            rounds=tuple(
                (number, math.exp(log - np.mean([*times.values()])))
                for number, log in times.items()
            ),
            change=lines[variant, baseline].interval(),
            found=(variant, baseline) in family.decided,
        )
        for (variant, baseline), times in found.items()
    )


def _logs(cells: Cells, variant: str) -> dict[int, float]:
    """By round, the mean over what was measured in the most rounds: the rest ended early."""
    rounds = {
        key.place: {record.round for record in records} for key, records in cells.items() if records
    }
    most = max(map(len, rounds.values()), default=0)
    own = [
        records
        for key, records in cells.items()
        if key.variant == variant and records and len(rounds[key.place]) == most
    ]
    shared: dict[int, float] = {}
    for (_, number), of_cases in units.rounds(*own).items() if own else ():
        medians = [claims.median(metrics.TIME_PER_OUTPUT_TOKEN.values, one) for one in of_cases]
        if all(medians):
            shared[number] = float(np.mean([math.log(one) for one in medians if one]))
    return shared


def _line(logs: Mapping[int, float]) -> Estimate:
    """The change from the first round to the last, by least squares."""
    numbers, values = np.array([*logs], float), np.array([*logs.values()])
    slope, start = np.polyfit(numbers, values, 1)
    residuals = values - (slope * numbers + start)
    length = numbers[-1] - numbers[0]
    variance = (residuals**2).sum() / (len(logs) - 2) / ((numbers - numbers.mean()) ** 2).sum()
    # A line takes two degrees of freedom, one more than a mean.
    return Estimate(float(slope * length), float(math.sqrt(variance) * length), len(logs) - 1)
