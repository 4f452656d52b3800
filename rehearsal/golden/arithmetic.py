"""What golden endpoints do, by their own arithmetic: the truth that measurements are held against.

All times are at the article's speed, if nothing else is said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from experiment.variants import Variant
from rehearsal.golden.acceptances import OF_STRUCTURE
from rehearsal.golden.cost import Cost, Linear
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.schedule import TOKEN_SECONDS, Decoding, speed_up
from spectap.config import Structure

COST: Final = Linear(0.04)

LONGEST: Final = 15
"""Of the windows that are compared."""

_CONCURRENCY: Final = 4
"""The article's, at which its baseline takes what it takes for a token."""


def decoding(variant: Variant, cost: Cost = COST, speed: float = 1) -> Decoding:
    """How the variant's endpoint decodes."""
    return Decoding(
        window=variant.window or 1,
        kept=variant.support.kept if variant.support else 1,
        draft_cost=draft_of(variant).cost,
        token_seconds=TOKEN_SECONDS / cost.of(_CONCURRENCY),
        speed=speed,
        cost=cost,
    )


def scheduled_time(variant: Variant, structure: Structure, in_flight: float) -> float:
    """Expected time per output token in seconds."""
    acceptance = draft_of(variant).acceptance(OF_STRUCTURE[structure])
    return decoding(variant).time_per_token(acceptance, in_flight)


def gain(own: Decoding, acceptance: float, in_flight: float) -> float:
    """Expected speed-up over the same endpoint without speculation."""
    return speed_up(own.plain, own, acceptance, in_flight)


def windows(own: Decoding) -> range:
    """Those with which the endpoint can speculate."""
    return range(own.kept + 1, LONGEST + 1)


def best(own: Decoding, acceptance: float, in_flight: float) -> Decoding:
    """The same endpoint with the window that is the fastest."""
    return max(
        (replace(own, window=window) for window in windows(own)),
        key=lambda one: gain(one, acceptance, in_flight),
    )
