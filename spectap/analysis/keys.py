"""What a figure belongs to, and which records are of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from spectap.load_points import Load, LoadPoint
from spectap.record import Record

_POINT: Final = re.compile(r"(concurrency|rate)-([0-9.e+-]+)")


Place = tuple[str, str]
"""A test case at a load point, by their names: what is decided, and ends, as a whole."""


class CellKey(NamedTuple):
    """A cell, by the names of its test case, its load point and its variant."""

    case: str
    load: str
    variant: str

    @property
    def place(self) -> Place:
        """What it shares with the other variants."""
        return self.case, self.load

    def of(self, variant: str) -> CellKey:
        """The same place under another variant."""
        return self._replace(variant=variant)


Cells = Mapping[CellKey, Sequence[Record]]
"""The records of each cell that has any."""


def at_load_points(load: Load, records: Iterable[Record]) -> list[Record]:
    """The records, each with the name of its load point: earlier ledgers name none."""
    first = load.points[0].name
    return [record if record.load else replace(record, load=first) for record in records]


def by_cell(records: Iterable[Record]) -> dict[CellKey, list[Record]]:
    """The records of each cell."""
    cells = defaultdict(list)
    for record in records:
        cells[CellKey(record.case, record.load, record.variant)].append(record)
    return cells


def recorded_points(records: Iterable[Record]) -> dict[str, LoadPoint | None]:
    """The load points that records name, where no configuration does; None for one without a name.

    A load point has as many requests as one variant of a test case has in a round, at most.
    """
    turns = Counter((r.load, r.case, r.variant, r.run, r.round) for r in records)
    most: dict[str, int] = {}
    for (load, *_), requests in turns.items():
        most[load] = max(requests, most.get(load, 0))
    return {name: _point(name, requests) for name, requests in most.items()}


def _point(name: str, requests: int) -> LoadPoint | None:
    if (found := _POINT.fullmatch(name)) is None:
        return None
    kind, amount = found.groups()
    if kind == "rate":
        return LoadPoint(rate=float(amount), requests=requests)
    return LoadPoint(concurrency=int(amount), requests=requests)
