"""How the parts of advice are written: a choice, how sure it is, a speed-up, a load."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmark import wording
from benchmark.analysis.advice.advice import Advice, Choice, Recommendation
from benchmark.analysis.estimates import intervals
from benchmark.analysis.estimates.intervals import Interval
from benchmark.load_points import LoadPoint
from benchmark.report import loads

_LOADS: Final = 3  # that have a figure of their own


def choice(chosen: Choice) -> str:
    """``Qwen3-1.7B, window 7``, or that nothing speculates."""
    if chosen.line is None:
        return "no speculation"
    return f"{chosen.line}, window {chosen.window}"


def probability(part: float | None) -> str:
    """``71 %``; never quite all or nothing, which no sample can say."""
    if part is None:
        return wording.MISSING
    if part > 0.99:
        return "> 99 %"
    return "< 1 %" if part < 0.01 else f"{100 * part:.0f} %"


def ratio(found: Interval | None) -> tuple[str, str]:
    """A speed-up and its bounds: ``2.9x``, ``2.7-3.1``. Without bounds where it has no width."""
    if found is None:
        return wording.MISSING, ""
    if found.low == found.high:
        return f"{found.point:.2f}x", ""
    return intervals.times(found), intervals.span(found)


def error(predicted: Interval | None, measured: Interval | None) -> str:
    """How far a prediction is off what was measured: ``+3.1 %``."""
    if predicted is None or measured is None:
        return ""
    return wording.change(predicted.point / measured.point)


def at(load: LoadPoint | None) -> str:
    """``at concurrency 4``; empty where nobody knows."""
    return f"at {loads.words([load])}" if load else ""


def errors(advice: Advice) -> str:
    """How far predictions are off in all; empty where no window was predicted from others."""
    found = sorted(
        abs(math.log(one.predicted.point / one.measured.point))
        for one in advice.prospects
        if one.predicted and one.measured
    )
    if not found:
        return ""
    middle, most = (
        f"{wording.percent(math.expm1(one))} %" for one in (statistics.median(found), found[-1])
    )
    return f"They differ by {middle} in the median and {most} at most."


def some_loads(advice: Advice) -> list[LoadPoint | None]:
    """The load points of the prospects, of many only the first, the middle one and the last."""
    found = list(dict.fromkeys(one.load for one in advice.prospects))
    if len(found) <= _LOADS:
        return found
    return [found[0], found[len(found) // 2], found[-1]]


def mix(advice: Advice) -> str:
    """Each class with its share: ``structured 52 % and open-ended 48 %``; empty for one class."""
    if len(advice.mix) < 2:
        return ""
    return wording.listed([f"{name} {wording.percent(share)} %" for name, share in advice.mix])


def stood_in(stand_in: str | None) -> str:
    """What a rehearsal says in place of advice."""
    return f"No advice: {stand_in or 'something'} stood in for the services."


@dataclass(frozen=True)
class Said:
    """What is said of one load."""

    at: str
    """``At concurrency 4``; empty where there is one load only."""
    sentence: str
    measure_next: str


def said(advice: Advice) -> Iterator[Said]:
    """What to serve at each load: of the mix, or of the class where there is only one.

    Nothing where something stood in for the services.
    """
    if advice.rehearsal:
        return
    last = {one.load: one for one in advice.recommendations}
    for load, found in last.items():
        where = at(load) if len(last) > 1 else ""
        yield Said(where[:1].upper() + where[1:], found.sentence, _next(advice, found))


def _next(advice: Advice, of: Recommendation) -> str:
    """What to measure next at that load, for the mix and each class, each said once."""
    own = [of, *(one for one in advice.recommendations if one.load == of.load)]
    return " ".join(dict.fromkeys(one.measure_next for one in own if one.measure_next))
