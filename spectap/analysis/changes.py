"""Compares two runs: what changed, and whether the difference is real.

Two runs are independent samples, whose units are their rounds. So the errors of both add up on the
logarithmic scale, with the degrees of freedom of Welch and Satterthwaite. All that is judged is one
family of claims: two runs of the same thing show any change in at most 5 % of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from spectap import metrics
from spectap.analysis import cells, claims, contrasts, evidence, grouping, stopping
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.estimates.proportions import Bounds
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.matching import Run, differences, incomparable, matches, renamed
from spectap.analysis.summary import Summary
from spectap.errors import RunError
from spectap.load_points import FEWEST_ROUNDS, LoadPoint

_MOST_NAMED: Final = 6


class Figure(Enum):
    """What is compared of a cell."""

    TOKENS_PER_STEP = "tokens per step"
    SPEED_UP = "speed-up"
    """Of whole requests, over the baseline of the same run."""
    TIME_PER_OUTPUT_TOKEN = "time per output token"
    """Decoding, in seconds: the median of a typical round; so is the next."""
    TTFT = "time to first token"
    TOKENS_PER_SECOND = "tokens per second"
    """Of all requests together."""

    @property
    def judged(self) -> bool:
        """Whether a verdict rests on it. Another node or day can change the others."""
        return self in (Figure.TOKENS_PER_STEP, Figure.SPEED_UP)


@dataclass(frozen=True)
class Change:
    """One figure of one cell in both runs."""

    old: float
    new: float
    ratio: Interval
    """Of the new one to the old one, with its own 95 % interval."""
    real: bool
    """Whether it is more than chance, among all that is judged of both runs; False where it is not
    judged."""
    detectable: float
    """The smallest change that would probably have been proven: 0.06 is 6 %."""
    below: bool
    """Whether the ratio is surely below the gate's threshold, among all that it judges."""
    seen_below: float | None
    """The gate would probably notice a ratio below this; None without a gate."""


@dataclass(frozen=True)
class CellChange:
    """One variant under one test case at one load point in both runs."""

    variant: str
    test_case: str
    load: LoadPoint | None
    figures: dict[Figure, Change]
    """Of those that both runs have."""


@dataclass(frozen=True)
class ShareChange:
    """A share that both runs have: of good requests, or of right answers."""

    name: str
    old: float
    new: float
    difference: Bounds
    """The 95 % interval of the new one less the old one."""


@dataclass(frozen=True)
class Changes:
    """Every change."""

    old: str
    """The name of the run, as is ``new``."""
    new: str
    cells: tuple[CellChange, ...]
    shares: tuple[ShareChange, ...]
    settings: tuple[tuple[str, str, str], ...]
    """What both runs were told differently: the field, the old value, the new one."""
    incomparable: tuple[tuple[str, str, str], ...]
    """Those of the settings by which the two measured different things: nothing is judged then."""
    notes: tuple[str, ...]
    threshold: float | None
    """Of the gate; None without one."""
    gaps: tuple[str, ...]
    """Why the gate cannot be held though nothing is below it: what the new run does not show."""

    @property
    def judged(self) -> Iterator[tuple[CellChange, Figure, Change]]:
        """Everything that a verdict rests on."""
        for cell in self.cells:
            for figure, change in cell.figures.items():
                if figure.judged:
                    yield cell, figure, change

    @property
    def failed(self) -> bool:
        """Whether the gate is: a loss is sure, or what it guards was not seen."""
        return bool(self.gaps) or any(change.below for _, _, change in self.judged)


_Estimates = Mapping[tuple[CellKey, Figure], Estimate]


def compare(old: Run, new: Run, threshold: float | None = None) -> Changes:
    """What changed from the old run to the new one.

    ``threshold`` makes it a gate, which fails where tokens per step or a speed-up is surely less
    than that part of what it was, and where one of the old run cannot be judged in the new one.
    Nothing is judged where loads, lengths or test cases differ. Raises RunError where the runs have
    nothing in common, unless it is a gate, and where a gate would hold runs against each other that
    do not compare, such as a rehearsal and a real run.
    """
    if threshold is not None and old.summary.rehearsal != new.summary.rehearsal:
        raise RunError(
            f"{old.name}, {new.name}: one is a rehearsal and the other is not, so no threshold "
            "can be held"
        )
    differing = tuple(sorted(incomparable(old.config, new.config)))
    names = matches(old.config, new.config)
    new = renamed(new, names)
    evidences = [evidence.of_run(run.config, run.records) for run in (old, new)]
    olds, news = map(_estimates, evidences)
    common = olds.keys() & news.keys()
    if differing and (threshold is not None or not common):
        listed = "; ".join(f"{name}: {before} before, {now} now" for name, before, now in differing)
        raise RunError(f"{old.name}, {new.name}: they are not comparable: {listed}")
    if threshold is None and not common:
        raise RunError(
            f"{old.name}, {new.name}: no variant has {FEWEST_ROUNDS} rounds or more in both under "
            "the same test case and load point"
        )
    alpha = min(stopping.alpha(run.config.load) for run in (old, new))
    changes = _changes(olds, news, alpha, threshold)
    if differing:
        changes = {key: replace(change, real=False) for key, change in changes.items()}
    return Changes(
        old=old.name,
        new=new.name,
        cells=tuple(
            CellChange(key.variant, key.case, evidences[0].plan.points[key.load], figures)
            for key in evidences[0].cells
            if (figures := {f: changes[key, f] for f in Figure if (key, f) in changes})
        ),
        shares=tuple(_shares((old, new), evidences)),
        settings=tuple(
            differences("", *(run.config.model_dump(mode="json") for run in (old, new)))
        ),
        incomparable=differing,
        notes=tuple(_notes((old, new), evidences, names)),
        threshold=threshold,
        gaps=() if threshold is None else tuple(_gaps(old, new, olds, news)),
    )


def _estimates(run: Evidence) -> _Estimates:
    return {
        (key, figure): estimate
        for key, cell in run.cells.items()
        if not cell.unreliable
        for figure, estimate in _figures(run, key).items()
        if estimate is not None
    }


def _figures(run: Evidence, key: CellKey) -> dict[Figure, Estimate | None]:
    records = run.by_cell.get(key, ())
    good = [record for record in records if record.succeeded]
    parts = [of_unit for (of_unit,) in grouping.units(good, planned=True)]
    contrast = run.contrasts.get(key)
    return {
        # A baseline yields one token a step, whatever happens.
        Figure.TOKENS_PER_STEP: cells.tokens_per_step(parts)
        if run.plan.baselines[key.variant] is not None
        else None,
        Figure.SPEED_UP: contrast.throughput if contrast else None,
        Figure.TIME_PER_OUTPUT_TOKEN: contrasts.typical(
            metrics.TIME_PER_OUTPUT_TOKEN.values, parts
        ),
        Figure.TTFT: contrasts.typical(metrics.TTFT.values, parts),
        Figure.TOKENS_PER_SECOND: cells.tokens_per_second(records, run.plan.points[key.load]),
    }


def _changes(
    olds: _Estimates, news: _Estimates, alpha: float, threshold: float | None
) -> dict[tuple[CellKey, Figure], Change]:
    ratios = {key: news[key].against(olds[key]) for key in olds if key in news}
    judged = {key: ratio for key, ratio in ratios.items() if key[1].judged}
    changed = claims.holm({key: ratio.p for key, ratio in judged.items()}, alpha, len(judged))
    bound = threshold or 1.0
    less = claims.holm({key: r.p_below(bound) for key, r in judged.items()}, alpha, len(judged))
    return {
        key: Change(
            old=math.exp(olds[key].log),
            new=math.exp(news[key].log),
            ratio=ratio.interval(alpha),
            real=key in changed.decided,
            detectable=ratio.detectable(changed.level),
            below=threshold is not None and key in less.decided,
            # A test of one side at a level is one of both sides at twice the level.
            seen_below=threshold and threshold / (1 + ratio.detectable(2 * less.level)),
        )
        for key, ratio in ratios.items()
    }


def _gaps(old: Run, new: Run, olds: _Estimates, news: _Estimates) -> Iterator[str]:
    """What a gate cannot see, a line each."""
    guarded: dict[CellKey, list[Figure]] = {}
    for key, figure in olds:
        if figure.judged:
            guarded.setdefault(key, []).append(figure)
    if not guarded:
        yield f"{old.name} has no tokens per step and no speed-up, so there is nothing to guard."
    for key, figures in guarded.items():
        if lost := [figure.value for figure in figures if (key, figure) not in news]:
            yield f"{_named(key)}: {new.name} has no {' and no '.join(lost)}."
    if not new.summary.complete:
        yield f"{new.name} is not complete: requests are missing in it."


def _shares(runs: tuple[Run, Run], evidences: list[Evidence]) -> Iterator[ShareChange]:
    """Shares of right answers, and of good requests where the objectives are the same."""
    goodput = evidences[0].plan.objectives == evidences[1].plan.objectives
    olds, news = (
        (_goodputs(measured) if goodput else {}) | _rates(run.summary)
        for run, measured in zip(runs, evidences, strict=True)
    )
    for name in olds:
        if name in news:
            difference = _difference(olds[name], news[name])
            yield ShareChange(name, olds[name][0], news[name][0], difference)


def _goodputs(run: Evidence) -> dict[str, tuple[float, Bounds]]:
    return {
        f"{key.case}, {key.variant} at {key.load}: goodput": (goodput.share, goodput.interval)
        for key, cell in run.cells.items()
        if (goodput := cell.goodput) and goodput.interval
    }


def _rates(summary: Summary) -> dict[str, tuple[float, Bounds]]:
    """The rate of each variant in each check, baselines included."""
    rates = {}
    for check in summary.correctness:
        of = f"{check.test_case}, " if check.test_case else ""
        subject = f"{check.check} that are right"
        rates[f"{of}{check.baseline}: {subject}"] = check.baseline_rate, check.baseline_interval
        rates[f"{of}{check.variant}: {subject}"] = check.rate, check.rate_interval
    return rates


def _difference(old: tuple[float, Bounds], new: tuple[float, Bounds]) -> Bounds:
    """The interval of new less old, from those of the shares.

    Newcombe, Interval estimation for the difference between independent proportions, method 10
    (Statistics in Medicine 17, 1998, 873-890).
    """
    (share, (low, high)), (old_share, (old_low, old_high)) = new, old
    difference = share - old_share
    return (
        difference - math.hypot(share - low, old_high - old_share),
        difference + math.hypot(high - share, old_share - old_low),
    )


def _notes(
    runs: tuple[Run, Run], evidences: list[Evidence], names: Mapping[str, str]
) -> Iterator[str]:
    for new, old in names.items():
        yield (
            f"{old} of {runs[0].name} is compared with {new} of {runs[1].name}: mode, draft, "
            "window and batch are the same."
        )
    rehearsals = [run.name for run in runs if run.config.stand_in]
    if len(rehearsals) == 2:
        yield "Both are rehearsals: their times are those of what stood in for the services."
    elif rehearsals:
        yield (
            f"{rehearsals[0]} is a rehearsal and the other run is not. Their times, speed-ups and "
            "acceptances have nothing to do with each other."
        )
    measured = [[key for key, cell in run.cells.items() if cell.requests] for run in evidences]
    for run, keys, other_keys in zip(runs, measured, reversed(measured), strict=True):
        if alone := [_named(key) for key in keys if key not in other_keys]:
            more = f" and {len(alone) - _MOST_NAMED} more" if len(alone) > _MOST_NAMED else ""
            yield f"Only in {run.name}: {', '.join(alone[:_MOST_NAMED])}{more}."
        if not run.summary.complete:
            yield f"{run.name} is not complete: requests are missing in it."
    yield (
        "Times and tokens a second are compared as they were measured. Another node or another day "
        "can change them by more than these intervals show, so no verdict rests on them. What both "
        "sides of a run share is in no speed-up, and no node changes what a step yields."
    )


def _named(key: CellKey) -> str:
    return f"{key.variant} under {key.case} at {key.load}"
