"""Waits until endpoints serve."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from benchmark import wording

POLL_SECONDS: Final = 2.0

# A wait of hours is normal before the first request: the endpoints may still be compiling.
_SAY_EVERY_SECONDS: Final = 60.0
_ONE_TRY_SECONDS: Final = 10


async def wait(
    endpoints: Mapping[str, str],
    *,
    patience_seconds: float,
    say: Callable[[str], None],
    poll_seconds: float = POLL_SECONDS,
) -> list[str]:
    """Returns once every endpoint's ``/health`` says 200, or after ``patience_seconds``.

    ``endpoints``: name -> base URL. Returns, for each that does not serve, what it said at the
    last try: none is success.
    """
    start, limit = time.monotonic(), wording.duration(patience_seconds)
    said: dict[str, tuple[str, float]] = {}
    one_try = aiohttp.ClientTimeout(total=_ONE_TRY_SECONDS)
    async with aiohttp.ClientSession(timeout=one_try) as session:
        while True:
            states = await asyncio.gather(
                *(_state(session, endpoint) for endpoint in endpoints.values())
            )
            waiting = {name: s for name, s in zip(endpoints, states, strict=True) if s}
            elapsed = time.monotonic() - start
            if not waiting or elapsed >= patience_seconds:
                return [
                    f"{name} ({endpoints[name]}), at the last try: {state}"
                    for name, state in waiting.items()
                ]
            for name, state in waiting.items():
                before, at = said.get(name, ("", 0.0))
                if state != before or elapsed - at >= _SAY_EVERY_SECONDS:
                    said[name] = state, elapsed
                    say(
                        f"waiting for {name} ({endpoints[name]}): {state}, "
                        f"for {wording.duration(elapsed)} of at most {limit}"
                    )
            await asyncio.sleep(poll_seconds)


async def _state(session: aiohttp.ClientSession, endpoint: str) -> str:
    """What keeps it from serving; "" when it serves."""
    parts = urlsplit(endpoint)
    try:
        async with session.get(f"{parts.scheme}://{parts.netloc}/health") as response:
            return "" if response.status == 200 else f"HTTP {response.status}"
    except asyncio.TimeoutError:
        return f"no answer within {_ONE_TRY_SECONDS} s"
    except aiohttp.ClientConnectorDNSError:
        return "its name is not known yet"
    except aiohttp.ClientError as error:
        return f"{type(error).__name__}" if not isinstance(error, OSError) else "not reachable"
