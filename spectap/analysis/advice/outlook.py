"""The time that a token takes with all that could be served, and what else it could have been."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from spectap.analysis.advice.advice import Line
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.prediction import Figures, Model, Requests, Sums, known
from spectap.analysis.advice.resampling import Draws, once

_BLOCK: Final = 50
"""Replicates at a time: more take more memory, and no less time."""

_SEED: Final = 2406_14066

_BETWEEN: Final = 0.5
"""Of the model's error, what is left between measured windows, which are nearer to each other than
to one that is left out. Chosen by simulation: all 55 intervals held the truth
(docs/statistics.md)."""

_FOR_OTHERS: Final = 200
"""Replicates of predictions that stand beside a measurement: their intervals need no more."""


class Window(NamedTuple):
    """A window of a line."""

    line: str
    window: int


Of = Mapping[Window, Figures]


@dataclass(frozen=True)
class Snapshot:
    """Of some replicates; figures are over replicate, load and class."""

    measured: Mapping[str, Figures]
    """Of each variant."""
    predicted: Of
    """Of each window, from all variants of its line."""
    others: Of
    """Of each measured window, from the other variants of its line, where there are any."""
    requests: Mapping[str, Requests]
    """Of each variant."""

    def pooled(self, variants: Iterable[str]) -> Requests:
        """Of several variants together."""
        return Requests.of([vars(self.requests[name]) for name in variants], sum)


@dataclass(frozen=True)
class Outlook:
    """Of a run: as it was, and as it could have been."""

    run: Snapshot
    """A single replicate."""
    replicates: Snapshot
    rivals: Snapshot
    """Replicates to tell the best of all by; without ``others``."""


def outlook(observed: Observed, lines: Sequence[Line], draws: Draws, rivals: Draws) -> Outlook:
    """That of all lines, at every window up to the largest that was measured.

    ``draws`` are for intervals; ``rivals`` compare many variants with each other.
    """
    run = once(observed.sides, observed.rounds)
    models = [*_models(observed, lines, draws)]
    whole = [told for told in models if told.without is None]
    some = [told for told in models if told.without is not None]
    found = _snapshot(observed, lines, models, run)
    if not len(draws):
        nothing = _none_of(found)
        return Outlook(found, nothing, nothing)
    others = _of_all(observed, lines, some, draws.part(0, _FOR_OTHERS)).others
    could = replace(_of_all(observed, lines, whole, draws), others=others)
    errors = {line.name: _model_error(line, found, could) for line in lines}
    return Outlook(
        found,
        _doubted(could, lines, errors),
        _doubted(_of_all(observed, lines, whole, rivals), lines, errors),
    )


def windows(line: Line) -> Sequence[int]:
    """Those that are considered."""
    return line.windows if line.fixed else range(line.offset + 1, max(line.windows) + 1)


def pooled_steps(observed: Observed) -> Mapping[str, Array]:
    """The mean step of each variant over all classes, in seconds, by load; NaN: not measured."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: side.seconds.sum(axis=(1, 2)) / side.steps.sum(axis=(1, 2))
            for name, side in observed.sides.items()
        }


def _errors(observed: Observed, draws: Draws) -> Mapping[str, Array]:
    """The standard error of the logarithm of each mean step, by load; 0 where it is not known."""
    found = {}
    for name, side in observed.sides.items():
        seconds, steps = (
            draws.weights[name] @ array.sum(axis=2).T for array in (side.seconds, side.steps)
        )
        shown = (steps > 0).all(axis=0) & (len(draws) > 0)
        logs = np.log(np.where(shown, seconds, 1) / np.where(shown, steps, 1))
        logs += draws.shifts[name][:, np.newaxis]
        found[name] = logs.std(axis=0) if len(draws) else np.zeros(len(observed.loads))
    return found


def _model_error(line: Line, run: Snapshot, could: Snapshot) -> float:
    """How far predictions of a line are off by more than chance: a standard deviation, of logs.

    Each measured window is predicted from the others of its line. What these predictions are off
    beyond their own standard errors is the model's: in text whose difficulty changes, wide windows
    begin more of their steps in hard places, and one acceptance for all windows is not quite right.
    """
    squares = []
    for window, name in line.variants:
        key = Window(line.name, window)
        if key in run.others:
            count = len(could.others[key].token_seconds)
            off = run.others[key].token_seconds[0] - run.measured[name].token_seconds[0]
            chance = (
                could.others[key].token_seconds - could.measured[name].token_seconds[:count]
            ).var(axis=0)
            squares += [*(off**2 - chance)[np.isfinite(off) & np.isfinite(chance)]]
    return float(np.sqrt(max(0.0, np.mean(squares)))) if squares else 0.0


def _doubted(could: Snapshot, lines: Sequence[Line], errors: Mapping[str, float]) -> Snapshot:
    """With the model's error in all that is predicted: one for all windows of a line, since those
    beside each other are off alike."""
    measured = {Window(line.name, window) for line in lines for window in line.windows}
    generator = np.random.default_rng(_SEED)
    count = max((len(one.step_tokens) for one in could.predicted.values()), default=0)
    shifts = {line.name: errors[line.name] * generator.standard_normal(count) for line in lines}

    def shifted(key: Window, figures: Figures, part: float) -> Figures:
        own = part * shifts[key.line][: len(figures.step_tokens), None, None]
        return Figures(figures.step_seconds, figures.step_tokens + own)

    return Snapshot(
        could.measured,
        {
            key: figures if key in measured else shifted(key, figures, _BETWEEN)
            for key, figures in could.predicted.items()
        },
        {key: shifted(key, figures, 1.0) for key, figures in could.others.items()},
        could.requests,
    )


class _Told(NamedTuple):
    """A model, and the measured window that it leaves out; None for the model of all."""

    line: Line
    without: int | None
    model: Model


def _models(observed: Observed, lines: Sequence[Line], draws: Draws) -> Iterator[_Told]:
    pooled, errors = pooled_steps(observed), _errors(observed, draws)
    for line in lines:
        yield _Told(line, None, Model.of(observed, line, pooled=pooled, errors=errors))
        for window, name in line.variants if len(line.variants) > 1 else ():
            yield _Told(
                line, window, Model.of(observed, line, pooled=pooled, errors=errors, without=name)
            )


def _snapshot(
    observed: Observed, lines: Sequence[Line], models: Sequence[_Told], draws: Draws
) -> Snapshot:
    sums = Sums(observed, draws)
    predicted, others = dict[Window, Figures](), dict[Window, Figures]()
    for line, without, model in models:
        found = model.predict(sums)
        for window in windows(line) if without is None else [without]:
            drafts = window - line.offset
            figures = Figures(
                found.step_seconds[..., drafts - 1], found.step_tokens[..., drafts - 1]
            )
            (predicted if without is None else others)[Window(line.name, window)] = figures
    return Snapshot(sums.figures, predicted, others, sums.requests)


def _of_all(
    observed: Observed, lines: Sequence[Line], models: Sequence[_Told], draws: Draws
) -> Snapshot:
    """Block by block."""
    return _joined(
        [
            _snapshot(observed, lines, models, draws.part(start, start + _BLOCK))
            for start in range(0, len(draws), _BLOCK)
        ]
    )


def _joined(blocks: Sequence[Snapshot]) -> Snapshot:
    first = blocks[0]
    return Snapshot(
        {key: _concatenated([one.measured[key] for one in blocks]) for key in first.measured},
        {key: _concatenated([one.predicted[key] for one in blocks]) for key in first.predicted},
        {key: _concatenated([one.others[key] for one in blocks]) for key in first.others},
        {
            key: Requests.of([vars(one.requests[key]) for one in blocks], np.concatenate)
            for key in first.requests
        },
    )


def _none_of(run: Snapshot) -> Snapshot:
    return Snapshot(
        {key: _empty(one) for key, one in run.measured.items()},
        {key: _empty(one) for key, one in run.predicted.items()},
        {key: _empty(one) for key, one in run.others.items()},
        run.requests,
    )


def _concatenated(parts: Sequence[Figures]) -> Figures:
    return Figures(
        known(np.concatenate([part.step_seconds for part in parts])),
        known(np.concatenate([part.step_tokens for part in parts])),
    )


def _empty(figures: Figures) -> Figures:
    return Figures(figures.step_seconds[:0], figures.step_tokens[:0])
