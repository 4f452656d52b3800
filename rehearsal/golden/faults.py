"""How a golden endpoint goes wrong when it is told to."""

from __future__ import annotations

import asyncio
from enum import Enum

from aiohttp import web

from rehearsal.golden import wire

FAULT_HEADER = "X-Golden-Fault"


class Fault(Enum):
    """Ways to fail: for one request by a header, or for all by ``Golden.fault``."""

    RESET = "reset"  # the connection is torn down in mid-stream
    TRUNCATED = "truncated"  # the stream ends early, as if it were whole
    MALFORMED = "malformed"  # an event that is no JSON, and the stream goes on
    ERROR_EVENT = "error-event"  # an error inside a stream that began well
    TOO_MANY = "too-many"  # 429
    BROKEN = "broken"  # 500
    STALL = "stall"  # nothing more comes
    SPLIT = "split"  # three bytes at a time: events and characters cut anywhere
    PER_REQUEST = "per-request"  # continuous_usage_stats ignored
    NO_USAGE = "no-usage"  # stream_options ignored altogether


class Writer:
    """Writes a stream's events, and commits ``fault`` before event number ``at``."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, fault: Fault | None, at: int
    ) -> None:
        self._request = request
        self._response = response
        self._fault = fault
        self._left = at

    async def write(self, event: bytes) -> bool:
        """Returns False when the stream ends here."""
        self._left -= 1
        if self._left == -1 and not await self._go_wrong():
            return False
        if self._fault is not Fault.SPLIT:
            await self._response.write(event)
            return True
        for start in range(0, len(event), 3):
            await self._response.write(event[start : start + 3])
            await asyncio.sleep(0)
        return True

    async def _go_wrong(self) -> bool:
        if self._fault is Fault.MALFORMED:
            await self._response.write(b'data: {"choices": [{"delta"\n\n')
        elif self._fault is Fault.ERROR_EVENT:
            error = wire.error("out of memory", "InternalServerError", 500)
            await self._response.write(b"data: " + error + b"\n\n" + wire.DONE)
        elif self._fault is Fault.RESET and self._request.transport is not None:
            self._request.transport.abort()
        elif self._fault is Fault.STALL:
            await asyncio.sleep(3600)
        return self._fault not in (Fault.RESET, Fault.TRUNCATED, Fault.ERROR_EVENT)
