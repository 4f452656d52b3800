"""The client's own lateness: how long ready events wait for this process's event loop."""

import asyncio
import time
from typing import Final

INTERVAL: Final = 0.01  # seconds between two looks


class Lag:
    """Measures by a timer how late the running loop is, until ``stop``.

    A loop is late while it handles something else and while its process does not run.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waited = 0.0
        self._wait()

    def mark(self) -> tuple[float, float]:
        """The current time, and the integral of waiting time until then."""
        now = time.monotonic()
        late = max(0.0, now - self._due)  # now, in a callback that takes long
        return now, self._waited + late * late / 2

    def since(self, mark: tuple[float, float]) -> float:
        """The mean wait, in seconds, of what became ready at a random moment since ``mark``."""
        (before, waited), (now, in_all) = mark, self.mark()
        return max(0.0, in_all - waited) / (now - before) if now > before else 0.0

    def stop(self) -> None:
        self._timer.cancel()

    def _wait(self) -> None:
        self._due = time.monotonic() + INTERVAL
        self._timer = self._loop.call_later(INTERVAL, self._look)

    def _look(self) -> None:
        _, self._waited = self.mark()
        self._wait()
