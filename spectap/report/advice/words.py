"""How the parts of advice are written: a choice, how sure it is, a speed-up, a load."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spectap import wording
from spectap.analysis.advice.advice import Advice, Choice, Recommendation
from spectap.analysis.advice.recommendation import wider
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from spectap.report import loads

_LOADS: Final = 3  # that have a figure of their own
_NOISE: Final = 0.005  # of a step: a fixed part of less is none
_BELOW: Final = (
    "A fixed part below 0 is no gain: the first drafts of a step cost less than those that a wider "
    "window adds."
)
BOTH_SPEEDS: Final = (
    "The speed-up of the advice is that of the mean time of whole requests by their tokens, which "
    "adds up over a mix; the one of a verdict is of medians. So the same measurement can show two "
    "numbers."
)


def choice(chosen: Choice) -> str:
    """``Qwen3-1.7B, window 7``, or that nothing speculates."""
    if chosen.line is None:
        return "no speculation"
    return f"{chosen.line}, window {chosen.window}"


def probability(part: float) -> str:
    """``71 %``; never quite all or nothing, which no sample can say."""
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
        abs(one.predicted.point / one.measured.point - 1)
        for one in advice.prospects
        if one.predicted and one.measured
    )
    if not found:
        return ""
    middle, most = (f"{wording.percent(one)} %" for one in (statistics.median(found), found[-1]))
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
    """What a rehearsal says before what it found."""
    return f"Not advice for Trainium: {stand_in or 'something'} stood in for the services."


def said(advice: Advice) -> tuple[str, ...]:
    """What is best at each load: for the mix, or for the class where there is only one."""
    return tuple(one.sentence for one in _last(advice))


def measure_next(advice: Advice) -> Iterator[str]:
    """What to measure next for the mix, then for classes that the mix has a share of."""
    if advice.rehearsal:
        return
    yield from advice.measure_next
    last = _last(advice)
    mixed = {one.choice for one in last}
    yield from dict.fromkeys(one.measure_next for one in last if one.measure_next)
    shares = dict(advice.mix)
    others: dict[str, set[int]] = {}
    for one in advice.recommendations:
        choice = one.choice
        known = one.measured or choice in mixed or not shares.get(one.prompt_class or "", 1)
        if choice.line and choice.window and not known:
            others.setdefault(choice.line, set()).add(choice.window)
    if others:
        listed = wording.listed([f"{line} {_windows(windows)}" for line, windows in others.items()])
        yield f"Measure {listed}: predicted to be the best somewhere."
    yield from _wider(advice, shares)


def _wider(advice: Advice, shares: Mapping[str, float]) -> Iterator[str]:
    """Where the widest window is the best of some class, and the mix has not said so."""
    said = {one.measure_next for one in _last(advice)}
    found = dict.fromkeys(
        wider(one.choice, advice.lines)
        for one in advice.recommendations
        if shares.get(one.prompt_class or "", 1)
    )
    yield from (one for one in found if one and one not in said)


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
        yield from advice.measure_next


def caveats(advice: Advice) -> tuple[str, ...]:
    """What to know before believing it: each said once."""
    below = [_BELOW] if any(cost.fixed < -_NOISE * cost.baseline for cost in advice.costs) else []
    return tuple(dict.fromkeys((*below, *advice.notes)))
