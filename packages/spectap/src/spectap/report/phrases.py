"""Words for load points, objectives and estimates, shared by the page and the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.analysis.cells import limits_of
from spectap.analysis.estimate import Interval
from spectap.analysis.summary import Cell, Summary
from spectap.inputs import load_points
from spectap.inputs.config import Config, Objectives
from spectap.inputs.load_points import LoadPoint

_FINEST: Final = 3  # decimals of a ratio


@dataclass(frozen=True)
class Estimate:
    """A figure and the bounds of its interval; the bounds are empty where there are none."""

    figure: str = wording.MISSING
    bounds: str = ""

    def __str__(self) -> str:
        return f"{self.figure} ({self.bounds})" if self.bounds else self.figure


def speed(interval: Interval | None) -> Estimate:
    """A speed-up: ``2.9x``, ``2.7-3.1``; without bounds if they have no width."""
    if interval is None:
        return Estimate()
    if interval.low == interval.high:
        return Estimate(f"{interval.point:.2f}x")
    # One decimal is what a reader remembers; more where it would not tell the bounds apart.
    for digits in range(1 if interval.point >= 2 else 2, _FINEST + 1):
        low, high = f"{interval.low:.{digits}f}", f"{interval.high:.{digits}f}"
        if low != high:
            break
    return Estimate(f"{interval.point:.{digits}f}x", f"{low}-{high}")


def cost(interval: Interval | None, *, priced: bool) -> Estimate:
    """The change in the cost of a token or an answer: ``-66 %``, ``-68 to -64 %``.

    ``interval`` is the ratio of tokens, or answers, a second of all requests together. Without a
    known price, that ratio is written.
    """
    if interval is not None and interval.vague:
        return Estimate("not known")
    if interval is None or not priced:
        return speed(interval)
    return change(interval.inverse)


def change(ratio: Interval) -> Estimate:
    """The difference of a ratio from 1: ``+9.8 %``, ``+4.1 to +16 %``."""
    ends = (ratio.point, ratio.low, ratio.high)
    for digits in range(0 if abs(ratio.point - 1) >= 0.1 else 1, _FINEST):
        point, low, high = (f"{100 * (end - 1):+.{digits}f}" for end in ends)
        if low != high:
            break
    point, low, high = (
        f"{wording.MINUS if float(text) < 0 else '+'}{text[1:]}" for text in (point, low, high)
    )
    return Estimate(f"{point} %", f"{low} to {high} %")


def figure(
    point: float | None, interval: Interval | None, write: Callable[[float | None], str]
) -> str:
    """A figure with the bounds of its interval, if it has one: ``855.4 (851.3-856.9)``."""
    bounds = f"{write(interval.low)}-{write(interval.high)}" if interval else ""
    return str(Estimate(write(point), bounds))


def priced(summary: Summary) -> bool:
    return summary.cost_denominator is not None


def short_load(load: LoadPoint | None) -> str:
    """A short name of a load point: ``4`` at once, ``0.5/s``."""
    if load is None:
        return wording.MISSING
    return f"{load.amount:g}{'/s' if load.open else ''}"


def load_unit(loads: Sequence[LoadPoint]) -> str:
    """The unit of the load points of one kind: ``at once`` or ``a second``."""
    return "a second" if loads[0].open else "at once"


def heading(config: Config, summary: Summary) -> str:
    """``article: SD against Base, on Qwen/Qwen3-32B at concurrency 4``."""
    loads = load_points.listed(config.load.points)
    return f"{config.experiment}: {summary.subject}, on {config.model} at {loads}"


def load_mark(cell: Cell) -> str:
    """A mark on a cell's load: ``queue``, ``lagged``, or nothing."""
    marks = {"queue": cell.queued, "lagged": cell.lagging}
    return ", ".join(mark for mark, present in marks.items() if present)


def objectives(objectives: Objectives) -> str:
    """Promises in words: ``p90 of TTFT within 800 ms, p90 of TPOT within 40 ms``."""
    return ", ".join(
        f"p90 of {metric.short} within {limit:g} ms" for metric, limit in limits_of(objectives)
    )
