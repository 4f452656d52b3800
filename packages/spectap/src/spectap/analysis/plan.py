"""Cells that were to be measured, as far as anybody knows, and how they are judged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectap.analysis.grouping import CasePoint, CellKey
from spectap.config import Cost, Objectives
from spectap.load_points import LoadPoint
from spectap.record import Record


@dataclass(frozen=True)
class Kind:
    """The kind of a test case."""

    structure: str = ""
    headline: bool = False
    named: bool = False
    """Whether its prompts have names and classes of their own."""


@dataclass(frozen=True)
class Plan:
    """What a run was to measure, or what ledgers alone name."""

    cases: Mapping[str, Kind]
    points: Mapping[str, LoadPoint | None]
    """By their names."""
    baselines: Mapping[str, str | None]
    """By variant, in the order of the variants; None for a baseline."""
    rounds: Mapping[CasePoint, int]
    """How many make a test case complete at a load point; 0 where nobody knows."""
    alpha: float
    batches: Mapping[str, int | None] = field(default_factory=dict)
    """How many sequences each variant decodes together."""
    objectives: Objectives | None = None
    cost: Cost | None = None
    known: bool = False
    not_run: int = 0
    """Turns that were to be measured after the last of each test case and load point."""
    isolated: bool = False
    rehearsal: bool = False
    repeated: Sequence[Record] = ()
    launches: int = 1

    @property
    def compared(self) -> dict[str, str]:
        return {name: base for name, base in self.baselines.items() if base is not None}

    @property
    def keys(self) -> Iterable[CellKey]:
        """Each cell, in the order of cases, load points and variants."""
        return (CellKey(*point, variant) for point in self.rounds for variant in self.baselines)

    @property
    def pairs(self) -> Iterable[tuple[CellKey, CellKey]]:
        return (
            (key, key.for_variant(baseline))
            for key in self.keys
            if (baseline := self.baselines[key.variant]) is not None
        )
