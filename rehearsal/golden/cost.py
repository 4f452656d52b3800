"""What a forward pass costs as the batch grows.

Each model takes what a pass processes: the sequences in flight times the width of each, which is 1
in plain decoding and the window where drafts are verified. It says how long the pass takes, in
passes over a single token. Serving papers describe the engines they measured in these terms: linear
in the tokens of the batch (2406.14066, section 4), and flat until arithmetic and no longer the
weights' way from memory decides (2601.11580).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol


class Cost(Protocol):
    """A model of cost."""

    def of(self, tokens: float) -> float:
        """Length of a pass over that many tokens; 1 for a single one."""

    @property
    def words(self) -> str:
        """The model in words, to stand after "a pass"."""


@dataclass(frozen=True)
class Constant:
    """A batch is free, and so is verification."""

    def of(self, tokens: float) -> float:
        """1."""
        return 1.0

    @property
    def words(self) -> str:
        """The model in words."""
        return "takes as long for many tokens as for one"


@dataclass(frozen=True)
class Linear:
    """Every token adds to the pass."""

    slope: float
    """What each adds, in passes over one token."""

    def of(self, tokens: float) -> float:
        """1 + slope (tokens - 1)."""
        return 1 + self.slope * (tokens - 1)

    @property
    def words(self) -> str:
        """The model in words."""
        return f"takes {self.slope:.1%} longer for each further token"


@dataclass(frozen=True)
class Roofline:
    """Tokens are free up to the knee, where arithmetic takes as long as memory."""

    knee: float
    """In tokens."""

    def of(self, tokens: float) -> float:
        """max(1, tokens / knee)."""
        return max(1.0, tokens / self.knee)

    @property
    def words(self) -> str:
        """The model in words."""
        return (
            f"takes as long for {self.knee:g} tokens as for one, and longer in proportion to more"
        )


@dataclass(frozen=True)
class Rounded:
    """A roofline without a corner: memory and arithmetic hide each other but in part."""

    knee: float
    """In tokens."""

    def of(self, tokens: float) -> float:
        """The root of 1 + (tokens / knee)^2, as a share of that for one token."""
        return math.hypot(1, tokens / self.knee) / math.hypot(1, 1 / self.knee)

    @property
    def words(self) -> str:
        """The model in words."""
        return f"takes little longer for up to {self.knee:g} tokens, and ever longer for more"


_KINDS: Final[Mapping[str, type[Constant | Linear | Roofline | Rounded]]] = {
    kind.__name__.lower(): kind for kind in (Constant, Linear, Roofline, Rounded)
}


def argument(cost: Cost) -> str:
    """The model on a command line, such as ``linear:0.02``."""
    values = vars(cost).values()
    return ":".join([type(cost).__name__.lower(), *map(str, values)])


def parse(text: str) -> Cost:
    """The model of an ``argument``. Raises ValueError."""
    kind, *values = text.split(":")
    if kind not in _KINDS:
        raise ValueError(f"{text}: allowed are {', '.join(_KINDS)}")
    takes = len(dataclasses.fields(_KINDS[kind]))
    try:
        numbers = [*map(float, values)]
    except ValueError:
        numbers = []
    if len(numbers) != takes or not all(0 < number < math.inf for number in numbers):
        raise ValueError(f"{text}: {kind} takes {takes or 'no'} number{' above 0' * takes}")
    return _KINDS[kind](*numbers)
