"""The lag of the client's own event loop."""

import asyncio
import time

import pytest

from spectap.loop_lag import Lag

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("times", "stopped", "free", "least", "most"),
    [
        (1, 0, 0.4, 0, 0.004),
        # What comes within a stop of 50 ms waits 25 ms, and half of all does.
        (6, 0.05, 0.05, 0.005, 0.03),
        (1, 0.4, 0, 0.15, 0.3),  # in one callback
    ],
)
async def test_the_mean_wait(
    times: int, stopped: float, free: float, least: float, most: float
) -> None:
    lag = Lag()
    await asyncio.sleep(0)
    mark = lag.mark()
    for _ in range(times):
        time.sleep(stopped)
        if free:
            await asyncio.sleep(free)
    assert least <= lag.since(mark) <= most
    lag.stop()
