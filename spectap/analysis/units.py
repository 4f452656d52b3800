"""What is independent in a ledger: rounds, or blocks of time where there are no rounds.

The requests of one wave share every decoding step, and those of one round share its minute. So a
request is no unit, and a wave may be none. Rounds are: between two rounds of a test case lie the
turns of others, as a rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from spectap import metrics
from spectap.record import Record
from spectap.rounds import FEWEST_ROUNDS

# More blocks would leave their ends, which share a wave with the next block, a larger part of them.
_BLOCKS: Final = 10
_WAVES_PER_BLOCK: Final = 2

Unit = tuple[Sequence[Record], ...]
"""What each side did in one round or block."""


def rounds(*sides: Iterable[Record]) -> dict[tuple[str, int], Unit]:
    """The rounds that all ``sides`` have, by run and number, in their order."""
    grouped = [_by_round(side) for side in sides]
    common = set.intersection(*(set(of_side) for of_side in grouped))
    return {each: tuple(of_side[each] for of_side in grouped) for each in sorted(common)}


def units(*sides: Sequence[Record], planned: bool) -> list[Unit]:
    """The rounds; or blocks of time, where nobody ``planned`` rounds and there are too few.

    Blocks are stretches of at least two waves, as many in each side: up to ten, and none where the
    shortest side has too few requests for three. What differs between two rounds cannot be seen in
    them.
    """
    found = rounds(*sides)
    if planned or len(found) >= FEWEST_ROUNDS:
        return [*found.values()]
    ordered = [sorted(side, key=lambda record: record.sent) for side in sides]
    count = min(_BLOCKS, *(len(side) // (_WAVES_PER_BLOCK * in_flight(side)) for side in ordered))
    if count < FEWEST_ROUNDS:
        return []
    return [*zip(*(_blocks(side, count) for side in ordered), strict=True)]


def in_flight(records: Sequence[Record]) -> int:
    """The mean number of requests in flight while there was any, rounded; at least 1."""
    occupied = metrics.occupied_time(records)
    return max(1, round(metrics.request_time(records) / occupied)) if occupied else 1


def _by_round(records: Iterable[Record]) -> Mapping[tuple[str, int], list[Record]]:
    grouped = defaultdict(list)
    for record in records:
        grouped[record.run, record.round].append(record)
    return grouped


def _blocks(records: Sequence[Record], count: int) -> list[Sequence[Record]]:
    ends = [len(records) * number // count for number in range(count + 1)]
    return [records[start:end] for start, end in pairwise(ends)]
