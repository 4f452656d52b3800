"""When requests are sent: so many at once, or at the times of a Poisson process."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
    items: Iterable[Item],
    send: Callable[[Item, bool], Awaitable[Result]],
    good: Callable[[Result], bool],
    *,
    count: int,
    concurrency: int,
    deadline: float,
) -> list[Result]:
    """Keeps ``concurrency`` of ``items`` in flight until the first ``count`` have ended.

    Further items take the places of those that have ended. Otherwise the last of the ``count``
    would meet a lighter load than the first, and the lighter, the more their lengths differ.
    ``send`` is told whether an item counts. Where one that does not count came to no ``good``
    result, its place stays empty: a server that refuses would be asked without end. Returns what
    came of those that count. None begins after ``deadline`` (monotonic seconds).
    """
    queue, results = enumerate(items), list[Result]()

    async def worker() -> None:
        for number, item in queue:
            counts = number < count
            if time.monotonic() >= deadline or (not counts and len(results) == count):
                return
            result = await send(item, counts)
            if counts:
                results.append(result)
            elif not good(result):
                return

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
