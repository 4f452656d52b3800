"""The lag of the client's own event loop."""

import asyncio
import time
from collections.abc import Callable

import pytest

from spectap.lag import Lag

pytestmark = pytest.mark.anyio


async def idle() -> None:
    await asyncio.sleep(0.4)


async def stopped_half_of_the_time() -> None:
    """What comes within a stop of 50 ms waits 25 ms, and half of all does."""
    for _ in range(6):
        time.sleep(0.05)
        await asyncio.sleep(0.05)


async def in_one_callback() -> None:
    time.sleep(0.4)


@pytest.mark.parametrize(
    ("load", "least", "most"),
    [(idle, 0, 0.004), (stopped_half_of_the_time, 0.005, 0.03), (in_one_callback, 0.15, 0.3)],
)
async def test_the_mean_wait(
    load: Callable[[], "asyncio.Future[None]"], least: float, most: float
) -> None:
    lag = Lag()
    await asyncio.sleep(0)
    mark = lag.mark()
    await load()
    assert least <= lag.since(mark) <= most
    lag.stop()
