"""Shows what takes a while on the terminal: its stages, and how long each took."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from spectap.printing import printable, redraw

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS: Final = 0.1


@dataclass
class Stage:
    """One stage. ``found`` is what is printed when it is over, ``now`` meanwhile on a terminal."""

    title: str
    found: str = ""
    now: str = ""
    seconds: float = 0.0


class Console:
    """Shows one stage after another: a spinner on a terminal, plain lines in a log."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = total
        self._start = time.monotonic()
        # Whoever writes holds it: the spinner has a thread of its own.
        self._writing = threading.Lock()
        self.current: Stage | None = None
        self.done: list[Stage] = []

    @property
    def on_terminal(self) -> bool:
        """Whether a person looks on, and not a log."""
        return self._stream.isatty()

    @property
    def seconds(self) -> float:
        """Seconds since the first stage began."""
        return time.monotonic() - self._start

    @contextlib.contextmanager
    def stage(self, title: str, *, shows_itself: bool = False) -> Iterator[Stage]:
        """Shows one stage. ``shows_itself``: what it runs writes to the terminal itself."""
        self.current = stage = Stage(title)
        start = time.monotonic()
        spinning = self._stream.isatty() and not shows_itself
        if not spinning:
            print(f"{self._number} {title}", file=self._stream, flush=True)
        with self._spinning(stage) if spinning else contextlib.nullcontext():
            yield stage
        stage.seconds = time.monotonic() - start
        self.done.append(stage)
        self._conclude(stage, repeat_title=spinning)

    def say(self, line: str) -> None:
        """Prints a line below the current stage's title, above what a terminal shows of it."""
        text = f"{' ' * len(self._number)} {printable(line)}"
        with self._writing:
            if self._stream.isatty():
                redraw("", self._stream)
            print(text, file=self._stream, flush=True)

    @property
    def _number(self) -> str:
        return f"[{len(self.done) + 1}/{self._total}]"

    def _conclude(self, stage: Stage, *, repeat_title: bool) -> None:
        number = f"[{len(self.done)}/{self._total}]"
        begin = f"{number} {stage.title}" if repeat_title else " " * len(number)
        found = f"{stage.found}, " if stage.found else ""
        separator = ": " if repeat_title else " "
        text = printable(f"{begin}{separator}{found}{stage.seconds:.1f} s")
        print(text, file=self._stream, flush=True)

    @contextlib.contextmanager
    def _spinning(self, stage: Stage) -> Iterator[None]:
        over = threading.Event()
        line = f"{self._number} {stage.title}"

        def spin() -> None:
            start = time.monotonic()
            for frame in itertools.cycle(_FRAMES):
                elapsed = time.monotonic() - start
                now = f"  {stage.now}" if stage.now else ""
                # What wraps would stay.
                shown = f"{line} {frame} {elapsed:.0f} s{now}"[: shutil.get_terminal_size()[0] - 1]
                self._redraw(shown)
                if over.wait(_FRAME_SECONDS):
                    return

        thread = threading.Thread(target=spin, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._redraw("")

    def _redraw(self, text: str) -> None:
        with self._writing:
            redraw(text, self._stream)
