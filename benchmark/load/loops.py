"""When requests are sent: so many at once, or at the times of a Poisson process."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def arrivals(rate: float, seed: str, count: int) -> list[float]:
    """Seconds after the start at which ``count`` requests arrive, ``rate`` a second on average.

    A Poisson process: the gaps are exponential, the one before the first included. Equal seeds,
    equal times.
    """
    chance = random.Random(seed)
    return list(itertools.accumulate(chance.expovariate(rate) for _ in range(count)))


async def closed(
    items: Sequence[Item],
    send: Callable[[Item], Awaitable[Result]],
    *,
    concurrency: int,
    deadline: float,
) -> list[Result]:
    """Keeps ``concurrency`` in flight, and begins none after ``deadline`` (monotonic seconds)."""
    queue, results = iter(items), list[Result]()

    async def worker() -> None:
        for item in queue:
            if time.monotonic() >= deadline:
                return
            results.append(await send(item))

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return results


async def opened(
    items: Sequence[Item],
    send: Callable[[Item, float], Awaitable[Result]],
    *,
    offsets: Sequence[float],
    deadline: float,
) -> list[Result]:
    """Sends each at its time, whatever is in flight, and none after ``deadline``.

    ``send`` is told when it was due, in Unix seconds. What is late is sent at once: the next ones
    are due when they are due, however late the last was.
    """
    start, wall = time.monotonic(), time.time()
    sending = []
    for item, offset in zip(items, offsets, strict=True):
        await asyncio.sleep(start + offset - time.monotonic())
        if time.monotonic() >= deadline:
            break
        sending.append(asyncio.ensure_future(send(item, wall + offset)))
    return await asyncio.gather(*sending)
