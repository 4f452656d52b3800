"""What ``compare`` finds of two runs, the old one and the new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.estimates.proportions import Bounds
from spectap.load_points import LoadPoint


class Figure(Enum):
    """What is compared of a cell."""

    TOKENS_PER_STEP = "tokens per step"
    SPEED_UP = "speed-up"
    """Of whole requests, over the baseline of the same run."""
    TIME_PER_OUTPUT_TOKEN = "time per output token"
    """Decoding, in seconds: the median of a typical round; so is the next."""
    TTFT = "time to first token"
    TOKENS_PER_SECOND = "tokens per second"
    """Of all requests together."""

    @property
    def judged(self) -> bool:
        """Whether a verdict rests on it. Another node or day can change the others."""
        return self in (Figure.TOKENS_PER_STEP, Figure.SPEED_UP)


@dataclass(frozen=True)
class Change:
    """One figure of one cell in both runs."""

    old: float
    new: float
    ratio: Interval
    """Of the new one to the old one, with its own 95 % interval."""
    real: bool
    """Whether it is more than chance, among all that is judged of both runs; False where it is not
    judged."""
    detectable: float
    """The smallest change that would probably have been proven: 0.06 is 6 %."""
    below: bool
    """Whether the ratio is surely below the gate's threshold, among all that it judges."""
    seen_below: float | None
    """The gate would probably notice a ratio below this; None without a gate."""


@dataclass(frozen=True)
class CellChange:
    """One variant under one test case at one load point in both runs."""

    variant: str
    test_case: str
    load: LoadPoint | None
    figures: dict[Figure, Change]
    """Of those that both runs have."""


@dataclass(frozen=True)
class ShareChange:
    """A share that both runs have: of good requests, or of right answers."""

    what: str
    old: float
    new: float
    difference: Bounds
    """The 95 % interval of the new one less the old one."""


@dataclass(frozen=True)
class Changes:
    """All of it."""

    old: str
    """The name of the run, as is ``new``."""
    new: str
    cells: tuple[CellChange, ...]
    shares: tuple[ShareChange, ...]
    settings: tuple[tuple[str, str, str], ...]
    """What both runs were told differently: the field, the old value, the new one."""
    incomparable: tuple[tuple[str, str, str], ...]
    """Those of the settings by which the two measured different things: nothing is judged then."""
    notes: tuple[str, ...]
    threshold: float | None
    """Of the gate; None without one."""
    gaps: tuple[str, ...]
    """Why the gate cannot be held though nothing is below it: what the new run does not show."""

    @property
    def judged(self) -> Iterator[tuple[CellChange, Figure, Change]]:
        """Everything that a verdict rests on."""
        for cell in self.cells:
            for figure, change in cell.figures.items():
                if figure.judged:
                    yield cell, figure, change

    @property
    def failed(self) -> bool:
        """Whether the gate is: a loss is sure, or what it guards was not seen."""
        return bool(self.gaps) or any(change.below for _, _, change in self.judged)
