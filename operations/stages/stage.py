"""A stage of ``make experiment``, and its display while it waits."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from operations.account import Deployment, DeploymentError
from operations.cluster import Unreachable
from operations.console import Console, StageLine
from spectap.wording import printable

T = TypeVar("T")

POLL_SECONDS: Final = 5.0
"""Between two looks, once what is waited for has not come soon."""
_FIRST_SECONDS: Final = 0.5
_GROWTH: Final = 1.3
_PASSING: Final = (DeploymentError, Unreachable)
"""Errors that may pass, unlike a missing right or a stage that has failed."""
_MUTE_SECONDS: Final = 600.0
"""How long AWS or the cluster may be out of reach before a wait is given up."""
_OFTEN_SECONDS: Final = 10.0
_SELDOM_SECONDS: Final = 60.0


class StageFailed(DeploymentError):
    """A stage cannot reach its end, and to wait longer would not help. One line or more.

    Nodes are of no more use. Where they may be, as before anything is begun, it is another error.
    """


class Progress:
    """Display of one stage: on a terminal at once, in a log at least once a minute."""

    def __init__(self, console: Console, line: StageLine) -> None:
        self._console, self._line = console, line
        self._last, self._when = "", float("-inf")

    def say(self, text: str) -> None:
        for line in text.splitlines():
            self._console.say(line)

    def wait(self, text: str) -> None:
        text = printable(" ".join(text.split()))
        self._line.progress = text
        if self._console.on_terminal:
            return
        since = time.monotonic() - self._when
        if since >= (_SELDOM_SECONDS if text == self._last else _OFTEN_SECONDS):
            self._console.say(text)
            self._last, self._when = text, time.monotonic()

    def until(self, look: Callable[[], T | None]) -> T:
        """Calls ``look`` until its answer is not None.

        Raises what ``look`` raises: an error that may pass only after ten minutes of no answer.
        """
        heard, pause = time.monotonic(), min(_FIRST_SECONDS, POLL_SECONDS)
        while True:
            try:
                answer = look()
                heard = time.monotonic()
            except DeploymentError as error:
                lasting = type(error) not in _PASSING
                if lasting or time.monotonic() - heard > _MUTE_SECONDS:
                    raise
                self.wait(f"{error}; asking again")
                answer = None
            if answer is not None:
                return answer
            time.sleep(pause)
            pause = min(pause * _GROWTH, POLL_SECONDS)


@dataclass(frozen=True)
class Stage(ABC):
    """A part of an experiment that leaves something behind, by which it is known to be over.

    Each may be ended at any moment and begun again: what it leaves is asked for, never remembered.
    Both methods raise DeploymentError.
    """

    deployment: Deployment

    name: ClassVar[str]
    """One word, which the terminal shows."""
    costs: ClassVar[bool] = True
    """Whether it may start what is paid for by the hour. Once a run is complete, no such stage is
    needed."""
    shows_itself: ClassVar[bool] = False
    """Whether it runs a program that writes to the terminal itself."""

    def existing(self) -> str | None:
        """Its results that exist already, in words; None if it is to be performed."""
        return None

    @abstractmethod
    def perform(self, progress: Progress) -> str:
        """Goes on until its end; returns what it made, in words."""
