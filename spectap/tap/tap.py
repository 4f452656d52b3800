"""The tap: a transparent reverse proxy on loopback that records when each token passed.

Any OpenAI-compatible client works through it as it does without it. The tap writes one ledger line
for each complete request to ``/chat/completions`` and ``/completions``, whatever becomes of it. All
other requests pass unrecorded.

A request through the tap differs from a direct one in three ways, besides what
``spectap.tap.proxy`` says. A streamed request asks the server for usage in every event
(``stream_options``, where the client did not set them itself), and the tap removes that usage from
the answer. All answers are requested uncompressed. And the headers by which a client tells the
ledger about a request (``spectap.names``) end here.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import shutil
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Self, TextIO

from spectap import metrics, wording
from spectap.journal import Journal
from spectap.metrics import Metric
from spectap.record import Record
from spectap.tap.completion import Completion, Label
from spectap.tap.proxy.clients import Proxy
from spectap.tap.proxy.http1 import Exchange, Request
from spectap.tap.proxy.upstream import Upstream

# llmperf gives up on a silent server after 180 s. The tap does so before, and records the cause.
STALL_SECONDS: Final = 175.0

_OPEN_FILES: Final = 65536
"""A request through a tap takes two. In an open loop beyond what a server can do there may be
thousands, and many systems allow a process 1,024 unless it asks for more."""

_MEASURED: Final = (b"/chat/completions", b"/completions")

_LATEST_REQUESTS: Final = 100
"""How many requests the medians of the live line are taken over."""
_TERMINAL_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0


def settle() -> None:
    """Collects garbage between two loads: in the midst of one, it would hold up all streams."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _allow_open_files() -> None:
    """Lets this process, and what it starts from now on, have enough files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(ValueError, OSError):  # macOS may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


class Tap:
    """Stands before one endpoint. ``async with`` serves it; ``url`` is what clients are given.

    ``endpoint`` is the server's base URL, ``/v1`` included. ``port`` is where the tap listens on
    loopback; 0 takes a free one. ``stall_seconds`` is how long the server may send nothing.
    ``on_record`` receives each line of the ledger. When the ledger cannot be written, for instance
    because the disk is full, the tap goes on serving and keeps the OSError in ``failure``.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        run: str,
        variant: str,
        ledger: Journal,
        port: int = 0,
        stall_seconds: float = STALL_SECONDS,
        on_record: Callable[[Record], None] = lambda record: None,
    ) -> None:
        self._label = Label(run, variant, case="", round=0)
        self._ledger = ledger
        self._on_record = on_record
        self._port = port
        self._upstream = Upstream(endpoint, stall_seconds)
        self._proxy = Proxy(self._upstream, self._exchange)
        self.failure: OSError | None = None
        self._completions: dict[str, Completion] = {}

    def label(self, case: str, round: int, attempt: int = 1, load: str = "") -> None:
        """Sets what the requests that come from now on belong to; ``load`` names a load point."""
        self._label = self._label._replace(case=case, round=round, attempt=attempt, load=load)

    @property
    def in_flight(self) -> int:
        """Completions that have come and have no line in the ledger yet."""
        return len(self._completions)

    @property
    def silent(self) -> bool:
        """Whether the server has sent nothing to anybody for about as long as it may."""
        # A little less counts: the requests of one wave are sent one after another.
        return time.monotonic() - self._upstream.heard >= 0.9 * self._upstream.stall_seconds

    def give_up(self, reason: str) -> None:
        """Records what is in flight as failed for this reason, whatever still becomes of it."""
        for completion in [*self._completions.values()]:
            completion.broke(reason, time.monotonic())

    @property
    def url(self) -> str:
        """Base URL of the endpoint through the tap."""
        return self._proxy.url

    async def __aenter__(self) -> Self:
        """Begins to serve. Raises OSError, for instance where the port is in use."""
        _allow_open_files()
        await self._proxy.start(self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends all connections; requests under way are recorded as cancelled."""
        await self._proxy.stop()

    def _exchange(self, request: Request) -> Exchange:
        path = request.target.partition(b"?")[0]
        if request.method == b"POST" and path.endswith(_MEASURED):
            completion = Completion(request, self._label, self._record)
            self._completions[completion.id] = completion
            return completion
        return Exchange(request)

    def _record(self, record: Record) -> None:
        del self._completions[record.request]
        try:
            self._ledger.append(record)
        except OSError as error:
            self.failure = error
        self._on_record(record)


class Traffic:
    """Counts finished requests, and has the figures of the latest for the live line."""

    def __init__(self) -> None:
        self._requests = self._errors = 0
        self._latest: dict[Metric, deque[float]] = {
            metric: deque(maxlen=_LATEST_REQUESTS)
            for metric in (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN, metrics.TOKENS_PER_STEP)
        }

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


class LiveLine:
    """Shows a text: rewritten in place on a terminal, as a new line in a log if it has changed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._text = ""

    @property
    def every_seconds(self) -> float:
        """How often to show something."""
        return _TERMINAL_SECONDS if self._terminal else _LOG_SECONDS

    def show(self, text: str) -> None:
        """Shows ``text`` in place of the one before."""
        if text == self._text:
            return
        self._text = text
        if self._terminal:
            # A line that wraps could not be rewritten.
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r{text[:width]}\x1b[K")
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def close(self) -> None:
        """Leaves the terminal at the beginning of an empty line."""
        if self._terminal and self._text:
            self._stream.write("\n")
            self._stream.flush()
