"""Compares a run before a change with one after it: what changed, and whether by more than chance.

Each launch of a server has a speed level of its own, which rounds do not show. In a run of three
launches or more, the launch is the statistical unit. In a run of fewer, a stated error stands for
the difference between launches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from spectap import metrics
from spectap.analysis import (
    cells,
    claims,
    contrasts,
    evidence,
    grouping,
    proportions,
    settings,
    stopping,
)
from spectap.analysis.changes import CellChange, Change, Changes, Figure, Run, ShareChange
from spectap.analysis.contrasts import Ratio
from spectap.analysis.estimate import Component, Estimate
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.proportions import Bounds
from spectap.errors import RunError
from spectap.inputs.load_points import FEWEST_ROUNDS

LAUNCH_ERROR: Final = 0.03
"""The default error between launches: the standard deviation of the logarithm of a launch's time.

Fresh launches of vLLM gave 83.0 and 85.4 tokens a second at two providers, and one an hour later
71.6 (vllm-project/vllm 42484). Three restarts of another server were 0.5 % apart without
speculation and 11 % with it (kekzl/imp 1011). A server that speculates scattered by 0.4 to 20 %
between executions (vllm-project/vllm 53436).
"""

_STATED: Final = 1e6
"""Degrees of freedom of the stated error, which is taken as known."""


_Estimates = Mapping[tuple[CellKey, Figure], Estimate]


def compare(
    old: Run, new: Run, threshold: float | None = None, launch_error: float = LAUNCH_ERROR
) -> Changes:
    """Compares the cells that both runs have, by the names of variants, test cases and loads.

    ``threshold`` makes it a gate. The gate fails where tokens per step or a speed-up is surely
    below that part of its old value, and where the new run lacks a figure of the old one.
    ``launch_error`` is the assumed error between launches, for a run with one launch. Where loads,
    lengths or test cases differ, nothing is judged.

    Raises RunError where the runs have nothing in common, and for a gate on runs that are not
    comparable.
    """
    runs = f"{old.name}, {new.name}"
    if threshold is not None and old.summary.rehearsal != new.summary.rehearsal:
        raise RunError(
            f"{runs}: one is a rehearsal and the other is not, so no threshold can be held"
        )
    differing = tuple(sorted(settings.incomparable(old.config, new.config)))
    sides = [_Side.of(run, launch_error) for run in (old, new)]
    common = sides[0].estimates.keys() & sides[1].estimates.keys()
    if differing and (threshold is not None or not common):
        listed = "; ".join(map(str, differing))
        raise RunError(f"{runs}: they are not comparable: {listed}")
    if threshold is None and not common:
        raise RunError(
            f"{runs}: no variant has {FEWEST_ROUNDS} rounds or more in both under the same test "
            "case and load point"
        )
    alpha = min(stopping.alpha(run.config.load) for run in (old, new))
    ratios = {
        key: sides[1].estimates[key].against(estimate)
        for key, estimate in sides[0].estimates.items()
        if key in common
    }
    if not any(side.launched for side in sides):
        ratios |= {
            key: _widened(ratio, 2 * key[1].servers, launch_error)
            for key, ratio in _paired(*(side.evidence for side in sides)).items()
            if key in common
        }
    changes = _changes(sides, ratios, alpha, threshold, comparable=not differing)
    plan = sides[0].evidence.plan
    return Changes(
        old=old.name,
        new=new.name,
        launch_error=None if all(side.launched for side in sides) else launch_error,
        cells=tuple(
            CellChange(key.variant, key.case, plan.points[key.load], figures)
            for key in plan.keys
            if (figures := {f: changes[key, f] for f in Figure if (key, f) in changes})
        ),
        shares=tuple(_shares(*sides)),
        settings=tuple(settings.differences(old.config, new.config)),
        incomparable=differing,
        notes=tuple(_notes(sides)),
        threshold=threshold,
        gaps=() if threshold is None else tuple(_gaps(*sides)),
    )


class _Side(NamedTuple):
    """The run before the change, or the one after it."""

    run: Run
    evidence: Evidence
    estimates: _Estimates

    @classmethod
    def of(cls, run: Run, launch_error: float) -> _Side:
        measured = evidence.of_run(run.config, run.records)
        side = cls(run, measured, _estimates(measured))
        if side.launched:
            return side
        estimates = {
            key: _widened(estimate, key[1].servers, launch_error)
            for key, estimate in side.estimates.items()
        }
        return side._replace(estimates=estimates)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def launched(self) -> bool:
        """Whether it has launches enough to measure the difference between them."""
        return self.run.config.load.launches > 1

    @property
    def measured(self) -> list[CellKey]:
        return [key for key, cell in self.evidence.cells.items() if cell.requests]


def _widened(estimate: Estimate, servers: int, launch_error: float) -> Estimate:
    """A copy with the launch error of so many servers added."""
    if not (servers and launch_error):
        return estimate
    return estimate.widened(Component(math.sqrt(servers) * launch_error, _STATED))


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
        compared = compared and not (cell.steps and cell.steps.doubt)
        tpot, ttft = (
            contrasts.typical([[*chain.from_iterable(map(metric.values, part))] for part in parts])
            for metric in (metrics.TIME_PER_OUTPUT_TOKEN, metrics.TTFT)
        )
        figures = {
            Figure.TOKENS_PER_STEP: cells.tokens_per_step(parts) if compared else None,
            Figure.SPEED_UP: contrast.ratios.get(Ratio.SPEED) if contrast else None,
            Figure.TIME_PER_OUTPUT_TOKEN: tpot,
            Figure.TTFT: ttft,
            Figure.TOKENS_PER_SECOND: cells.tokens_per_second(records, run.plan.points[key.load]),
        }
        estimates |= {(key, figure): known for figure, known in figures.items() if known}
    return estimates


def _paired(old: Evidence, new: Evidence) -> _Estimates:
    """The ratios of judged figures, prompt by prompt, for rounds in which both sent the same."""
    ratios: dict[tuple[CellKey, Figure], Estimate] = {}
    for key, baseline in old.plan.pairs:
        if not (key in old.contrasts and key in new.contrasts):
            continue
        sides = [*new.sides(key, baseline.variant), *old.sides(key, baseline.variant)]
        sent = contrasts.sendings(*sides, by=lambda record: ("", record.round))
        rounds = {number for _, (_, number) in sent}
        asked = {(r.prompt, r.round) for side in sides for r in side if r.round in rounds}
        if not contrasts.names_prompts(*sides) or len(asked) > len(sent):
            continue
        for figure, value in (
            (Figure.TOKENS_PER_STEP, _step_ratio),
            (Figure.SPEED_UP, _speed_ratio),
        ):
            known = {sending: ratio for sending, unit in sent.items() if (ratio := value(unit))}
            if paired := contrasts.mean_over_prompts(known):
                ratios[key, figure] = paired
    return ratios


def _step_ratio(unit: grouping.Unit) -> float | None:
    (tokens, steps), (old_tokens, old_steps) = (cells.steps_of(unit[side]) for side in (0, 2))
    return tokens * old_steps / (steps * old_tokens) if steps and old_tokens else None


def _speed_ratio(unit: grouping.Unit) -> float | None:
    now, before = contrasts.speed_up(unit[:2]), contrasts.speed_up(unit[2:])
    return now / before if now and before else None


def _changes(
    sides: Sequence[_Side],
    ratios: _Estimates,
    alpha: float,
    threshold: float | None,
    *,
    comparable: bool,
) -> dict[tuple[CellKey, Figure], Change]:
    judged = {key: ratio for key, ratio in ratios.items() if key[1].judged}
    changed = claims.holm({key: ratio.p for key, ratio in judged.items()}, alpha, len(judged))
    bound = threshold or 1.0
    less = claims.holm({key: r.p_below(bound) for key, r in judged.items()}, alpha, len(judged))
    return {
        key: Change(
            old=math.exp(sides[0].estimates[key].log),
            new=math.exp(sides[1].estimates[key].log),
            ratio=ratio.interval(alpha),
            differs=comparable and key in changed.decided,
            detectable=ratio.detectable(changed.level),
            below=threshold is not None and key in less.decided,
            # A test of one side at a level is one of both sides at twice the level.
            seen_below=threshold and threshold / (1 + ratio.detectable(2 * less.level)),
        )
        for key, ratio in ratios.items()
    }


def _gaps(old: _Side, new: _Side) -> Iterator[str]:
    """Guarded figures that the new run lacks, a sentence each."""
    guarded: dict[CellKey, list[Figure]] = {}
    for key, figure in old.estimates:
        if figure.judged:
            guarded.setdefault(key, []).append(figure)
    if not guarded:
        yield f"{old.name} has no tokens per step and no speed-up, so there is nothing to guard."
    for key, figures in guarded.items():
        if lost := [figure.value for figure in figures if (key, figure) not in new.estimates]:
            yield f"{_named(key)}: {new.name} has no {' and no '.join(lost)}."
    yield from _incomplete(new)


def _incomplete(side: _Side) -> Iterator[str]:
    if not side.run.summary.complete:
        yield f"{side.name} is not complete: requests are missing in it."


def _shares(old: _Side, new: _Side) -> Iterator[ShareChange]:
    """Shares of right answers, and of good requests where the objectives are the same."""
    same_objectives = old.evidence.plan.objectives == new.evidence.plan.objectives
    olds, news = (_shares_of(side, goodput=same_objectives) for side in (old, new))
    for name in olds:
        if name in news:
            bounds = proportions.difference(olds[name], news[name])
            yield ShareChange(name, olds[name][0], news[name][0], bounds)


def _shares_of(side: _Side, *, goodput: bool) -> dict[str, tuple[float, Bounds]]:
    shares: dict[str, tuple[float, Bounds]] = {}
    for key, cell in side.evidence.cells.items():
        if goodput and (good := cell.goodput) and good.interval:
            name = f"{key.case}, {key.variant} at {key.load}: goodput"
            shares[name] = good.share, good.interval
    for check in side.run.summary.correctness:
        for variant, rate, interval in (
            (check.baseline, check.baseline_rate, check.baseline_interval),
            (check.variant, check.rate, check.rate_interval),
        ):
            shares[f"{check.test_case}, {variant}: {check.check} that are right"] = rate, interval
    return shares


def _notes(sides: Sequence[_Side]) -> Iterator[str]:
    rehearsals = [side for side in sides if side.run.config.stand_in]
    if len(rehearsals) == 2:
        yield "Both are rehearsals: their times are those of what stood in for the services."
    elif rehearsals:
        yield (
            f"{rehearsals[0].name} is a rehearsal and the other run is not. Their times, speed-ups "
            "and acceptances have nothing to do with each other."
        )
    for side, other in zip(sides, reversed(sides), strict=True):
        if alone := [_named(key) for key in side.measured if key not in other.measured]:
            yield f"Only in {side.name}: {', '.join(alone)}."
        yield from _incomplete(side)
    yield (
        "Another node or another day can change times and tokens a second by more than these "
        "intervals show, so no verdict rests on them. What both sides of a run share is in no "
        "speed-up, and no node changes what a step yields."
    )


def _named(key: CellKey) -> str:
    return f"{key.variant} under {key.case} at {key.load}"
