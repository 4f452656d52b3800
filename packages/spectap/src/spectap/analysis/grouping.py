"""What a run was to measure, and how its records are grouped: cells, and units within them.

The requests of one wave share every decoding step, those of one round share its minute, and those
of one launch share the servers' speed level. So the unit is the round, or the launch where there
are several. Where a ledger has no rounds, blocks of time take their place.
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
"""A test case at a load point, by their names. It is decided, and ends, as a whole."""


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
    """The plan of a run, from its configuration or from the names in its ledgers."""

    cases: Mapping[str, Kind]
    points: Mapping[str, LoadPoint | None]
    """Load points by their names."""
    baselines: Mapping[str, str | None]
    """The baseline of each variant, in the order of the variants; None for a baseline."""
    rounds: Mapping[CasePoint, int]
    """The number of rounds that make a test case complete at a load point; 0 where nobody knows."""
    alpha: float
    batches: Mapping[str, int | None] = field(default_factory=dict)
    """The number of sequences that each variant decodes together."""
    objectives: Objectives | None = None
    cost: Cost | None = None
    known: bool = False
    not_run: int = 0
    """The number of planned turns after the last that was measured."""
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
    """The records, each with the name of its load point. Earlier ledgers lack it."""
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
    """The load points of ledgers without a configuration, from their names; None for a nameless
    one.

    A load point's requests are the most that one variant of a test case has in a round.
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
    """The statistical unit of a request: its launch in a run of several, or else its round."""
    return record.run, record.launch or record.round


def round_of(record: Record) -> tuple[str, int]:
    return record.run, record.round


def rounds(
    *sides: Iterable[Record], by: Callable[[Record], tuple[str, int]] = unit_of
) -> dict[tuple[str, int], Unit]:
    """The records of each side in each round, or launch, that all ``sides`` have, in order."""
    grouped = [defaultdict[tuple[str, int], list[Record]](list) for _ in sides]
    for of_side, side in zip(grouped, sides, strict=True):
        for record in side:
            of_side[by(record)].append(record)
    common = set.intersection(*(set(of_side) for of_side in grouped))
    return {key: tuple(of_side[key] for of_side in grouped) for key in sorted(common)}


def units(*sides: Sequence[Record], planned: bool) -> list[Unit]:
    """The rounds; or blocks of time, if nobody ``planned`` rounds and there are too few.

    A block is a stretch of at least two waves. Each side has as many: up to ten, and none where the
    shortest side has too few requests for three. Blocks do not show what differs between two
    rounds.
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
