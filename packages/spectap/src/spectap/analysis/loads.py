"""Checks whether a cell's load was what it says: sent on time, and served without a queue."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import bdtrc

from spectap import metrics
from spectap.analysis import grouping
from spectap.records.record import Record

PUNCTUAL: Final = 0.005  # seconds; a shorter delay is never called a lag
NOTICEABLE: Final = 0.05  # a longer one always is
PART_OF_GAP: Final = 0.1  # in between, of the mean gap between two requests
BLOCKED: Final = 0.1  # of one request: nothing was sent for a while

_EXPECTED: Final = 8.0  # requests that by chance found so many in service; fewer show nothing
_REACHED: Final = 0.1  # the part of these that may have found them
_WAITED: Final = 0.1  # the part of the time in flight that waiting takes, at least
_AFTER: Final = 0.05  # median services; at a beginning, the tap may see a slot's last request, too


def lateness(records: Sequence[Record], rate: float | None) -> tuple[float | None, bool]:
    """The p99 of how late requests were sent, in seconds, and whether that changed the load.

    Lateness ends when a request reaches the tap: the way from there to the server is not the load's
    fault. ``rate`` is in requests a second, None where it is not known. The p99 is None where no
    request was due at a time.
    """
    late = [
        (record.came or record.sent) - record.due for record in records if record.due is not None
    ]
    if not late:
        return None, False
    p99 = float(np.percentile(late, 99))
    share_of_gap = PART_OF_GAP / rate if rate else NOTICEABLE
    allowed = min(max(PUNCTUAL, share_of_gap), NOTICEABLE)
    return p99, p99 > allowed or max(late) > BLOCKED


def queued(records: Sequence[Record]) -> bool:
    """Whether the requests of a cell waited for each other.

    A server never serves more requests than it has slots. So this counts, just after each request's
    service began, how many others are being served. If requests were independent, that count would
    be binomial, with the share of time in flight that is service. A queue shows as a count that
    chance would often reach and that the cell almost never reaches. Service is taken to begin
    before the first token by the cell's shortest time to first token. Only requests that succeeded
    count.
    """

    def times(record: Record) -> tuple[float, float, float]:
        """The times at which it was sent, its first token came and it ended, in Unix seconds."""
        first, end = metrics.ttft(record), record.sent + record.end
        return record.sent, end if first is None else record.sent + first, end

    turns = [
        np.array([times(record) for record in of_round if record.succeeded])
        for (of_round,) in grouping.rounds(records, by=grouping.round_of).values()
    ]
    turns = [turn for turn in turns if len(turn)]
    if not turns:
        return False
    shortest = min(float((turn[:, 1] - turn[:, 0]).min()) for turn in turns)
    in_flight, serving, service, flight = [], [], 0.0, 0.0
    for turn in turns:
        sent, first, end = turn.T
        began = first - shortest
        at = (began + _AFTER * np.median(end - began))[:, np.newaxis]
        running = end > at
        np.fill_diagonal(running, val=False)
        in_flight.append((running & (sent <= at)).sum(axis=1))
        serving.append((running & (began <= at)).sum(axis=1))
        service += (end - began).sum()
        flight += (end - sent).sum()
    served = service / flight if flight else 1.0
    if served > 1 - _WAITED:
        return False
    others, served_with = np.concatenate(in_flight), np.concatenate(serving)
    for number in range(1, int(others.max()) + 1):
        expected = bdtrc(number - 1, others[others >= number], served).sum()
        if expected < _EXPECTED:
            return False
        if np.count_nonzero(served_with >= number) <= _REACHED * expected:
            return True
    return False
