"""The changes between two runs: what ``compare`` finds, and what its JSON holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from spectap.analysis.estimate import Interval
from spectap.analysis.proportions import Bounds
from spectap.analysis.settings import Difference
from spectap.analysis.summary import Summary
from spectap.inputs.config import Config
from spectap.inputs.load_points import LoadPoint
from spectap.records.record import Record


class Run(NamedTuple):
    """One of the two runs."""

    name: str
    config: Config
    records: tuple[Record, ...]
    summary: Summary


class Figure(Enum):
    """A figure that both runs have of a cell."""

    TOKENS_PER_STEP = "tokens per step"
    SPEED_UP = "speed-up"
    """Speed of whole requests, relative to the baseline of the same run."""
    TIME_PER_OUTPUT_TOKEN = "time per output token"
    """Seconds: the median of a typical round. TTFT is in the same terms."""
    TTFT = "time to first token"
    TOKENS_PER_SECOND = "tokens per second"
    """Tokens of all requests together."""

    @property
    def judged(self) -> bool:
        """Whether a verdict rests on it. The others also change with node and day."""
        return self in (Figure.TOKENS_PER_STEP, Figure.SPEED_UP)

    @property
    def servers(self) -> int:
        """The number of servers whose times the figure is made of; 0 for tokens per step."""
        return {Figure.TOKENS_PER_STEP: 0, Figure.SPEED_UP: 2}.get(self, 1)


@dataclass(frozen=True)
class Change:
    """A figure of one cell in both runs."""

    old: float
    new: float
    ratio: Interval
    differs: bool
    """Whether the change is more than chance, among all changes that are judged."""
    detectable: float
    """The smallest change that this comparison would probably prove: 0.06 is 6 %."""
    below: bool
    """Whether the ratio is surely below the gate's threshold, among all ratios that it judges."""
    seen_below: float | None
    """The ratio below which the gate would probably fail; None without a gate."""


@dataclass(frozen=True)
class CellChange:
    """One variant under one test case at one load point in both runs."""

    variant: str
    test_case: str
    load: LoadPoint | None
    figures: dict[Figure, Change]


@dataclass(frozen=True)
class ShareChange:
    """A share in both runs: of good requests, or of right answers."""

    name: str
    old: float
    new: float
    difference: Bounds


@dataclass(frozen=True)
class Changes:
    """Every change; ``old`` and ``new`` are the names of the runs."""

    old: str
    new: str
    launch_error: float | None
    """The assumed error between launches; None where both runs measure it."""
    cells: tuple[CellChange, ...]
    shares: tuple[ShareChange, ...]
    settings: tuple[Difference, ...]
    """Settings in which the runs differ."""
    incomparable: tuple[Difference, ...]
    """Settings by which the two runs measure different things. With any, nothing is judged."""
    notes: tuple[str, ...]
    threshold: float | None
    gaps: tuple[str, ...]
    """Figures that the gate guards and the new run lacks, a sentence each. Each fails the gate."""

    @property
    def judged(self) -> Iterator[tuple[CellChange, Figure, Change]]:
        """Each change that a verdict rests on."""
        for cell in self.cells:
            for figure, change in cell.figures.items():
                if figure.judged:
                    yield cell, figure, change

    @property
    def failed(self) -> bool:
        """Whether the gate fails: a loss is sure, or a guarded figure is missing."""
        return bool(self.gaps) or any(change.below for _, _, change in self.judged)
