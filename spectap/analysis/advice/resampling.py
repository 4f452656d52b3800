"""The bootstrap: what else the rounds could have been.

Rounds are drawn with replacement, one fewer than there are, which makes the variance of a mean what
it is with few rounds, too (Rao and Wu, Journal of the American Statistical Association 83, 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtrit

from spectap.analysis.advice.observed import Array
from spectap.analysis.controls import Unsteadiness
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.intervals import Interval
from spectap.rounds import FEWEST_ROUNDS

REPLICATES: Final = 1000
_APART: Final = 3.0
"""Rounds that speak for variants that share nothing."""
_SEED: Final = 2211_17192


@dataclass(frozen=True)
class Draws:
    """Replicates of a run."""

    weights: Mapping[str, Array]
    """Of each variant, over replicate and round: how often the round counts."""
    shifts: Mapping[str, Array]
    """Of each variant and replicate: the logarithm of what its time and no round shows."""
    shapes: Array
    """Of each replicate, from 0 to 1: which of the likely shapes of a step's cost it takes."""

    def __len__(self) -> int:
        return len(self.shapes)

    def part(self, start: int, end: int) -> Draws:
        """Replicates ``start`` to ``end``."""
        return Draws(
            {name: own[start:end] for name, own in self.weights.items()},
            {name: own[start:end] for name, own in self.shifts.items()},
            self.shapes[start:end],
        )


def once(variants: Iterable[str], rounds: int) -> Draws:
    """The run itself."""
    names = list(variants)
    weights, shifts = np.ones((1, rounds)), np.zeros(1)
    return Draws(dict.fromkeys(names, weights), dict.fromkeys(names, shifts), np.full(1, np.nan))


def draws(
    variants: Iterable[str],
    rounds: int,
    *,
    shared: float,
    known: bool,
    unsteadiness: Unsteadiness | None,
) -> Draws:
    """Replicates of it: none where there are too few rounds, and none unless it is ``known`` what
    changed between the times of two variants.

    ``shared`` is the part of the replicates in which a variant has the rounds that others have, and
    not some of its own: 1 where they were measured at the same time, 0 where apart.
    ``unsteadiness`` is what changed from the time of one to that of another.
    """
    names = list(variants)
    generator = np.random.default_rng(_SEED)
    count = REPLICATES if known and rounds >= FEWEST_ROUNDS else 0

    def drawn() -> Array:
        counts = generator.multinomial(rounds - 1, np.full(rounds, 1 / rounds), size=count)
        weights: Array = counts * (rounds / (rounds - 1))
        return weights

    if count == 0:
        nothing = np.ones((0, rounds)), np.zeros(0)
        return Draws(dict.fromkeys(names, nothing[0]), dict.fromkeys(names, nothing[1]), np.ones(0))
    common = drawn()

    def partly() -> Array:
        chosen = generator.random(count)[:, np.newaxis] < shared
        weights: Array = np.where(chosen, common, drawn())
        return weights

    return Draws(
        {name: common if shared == 1 else partly() for name in names},
        dict(zip(names, _shifts(names, unsteadiness, generator, count), strict=True)),
        generator.random(count),
    )


def partly_shared(rounds: int) -> float:
    """The ``shared`` part to compare many variants by, which were measured at the same time.

    How much they share is itself estimated from the rounds. Few rounds, shared by all, leave too
    few ways in which many variants could differ, so what they share is drawn towards nothing, the
    more the fewer rounds there are (Ledoit and Wolf, Journal of Multivariate Analysis 88, 2004).
    """
    return math.sqrt((rounds - 1) / (rounds - 1 + _APART))


def _shifts(
    names: Sequence[str],
    unsteadiness: Unsteadiness | None,
    generator: np.random.Generator,
    count: int,
) -> Array:
    """Over variant and replicate: such that two differ by as much as is likely between them.

    By classical scaling: points whose distances are the standard errors between pairs (Torgerson,
    Psychometrika 17, 1952). Where no points have these distances, they have nearly these.
    """
    if unsteadiness is None:
        return np.zeros((len(names), count))
    squares = np.array(
        [
            [unsteadiness.between(one, other) ** 2 if one != other else 0.0 for other in names]
            for one in names
        ]
    )
    centre = np.eye(len(names)) - 1 / len(names)
    values, vectors = np.linalg.eigh(-centre @ squares @ centre / 2)
    places = vectors * np.sqrt(np.maximum(values, 0))
    found: Array = places @ generator.standard_normal((len(names), count))
    return found


def interval(log: float, logs: Array, rounds: int) -> Interval:
    """The 95 % interval of a positive quantity, by the logarithms of its replicates.

    By their standard deviation and Student's t. Without replicates it has no width.
    """
    error = float(logs.std()) if len(logs) else 0.0
    reach = float(stdtrit(rounds - 1, 1 - ALPHA / 2)) * error if error else 0.0
    return Interval(float(np.exp(log)), float(np.exp(log - reach)), float(np.exp(log + reach)))


def posterior(logs: Array, replicates: Array, rounds: int) -> Array:
    """Values that the truth may have, over replicate and quantity.

    Replicates are centred at the estimates ``logs``, and spread as Student's t is: with few rounds
    the scatter itself is uncertain.
    """
    if not len(replicates):
        return replicates
    freedom = rounds - 1
    chance = np.random.default_rng(_SEED + 1).chisquare(freedom, size=len(replicates))
    spread = np.sqrt(freedom / chance)[:, np.newaxis]
    found: Array = logs + (replicates - replicates.mean(axis=0)) * spread
    return found
