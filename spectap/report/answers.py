"""How the two answers of a comparison are written: alike in the table and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Summary
from spectap.report import loads


@dataclass(frozen=True)
class Written:
    """A figure and the bounds of its interval; both empty where it is not known."""

    figure: str
    bounds: str

    def __str__(self) -> str:
        return f"{self.figure} ({self.bounds})" if self.bounds else wording.MISSING


UNKNOWN: Final = Written("", "")


@dataclass(frozen=True)
class Mean:
    """The answers over several test cases."""

    of: str
    """What it stands for: ``6 structured test cases``."""
    load: str
    """The load point, to stand after "at"; empty where there is one only."""
    variant: str
    speed: Written
    cost: Written


def speed(interval: Interval | None) -> Written:
    """How many times faster one request is: ``2.9x``, ``2.7-3.1``."""
    if interval is None:
        return UNKNOWN
    return Written(intervals.times(interval), intervals.span(interval))


def cost(interval: Interval | None, *, priced: bool) -> Written:
    """What a token costs against the baseline's: ``-66 %``, ``-68 to -64 %``.

    ``interval``: how many times more tokens a second all requests together get. Where no price is
    known, that is written.
    """
    if interval is None or not priced:
        return speed(interval)
    ratio = interval.inverse
    figure, low, high = (
        _signed(one, size)
        for one, size in zip(
            (ratio.point, ratio.low, ratio.high), intervals.percents(ratio), strict=True
        )
    )
    return Written(f"{figure} %", f"{low} to {high} %")


def _signed(ratio: float, size: str) -> str:
    return f"\N{MINUS SIGN}{size}" if ratio < 1 and float(size) else f"+{size}"


def priced(summary: Summary) -> bool:
    """Whether the price of a token is known."""
    return summary.cost_denominator is not None


def means(summary: Summary) -> Iterator[Mean]:
    """One number for each variant and class of test cases that has more than one."""
    for found in summary.overall:
        if found.speed is None and found.cost is None:
            continue
        structure = f"{found.structure} " if found.structure else ""
        yield Mean(
            of=wording.count(found.cases, f"{structure}test case"),
            load=loads.words([found.load]) if len(summary.loads) > 1 else "",
            variant=found.variant,
            speed=speed(found.speed),
            cost=cost(found.cost, priced=priced(summary)),
        )
