"""What the benches share: their option, processes, bars and last line."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from scipy.stats import binom
from tqdm import tqdm

PROMISED: Final = 0.95
LOWEST: Final = 0.93
"""The share of 95 % intervals that must hold the truth."""
WRONG: Final = 0.05
"""The share of reports that may claim anything wrong."""
SELDOM: Final = 0.001
"""How likely a method that keeps what it promises misses a bar."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def count(description: str | None, default: int) -> int:
    """How much is simulated: ``--count`` of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=default, help="in each world")
    number: int = parser.parse_args().count
    return number


def run(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> Iterator[_Result]:
    """Each task's result, computed on all cores, in their order, with a progress bar."""
    with (
        multiprocessing.Pool() as pool,
        tqdm(total=len(tasks), leave=False, disable=None) as progress,
    ):
        for result in pool.imap(function, tasks, chunksize=5):
            progress.update()
            yield result


def status(missed: Iterable[str]) -> int:
    """Names each bar that was missed; the exit status."""
    lines = [*missed]
    print("".join(f"\nmissed: {line}" for line in lines) or "\nevery bar is met")
    return 1 if lines else 0


def likely(level: float, number: int, share: float) -> int:
    """The quantile of the binomial distribution: how many of ``number``, each with the chance
    ``share``, are not exceeded with the chance ``level``."""
    return int(binom.ppf(level, number, share))


def least(number: int) -> float:
    """How many of so many 95 % intervals must hold the truth."""
    return min(LOWEST * number, likely(SELDOM, number, PROMISED))


def most_wrong(number: int) -> int:
    """How many of so many reports may be wrong."""
    return likely(1 - SELDOM, number, WRONG)
