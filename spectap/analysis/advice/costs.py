"""What a step of each line costs, and what of it drafting takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from spectap import wording
from spectap.analysis import contrasts
from spectap.analysis.advice import step_cost
from spectap.analysis.advice.advice import Line, StepCost
from spectap.analysis.advice.observed import Array, Observed, Side
from spectap.analysis.advice.outlook import pooled_steps
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.intervals import Interval

_FITS: Final = 0.02
"""A split is told where it makes every step's time to this part of it."""
_GROWS: Final = 2.0
"""How much better it must fit than a target whose pass does not grow with its tokens."""


class _Split(NamedTuple):
    """Of a step, by least squares over all loads and windows."""

    drafting: Array
    """What a pass of the draft takes, in seconds, by load."""


def step_costs(observed: Observed, lines: Sequence[Line]) -> Iterator[StepCost]:
    """Of each line at each load, over all classes."""
    pooled = pooled_steps(observed)
    for line in lines:
        split = _split(observed, line)
        for load, point in enumerate(observed.loads):
            baseline = pooled[line.baseline][load]
            known = [
                (window, name) for window, name in line.variants if np.isfinite(pooled[name][load])
            ]
            if not known or not np.isfinite(baseline):
                continue
            drafts = [observed.drafts[name] for _, name in known]
            seconds = [float(pooled[name][load]) for _, name in known]
            fixed, per_draft = step_cost.least_squares(float(baseline), drafts, seconds)
            drafting = float(split.drafting[load]) if isinstance(split, _Split) else None
            yield StepCost(
                line=line.name,
                load=point,
                baseline=float(baseline),
                measured=tuple(
                    (window, _interval(observed.sides[name], load, mean))
                    for (window, name), mean in zip(known, seconds, strict=True)
                ),
                fixed=fixed,
                per_draft=per_draft,
                drafting=drafting,
                sentence=split
                if isinstance(split, str)
                else _said(f"{line.name} at {point}", float(baseline), per_draft, drafting or 0.0),
            )


def _interval(side: Side, load: int, mean: float) -> Interval:
    """Of the mean step, by rounds."""
    seconds, steps = side.seconds[load].sum(axis=-1), side.steps[load].sum(axis=-1)
    rounds = [(float(a), float(b)) for a, b in zip(seconds, steps, strict=True) if b]
    estimate = contrasts.ratio_of_sums(rounds)
    return estimate.interval(ALPHA) if estimate else Interval(mean, mean, mean)


def _split(observed: Observed, line: Line) -> _Split | str:
    """What a pass of the draft takes; or why that cannot be told.

    Drafting and verification both grow with the window. They are told apart by the load: what a
    target's pass takes depends on all its tokens, be they of many sequences or of a wide window, so
    the baseline at several loads shows how it grows.
    """
    if len(line.variants) < 2:
        return "One window does not tell what drafting and what verification takes."
    rows = [*_rows(observed, line)]
    if len({row.in_flight for row in rows if row.drafts == 0}) < 2:
        return (
            "At one load, drafting and verification cannot be told apart: both grow with the "
            "window. So it is not known how the cost of a draft changes with the load."
        )
    flat = _fit(step_cost.linear, np.full(1, np.inf), rows)
    best = min(
        (_fit(growth, step_cost.KNEES, rows) for growth in step_cost.GROWTHS),
        key=lambda fit: fit.worst,
    )
    if best.worst > _FITS:
        return (
            "Drafting and verification cannot be told apart: no simple model makes the times of "
            "all windows and loads."
        )
    if flat.worst < _GROWS * max(best.worst, step_cost.NOISE):
        return (
            "Drafting and verification cannot be told apart: a step takes as long at each load, "
            "as where verification is free, or where a graph always computes its whole batch."
        )
    return _Split(
        np.array(
            [
                best.drafting(_in_flight(observed, line.baseline, load, line.batch))
                for load in range(len(observed.loads))
            ]
        )
    )


class _Row(NamedTuple):
    """What was measured of a variant at a load."""

    in_flight: float
    drafts: int
    seconds: float


def _rows(observed: Observed, line: Line) -> Iterator[_Row]:
    pooled = pooled_steps(observed)
    for name in (line.baseline, *(name for _, name in line.variants)):
        for load, seconds in enumerate(pooled[name]):
            if np.isfinite(seconds):
                in_flight = _in_flight(observed, name, load, line.batch)
                yield _Row(in_flight, observed.drafts[name], float(seconds))


def _in_flight(observed: Observed, name: str, load: int, batch: int | None) -> float:
    """Sequences that are decoded together; in an open loop on average, by Little's law."""
    point, side = observed.loads[load], observed.sides[name]
    if point.rate is None:
        found = float(point.concurrency or 1)
    else:
        found = float(point.rate * side.time[load].sum() / max(1.0, side.answers[load].sum()))
    return max(1.0, min(found, batch or np.inf))


class _Fit(NamedTuple):
    """Least squares of V(b (g + 1)) + g D over all rows: g drafts, b sequences."""

    worst: float
    """How far it is off at most, as a part of a step's time."""
    drafting: Callable[[float], float]
    """D in seconds, by the sequences in flight."""


def _fit(growth: step_cost.Growth, knees: Array, rows: Sequence[_Row]) -> _Fit:
    """With the best of the ``knees``; D is constant or grows with the load as the target's pass."""
    flights, drafts, seconds = (np.array(column, float) for column in zip(*rows, strict=True))
    knee = knees[:, np.newaxis]
    found = []
    for grows in (False, True):
        verify = growth(flights * (drafts + 1), knee) / seconds
        draft = drafts * (growth(flights, knee) if grows else np.ones_like(knee)) / seconds
        scale, each = _solved(verify, draft)
        worst = np.abs(scale * verify + each * draft - 1).max(axis=1)
        best = int(worst.argmin())
        found.append((float(worst[best]), grows, float(knees[best]), float(each[best, 0])))
    worst_of_both, grows, bend, each_draft = min(found)

    def drafting(in_flight: float) -> float:
        pace = growth(np.array(in_flight), np.array(bend)) if grows else 1.0
        return float(each_draft * pace)

    return _Fit(worst_of_both, drafting)


def _solved(verify: Array, draft: Array) -> tuple[Array, Array]:
    """The coefficients, none below 0, that make 1 of two columns, row by row."""
    vv, vd, dd = (
        (one * other).sum(axis=1)
        for one, other in ((verify, verify), (verify, draft), (draft, draft))
    )
    v, d = verify.sum(axis=1), draft.sum(axis=1)
    determinant = np.maximum(vv * dd - vd**2, 1e-12 * vv * dd)
    each = np.maximum(0, (vv * d - vd * v) / determinant)
    scale = (v - vd * each) / vv
    return scale[:, np.newaxis], each[:, np.newaxis]


def _said(of: str, baseline: float, per_draft: float, drafting: float) -> str:
    def share(seconds: float) -> str:
        return wording.percent(max(0.0, seconds) / baseline)

    return (
        f"{of}: each draft adds {share(per_draft)} % of the baseline's step, {share(drafting)} % "
        f"to make it and {share(per_draft - drafting)} % to verify it."
    )
