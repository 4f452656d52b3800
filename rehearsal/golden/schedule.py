"""When a server that decodes speculatively sends how many tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

# The article's baseline: one forward pass of the target.
TOKEN_SECONDS = 0.045


@dataclass(frozen=True)
class Step:
    """``tokens`` tokens, due ``at`` seconds after the request arrived."""

    at: float
    tokens: int


@dataclass(frozen=True)
class Decoding:
    """What a server does for a token.

    A step of ``window`` k runs k - 1 draft passes, each ``draft_cost`` target passes long, and one
    verification, and yields one token more than drafts were accepted in a row: 1 to k. A window of
    1 is plain decoding. ``token_seconds`` and ``prefill_seconds`` are divided by ``speed``.
    """

    window: int = 1
    draft_cost: float = 0.18
    token_seconds: float = TOKEN_SECONDS
    prefill_seconds: float = 0.2
    speed: float = 1.0

    @property
    def step_seconds(self) -> float:
        """How long one step takes."""
        return self.token_seconds * (1 + (self.window - 1) * self.draft_cost) / self.speed

    def tokens_per_step(self, acceptance: float) -> float:
        """Expected: (1 - a^k) / (1 - a), Leviathan et al. 2211.17192, equation 1 with g = k - 1."""
        return sum(acceptance**accepted for accepted in range(self.window))

    def steps(self, tokens: int, acceptance: float, seed: object) -> Iterator[Step]:
        """The schedule of an answer of ``tokens`` tokens; the prefill yields the first.

        ``acceptance`` is the probability that one draft is accepted. Equal seeds, equal schedules.
        """
        chance = random.Random(repr(seed))
        left, count = tokens, 1
        index = 0
        while left > 0:
            count = min(count, left)
            yield Step(self.prefill_seconds / self.speed + index * self.step_seconds, count)
            left -= count
            index += 1
            count = 1
            while count < self.window and chance.random() < acceptance:
                count += 1
