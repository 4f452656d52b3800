"""What a stage shows while it waits: on a terminal at once, in a log at least once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from deployment.cluster import Unreachable
from deployment.console import Console
from deployment.console import Stage as Line
from deployment.errors import DeploymentError

T = TypeVar("T")

POLL_SECONDS: Final = 5.0
"""Between two looks, once what is waited for has not come soon."""
_FIRST_SECONDS: Final = 0.5
_GROWTH: Final = 1.3
_PASSING: Final = (DeploymentError, Unreachable)
"""What may be over when it is asked again, unlike a right that lacks or a stage that has failed."""
_MUTE_SECONDS: Final = 600.0
"""How long AWS or the cluster may be out of reach before a wait is given up."""
_OFTEN_SECONDS: Final = 10.0
_SELDOM_SECONDS: Final = 60.0


class Shown:
    """The line of one stage."""

    def __init__(self, console: Console, line: Line, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._console, self._line, self._poll = console, line, poll_seconds
        self._last, self._when = "", float("-inf")

    def say(self, text: str) -> None:
        """Lines that stay."""
        for line in text.splitlines():
            self._console.say(line)

    def waits(self, text: str) -> None:
        """What it waits for now."""
        text = " ".join(text.split())
        self._line.now = text
        if self._console.on_terminal:
            return
        since = time.monotonic() - self._when
        if since >= (_SELDOM_SECONDS if text == self._last else _OFTEN_SECONDS):
            self._console.say(text)
            self._last, self._when = text, time.monotonic()

    def until(self, look: Callable[[], T | None]) -> T:
        """Looks again and again, until there is an answer that is not None.

        Raises what ``look`` raises, but what may pass only after ten minutes of nothing else.
        """
        heard, pause = time.monotonic(), min(_FIRST_SECONDS, self._poll)
        while True:
            try:
                found = look()
                heard = time.monotonic()
            except DeploymentError as error:
                lasting = type(error) not in _PASSING
                if lasting or time.monotonic() - heard > _MUTE_SECONDS:
                    raise
                self.waits(f"{error}; asking again")
                found = None
            if found is not None:
                return found
            time.sleep(pause)
            pause = min(pause * _GROWTH, self._poll)
