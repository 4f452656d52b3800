"""What every window gives, and which one to serve: the best of all lines, or no speculation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from spectap import wording
from spectap.analysis.advice.advice import Choice, Line, Prospect, Recommendation
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.outlook import (
    USABLE,
    Figures,
    Outlook,
    Sample,
    Window,
    chances,
    interval,
    windows,
)
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.config import Cost
from spectap.load_points import LoadPoint

OFF: Final = Choice(None, None)
_RIVAL: Final = 0.05
"""A choice less likely to be the best is no rival."""
_MOST_RIVALS: Final = 3
_WORTH: Final = 0.01
"""A window that was not measured must promise this much more than one that was: for less, nobody
compiles a graph."""
_CLEAR: Final = 0.8
"""From this probability on, a choice is told as advice, and needs no further measurement."""
_WIDEST: Final = 15
"""The largest window that an experiment file takes."""


def prospects(
    observed: Observed, lines: Sequence[Line], outlook: Outlook, cost: Cost | None
) -> Iterator[Prospect]:
    """Of each load, class, line and window, in this order."""
    for load in range(len(observed.loads)):
        for number in range(len(observed.classes)):
            for line in lines:
                for window in windows(line):
                    scope = _Scope(observed, (line,), outlook, load, {number: 1.0})
                    if prospect := _prospect(scope, line, window, number, cost):
                        yield prospect


def recommendations(
    observed: Observed,
    lines: Sequence[Line],
    outlook: Outlook,
    prospects: Sequence[Prospect],
    mix: Mapping[str, float],
    *,
    cost: Cost | None,
    advises: bool,
) -> Iterator[Recommendation]:
    """For each load: for each class, then for the mix where it has several.

    ``advises``: whether sentences say what to do. None where rounds are too few to say how sure.
    """
    if outlook.replicates.measured and not len(next(iter(outlook.replicates.measured.values()))[0]):
        return
    for load, point in enumerate(observed.loads):
        of_load = [prospect for prospect in prospects if prospect.load == point]
        here = [
            number
            for number, name in enumerate(observed.classes)
            if any(prospect.prompt_class == name for prospect in of_load)
        ]
        shares = [{number: 1.0} for number in here]
        mixed = {n: mix[name] for n, name in enumerate(observed.classes) if mix[name] > 0}
        if len(observed.classes) > 1 and {*mixed} <= {*here}:
            shares.append(mixed)
        for place, of_classes in enumerate(shares):
            scope = _Scope(observed, _that_take(lines, point), outlook, load, of_classes)
            fixed = any(line.fixed for line in scope.lines)
            if len(scope.choices) > (1 if fixed else 2):
                yield _recommended(scope, of_load, cost, advises=advises, mixed=place == len(here))


def wider(choice: Choice, lines: Sequence[Line]) -> str:
    """What to measure where the widest window is the best; empty where it can be no wider."""
    for line in lines:
        widest = choice == Choice(line.name, max(line.windows))
        if widest and not line.fixed and max(line.windows) < _WIDEST:
            return (
                f"Measure {line.name} with a window wider than {choice.window}: the widest one is "
                "the best so far."
            )
    return ""


@dataclass(frozen=True)
class _Scope:
    """What a choice is for: a load, and a class or the mix of several."""

    observed: Observed
    lines: Sequence[Line]
    outlook: Outlook
    load: int
    shares: Mapping[int, float]
    """Of the output tokens, by the number of the class."""

    @cached_property
    def choices(self) -> list[Choice]:
        """Off first, then all windows whose figures are known and can be relied on."""
        return [
            OFF,
            *(
                Choice(line.name, window)
                for line in self.lines
                for window in windows(line)
                if self.known(line, window)
            ),
        ]

    @cached_property
    def baseline(self) -> str:
        """The fastest one."""
        names = dict.fromkeys(line.baseline for line in self.lines)
        run = self.outlook.run
        return min(names, key=lambda name: float(self.seconds(run.measured[name])[0]))

    def known(self, line: Line, window: int) -> bool:
        """Whether it was measured, or can be predicted.

        That is of a line that came to this load with several windows, by a model that tells its
        measured windows from each other. Of prompts that differ nothing is predicted: those that
        were sent are too few for intervals of predictions to hold (``tests.bench.advice``).
        """
        name = dict(line.variants).get(window)
        run, key = self.outlook.run, Window(line.name, window)
        several = sum(self.finite(run.measured[name]) for _, name in line.variants) > 1
        if name is not None:
            return self.finite(run.measured[name])
        usable = self.outlook.errors.get(line.name, 0.0) <= USABLE
        usable = usable and not self.observed.sets & {*self.shares}
        return several and usable and self.finite(run.predicted[key])

    def finite(self, figures: Figures) -> bool:
        """Whether they are known of all classes."""
        return all(np.isfinite(figures.request[0, self.load, number]) for number in self.shares)

    def measured(self, choice: Choice) -> str | None:
        """The name of its variant; None where it was not measured."""
        if choice.line is None:
            return self.baseline
        names = {line.name: dict(line.variants) for line in self.lines}
        return names[choice.line].get(choice.window or 0)

    def of(self, sample: Sample, choice: Choice) -> Array:
        """Logarithms of the seconds of a request by its tokens, over replicates."""
        if (name := self.measured(choice)) is not None:
            return self.seconds(sample.measured[name])
        return self.seconds(sample.predicted[Window(choice.line or "", choice.window or 0)])

    def seconds(self, figures: Figures) -> Array:
        """Over replicates. Each class has its share of the tokens, so their times add up."""
        total = sum(
            share * np.exp(figures.request[:, self.load, number])
            for number, share in self.shares.items()
        )
        logs: Array = np.log(total)
        return logs

    def speedup(self, choice: Choice) -> Interval:
        """Over its own baseline."""
        if choice.line is None:
            return Interval(1.0, 1.0, 1.0)
        return self.gain(choice.line, lambda sample: self.of(sample, choice))

    def gain(self, line: str, seconds: Callable[[Sample], Array]) -> Interval:
        """What the line's baseline takes by the ``seconds`` of something else."""
        baseline = next(one.baseline for one in self.lines if one.name == line)
        run, replicates = (
            self.seconds(sample.measured[baseline]) - seconds(sample)
            for sample in (self.outlook.run, self.outlook.replicates)
        )
        return interval(float(run[0]), replicates, self.outlook.rounds)


def _prospect(
    scope: _Scope, line: Line, window: int, number: int, cost: Cost | None
) -> Prospect | None:
    """None where the line was not measured here, and where nothing can be said of the window."""
    observed, run, key = scope.observed, scope.outlook.run, Window(line.name, window)
    name = dict(line.variants).get(window)
    if not scope.finite(run.measured[line.baseline]) or not scope.known(line, window):
        return None
    figures = run.predicted[key] if name is None else run.measured[name]
    speed = (
        _predicted_speed(observed, line, scope.load, number, figures)
        if name is None
        else tokens_per_second(observed, name, scope.load, number)
    )
    if speed is None:
        return None
    predicted = measured = None
    if name is None:
        predicted = scope.speedup(Choice(line.name, window))
    else:
        measured = scope.speedup(Choice(line.name, window))
        if key in run.held_out and scope.finite(run.held_out[key]):
            predicted = scope.gain(line.name, lambda s: scope.seconds(s.held_out[key]))
    return Prospect(
        line=line.name,
        window=window,
        prompt_class=observed.classes[number],
        load=observed.loads[scope.load],
        tokens_per_step=math.exp(figures.step_tokens[0, scope.load, number]),
        step_seconds=math.exp(figures.step_seconds[0, scope.load, number]),
        predicted=predicted,
        measured=measured,
        tokens_per_second=speed,
        usd_per_million_output_tokens=_usd_per_million(cost, observed.loads[scope.load], speed),
    )


def tokens_per_second(observed: Observed, variant: str, load: int, number: int) -> float | None:
    """Of all requests together at a load, on one class, as measured.

    As ``analysis.cells`` has it: served tokens by request time and concurrency. In an open loop it
    is what is asked for, as long as the variant keeps up.
    """
    side, point = observed.sides[variant], observed.loads[load]
    members = observed.members(number)
    if point.rate is not None:
        answers = side.answers[load, :, members].sum()
        tokens = side.outputs[load, :, members].sum()
        return float(point.rate * tokens / answers) if answers else None
    time = side.time[load, :, members].sum()
    served = side.served[load, :, members].sum()
    return float((point.concurrency or 1) * served / time) if served else None


def _predicted_speed(
    observed: Observed, line: Line, load: int, number: int, figures: Figures
) -> float | None:
    """Tokens a second of all requests together; None where no answer of the line counts."""
    members, point = observed.members(number), observed.loads[load]
    sides = [observed.sides[name] for _, name in line.variants]
    answers, outputs = (
        float(sum(array[load, :, members].sum() for array in arrays))
        for arrays in ([s.answers for s in sides], [s.outputs for s in sides])
    )
    if not answers:
        return None
    if point.rate is not None:
        return point.rate * outputs / answers
    return (point.concurrency or 1) / math.exp(figures.request[0, load, number])


def _usd_per_million(cost: Cost | None, point: LoadPoint, speed: float) -> float | None:
    """In a closed loop; in an open one the rate says how much a node does for its price."""
    return None if cost is None or point.open else cost.usd_per_million_seconds / speed


def _that_take(lines: Sequence[Line], point: LoadPoint) -> list[Line]:
    """The lines whose batch takes the load, or the largest: others would have a queue."""
    if point.concurrency is None:
        return [*lines]
    largest = max((line.batch or point.concurrency for line in lines), default=1)
    enough = min(point.concurrency, largest)
    return [line for line in lines if (line.batch or enough) >= enough]


def _recommended(
    scope: _Scope, prospects: Sequence[Prospect], cost: Cost | None, *, advises: bool, mixed: bool
) -> Recommendation:
    run, replicates = (
        np.stack([scope.of(sample, choice) for choice in scope.choices], axis=-1)
        for sample in (scope.outlook.run, scope.outlook.replicates)
    )
    probabilities = chances(run[0], replicates, scope.outlook.rounds)
    best = _best(scope, run[0])
    choice = scope.choices[best]
    others = [n for n in np.argsort(-probabilities, kind="stable") if n != best]
    rivals = tuple(
        (scope.choices[n], float(probabilities[n]))
        for n in others[:_MOST_RIVALS]
        if probabilities[n] >= _RIVAL
    )
    recommendation = Recommendation(
        prompt_class=None if mixed else scope.observed.classes[next(iter(scope.shares))],
        load=scope.observed.loads[scope.load],
        choice=choice,
        measured=scope.measured(choice) is not None,
        speedup=scope.speedup(choice),
        usd_per_million_output_tokens=_usd(scope, choice, prospects, cost),
        probability=float(probabilities[best]),
        rivals=rivals,
        sentence="",
        measure_next="",
    )
    return replace(
        recommendation,
        sentence=_sentence(recommendation, _considered(scope), advises=advises),
        measure_next=_measure_next(recommendation, scope) if advises else "",
    )


def _best(scope: _Scope, logs: Array) -> int:
    """The number of the fastest choice, or of the fastest measured one where it is as good."""
    fastest = int(logs.argmin())
    measured = [n for n, choice in enumerate(scope.choices) if scope.measured(choice) is not None]
    known = min(measured, key=lambda number: float(logs[number]))
    return known if logs[known] - logs[fastest] <= math.log1p(_WORTH) else fastest


def _usd(
    scope: _Scope, choice: Choice, prospects: Sequence[Prospect], cost: Cost | None
) -> float | None:
    """Of a million output tokens, which have their shares of the time."""
    seconds = 0.0
    for number, share in scope.shares.items():
        if choice.line is None:
            speed = tokens_per_second(scope.observed, scope.baseline, scope.load, number)
        else:
            key = choice.line, choice.window, scope.observed.classes[number]
            speed = next(
                prospect.tokens_per_second
                for prospect in prospects
                if (prospect.line, prospect.window, prospect.prompt_class) == key
            )
        if not speed:
            return None
        seconds += share / speed
    return _usd_per_million(cost, scope.observed.loads[scope.load], 1 / seconds)


def _name(choice: Choice) -> str:
    """``Qwen3-1.7B with a window of 7``, or that nothing speculates."""
    if choice.line is None:
        return "no speculation"
    return f"{choice.line} with a window of {choice.window}"


def _considered(scope: _Scope) -> str:
    if all(scope.measured(choice) for choice in scope.choices):
        return "what was measured"
    considered = [choice.window for choice in scope.choices if choice.window is not None]
    return f"the windows {min(considered)} to {max(considered)}"


def _sentence(found: Recommendation, considered: str, *, advises: bool) -> str:
    """What to serve, by how much, how sure."""
    prompts = "the mix" if found.prompt_class is None else f"{found.prompt_class} prompts"
    where = f"{prompts} at {found.load}" if found.load else prompts
    speed = f"{intervals.times(found.speedup)} the baseline's speed"
    speed += f" (95 % interval {intervals.span(found.speedup)})"
    speed += "" if found.measured else ", as predicted"
    percent = min(99, max(1, round(100 * found.probability)))
    if found.probability >= _CLEAR:
        sure = f"of {considered}, it is the best with a probability of {percent} %"
    elif found.rivals:
        names = wording.listed([_name(rival) for rival, _ in found.rivals])
        sure = f"it cannot be told apart from {names}"
    else:
        sure = "many others may be better"
    if found.probability >= _CLEAR and advises:
        if found.choice.line is None:
            return f"Turn speculation off for {where}: no window is faster; {sure}."
        what = f"{found.choice.line} and a window of {found.choice.window}"
        return f"Serve {where} with {what}: {speed}; {sure}."
    among = f"of {considered}" if advises else "in this rehearsal"
    if found.choice.line is None:
        return f"Fastest for {where} {among}: no speculation; {sure}."
    return f"Fastest for {where} {among}: {_name(found.choice)}, {speed}; {sure}."


def _measure_next(found: Recommendation, scope: _Scope) -> str:
    """What to measure to be surer; empty where it is clear."""
    choice = found.choice
    if not found.measured:
        return f"Measure {_name(choice)}: so far it is only predicted."
    if found.probability >= _CLEAR or not found.rivals:
        return wider(choice, scope.lines)
    rival = found.rivals[0][0]
    if scope.measured(rival) is None:
        return f"Measure {_name(rival)}: so far it is only predicted, and it may be better."
    return f"Measure more rounds: {_name(choice)} and {_name(rival)} cannot be told apart yet."
