"""The sequences that an engine decodes together, and the queue before them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

_ENOUGH: Final = 2**20


class Seats:
    """Places in the batch. Who finds none waits, first come, first served."""

    def __init__(self, size: int | None) -> None:
        self.running = 0
        self.waiting = 0
        self._free = asyncio.Semaphore(_ENOUGH if size is None else size)

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """A place, once there is one, for as long as the context lasts."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._free.release()
