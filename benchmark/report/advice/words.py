"""How the parts of advice are written: a choice, how sure it is, a speed-up, a load."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
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


def said(advice: Advice) -> tuple[str, ...]:
    """What is best at each load: for the mix, or for the class where there is only one."""
    return tuple(one.sentence for one in _last(advice))


def measure_next(advice: Advice) -> Iterator[str]:
    """What to measure next for the mix, then which windows else are only predicted to be best."""
    if advice.rehearsal:
        return
    yield from dict.fromkeys(one.measure_next for one in _last(advice) if one.measure_next)
    last = {one.choice for one in _last(advice)}
    others: dict[str, set[int]] = {}
    for one in advice.recommendations:
        if not one.measured and one.choice not in last and one.choice.line and one.choice.window:
            others.setdefault(one.choice.line, set()).add(one.choice.window)
    if others:
        listed = wording.listed([f"{line} {_windows(windows)}" for line, windows in others.items()])
        yield f"The best of some class at some load, but only predicted: {listed}."


def _last(advice: Advice) -> list[Recommendation]:
    """The last one of each load: that of the mix, if there are several classes."""
    return list({one.load: one for one in advice.recommendations}.values())


def _windows(windows: Iterable[int]) -> str:
    listed = wording.listed([str(window) for window in sorted(windows)])
    return f"with {'windows' if ' ' in listed else 'a window'} of {listed}"


def in_short(advice: Advice, stand_in: str | None) -> Iterator[str]:
    """A line or two: what to serve at the first load, and at the last."""
    every = said(advice)
    if advice.rehearsal:
        yield stood_in(stand_in)
    else:
        yield from every if len(every) < 2 else (every[0], every[-1])


def caveats(advice: Advice) -> tuple[str, ...]:
    """How the cost of steps was split, and what to know before believing it: each said once."""
    splits = [cost.sentence for cost in advice.costs if cost.sentence]
    return tuple(dict.fromkeys((*splits, *advice.notes)))
