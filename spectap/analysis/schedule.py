"""How an open loop kept its times: what is due and not sent makes it another load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

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
