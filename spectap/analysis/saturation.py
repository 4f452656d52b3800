"""Whether a load was what it says: sent at its times, and served without a queue.

What an open loop has due and does not send makes it another load.

A queue is seen in the ledger alone. A server with as many slots as it has requests in flight starts
them independently of each other. One with fewer never serves more than its slots. So each request
is followed to a moment just after its service began, and the others that are in service there are
counted. If requests were independent, the count would be binomial: each of the others in flight is
in service for as large a part of its time as all of them are. A queue is a number of others that
chance would reach often, and that is nearly never reached.

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
from spectap.analysis import grouping
from spectap.analysis.summary import Schedule
from spectap.record import Record

PUNCTUAL: Final = 0.005
"""A delay in seconds that a quiet machine keeps to: it is never called a lag."""

NOTICEABLE: Final = 0.05
"""A delay in seconds that always is one: latencies count from the sending, so they lack it."""

PART_OF_GAP: Final = 0.1
"""In between, the part of the mean time between two requests that a delay may be: requests that
come a tenth of it late still come as scattered as a Poisson process has them."""

BLOCKED: Final = 0.1
"""The delay of a single request, in seconds, that shows that nothing was sent for a while. Those
that were due then come at once: a burst that the rate does not have."""


def schedule(records: Sequence[Record], rate: float | None) -> Schedule | None:
    """How late requests were sent; None where none was due at a time.

    By when they came to the tap: the way from there to the server is no fault of the load's.
    ``rate`` is in requests a second, None where it is not known.
    """
    late = [
        (record.came or record.sent) - record.due for record in records if record.due is not None
    ]
    if not late:
        return None
    p50, p99, worst = (float(value) for value in np.percentile(late, (50, 99, 100)))
    part = PART_OF_GAP / rate if rate else NOTICEABLE
    allowed = min(max(PUNCTUAL, part), NOTICEABLE)
    return Schedule(p50, p99, worst, lagging=p99 > allowed or worst > BLOCKED)


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
        for (own,) in grouping.rounds(records).values()
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
