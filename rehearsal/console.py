"""What a person sees of a rehearsal: its steps, each with the time it took."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS: Final = 0.1
_CLEAR_LINE: Final = "\r\x1b[2K"


@dataclass
class Step:
    """One step. ``found`` is what there is to say when it is over."""

    title: str
    found: str = ""
    seconds: float = 0.0


class Steps:
    """Shows one step after another: a turning sign on a terminal, plain lines in a log."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = total
        self._start = time.monotonic()
        self.current: Step | None = None
        self.done: list[Step] = []

    @property
    def seconds(self) -> float:
        """Since the first."""
        return time.monotonic() - self._start

    @contextlib.contextmanager
    def step(self, title: str, *, shows_itself: bool = False) -> Iterator[Step]:
        """One step; ``shows_itself``: what it runs writes on the terminal meanwhile."""
        self.current = step = Step(title)
        start = time.monotonic()
        turning = self._stream.isatty() and not shows_itself
        if not turning:
            print(f"{self._number} {title}", file=self._stream, flush=True)
        with self._turning(title) if turning else contextlib.nullcontext():
            yield step
        step.seconds = time.monotonic() - start
        self.done.append(step)
        self._conclude(step, repeat_title=turning)

    @property
    def _number(self) -> str:
        return f"[{len(self.done) + 1}/{self._total}]"

    def _conclude(self, step: Step, *, repeat_title: bool) -> None:
        number = f"[{len(self.done)}/{self._total}]"
        begin = f"{number} {step.title}" if repeat_title else " " * len(number)
        found = f"{step.found}, " if step.found else ""
        separator = ": " if repeat_title else " "
        print(f"{begin}{separator}{found}{step.seconds:.1f} s", file=self._stream, flush=True)

    @contextlib.contextmanager
    def _turning(self, title: str) -> Iterator[None]:
        over = threading.Event()
        line = f"{self._number} {title}"

        def turn() -> None:
            start = time.monotonic()
            for frame in itertools.cycle(_FRAMES):
                elapsed = time.monotonic() - start
                self._stream.write(f"{_CLEAR_LINE}{line} {frame} {elapsed:.0f} s")
                self._stream.flush()
                if over.wait(_FRAME_SECONDS):
                    return

        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
