"""How far a target parts from its draft, and which of several targets parts as it is meant to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

DRAFTS: Final = 7
"""In a step: what upstream drafts at the article's window."""

OPEN_ENDED: Final = (1.25, 1.6)
"""Tokens a step, from and to. A step costs some 1.4 plain ones here, so that drafts of open-ended
text neither gain nor lose much, as in the article."""
STRUCTURED: Final = (7.0, DRAFTS + 1.0)
"""Tokens a step, from and to: nearly all drafts are accepted."""

DRAWS: Final = 12
"""At most. A draw takes one to three seconds, and one in two or three is as it is meant to be."""


class Parting(NamedTuple):
    """What a target makes of its draft's proposals: tokens a step, a number for each prompt."""

    structured: Sequence[float]
    open_ended: Sequence[float]

    @property
    def miss(self) -> float:
        """How far outside its bounds the worst prompt lies; 0 where all lie within."""
        return max(
            0.0, *_misses(self.structured, STRUCTURED), *_misses(self.open_ended, OPEN_ENDED)
        )

    def __str__(self) -> str:
        kinds = (("structured", self.structured), ("open-ended", self.open_ended))
        said = (
            f"{min(ones):.2f} to {max(ones):.2f} on {kind} text" for kind, ones in kinds if ones
        )
        return f"tokens a step: {', '.join(said)}"


def tokens_per_step(agreed: Sequence[bool], drafts: int = DRAFTS) -> float:
    """Tokens that a step yields on average if both models always take the likeliest token.

    ``agreed`` says of each of the target's tokens after the first whether the draft, after the same
    tokens, says the same. Nothing else decides what is accepted, so the figure is exact.
    """
    at = steps = 0
    while at < len(agreed):
        ahead = (*agreed[at : at + drafts], False)
        at += ahead.index(False) + 1
        steps += 1
    return len(agreed) / steps


def chosen(partings: Iterable[Parting]) -> tuple[int, Parting]:
    """The first with all prompts within their bounds, or else the nearest to it; and its number.

    Of endlessly many, the first ``DRAWS`` are looked at.
    """
    looked_at: list[tuple[int, Parting]] = []
    for number, parting in enumerate(islice(partings, DRAWS)):
        if not parting.miss:
            return number, parting
        looked_at.append((number, parting))
    return min(looked_at, key=lambda one: one[1].miss)


def _misses(values: Sequence[float], bounds: tuple[float, float]) -> list[float]:
    low, high = bounds
    return [max(low - value, value - high) for value in values]
