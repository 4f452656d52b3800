"""The time of a request by its tokens, at every window: as it was, and as it could have been.

The bootstrap draws rounds with replacement, one fewer than there are, which makes the variance of a
mean what it is with few rounds, too (Rao and Wu, Journal of the American Statistical Association
83, 1988). Prompts differ, and a hard one takes more steps: so each prompt has its own yield, and
the steps of all prompts are added up. What is predicted is drawn to what was measured beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import stdtrit

from spectap.analysis.advice.advice import Line
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.steps import chain, step_yield, through
from spectap.analysis.controls import Unsteadiness
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import FEWEST_ROUNDS

_REPLICATES: Final = 600
_BLOCK: Final = 50
"""Replicates at a time: more take more memory, and no less time."""
_SEED: Final = 2211_17192
_SHARED: Final = 3.0
"""Rounds that speak for variants that share nothing."""
USABLE: Final = 0.1
"""A model that is further off than this predicts nothing."""


class Window(NamedTuple):
    """A window of a line."""

    line: str
    window: int


class Figures(NamedTuple):
    """Logarithms over replicate, load and class; NaN where nothing was measured."""

    step_seconds: Array
    step_tokens: Array
    request: Array
    """Seconds of a whole request, its queue and its first token included, by its output tokens."""


@dataclass(frozen=True)
class Sample:
    """What some replicates show."""

    measured: Mapping[str, Figures]
    """Of each variant."""
    predicted: Mapping[Window, Figures]
    """Of each window that was not measured."""
    held_out: Mapping[Window, Figures]
    """Of each measured window, predicted from the others of its line."""


@dataclass(frozen=True)
class Outlook:
    """Of a run: as it was, and replicates of it. There are none where rounds are too few."""

    run: Sample
    replicates: Sample
    rounds: int
    errors: Mapping[str, float]
    """By how much predictions of a line are off, beyond chance: a standard deviation, of logs."""


class _Draws(NamedTuple):
    """Replicates."""

    weights: Mapping[str, Array]
    """Of each variant, over replicate and round: how often the round counts."""
    shifts: Mapping[str, Array]
    """Of each variant and replicate: the logarithm of what its time and no round shows."""

    def part(self, start: int) -> _Draws:
        end = start + _BLOCK
        return _Draws(*({name: of[start:end] for name, of in field.items()} for field in self))


class _Totals(NamedTuple):
    """What requests of a variant had, over replicate, load and class."""

    seconds: Array
    steps: Array
    tokens: Array
    waits: Array
    outputs: Array


def outlook(
    observed: Observed,
    lines: Sequence[Line],
    *,
    apart: bool,
    unsteadiness: Unsteadiness | None,
) -> Outlook:
    """That of all lines, at every window up to the largest that was measured.

    Of variants that were measured ``apart`` there are no replicates unless ``unsteadiness`` says
    what changed from the time of one to that of another.
    """
    names = [*observed.sides]
    once = _Draws(
        dict.fromkeys(names, np.ones((1, observed.rounds))), dict.fromkeys(names, np.zeros(1))
    )
    run = _sample(observed, lines, once)
    if observed.rounds < FEWEST_ROUNDS or (apart and unsteadiness is None):
        return Outlook(run, _mapped(run, lambda array: array[:0]), observed.rounds, {})
    draws = _draws(names, observed.rounds, apart, unsteadiness)
    blocks = [_sample(observed, lines, draws.part(n)) for n in range(0, _REPLICATES, _BLOCK)]
    replicates = _joined(blocks)
    errors = {line.name: _model_error(line, run, replicates) for line in lines}
    return Outlook(run, _with_errors(replicates, errors), observed.rounds, errors)


def windows(line: Line) -> Sequence[int]:
    """Those that are considered: of one measured window, that alone."""
    if line.fixed or len(line.windows) < 2:
        return line.windows
    return range(line.offset + 1, max(line.windows) + 1)


def interval(log: float, logs: Array, rounds: int) -> Interval:
    """The 95 % interval of a positive quantity, by the logarithms of its replicates.

    By their standard deviation and Student's t. Without replicates it has no width.
    """
    error = float(logs.std()) if len(logs) else 0.0
    reach = float(stdtrit(rounds - 1, 1 - ALPHA / 2)) * error if error else 0.0
    return Interval(math.exp(log), math.exp(log - reach), math.exp(log + reach))


def chances(logs: Array, replicates: Array, rounds: int) -> Array:
    """How likely each quantity is the smallest, from replicates of all (over both).

    They are centred at the estimates ``logs``, and spread as Student's t is: with few rounds the
    scatter itself is uncertain.
    """
    generator = np.random.default_rng(_SEED + 1)
    chi_square = generator.chisquare(rounds - 1, size=len(replicates))
    spread = np.sqrt((rounds - 1) / chi_square)[:, np.newaxis]
    values = logs + (replicates - replicates.mean(axis=0)) * spread
    best: Array = np.bincount(values.argmin(axis=1), minlength=len(logs)) / len(values)
    return best


def _draws(
    names: Sequence[str], rounds: int, apart: bool, unsteadiness: Unsteadiness | None
) -> _Draws:
    """Variants that were measured at the same time share most of their rounds, others none.

    How much they share is itself estimated from the rounds. Few rounds, shared by all, leave too
    few ways in which many variants could differ, so what they share is drawn towards nothing, the
    more the fewer rounds there are (Ledoit and Wolf, Journal of Multivariate Analysis 88, 2004).
    """
    generator = np.random.default_rng(_SEED)
    shared = 0.0 if apart else math.sqrt((rounds - 1) / (rounds - 1 + _SHARED))

    def drawn() -> Array:
        counts = generator.multinomial(rounds - 1, np.full(rounds, 1 / rounds), size=_REPLICATES)
        weights: Array = counts * (rounds / (rounds - 1))
        return weights

    common = drawn()
    weights = {}
    for name in names:
        is_common = generator.random(_REPLICATES)[:, np.newaxis] < shared
        weights[name] = np.where(is_common, common, drawn())
    shifts: Array = np.zeros((len(names), _REPLICATES))
    if unsteadiness is not None:
        shifts = _positions_in_time(names, unsteadiness) @ generator.standard_normal(shifts.shape)
    return _Draws(weights, dict(zip(names, shifts, strict=True)))


def _positions_in_time(names: Sequence[str], unsteadiness: Unsteadiness) -> Array:
    """Points whose distances are the standard errors between pairs, by classical scaling
    (Torgerson, Psychometrika 17, 1952); or nearly these, where no points have them."""
    squares = np.array(
        [
            [unsteadiness.between(name, other) ** 2 if name != other else 0.0 for other in names]
            for name in names
        ]
    )
    centre = np.eye(len(names)) - 1 / len(names)
    values, vectors = np.linalg.eigh(-centre @ squares @ centre / 2)
    points: Array = vectors * np.sqrt(np.maximum(values, 0))
    return points


def _sample(observed: Observed, lines: Sequence[Line], draws: _Draws) -> Sample:
    totals = {name: _totals(observed, name, draws) for name in observed.sides}
    measured = {name: _measured(of, draws.shifts[name]) for name, of in totals.items()}
    predicted, held_out = dict[Window, Figures](), dict[Window, Figures]()
    for line in lines if draws.weights else ():
        if len(line.windows) < 2:
            continue
        chains = {name: _chains(observed, name, draws) for _, name in line.variants}
        every = [name for _, name in line.variants]
        between = [window for window in windows(line) if window not in line.windows]
        pooled = _Totals(*(sum(field) for field in zip(*(totals[n] for n in every), strict=True)))
        found = _predicted(observed, line, every, measured, chains, draws)
        predicted |= {
            Window(line.name, window): _at(found, window - line.offset, pooled)
            for window in between
        }
        for window, name in line.variants:
            others = [other for other in every if other != name]
            found = _predicted(observed, line, others, measured, chains, draws)
            held_out[Window(line.name, window)] = _at(found, window - line.offset, totals[name])
    return Sample(measured, predicted, held_out)


def _totals(observed: Observed, name: str, draws: _Draws) -> _Totals:
    side = observed.sides[name]
    members = [observed.members(number) for number in range(len(observed.classes))]
    return _Totals(
        *(
            np.stack(
                [draws.weights[name] @ array[:, :, of].sum(axis=-1).T for of in members], axis=-1
            )
            for array in (side.seconds, side.steps, side.tokens, side.waits, side.outputs)
        )
    )


def _measured(totals: _Totals, shifts: Array) -> Figures:
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.log(totals.seconds / totals.steps) + shifts[:, np.newaxis, np.newaxis]
        return _figures(_known(seconds), _known(np.log(totals.tokens / totals.steps)), totals)


def _figures(step_seconds: Array, step_tokens: Array, totals: _Totals) -> Figures:
    with np.errstate(divide="ignore", invalid="ignore"):
        decoding = np.exp(step_seconds - step_tokens) * totals.tokens
        return Figures(
            step_seconds, step_tokens, _known(np.log((decoding + totals.waits) / totals.outputs))
        )


def _known(logs: Array) -> Array:
    """With the mean in replicates that drew no round in which there was anything."""
    finite = np.isfinite(logs)
    if finite.all():
        return logs
    mean = np.where(finite, logs, 0).sum(axis=0) / np.maximum(1, finite.sum(axis=0))
    return np.where(finite, logs, np.where(finite.any(axis=0), mean, np.nan))


def _chains(observed: Observed, name: str, draws: _Draws) -> list[tuple[Array, Array]]:
    """By class: steps that reached each draft, and accepted it.

    Over replicate, prompt and position.
    """
    side = observed.sides[name]
    by_class = []
    for number in range(len(observed.classes)):
        members = observed.members(number)
        reached, accepted = (
            np.einsum("br,rpj->bpj", draws.weights[name], array[:, members])
            for array in (side.reached, side.accepted)
        )
        by_class.append((reached, accepted))
    return by_class


def _predicted(
    observed: Observed,
    line: Line,
    names: Sequence[str],
    measured: Mapping[str, Figures],
    chains: Mapping[str, Sequence[tuple[Array, Array]]],
    draws: _Draws,
) -> tuple[Array, Array]:
    """Logarithms of a step's seconds and tokens, with 1, 2, ... drafts in the last axis.

    From the variants ``names`` of the line, as far as they were measured at a load.
    """
    most = max(line.windows) - line.offset
    base = measured[line.baseline].step_seconds
    seconds, tokens = (np.full((*base.shape, most), np.nan) for _ in range(2))
    for number in range(len(observed.classes)):
        reached, accepted = (
            np.sum([chains[name][number][kind][..., :most] for name in names], axis=0)
            for kind in (0, 1)
        )
        yields = _yields(observed, line, number, chain(reached, accepted), draws)
        for load in range(len(observed.loads)):
            known = [
                n for n in names if np.isfinite(measured[n].step_seconds[:, load, number]).all()
            ]
            if not known or not np.isfinite(base[:, load, number]).all():
                continue
            points = [0, *(observed.drafts[name] for name in known)]
            draw_to = through(points, most)
            times = np.stack(
                [
                    base[:, load, number],
                    *(measured[n].step_seconds[:, load, number] for n in known),
                ],
                axis=-1,
            )
            # A line that falls would reach 0; no step is that much faster than the baseline's.
            step = np.maximum(np.exp(times) @ draw_to.T, np.exp(times[:, :1]) / 10)
            seconds[:, load, number] = np.log(step)
            model = yields[:, load]
            off = [
                measured[name].step_tokens[:, load, number] - model[:, observed.drafts[name] - 1]
                for name in known
            ]
            drawn = np.stack([np.zeros(len(model)), *off], axis=-1)
            tokens[:, load, number] = model + drawn @ np.clip(draw_to, 0, 1).T
    return seconds, tokens


def _yields(observed: Observed, line: Line, number: int, chances_of: Array, draws: _Draws) -> Array:
    """Logarithms of the tokens of a step by the chain, over replicate, load and drafts."""
    of_step = step_yield(chances_of)
    side, members = observed.sides[line.baseline], observed.members(number)
    tokens, answers = (
        np.einsum("br,lrp->blp", draws.weights[line.baseline], array[:, :, members])
        for array in (side.tokens, side.answers)
    )
    steps = np.einsum("blp,bpg->blg", tokens, 1 / of_step.tokens)
    steps += np.einsum("blp,bpg->blg", answers, of_step.cut / of_step.tokens)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = np.log(tokens.sum(axis=-1)[..., np.newaxis] / steps)
    return logs


def _at(predicted: tuple[Array, Array], drafts: int, totals: _Totals) -> Figures:
    """Of one number of drafts; ``totals`` have what requests wait for besides."""
    seconds, tokens = (array[..., drafts - 1] for array in predicted)
    return _figures(seconds, _known(tokens), totals)


def _model_error(line: Line, run: Sample, replicates: Sample) -> float:
    """What predictions of measured windows from the others are off beyond their standard errors.

    In text whose difficulty changes, wide windows begin more of their steps in hard places, and one
    acceptance for all windows is not quite right. Nor is a step's time quite straight between two.
    """
    squares: list[float] = []
    for window, name in line.variants:
        key = Window(line.name, window)
        if key in run.held_out:
            off = run.held_out[key].request[0] - run.measured[name].request[0]
            chance = (replicates.held_out[key].request - replicates.measured[name].request).var(
                axis=0
            )
            squares += [*(off**2 - chance)[np.isfinite(off) & np.isfinite(chance)]]
    return math.sqrt(max(0.0, float(np.mean(squares)))) if squares else 0.0


def _with_errors(sample: Sample, errors: Mapping[str, float]) -> Sample:
    """With the model's error in all that is predicted: one for all windows of a line, since those
    beside each other are off alike."""
    generator = np.random.default_rng(_SEED + 2)
    shifts = {
        name: error * generator.standard_normal(_REPLICATES) for name, error in errors.items()
    }

    def shifted(of: Mapping[Window, Figures]) -> dict[Window, Figures]:
        return {
            key: figures._replace(
                request=figures.request + shifts[key.line][:, np.newaxis, np.newaxis]
            )
            for key, figures in of.items()
        }

    return Sample(sample.measured, shifted(sample.predicted), shifted(sample.held_out))


def _mapped(sample: Sample, change: Callable[[Array], Array]) -> Sample:
    def changed(of: Mapping[Any, Figures]) -> dict[Any, Figures]:
        return {key: Figures(*map(change, figures)) for key, figures in of.items()}

    return Sample(changed(sample.measured), changed(sample.predicted), changed(sample.held_out))


def _joined(blocks: Sequence[Sample]) -> Sample:
    def joined(parts: Iterable[Figures]) -> Figures:
        return Figures(*(_known(np.concatenate(field)) for field in zip(*parts, strict=True)))

    first = blocks[0]
    return Sample(
        {key: joined(block.measured[key] for block in blocks) for key in first.measured},
        {key: joined(block.predicted[key] for block in blocks) for key in first.predicted},
        {key: joined(block.held_out[key] for block in blocks) for key in first.held_out},
    )
