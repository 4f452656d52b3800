"""The tap: a transparent reverse proxy on loopback that writes down when each token passed.

Any OpenAI-compatible client works through it as it does without. Of requests to
``/chat/completions`` and ``/completions`` it writes one ledger line each, whatever happens to
them once they have come whole; all others just pass.

What differs from a direct connection, besides what ``benchmark.tap.proxy`` says: streamed requests
ask the server for usage in every event (``stream_options``, where the client did not set its own),
which is taken out again on the way back; and answers are asked for uncompressed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from typing_extensions import Self

from benchmark.journal import Journal
from benchmark.record import Record
from benchmark.tap.completion import Completion, Label
from benchmark.tap.proxy.clients import Proxy
from benchmark.tap.proxy.exchange import Exchange
from benchmark.tap.proxy.http1 import Request
from benchmark.tap.proxy.upstream import Upstream

# Just before llmperf itself gives up on a silent server (180 s), so that the line names the cause.
STALL_SECONDS: Final = 175.0

_MEASURED: Final = (b"/chat/completions", b"/completions")


def settle() -> None:
    """Collects garbage now, between two loads, where it disturbs no stream.

    A full collection takes 20 ms and more, in which none is served; what is frozen here makes those
    short that come by themselves.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


class Tap:
    """Stands before one endpoint. ``async with`` serves it; ``url`` is what clients are given.

    ``endpoint`` is the server's base URL, ``/v1`` included. ``stall_seconds`` is how long the
    server may say nothing. ``on_record`` is told of each line. After an OSError of the ledger, such
    as a full disk, it goes on serving and keeps the error in ``failure``.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        run: str,
        variant: str,
        ledger: Journal,
        stall_seconds: float = STALL_SECONDS,
        on_record: Callable[[Record], None] = lambda record: None,
    ) -> None:
        self._label = Label(run, variant, case="", round=0)
        self._ledger = ledger
        self._on_record = on_record
        self._proxy = Proxy(Upstream(endpoint, stall_seconds), self._exchange)
        self.failure: OSError | None = None

    def label(self, case: str, round: int) -> None:
        """Says what the requests belong to that come from now on."""
        self._label = self._label._replace(case=case, round=round)

    @property
    def url(self) -> str:
        """Base URL of the endpoint through the tap."""
        return self._proxy.url

    async def __aenter__(self) -> Self:
        """Serves on a free port of the loopback. Raises OSError."""
        await self._proxy.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends all connections; requests under way are recorded as cancelled."""
        await self._proxy.stop()

    def _exchange(self, request: Request) -> Exchange:
        path = request.target.partition(b"?")[0]
        if request.method == b"POST" and path.endswith(_MEASURED):
            return Completion(request, self._label, self._record)
        return Exchange(request)

    def _record(self, record: Record) -> None:
        try:
            self._ledger.append(record)
        except OSError as error:
            self.failure = error
        self._on_record(record)
