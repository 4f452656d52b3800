"""Shows the stages of a long command: a live line on a terminal, plain lines in a log."""

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

import rich.console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spectap.wording import printable

_UNLIMITED: Final = 100_000
"""Columns of a log, where no line is wrapped."""


@dataclass
class StageLine:
    """One stage. ``result`` is printed when it is over, ``progress`` meanwhile on a terminal."""

    title: str
    result: str = ""
    progress: str = ""
    seconds: float = 0.0


class Console:
    """Shows one stage after another."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._rich = rich_console(stream or sys.stderr)
        self._total = total
        self._start = time.monotonic()
        self.current: StageLine | None = None
        self.done: list[StageLine] = []

    @property
    def on_terminal(self) -> bool:
        return self._rich.is_terminal

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @contextlib.contextmanager
    def stage(self, title: str, *, shows_itself: bool = False) -> Iterator[StageLine]:
        """Shows one stage. ``shows_itself``: what it runs writes to the terminal itself."""
        self.current = stage = StageLine(title)
        number, start = f"[{len(self.done) + 1}/{self._total}]", time.monotonic()

        def line() -> Text:
            seconds = time.monotonic() - start
            text = printable(f"{number} {title} {seconds:.0f} s  {stage.progress}")
            return Text(text, no_wrap=True, overflow="ellipsis")

        if is_live := self.on_terminal and not shows_itself:
            with Live(get_renderable=line, console=self._rich, transient=True):
                yield stage
        else:
            self._print(f"{number} {title}")
            yield stage
        stage.seconds = time.monotonic() - start
        self.done.append(stage)
        begin = f"{number} {title}:" if is_live else " " * len(number)
        result = f"{stage.result}, " if stage.result else ""
        self._print(f"{begin} {result}{stage.seconds:.1f} s")

    def say(self, line: str) -> None:
        self._print(f"{' ' * len(f'[{len(self.done) + 1}/{self._total}]')} {line}")

    def _print(self, line: str) -> None:
        self._rich.print(printable(line), soft_wrap=True)


def rich_console(stream: TextIO) -> rich.console.Console:
    """Prints text as it is: colour and wrapping only on a terminal, whatever a CI forces."""
    return rich.console.Console(
        file=stream,
        force_terminal=stream.isatty(),
        width=None if stream.isatty() else _UNLIMITED,
        markup=False,
        highlight=False,
        emoji=False,
    )


def answer(question: str) -> str:
    """A line that somebody types; empty where there is nobody."""
    try:
        return input(question).strip()
    except EOFError:
        return ""


def print_table(rows: Iterable[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Columns as wide as their text; ``styles`` colour the cells that have these texts."""
    table, style = Table.grid(padding=(0, 2)), dict(styles or {})
    for row in rows:
        # A name that is wider than its column goes on below: rich would cut it.
        cells = (Text(printable(cell), style.get(cell, ""), overflow="fold") for cell in row)
        table.add_row(*cells)
    console = rich_console(sys.stdout)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip(), flush=True)
