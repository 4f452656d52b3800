"""What a run was to measure, and which records belong together: cells, and units within them.

The requests of one wave share every decoding step, those of one round its minute, and those of one
launch of the servers its level. So rounds are the unit, and launches where there are several. Where
a ledger has no rounds, blocks of time stand for them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from spectap import metrics
from spectap.inputs.config import Cost, Objectives
from spectap.inputs.load_points import FEWEST_ROUNDS, Load, LoadPoint
from spectap.records.record import Record

_POINT: Final = re.compile(r"(concurrency|rate)-([0-9.e+-]+)")

# More blocks would leave their ends, which share a wave with the next block, a larger part of them.
_BLOCKS: Final = 10
_WAVES_PER_BLOCK: Final = 2

CasePoint = tuple[str, str]
"""A test case at a load point, by their names: what is decided, and ends, as a whole."""


class CellKey(NamedTuple):
    """A cell, by the names of its test case, its load point and its variant."""

    case: str
    load: str
    variant: str

    @property
    def point(self) -> CasePoint:
        """The test case and load point, which it shares with the other variants."""
        return self.case, self.load

    def for_variant(self, variant: str) -> CellKey:
        return self._replace(variant=variant)


Cells = Mapping[CellKey, Sequence[Record]]
"""The records of each cell that has any."""


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


def at_load_points(load: Load, records: Iterable[Record]) -> list[Record]:
    """The records, each with the name of its load point: earlier ledgers name none."""
    first = load.points[0].name
    return [record if record.load else replace(record, load=first) for record in records]


def key_of(record: Record) -> CellKey:
    return CellKey(record.case, record.load, record.variant)


def by_cell(records: Iterable[Record]) -> dict[CellKey, list[Record]]:
    cells = defaultdict(list)
    for record in records:
        cells[key_of(record)].append(record)
    return cells


def recorded_points(records: Iterable[Record]) -> dict[str, LoadPoint | None]:
    """The load points that records name, where no configuration does; None for one without a name.

    A load point has as many requests as one variant of a test case has in a round, at most.
    """
    turns = Counter((r.load, r.case, r.variant, r.run, r.round) for r in records)
    points: dict[str, LoadPoint | None] = {}
    for name in dict.fromkeys(load for load, *_ in turns):
        requests = max(count for (load, *_), count in turns.items() if load == name)
        kind, amount = match.groups() if (match := _POINT.fullmatch(name)) else ("", "")
        points[name] = None
        if kind == "rate":
            points[name] = LoadPoint(rate=float(amount), requests=requests)
        elif kind:
            points[name] = LoadPoint(concurrency=int(amount), requests=requests)
    return points


Unit = tuple[Sequence[Record], ...]
"""The records of each side in one round, launch or block."""


def unit_of(record: Record) -> tuple[str, int]:
    """The unit that a request belongs to: the launch, where the run has several, or the round."""
    return record.run, record.launch or record.round


def round_of(record: Record) -> tuple[str, int]:
    return record.run, record.round


def rounds(
    *sides: Iterable[Record], by: Callable[[Record], tuple[str, int]] = unit_of
) -> dict[tuple[str, int], Unit]:
    """The rounds that all ``sides`` have, or their launches, by run and number, in their order."""
    grouped = [defaultdict[tuple[str, int], list[Record]](list) for _ in sides]
    for of_side, side in zip(grouped, sides, strict=True):
        for record in side:
            of_side[by(record)].append(record)
    common = set.intersection(*(set(of_side) for of_side in grouped))
    return {key: tuple(of_side[key] for of_side in grouped) for key in sorted(common)}


def units(*sides: Sequence[Record], planned: bool) -> list[Unit]:
    """The rounds; or blocks of time, where nobody ``planned`` rounds and there are too few.

    Blocks are stretches of at least two waves, as many in each side: up to ten, and none where the
    shortest side has too few requests for three. What differs between two rounds cannot be seen in
    them.
    """
    by_round = rounds(*sides)
    if planned or len(by_round) >= FEWEST_ROUNDS:
        return [*by_round.values()]
    ordered = [sorted(side, key=lambda record: record.sent) for side in sides]
    count = min(_BLOCKS, *(len(side) // (_WAVES_PER_BLOCK * in_flight(side)) for side in ordered))
    if count < FEWEST_ROUNDS:
        return []
    return [
        tuple(
            side[len(side) * block // count : len(side) * (block + 1) // count] for side in ordered
        )
        for block in range(count)
    ]


def in_flight(records: Sequence[Record]) -> int:
    """The mean number of requests in flight while there was any, rounded; at least 1."""
    return max(1, round(metrics.in_flight(records) or 1))
