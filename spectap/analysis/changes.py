"""Compares two runs, which are independent samples: what changed, and whether that is real."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from spectap import metrics
from spectap.analysis import cells, claims, contrasts, evidence, grouping, stopping
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.estimates.proportions import Bounds
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Summary
from spectap.config import Config, TestCase
from spectap.errors import RunError
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.record import Record

_LONGEST: Final = 60
_LOCATIONS: Final = frozenset({"endpoint", "bucket"})
"""Settings that say where things are, and nothing of what they are."""


class Run(NamedTuple):
    """One of the two that are compared."""

    name: str
    config: Config
    records: tuple[Record, ...]
    summary: Summary


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


@dataclass(frozen=True)
class ShareChange:
    """A share that both runs have: of good requests, or of right answers."""

    name: str
    old: float
    new: float
    difference: Bounds


@dataclass(frozen=True)
class Changes:
    """Every change; ``old`` and ``new`` are the names of the runs."""

    old: str
    new: str
    cells: tuple[CellChange, ...]
    shares: tuple[ShareChange, ...]
    settings: tuple[tuple[str, str, str], ...]
    """What both runs were told differently: the field, the old value, the new one."""
    incomparable: tuple[tuple[str, str, str], ...]
    """Those of the settings by which the two measured different things: nothing is judged then."""
    notes: tuple[str, ...]
    threshold: float | None
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
    """What changed from the old run to the new one, by the names of variants, cases and loads.

    ``threshold`` makes it a gate, which fails where tokens per step or a speed-up is surely less
    than that part of what it was, and where one of the old run cannot be judged in the new one.
    Nothing is judged where loads, lengths or test cases differ. Raises RunError where the runs have
    nothing in common, and where a gate would hold runs against each other that do not compare.
    """
    runs = f"{old.name}, {new.name}"
    if threshold is not None and old.summary.rehearsal != new.summary.rehearsal:
        raise RunError(
            f"{runs}: one is a rehearsal and the other is not, so no threshold can be held"
        )
    differing = tuple(sorted(_incomparable(old.config, new.config)))
    evidences = [evidence.of_run(run.config, run.records) for run in (old, new)]
    olds, news = map(_estimates, evidences)
    common = olds.keys() & news.keys()
    if differing and (threshold is not None or not common):
        listed = "; ".join(f"{name}: {before} before, {now} now" for name, before, now in differing)
        raise RunError(f"{runs}: they are not comparable: {listed}")
    if threshold is None and not common:
        raise RunError(
            f"{runs}: no variant has {FEWEST_ROUNDS} rounds or more in both under the same test "
            "case and load point"
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
            _differences("", *(run.config.model_dump(mode="json") for run in (old, new)))
        ),
        incomparable=differing,
        notes=tuple(_notes((old, new), evidences)),
        threshold=threshold,
        gaps=() if threshold is None else tuple(_gaps(old, new, olds, news)),
    )


def _estimates(run: Evidence) -> _Estimates:
    estimates: dict[tuple[CellKey, Figure], Estimate] = {}
    for key, cell in run.cells.items():
        if cell.unreliable:
            continue
        records, contrast = run.by_cell.get(key, ()), run.contrasts.get(key)
        good = [record for record in records if record.succeeded]
        parts = [of_unit for (of_unit,) in grouping.units(good, planned=True)]
        # A baseline yields one token a step, whatever happens.
        compared = run.plan.baselines[key.variant] is not None
        tpot, ttft = metrics.TIME_PER_OUTPUT_TOKEN.values, metrics.TTFT.values
        figures = {
            Figure.TOKENS_PER_STEP: cells.tokens_per_step(parts) if compared else None,
            Figure.SPEED_UP: contrast.throughput if contrast else None,
            Figure.TIME_PER_OUTPUT_TOKEN: contrasts.typical(tpot, parts),
            Figure.TTFT: contrasts.typical(ttft, parts),
            Figure.TOKENS_PER_SECOND: cells.tokens_per_second(records, run.plan.points[key.load]),
        }
        estimates |= {(key, figure): known for figure, known in figures.items() if known}
    return estimates


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
    """Shares of right answers, and of good requests where the objectives are the same, by
    Newcombe's method 10 for independent proportions (Statistics in Medicine 17, 1998, 873-890)."""
    same_objectives = evidences[0].plan.objectives == evidences[1].plan.objectives
    olds, news = dict[str, tuple[float, Bounds]](), dict[str, tuple[float, Bounds]]()
    for shares, run, measured in zip((olds, news), runs, evidences, strict=True):
        for key, cell in measured.cells.items():
            if same_objectives and (goodput := cell.goodput) and goodput.interval:
                name = f"{key.case}, {key.variant} at {key.load}: goodput"
                shares[name] = goodput.share, goodput.interval
        for check in run.summary.correctness:
            case = f"{check.test_case}, " if check.test_case else ""
            for variant, rate, bounds in (
                (check.baseline, check.baseline_rate, check.baseline_interval),
                (check.variant, check.rate, check.rate_interval),
            ):
                shares[f"{case}{variant}: {check.check} that are right"] = rate, bounds
    for name in olds:
        if name in news:
            (share, (low, high)), (old_share, (old_low, old_high)) = news[name], olds[name]
            difference = share - old_share
            bounds = (
                difference - math.hypot(share - low, old_high - old_share),
                difference + math.hypot(high - share, old_share - old_low),
            )
            yield ShareChange(name, old_share, share, bounds)


def _notes(runs: tuple[Run, Run], evidences: list[Evidence]) -> Iterator[str]:
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
            yield f"Only in {run.name}: {', '.join(alone)}."
        if not run.summary.complete:
            yield f"{run.name} is not complete: requests are missing in it."
    yield (
        "Another node or another day can change times and tokens a second by more than these "
        "intervals show, so no verdict rests on them. What both sides of a run share is in no "
        "speed-up, and no node changes what a step yields."
    )


def _named(key: CellKey) -> str:
    return f"{key.variant} under {key.case} at {key.load}"


def _incomparable(old: Config, new: Config) -> Iterator[tuple[str, str, str]]:
    """What makes the figures of two runs those of different things: lengths, loads, test cases."""

    def sent(case: TestCase) -> dict[str, Any]:
        source = case.prompts.model_dump(mode="json") if case.prompts else {}
        if source.get("digest"):
            source["file"] = None  # a file is what it holds
        return {"line": case.line, "prompts": source}

    lengths = [name for name in type(old.load).model_fields if name.endswith("_tokens")]
    olds, news = (
        {name: getattr(config.load, name) for name in lengths}
        | {
            "load points": sorted(point.name for point in config.load.points),
            "test cases": sorted(case.name for case in config.test_cases),
            **{case.name: sent(case) for case in config.test_cases},
        }
        for config in (old, new)
    )
    for name in olds.keys() & news.keys():
        yield from _differences(name, olds[name], news[name])


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Each field that differs, by its path, with both values; not items that only one side has."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key not in _LOCATIONS:
                yield from _differences(f"{path}.{key}", old.get(key), new.get(key))
    elif (olds := _by_name(old)) and (news := _by_name(new)):
        for name in olds.keys() & news.keys():
            yield from _differences(f"{path}.{name}", olds[name], news[name])
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
