"""Whether requests waited for others before they were served, from the ledger alone.

A server with as many slots as it has requests in flight starts them independently of each other.
One with fewer never serves more than its slots. So each request is followed to a moment just after
its service began, and the others that are in service there are counted. If requests were
independent, the count would be binomial: each of the others in flight is in service for as large a
part of its time as all of them are. A queue is a number of others that chance would reach often,
and that is nearly never reached.

The service of a request begins before its first token by at least the shortest time to first token
of the cell: that request may not have waited at all. How often a queue is seen, and how often there
is none, was simulated (``tests/bench/queueing``, docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from spectap import metrics
from spectap.analysis import units
from spectap.record import Record

_Counts = NDArray[np.int64]

_EXPECTED: Final = 8.0
"""Requests that would by chance have found so many others in service, at least: fewer show nothing.
"""

_REACHED: Final = 0.1
"""The part of these that may have found them."""

_WAITED: Final = 0.1
"""The part of the time in flight that waiting takes, at least; less is not worth a word."""

_AFTER: Final = 0.05
"""When the others are counted, in median services after the beginning of one: where one request
ends and the next begins, the tap may see both at once."""


def queued(records: Sequence[Record]) -> bool:
    """Whether the requests of a cell waited for each other; of those that succeeded."""
    turns = [
        np.array([_times(record) for record in own if record.succeeded])
        for (own,) in units.rounds(records).values()
    ]
    turns = [turn for turn in turns if len(turn)]
    if not turns:
        return False
    shortest = min(float((turn[:, 1] - turn[:, 0]).min()) for turn in turns)
    others, serving, service, flight = [], [], 0.0, 0.0
    for turn in turns:
        sent, first, end = turn.T
        began = first - shortest
        at = (began + _AFTER * np.median(end - began))[:, np.newaxis]
        running = end > at
        np.fill_diagonal(running, val=False)
        others.append((running & (sent <= at)).sum(axis=1))
        serving.append((running & (began <= at)).sum(axis=1))
        service += (end - began).sum()
        flight += (end - sent).sum()
    served = service / flight if flight else 1.0
    return bool(served <= 1 - _WAITED) and _capped(
        np.concatenate(others), np.concatenate(serving), served
    )


def _capped(others: _Counts, serving: _Counts, served: float) -> bool:
    """Whether there is a number of requests in service that is reached too seldom for chance."""
    for number in range(1, int(others.max()) + 1):
        expected = bdtrc(number - 1, others[others >= number], served).sum()
        if expected < _EXPECTED:
            return False
        if np.count_nonzero(serving >= number) <= _REACHED * expected:
            return True
    return False


def _times(record: Record) -> tuple[float, float, float]:
    """When it was sent, when its first token came and when it ended, in Unix seconds."""
    first = metrics.ttft(record)
    end = record.sent + record.end
    return record.sent, end if first is None else record.sent + first, end
