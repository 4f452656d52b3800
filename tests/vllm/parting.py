"""How far a target parts from its draft, and which of several targets parts as it is meant to."""

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
            0.0,
            *(
                max(low - tokens, tokens - high)
                for (low, high), kind in (
                    (STRUCTURED, self.structured),
                    (OPEN_ENDED, self.open_ended),
                )
                for tokens in kind
            ),
        )


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
    nearest: tuple[int, Parting] | None = None
    for number, parting in enumerate(islice(partings, DRAWS)):
        if nearest is None or parting.miss < nearest[1].miss:
            nearest = number, parting
        if not parting.miss:
            break
    assert nearest is not None
    return nearest
