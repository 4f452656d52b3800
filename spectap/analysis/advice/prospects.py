"""What every window of every line gives: speed, tokens a second and money."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from spectap.analysis.advice.advice import Line, Prospect
from spectap.analysis.advice.observed import Array, Observed, Side
from spectap.analysis.advice.outlook import Outlook, Snapshot, Window, windows
from spectap.analysis.advice.prediction import Figures
from spectap.analysis.advice.resampling import interval
from spectap.analysis.estimates.intervals import Interval
from spectap.config import Cost
from spectap.load_points import LoadPoint


def prospects(
    observed: Observed, lines: Sequence[Line], outlook: Outlook, cost: Cost | None
) -> Iterator[Prospect]:
    """Of each load, class, line and window, in this order."""
    for load, point in enumerate(observed.loads):
        for number in range(len(observed.classes)):
            for line in lines:
                if np.isfinite(outlook.run.measured[line.baseline].step_seconds[0, load, number]):
                    yield from _of_line(observed, line, outlook, load, number, cost, point)


def tokens_per_second(
    observed: Observed, variant: str, load: int, number: int | None = None
) -> float | None:
    """Of all requests together at a load, on one class or on all, as measured.

    As ``analysis.cells`` has it: served tokens by request time and concurrency. In an open loop it
    is what is asked for, as long as the variant keeps up.
    """
    side, point = observed.sides[variant], observed.loads[load]
    members = slice(None) if number is None else observed.members(number)
    if point.rate is not None:
        answers = side.answers[load, :, members].sum()
        return (
            float(point.rate * side.outputs[load, :, members].sum() / answers) if answers else None
        )
    time = side.time[load, :, members].sum()
    served = side.served[load, :, members].sum()
    return float((point.concurrency or 1) * served / time) if served else None


def usd_per_million(cost: Cost | None, point: LoadPoint, speed: float) -> float | None:
    """In a closed loop; in an open one the rate says how much a node does for its price."""
    return None if cost is None or point.open else cost.usd_per_million_seconds / speed


def _of_line(
    observed: Observed,
    line: Line,
    outlook: Outlook,
    load: int,
    number: int,
    cost: Cost | None,
    point: LoadPoint,
) -> Iterator[Prospect]:
    names = dict(line.variants)
    run, replicates, rounds = outlook.run, outlook.replicates, observed.rounds

    def gain(snapshot: Snapshot, own: Figures, variants: Iterable[str]) -> Array:
        """The logarithm of the speed-up, of as many replicates as both have."""
        base = snapshot.requests[line.baseline].seconds(snapshot.measured[line.baseline])
        seconds = snapshot.pooled(variants).seconds(own)
        found: Array = base[: len(seconds), load, number] - seconds[: len(base), load, number]
        return found

    def faster(own: Figures, other: Figures, variants: Iterable[str]) -> Interval:
        """``variants``: those whose requests wait as these would."""
        log = float(gain(run, own, variants)[0])
        return interval(log, gain(replicates, other, variants), rounds)

    for window in windows(line):
        key = Window(line.name, window)
        figures, measured = run.predicted[key], None
        if not np.isfinite(figures.token_seconds[0, load, number]):
            continue  # the line was not measured here
        predicted: Interval | None = faster(figures, replicates.predicted[key], names.values())
        speed = _predicted_speed(observed, line, load, number, figures)
        name = names.get(window)
        if name is not None:
            if not np.isfinite(run.measured[name].token_seconds[0, load, number]):
                continue  # it did not come so far; its neighbours tell what it would be
            figures = run.measured[name]
            measured = faster(figures, replicates.measured[name], [name])
            predicted = (
                faster(run.others[key], replicates.others[key], [name])
                if key in run.others
                else None
            )
            speed = tokens_per_second(observed, name, load, number) or speed
        if speed is None:
            continue  # no answer of the line counts here
        yield Prospect(
            line=line.name,
            window=window,
            prompt_class=observed.classes[number],
            load=point,
            tokens_per_step=float(np.exp(figures.step_tokens[0, load, number])),
            step_seconds=float(np.exp(figures.step_seconds[0, load, number])),
            predicted=predicted,
            measured=measured,
            tokens_per_second=speed,
            usd_per_million_output_tokens=usd_per_million(cost, point, speed),
        )


def _predicted_speed(
    observed: Observed, line: Line, load: int, number: int, figures: Figures
) -> float | None:
    """Tokens a second of all requests: an answer has its steps, and the line's mean time beside.

    None where no answer of the line counts.
    """
    members, point = observed.members(number), observed.loads[load]

    def total(name: str) -> float:
        sides: list[Side] = [observed.sides[variant] for _, variant in line.variants]
        return float(sum(getattr(side, name)[load, :, members].sum() for side in sides))

    if not total("answers"):
        return None
    if point.rate is not None:
        return point.rate * total("outputs") / total("answers")
    token_seconds = float(np.exp(figures.token_seconds[0, load, number]))
    seconds = total("waits") + token_seconds * total("tokens")
    return (point.concurrency or 1) * total("outputs") / seconds
