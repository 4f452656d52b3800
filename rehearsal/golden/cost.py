"""What a forward pass costs as the batch grows.

Each model takes what a pass processes: the sequences in flight times the width of each, which is 1
in plain decoding and the window where drafts are verified. It gives the length of the pass, in
passes over a single token. Serving papers describe the engines they measured in these terms: linear
in the tokens of the batch (2406.14066, section 4), and flat until arithmetic and no longer the
weights' way from memory decides (2601.11580).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


class Cost:
    """A model of cost."""

    def of(self, tokens: float) -> float:
        """Length of a pass over that many tokens; 1 for a single one."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Cost):
    """A batch is free, and so is verification."""

    def of(self, tokens: float) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Linear(Cost):
    """Every token adds to the pass ``slope`` passes over one token."""

    slope: float

    def of(self, tokens: float) -> float:
        """1 + slope (tokens - 1)."""
        return 1 + self.slope * (tokens - 1)


@dataclass(frozen=True)
class Roofline(Cost):
    """Tokens are free up to the knee, in tokens, where arithmetic takes as long as memory."""

    knee: float

    def of(self, tokens: float) -> float:
        """max(1, tokens / knee)."""
        return max(1.0, tokens / self.knee)


@dataclass(frozen=True)
class Rounded(Cost):
    """A roofline without a corner: memory and arithmetic hide each other but in part."""

    knee: float

    def of(self, tokens: float) -> float:
        """The root of 1 + (tokens / knee)^2, as a share of that for one token."""
        return math.hypot(1, tokens / self.knee) / math.hypot(1, 1 / self.knee)
