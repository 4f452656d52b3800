"""The live line: what passes through a tap, shown while it passes."""

from __future__ import annotations

import shutil
import statistics
from collections import deque
from typing import Final, TextIO

from spectap import metrics, wording
from spectap.metrics import Metric
from spectap.record import Record

LAST: Final = 100
"""How many of the latest requests the medians are taken over."""

_TERMINAL_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0


class Traffic:
    """Counts finished requests and keeps the figures of the last ``LAST``.

    The figures are computed once, as each request ends: nothing is done while a stream is served.
    """

    def __init__(self) -> None:
        self._requests = self._errors = 0
        shown = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN, metrics.TOKENS_PER_STEP)
        self._latest: dict[Metric, deque[float]] = {m: deque(maxlen=LAST) for m in shown}

    def note(self, record: Record) -> None:
        """Takes one finished request."""
        self._requests += 1
        self._errors += not record.succeeded
        for metric, values in self._latest.items():
            values.extend(metric.values(record))

    def line(self, in_flight: int) -> str:
        """Counts and medians, in words."""
        ttft = wording.milliseconds(self._median(metrics.TTFT))
        tpot = wording.milliseconds(self._median(metrics.TIME_PER_OUTPUT_TOKEN))
        steps = self._median(metrics.TOKENS_PER_STEP)
        return (
            f"{wording.count(self._requests, 'request')}, {in_flight} in flight, "
            f"{wording.count(self._errors, 'error')}; TTFT {ttft} ms, TPOT {tpot} ms, "
            f"{wording.MISSING if steps is None else f'{steps:.2f}'} tokens/step"
        )

    def _median(self, metric: Metric) -> float | None:
        values = self._latest[metric]
        return statistics.median(values) if values else None


class Line:
    """Shows a text on a stream: rewritten in place on a terminal, as a new line in a log.

    A log gets a text only when it has changed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._shown = ""

    @property
    def every_seconds(self) -> float:
        """How often to show something: often on a terminal, now and then in a log."""
        return _TERMINAL_SECONDS if self._terminal else _LOG_SECONDS

    def show(self, text: str) -> None:
        """Shows ``text`` in place of the one before."""
        if text == self._shown:
            return
        self._shown = text
        if self._terminal:
            # A line that wraps could not be rewritten.
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r{text[:width]}\x1b[K")
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def close(self) -> None:
        """Leaves the terminal at the beginning of an empty line."""
        if self._terminal and self._shown:
            self._stream.write("\n")
            self._stream.flush()
