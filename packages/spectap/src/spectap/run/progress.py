"""Progress of a run: a bar, or lines of a log."""

import sys
from typing import Never, TextIO

from tqdm import tqdm

from spectap.wording import printable


class Progress:
    """Counts requests from ``done`` to ``total``: a bar on a terminal, plain lines in a log.

    It uses tqdm: rich takes ten milliseconds to draw a bar, in the loop that reads the streams.
    """

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Never] = tqdm(
            total=total,
            initial=done,
            unit="request",
            file=self._stream,
            dynamic_ncols=True,
            disable=not self._stream.isatty(),
        )
        self._total, self._done = total, done

    def begin(self, turn: str) -> None:
        """Shows the turn that begins: beside the bar, or in a line of the log."""
        if self._bar.disable:
            self.say(turn)
        else:
            self._bar.set_description_str(printable(turn))

    def advance(self) -> None:
        # llmperf may send a few more requests than it was asked for.
        if self._done < self._total:
            self._done += 1
            self._bar.update()

    def expect(self, total: int) -> None:
        """Changes the total number of requests."""
        self._total = self._bar.total = total
        self._bar.refresh()

    def say(self, text: str) -> None:
        """Writes a line that stays, above the bar if there is one."""
        text = printable(text)
        if self._bar.disable:
            print(f"[{self._done}/{self._total}] {text}", file=self._stream, flush=True)
        else:
            self._bar.write(text, file=self._stream)

    def close(self) -> None:
        self._bar.close()
