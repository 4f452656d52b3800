"""The schedule of a server that decodes speculatively: how many tokens it sends, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

# The article's baseline: one forward pass of the target.
TOKEN_SECONDS = 0.045


@dataclass(frozen=True)
class Step:
    """One forward pass: ``tokens`` tokens, due ``at`` seconds after the request arrived."""

    at: float
    tokens: int


@dataclass(frozen=True)
class Decoding:
    """How a server decodes.

    A step of window k runs k - 1 draft passes and one verification. It yields the accepted drafts
    and one token more, so 1 to k tokens. A window of 1 is plain decoding.
    """

    window: int = 1
    draft_cost: float = 0.18
    """Length of a draft pass, in target passes."""
    token_seconds: float = TOKEN_SECONDS
    """Length of a target pass."""
    prefill_seconds: float = 0.2
    speed: float = 1.0
    """Divides all times."""

    @property
    def step_seconds(self) -> float:
        """Length of one step."""
        return self.token_seconds * (1 + (self.window - 1) * self.draft_cost) / self.speed

    def tokens_per_step(self, acceptance: float) -> float:
        """Expected: (1 - a^k) / (1 - a), Leviathan et al. 2211.17192, equation 1 with g = k - 1."""
        return sum(acceptance**accepted for accepted in range(self.window))

    def steps(self, tokens: int, acceptance: float, seed: object) -> Iterator[Step]:
        """The schedule of an answer of ``tokens`` tokens, of which the prefill yields the first.

        ``acceptance`` is the probability that a draft is accepted. Equal seeds give equal steps.
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
