"""What is random in a simulated run: scatter, drift, neighbours, failures.

A request's time per output token is the product of its side's mean and of random factors. Scatter
is the standard deviation of a factor's natural logarithm.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from spectap.load_points import Rounds


@dataclass(frozen=True)
class Neighbour:
    """Other work on the same machine: log-normal, autocorrelated (AR(1)) over time."""

    scatter: float
    seconds: float
    """After which its autocorrelation has fallen to 1/e."""
    one_sided: bool = False
    """Whether it slows the variant alone."""


@dataclass(frozen=True)
class World:
    """What is random in a run, and what is true of it."""

    name: str
    request: float = 0.05
    """Scatter of a request's own factor."""
    wave: float = 0.0
    """Scatter between waves: the requests in flight together share every step."""
    round: float = 0.0
    """Scatter between rounds that both sides share."""
    own_round: float = 0.0
    """Scatter between rounds of each side."""
    heavy: bool = False
    """Whether a request's own factor is log-t with 3 degrees of freedom instead of log-normal."""
    stalls: float = 0.0
    """Chance that a request takes five times as long."""
    drift: float = 0.0
    """How much slower both sides are at the end of the run than at its beginning (0.2: 20 %)."""
    one_sided_drift: float = 0.0
    """The same of the variant alone. What is true is then the mean over the run."""
    neighbour: Neighbour | None = None
    failures: float = 0.0
    """Chance that a request fails on its way, without tokens."""
    lengths: float = 0.0
    """Scatter of the number of tokens in an answer."""
    wider: float = 1.0
    """The variant's scatter of requests and waves, as a multiple of the baseline's."""
    rounds: int | Rounds = 6
    requests: int = 4
    concurrency: int = 4
    tokens: int = 600
    speedups: tuple[float, ...] = (1.0,) * 10
    """The true speed-up of each test case; with a ladder, of each at each of its loads."""
    ladder: tuple[int, ...] = ()
    """The concurrencies of a ladder, lowest first. They have names only: what a load does is in
    the speed-ups. Empty: there is one load."""
    prompts: int = 0
    """How many prompts with names each test case has, which its rounds send in turn; 0: none."""
    prompt: float = 0.0
    """Scatter of the speed-up between prompts."""
    limit: float = 0.0
    """The longest time per output token that keeps the objective, in seconds; 0: there is none."""

    @property
    def most_rounds(self) -> int:
        """How many rounds there are at most."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_most

    @property
    def cases(self) -> int:
        """How many test cases there are."""
        return len(self.speedups) // len(self.ladder or (1,))

    @property
    def load(self) -> str:
        """Rounds, requests in each, and how many of them are in flight: ``6 x 4 @ 4``."""
        least = "" if isinstance(self.rounds, int) else f"{self.rounds.at_least}-"
        return f"{least}{self.most_rounds} x {self.requests} @ {self.concurrency}"

    @property
    def alike(self) -> bool:
        """Whether the speed-up is all that the two sides differ in."""
        one_sided = self.neighbour is not None and self.neighbour.one_sided
        return self.wider == 1 and self.one_sided_drift == 0 and not one_sided and self.prompt == 0

    def generator(self, number: int) -> np.random.Generator:
        """The source of randomness of one of its runs, the same in each execution."""
        return np.random.default_rng([zlib.crc32(repr(self).encode()), number])
