"""What a run shows of its progress."""

from __future__ import annotations

import sys
from typing import Never, TextIO

from tqdm import tqdm

from spectap.printing import printable


class Progress:
    """Counts requests of ``total``, from ``done`` on: a bar on a terminal, plain lines in a log."""

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Never] | None = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=total, initial=done, unit="request", file=self._stream, dynamic_ncols=True
            )
        self._total, self._done = total, done

    def advance(self) -> None:
        """Counts one more request."""
        # llmperf may send a few more requests than it was asked for.
        if self._done < self._total:
            self._done += 1
            if self._bar is not None:
                self._bar.update()

    def expect(self, total: int) -> None:
        """Changes how many requests there are."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def say(self, text: str) -> None:
        """Writes a line that stays, above the bar if there is one."""
        text = printable(text)
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(f"[{self._done}/{self._total}] {text}", file=self._stream, flush=True)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
