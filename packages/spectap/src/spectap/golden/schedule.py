"""The schedule of a speculative server: how many tokens it sends, and when."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

TOKEN_SECONDS: Final = 0.045
"""The article's baseline: one forward pass of the target."""

Cost = Callable[[float], float]
"""The time of a pass over so many tokens, relative to a pass over one.

The tokens of a pass are the sequences in flight times the width of each. The width is 1 in plain
decoding, and the window where drafts are verified. Measured engines are linear in the tokens
(2406.14066, section 4).
"""


@dataclass(frozen=True)
class Linear:
    """A linear cost, 1 for a single token."""

    slope: float
    """The time that each further token adds."""

    def __call__(self, tokens: float) -> float:
        return 1 + self.slope * (tokens - 1)


FREE: Final = Linear(0)
"""A batch is free, and so is verification."""


@dataclass(frozen=True)
class Step:
    """One forward pass: ``tokens`` tokens, due ``at`` seconds after the request was admitted."""

    at: float
    tokens: int
    beyond: int = 0
    """Tokens beyond the answer's end, which nobody gets."""


@dataclass(frozen=True)
class Decoding:
    """The way in which a server decodes.

    A step makes its drafts with one pass each and verifies them with one more pass. It yields the
    accepted drafts and one token more. Without drafts it is plain decoding.
    """

    drafts: int = 0
    draft_cost: float = 0.18
    """The time of a draft pass, in target passes."""
    token_seconds: float = TOKEN_SECONDS
    """The time of a target pass over one token."""
    prefill_seconds: float = 0.2
    speed: float = 1.0
    """Divides all times."""
    cost: Cost = FREE
    """The growth of a pass with the tokens of the batch."""

    def step_seconds(self, in_flight: float = 1) -> float:
        """The time of a step with so many sequences in flight."""
        drafts = self.drafts * self.draft_cost * self.cost(in_flight)
        passes = self.cost(in_flight * (self.drafts + 1)) + drafts
        return self.token_seconds * passes / self.speed

    def slowdown(self, in_flight: float) -> float:
        """The time of a step, relative to that of a sequence alone."""
        return self.step_seconds(in_flight) / self.step_seconds()

    def tokens_per_step(self, acceptance: float) -> float:
        """The expected tokens per step: (1 - a^(g + 1)) / (1 - a) with g drafts (Leviathan et al.
        2211.17192, equation 1)."""
        return sum(acceptance**accepted for accepted in range(self.drafts + 1))

    def time_per_token(self, acceptance: float, in_flight: float = 1) -> float:
        return self.step_seconds(in_flight) / self.tokens_per_step(acceptance)

    def gain(self, acceptance: float, in_flight: float) -> float:
        """The expected speed-up over the same server without speculation."""
        plain = replace(self, drafts=0).time_per_token(acceptance, in_flight)
        return plain / self.time_per_token(acceptance, in_flight)

    def steps(self, tokens: int, acceptance: float, seed: object) -> Iterator[Step]:
        """The schedule of an answer of ``tokens`` tokens, for a sequence alone.

        The prefill yields the first token. ``acceptance`` is the probability that a draft is
        accepted. Equal seeds give equal steps.
        """
        chance = random.Random(repr(seed))
        alone = self.step_seconds()
        remaining, count = tokens, 1
        index = 0
        while remaining > 0:
            sent = min(count, remaining)
            yield Step(self.prefill_seconds / self.speed + index * alone, sent, count - sent)
            remaining -= sent
            index += 1
            count = 1
            while count <= self.drafts and chance.random() < acceptance:
                count += 1
