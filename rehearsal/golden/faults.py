"""How a golden endpoint goes wrong when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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


async def goes_on(fault: Fault, request: web.Request, response: web.StreamResponse) -> bool:
    """Commits a fault in the middle of a stream; returns False where the stream ends with it."""
    if fault is Fault.MALFORMED:
        await response.write(b'data: {"choices": [{"delta"\n\n')
    elif fault is Fault.ERROR_EVENT:
        error = wire.error("out of memory", "InternalServerError", 500)
        await response.write(b"data: " + error + b"\n\n" + wire.DONE)
    elif fault is Fault.RESET and request.transport is not None:
        request.transport.abort()
    elif fault is Fault.STALL:
        await asyncio.sleep(3600)
    return fault not in (Fault.RESET, Fault.TRUNCATED, Fault.ERROR_EVENT)


def in_pieces(response: web.StreamResponse) -> Callable[[bytes], Awaitable[None]]:
    """Writes three bytes at a time."""

    async def write(event: bytes) -> None:
        for start in range(0, len(event), 3):
            await response.write(event[start : start + 3])
            await asyncio.sleep(0)

    return write
