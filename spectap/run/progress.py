"""What a run shows of its progress, and how long it says beforehand that it takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Never, TextIO

from tqdm import tqdm

from spectap.config import Config
from spectap.printing import printable
from spectap.record import Record
from spectap.run.turns import Turn


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


def seconds(
    config: Config, turns: Sequence[Turn], warm_up: Sequence[Record], warm_up_seconds: float
) -> float | None:
    """How long these turns take, if each answer takes as long as the longest of the warm-up.

    ``warm_up_seconds`` is what the warm-up took, which is one wave; what it took beyond its
    answers, each turn does. None where a variant answered nothing.
    """
    ends = {
        name: [r.end for r in warm_up if r.variant == name and r.succeeded] for name in config.names
    }
    if not all(ends.values()):
        return None
    answers = [max(of_variant) for of_variant in ends.values()]
    together = sum if config.alternate else max
    beyond = max(0.0, warm_up_seconds - together(answers))
    total = 0.0
    for point in (config.load.point(turn.load) for turn in turns):
        if point.concurrency is None:
            lengths = [point.requests / point.amount + answer for answer in answers]
        else:
            waves = -(-point.requests // point.concurrency)
            lengths = [waves * answer for answer in answers]
        total += beyond + together(lengths)
    return total
