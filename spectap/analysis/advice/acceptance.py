"""How often drafts are accepted, and how many tokens a step yields for it.

A draft model proposes a chain, and the target accepts its beginning. The window only says where the
chain is cut, so all windows of a draft are taken to tell of the same one: acceptance is by the
position in it, of those steps that reached it. That is an assumption. Where steps start depends on
the window, and wide ones start more often where an answer is hard to predict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from scipy.special import betaincinv, stdtrit

from spectap.analysis.advice.advice import Acceptance, Line, Position
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.estimates.estimate import ALPHA
from spectap.rounds import FEWEST_ROUNDS

_OF_CLASS: Final = 20.0
"""Steps that a prompt is given of its class beside its own: few have many at late positions."""
_OF_POSITION: Final = 1.0
"""Steps that a position is given of the one before it. One that no step reached is all of it."""


class Yield(NamedTuple):
    """What a step yields, over the number of drafts (from 1) in the last axis."""

    tokens: Array
    """Expected, of a step that no answer's end cuts off."""
    cut: Array
    """Expected tokens by which a step goes beyond an answer's end, had it none."""


def acceptances(observed: Observed, lines: Iterable[Line]) -> tuple[Acceptance, ...]:
    """Of each line on each class of prompts that it was measured on."""
    found = []
    for line in lines:
        sides = [observed.sides[name] for _, name in line.variants]
        for number, prompt_class in enumerate(observed.classes):
            members = observed.members(number)
            reached = sum(side.reached[:, members].sum(axis=1) for side in sides)
            accepted = sum(side.accepted[:, members].sum(axis=1) for side in sides)
            positions = tuple(_positions(np.asarray(reached), np.asarray(accepted)))
            if positions:
                found.append(Acceptance(line.name, prompt_class, positions))
    return tuple(found)


def chain(reached: Array, accepted: Array) -> Array:
    """The chance of each draft, if it is reached, over prompt and position in the last two axes.

    That of a prompt is drawn to what is likely: the odds of all prompts here, by as much higher or
    lower as its own were at the position before. Where no step reached a position, chances are
    those of the position before.
    """
    tried, taken = reached.sum(axis=-2), accepted.sum(axis=-2)
    found = np.empty(reached.shape)
    common = np.full(tried.shape[:-1], 0.5)
    own = np.broadcast_to(common[..., np.newaxis], reached.shape[:-1])
    for position in range(reached.shape[-1]):
        before = common
        common = (taken[..., position] + _OF_POSITION * before) / (
            tried[..., position] + _OF_POSITION
        )
        odds = _odds(own) * (_odds(common) / _odds(before))[..., np.newaxis]
        own = (accepted[..., position] + _OF_CLASS * odds / (1 + odds)) / (
            reached[..., position] + _OF_CLASS
        )
        found[..., position] = own
    return found


def step_yield(chances: Array) -> Yield:
    """Of a step with 1, 2, ... drafts, from the chance of each draft in the last axis.

    One token and the accepted drafts: 1 + sum over j of the product of the first j chances. Where
    all chances are a, that is (1 - a^(g+1)) / (1 - a), equation 1 of Leviathan et al. (2211.17192).
    An answer ends within its last step. By Wald's equation, n tokens take (n + cut) / tokens steps,
    and by renewal theory the cut is (E[c^2] - E[c]) / 2 E[c] for the c tokens of a step (Feller, An
    introduction to probability theory II, chapter XI).
    """
    whole = np.cumprod(chances, axis=-1)  # the first j drafts were accepted
    tokens = 1 + np.cumsum(whole, axis=-1)
    odd = 2 * np.arange(1, chances.shape[-1] + 1) + 1
    squares = 1 + np.cumsum(odd * whole, axis=-1)
    return Yield(tokens, (squares - tokens) / (2 * tokens))


def _odds(chance: Array) -> Array:
    bounded = np.clip(chance, 1e-4, 1 - 1e-4)
    return bounded / (1 - bounded)


def _positions(reached: Array, accepted: Array) -> Iterable[Position]:
    """From what each round reached and accepted, over round and position."""
    for number, (tried, taken) in enumerate(zip(reached.T, accepted.T, strict=True), start=1):
        total = tried.sum()
        if total > 0:
            share = float(taken.sum() / total)
            yield Position(number, int(total), share, _interval(tried, taken))


def _interval(tried: Array, taken: Array) -> tuple[float, float] | None:
    """Korn's and Graubard's interval of a share (Survey Methodology 24, 1998), by rounds.

    Clopper's and Pearson's, for as many independent steps as have the scatter of the rounds, less
    what is not known of that scatter. It has width where all drafts were accepted, too.
    """
    rounds, total = len(tried), tried.sum()
    if rounds < FEWEST_ROUNDS or np.count_nonzero(tried) < FEWEST_ROUNDS:
        return None
    share = taken.sum() / total
    excess = taken - share * tried
    scatter = rounds / (rounds - 1) * (excess**2).sum() / total**2
    sureness = stdtrit(total, 1 - ALPHA / 2) / stdtrit(rounds - 1, 1 - ALPHA / 2)
    independent = share * (1 - share) / scatter if scatter > 0 else total
    worth = min(total, independent) * sureness**2
    good = share * worth
    low = betaincinv(good, worth - good + 1, ALPHA / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, worth - good, 1 - ALPHA / 2) if share < 1 else 1.0
    return float(low), float(high)
