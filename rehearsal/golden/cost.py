"""What a forward pass costs as the batch grows.

Each model takes what a pass processes: the sequences in flight times the width of each, which is 1
in plain decoding and the window where drafts are verified. It gives the length of the pass, in
passes over a single token. Serving papers describe the engines they measured in these terms: linear
in the tokens of the batch (2406.14066, section 4), and flat until arithmetic and no longer the
weights' way from memory decides (2601.11580).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final


class Cost:
    """A model of cost."""

    _words: ClassVar[str]

    def of(self, tokens: float) -> float:
        """Length of a pass over that many tokens; 1 for a single one."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """The model in words, to stand after "a pass"."""
        return self._words.format(**vars(self))


@dataclass(frozen=True)
class Constant(Cost):
    """A batch is free, and so is verification."""

    _words = "takes as long for many tokens as for one"

    def of(self, tokens: float) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Linear(Cost):
    """Every token adds to the pass ``slope`` passes over one token."""

    slope: float
    _words = "takes {slope:.1%} longer for each further token"

    def of(self, tokens: float) -> float:
        """1 + slope (tokens - 1)."""
        return 1 + self.slope * (tokens - 1)


@dataclass(frozen=True)
class Roofline(Cost):
    """Tokens are free up to the knee, in tokens, where arithmetic takes as long as memory."""

    knee: float
    _words = "takes as long for {knee:g} tokens as for one, and longer in proportion to more"

    def of(self, tokens: float) -> float:
        """max(1, tokens / knee)."""
        return max(1.0, tokens / self.knee)


@dataclass(frozen=True)
class Rounded(Cost):
    """A roofline without a corner: memory and arithmetic hide each other but in part."""

    knee: float
    _words = "takes little longer for up to {knee:g} tokens, and ever longer for more"

    def of(self, tokens: float) -> float:
        """The root of 1 + (tokens / knee)^2, as a share of that for one token."""
        return math.hypot(1, tokens / self.knee) / math.hypot(1, 1 / self.knee)


_KINDS: Final[Mapping[str, type[Constant | Linear | Roofline | Rounded]]] = {
    kind.__name__.lower(): kind for kind in (Constant, Linear, Roofline, Rounded)
}


def argument(cost: Cost) -> str:
    """The model on a command line, such as ``linear:0.02``."""
    return ":".join([type(cost).__name__.lower(), *map(str, vars(cost).values())])


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
