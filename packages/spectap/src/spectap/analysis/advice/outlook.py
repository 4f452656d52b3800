"""The time of a request by its tokens, at every window: as it was, and as it could have been.

How often a draft is accepted depends on its position and not on the window, and a step's time is
straight between no drafts (the baseline) and each measured window. What these assumptions miss is
measured, by predicting each window from the others of its line. The bootstrap draws rounds, one
fewer than there are (Rao and Wu, JASA 83, 1988). Where prompts return, rounds do not show how
other prompts would differ: replicates differ by what these add (``spectap.analysis.contrasts``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from spectap.analysis.advice.advice import Choice, Series
from spectap.analysis.advice.observed import Array, Observed, Totals
from spectap.analysis.evidence import Unsteadiness
from spectap.load_points import FEWEST_ROUNDS

_REPLICATES: Final = 600
_SEED: Final = 2211_17192
_SHARED: Final = 3.0  # rounds that speak for variants that share nothing
USABLE: Final = 0.1  # a model that is further off than this predicts nothing


class Figures(NamedTuple):
    """Logarithms over draw, load and class; NaN where nothing is known.

    The first draw is the run as it was. The others are replicates.
    """

    step_seconds: Array
    step_tokens: Array
    request: Array
    """Seconds of a whole request, its queue and its first token included, by its output tokens."""


@dataclass(frozen=True)
class Outlook:
    """Figures of a run, measured and predicted."""

    measured: Mapping[str, Figures]
    predicted: Mapping[Choice, Figures]
    """Of each window that was not measured."""
    held_out: Mapping[Choice, Figures]
    """Of each measured window, predicted from the others of its line."""
    errors: Mapping[str, float]
    """By how much predictions of a line are off, beyond chance: a standard deviation, of logs."""
    certain: bool
    """Whether replicates say how sure the figures are."""


def considered_windows(series: Series) -> Sequence[int]:
    """The windows considered: of one measured window, that alone."""
    if series.fixed or len(series.windows) < 2:
        return series.windows
    return range(series.offset + 1, max(series.windows) + 1)


def outlook(
    observed: Observed,
    lines: Sequence[Series],
    *,
    isolated: bool,
    unsteadiness: Unsteadiness | None,
) -> Outlook:
    """The outlook of all lines, at every window up to the largest measured.

    Of variants that were measured ``isolated`` nothing is certain unless ``unsteadiness`` says what
    changed from the time of one to that of another.
    """
    weights, shifts = _draws(observed, isolated, unsteadiness)
    totals = {
        name: Totals(*(np.einsum("br,lrc->blc", weights[name], total) for total in side.totals))
        for name, side in observed.sides.items()
    }
    measured = {
        name: _figures(
            _logs(of.seconds, of.steps) + shifts[name][:, np.newaxis, np.newaxis],
            _logs(of.tokens, of.steps),
            of,
        )
        for name, of in totals.items()
    }
    _add_prompts(observed, totals, measured)
    predicted, held_out = dict[Choice, Figures](), dict[Choice, Figures]()
    errors = dict[str, float]()
    generator = np.random.default_rng(_SEED + 2)
    for series in lines:
        variants = dict(series.variants)
        if len(variants) < 2:
            continue
        predict = cache(partial(_predict, observed, series, measured, totals, weights))
        fields = zip(*(totals[name] for name in variants.values()), strict=True)
        pooled = Totals(*(sum(field) for field in fields))
        requests, squares = list[Array](), list[float]()
        for window in considered_windows(series):
            choice, name = Choice(series.name, window), variants.get(window)
            seconds, tokens = (
                array[..., window - series.offset - 1]
                for array in predict(tuple(peer for peer in variants.values() if peer != name))
            )
            figures = _figures(seconds, tokens, totals[name] if name else pooled)
            (held_out if name else predicted)[choice] = figures
            requests.append(figures.request)
            if name:
                off = figures.request - measured[name].request
                excess = off[0] ** 2 - off[1:].var(axis=0)
                squares += [*excess[np.isfinite(excess)]]
        # What predictions are off beyond their standard errors.
        error = math.sqrt(max(0.0, float(np.mean(squares)))) if squares else 0.0
        errors[series.name] = error
        shift = error * generator.standard_normal(_REPLICATES)
        for request in requests:
            request[1:] += shift[:, np.newaxis, np.newaxis]
    certain = observed.rounds >= FEWEST_ROUNDS and not (isolated and unsteadiness is None)
    return Outlook(measured, predicted, held_out, errors, certain)


def _draws(
    observed: Observed, isolated: bool, unsteadiness: Unsteadiness | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Of each variant, over draw: how often each round counts (the second axis), and the logarithm
    of what the time at which it was measured adds to its figures.

    Variants that were measured at the same time share most of their rounds, the more the more
    rounds there are (Ledoit and Wolf, Journal of Multivariate Analysis 88, 2004); others none.
    """
    names, rounds = [*observed.sides], observed.rounds
    generator = np.random.default_rng(_SEED)
    shared = 0.0 if isolated else math.sqrt((rounds - 1) / (rounds - 1 + _SHARED))

    def drawn() -> Array:
        counts = generator.multinomial(rounds - 1, np.full(rounds, 1 / rounds), size=_REPLICATES)
        drawn_weights: Array = counts * (rounds / max(1, rounds - 1))
        return drawn_weights

    common = drawn()
    weights = {}
    for name in names:
        is_common = generator.random(_REPLICATES)[:, np.newaxis] < shared
        replicated = np.where(is_common, common, drawn())
        weights[name] = np.concatenate([np.ones((1, rounds)), replicated])
    shifts: Array = np.zeros((len(names), 1 + _REPLICATES))
    if unsteadiness is not None:
        # Errors that differ by the standard errors between pairs, by classical scaling (Torgerson,
        # Psychometrika 17, 1952).
        squares = np.array(
            [
                [unsteadiness.between(name, peer) ** 2 if name != peer else 0.0 for peer in names]
                for name in names
            ]
        )
        centre = np.eye(len(names)) - 1 / len(names)
        shifts[:, 1:] = _normal(-centre @ squares @ centre / 2, generator)
    return weights, dict(zip(names, shifts, strict=True))


def _normal(covariance: Array, generator: np.random.Generator) -> Array:
    """Errors of that ``covariance``, or nearly of it where none have it, over replicates last."""
    values, vectors = np.linalg.eigh(covariance)
    points = vectors * np.sqrt(np.maximum(values, 0))
    errors: Array = points @ generator.standard_normal((len(values), _REPLICATES))
    return errors


def _add_prompts(
    observed: Observed, totals: Mapping[str, Totals], measured: Mapping[str, Figures]
) -> None:
    """Adds what prompts that return add to the scatter of rounds: the variance by prompts, less
    that by sendings. Of too few prompts nothing is known."""
    generator = np.random.default_rng(_SEED + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The first order of the logarithm of seconds by tokens: by variant, load, round and prompt.
        pulls = np.nan_to_num(
            [
                side.prompt_seconds / (of.seconds + of.waits)[0][:, np.newaxis, observed.prompts]
                - side.prompt_tokens / of.outputs[0][:, np.newaxis, observed.prompts]
                for side, of in ((observed.sides[name], totals[name]) for name in measured)
            ]
        )
    for load, number in np.ndindex(len(observed.loads), len(observed.classes)):
        sendings = pulls[:, load][..., observed.prompts == number]
        sent = np.any(sendings, axis=0)
        covariance = _clustered(sendings.sum(axis=1)) - _clustered(sendings[:, sent])
        errors = _normal(covariance, generator)
        few = 0 < observed.prompt_counts[number] < FEWEST_ROUNDS
        for figures, error in zip(measured.values(), errors, strict=True):
            request = figures.request[:, load, number]
            request += np.nan if few else [0.0, *error]


def _clustered(pulls: Array) -> Array:
    """The covariance of sums over independent clusters, the second axis."""
    count = pulls.shape[1]
    covariance: Array = count / max(1, count - 1) * pulls @ pulls.T
    return covariance


def _figures(step_seconds: Array, step_tokens: Array, totals: Totals) -> Figures:
    """``totals`` have what requests wait for besides."""
    decoding = np.exp(step_seconds - step_tokens) * totals.tokens
    return Figures(step_seconds, step_tokens, _logs(decoding + totals.waits, totals.outputs))


def _logs(above: Array, below: Array) -> Array:
    """The logarithm of a ratio. Empty draws take the mean; NaN where all are empty."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = np.log(above / below)
    finite = np.isfinite(logs)
    if finite.all():
        return logs
    mean = np.where(finite, logs, 0).sum(axis=0) / np.maximum(1, finite.sum(axis=0))
    return np.where(finite, logs, np.where(finite.any(axis=0), mean, np.nan))


def _predict(
    observed: Observed,
    series: Series,
    measured: Mapping[str, Figures],
    totals: Mapping[str, Totals],
    weights: Mapping[str, Array],
    names: Sequence[str],
) -> tuple[Array, Array]:
    """Logarithms of a step's seconds and tokens, with 1, 2, ... drafts in the last axis.

    From the variants ``names`` of the line, as far as they were measured at a load. What is
    predicted is drawn to what was measured beside it. NaN for prompts that differ: those that were
    sent are too few for intervals of predictions to hold (``benchmarks.advice``).
    """
    most = max(series.windows) - series.offset
    base = measured[series.baseline].step_seconds
    reached, accepted = (
        sum(np.einsum("br,rcj->bcj", weights[n], getattr(observed.sides[n], field)) for n in names)[
            ..., :most
        ]
        for field in ("reached", "accepted")
    )
    of_step, cut = (array[:, np.newaxis] for array in _step_yield(reached, accepted))
    tokens, answers = (
        total[..., np.newaxis]
        for total in (totals[series.baseline].tokens, totals[series.baseline].answers)
    )
    steps = (tokens + answers * cut) / of_step
    model = _logs(np.broadcast_to(tokens, steps.shape), steps)
    step_seconds, step_tokens = (np.full(model.shape, np.nan) for _ in range(2))
    for load, number in np.ndindex(base.shape[1:]):
        at = slice(None), load, number
        known = [name for name in names if np.isfinite(measured[name].step_seconds[at]).all()]
        differ = observed.prompt_counts[number] > 0
        if differ or not known or not np.isfinite(base[at]).all():
            continue
        # Windows whose drafts are assumed may verify as many.
        variants = dict(sorted((observed.drafts[name], name) for name in known))
        of_steps = [base[at], *(measured[name].step_seconds[at] for name in variants.values())]
        times = np.exp(np.stack(of_steps, axis=-1))
        points, wanted = [0, *variants], np.arange(1, most + 1)
        through = make_interp_spline(points, times, k=1, axis=1)(wanted)
        # A line that falls would reach 0; no step is that much faster than the baseline's.
        step_seconds[at] = np.log(np.maximum(through, times[:, :1] / 10))
        off = [
            measured[name].step_tokens[at] - model[at][:, count - 1]
            for count, name in variants.items()
        ]
        off_at_points = np.stack([np.zeros(len(times)), *off], axis=-1)
        through = make_interp_spline(points, off_at_points, k=1, axis=1)
        step_tokens[at] = model[at] + through(np.minimum(wanted, points[-1]))
    return step_seconds, step_tokens


def _step_yield(reached: Array, accepted: Array) -> tuple[Array, Array]:
    """The expected tokens of a step that no answer's end cuts off, and by how many tokens a step
    would go beyond an answer's end: with 1, 2, ... drafts in the last axis.

    1 + sum over j of the product of the first j chances (equation 1 of Leviathan et al.,
    2211.17192, for equal ones). By Wald's equation, n tokens take (n + cut) / tokens steps, where
    the cut is (E[c^2] - E[c]) / 2 E[c] for the c tokens of a step (Feller II, chapter XI).
    """
    # Each position is given one step of the one before it: all of one that no step reached.
    chances = np.empty(reached.shape)
    chance = np.full(reached.shape[:-1], 0.5)
    for position in range(reached.shape[-1]):
        chance = (accepted[..., position] + chance) / (reached[..., position] + 1)
        chances[..., position] = chance
    chain = np.cumprod(chances, axis=-1)  # the first j drafts were accepted
    tokens = 1 + np.cumsum(chain, axis=-1)
    odd = 2 * np.arange(1, chances.shape[-1] + 1) + 1
    squares = 1 + np.cumsum(odd * chain, axis=-1)
    return tokens, (squares - tokens) / (2 * tokens)
