"""What every window gives, and which one to serve: the best of all lines, or no speculation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from spectap import wording
from spectap.analysis.advice.advice import Choice, Prospect, Recommendation, Series
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.outlook import USABLE, Figures, Outlook, considered_windows
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.estimate import ALPHA, Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.config import Cost
from spectap.load_points import LoadPoint

_NEAR: Final = 0.02  # a choice that is slower by less is as good
_OFF: Final = Choice(None, None)
_WORTH: Final = 0.01  # what a predicted window must gain over a measured one, to be compiled
_WIDEST: Final = 15  # the largest window that an experiment file takes
_LEAST_ERROR: Final = 1e-12  # of a difference; that of a choice and itself is 0
_SEED: Final = 1981


@dataclass(frozen=True)
class Scope:
    """What a choice is for: a load, and a class or the mix of several."""

    observed: Observed
    lines: Sequence[Series]
    outlook: Outlook
    load: int
    shares: Mapping[int, float]
    """Of the output tokens, by the number of the class."""

    @property
    def point(self) -> LoadPoint:
        return self.observed.loads[self.load]

    @cached_property
    def choices(self) -> list[Choice]:
        """Off first, then all windows whose figures are known and can be relied on."""
        known = (
            (s.name, window)
            for s in self.lines
            for window in considered_windows(s)
            if self.known(s, window)
        )
        return [_OFF, *(Choice(*choice) for choice in known)]

    @cached_property
    def baseline(self) -> str:
        """The fastest one."""
        names = dict.fromkeys(series.baseline for series in self.lines)
        return min(names, key=lambda name: float(self.seconds(self.outlook.measured[name])[0]))

    def series(self, name: str | None) -> Series:
        return next(series for series in self.lines if series.name == name)

    def variant(self, choice: Choice) -> str | None:
        """The variant that was measured; None where that choice was not."""
        if choice.line is None:
            return self.baseline
        return dict(self.series(choice.line).variants).get(choice.window or 0)

    def figures(self, choice: Choice) -> Figures:
        """As measured, otherwise as predicted."""
        if (name := self.variant(choice)) is not None:
            return self.outlook.measured[name]
        return self.outlook.predicted[choice]

    def known(self, series: Series, window: int) -> bool:
        """Whether it was measured, or can be predicted: of a line that came to this load with
        several windows, by a model that tells its measured windows from each other."""
        measured = {w: self.finite(self.outlook.measured[name]) for w, name in series.variants}
        if window in measured:
            return measured[window]
        usable = self.outlook.errors.get(series.name, 0.0) <= USABLE
        predicted = self.outlook.predicted[Choice(series.name, window)]
        return sum(measured.values()) > 1 and usable and self.finite(predicted)

    def finite(self, figures: Figures) -> bool:
        """Whether they are known of all classes."""
        return all(np.isfinite(figures.request[0, self.load, number]) for number in self.shares)

    def seconds(self, figures: Figures) -> Array:
        """Logarithms of the seconds of a request by its tokens, over draws.

        Each class has its share of the tokens, so their times add up.
        """
        total = sum(
            share * np.exp(figures.request[:, self.load, number])
            for number, share in self.shares.items()
        )
        logs: Array = np.log(total)
        return logs

    @cached_property
    def units(self) -> int:
        """The fewer of rounds, and of prompts in a class."""
        counts = [self.observed.prompt_counts[number] for number in self.shares]
        return min([self.observed.rounds, *filter(None, counts)])

    def gain(self, series: Series, figures: Figures) -> Interval:
        """The speed-up over the line's baseline."""
        logs = self.seconds(self.outlook.measured[series.baseline]) - self.seconds(figures)
        if not self.outlook.certain:
            return Interval(*[math.exp(logs[0])] * 3)
        return Estimate(float(logs[0]), float(logs[1:].std()), self.units).interval()

    def seconds_together(self, choice: Choice, number: int) -> float:
        """Of all requests in flight, by their tokens, on one class in a closed loop."""
        if name := self.variant(choice):
            side, at = self.observed.sides[name], (self.load, slice(None), number)
            seconds = float(side.time[at].sum() / side.served[at].sum())
        else:
            seconds = math.exp(self.figures(choice).request[0, self.load, number])
        return seconds / (self.point.concurrency or 1)


def prospects(observed: Observed, lines: Sequence[Series], outlook: Outlook) -> Iterator[Prospect]:
    """Prospects by load, class, line and window, in this order; none where no answer counts."""
    for load, (number, name), series in (
        (load, prompt_class, series)
        for load in range(len(observed.loads))
        for prompt_class in enumerate(observed.classes)
        for series in lines
    ):
        scope = Scope(observed, (series,), outlook, load, {number: 1.0})
        if not scope.finite(outlook.measured[series.baseline]):
            continue
        for window in considered_windows(series):
            choice = Choice(series.name, window)
            if not scope.known(series, window):
                continue
            figures, measured = scope.figures(choice), scope.variant(choice) is not None
            predicted = outlook.held_out.get(choice) if measured else figures
            yield Prospect(
                line=series.name,
                window=window,
                prompt_class=name,
                load=scope.point,
                tokens_per_step=math.exp(figures.step_tokens[0, load, number]),
                step_seconds=math.exp(figures.step_seconds[0, load, number]),
                predicted=scope.gain(series, predicted)
                if predicted and scope.finite(predicted)
                else None,
                measured=scope.gain(series, figures) if measured else None,
            )


def recommendations(
    observed: Observed,
    lines: Sequence[Series],
    outlook: Outlook,
    prospects: Sequence[Prospect],
    mix: Mapping[str, float],
    *,
    cost: Cost | None,
    advises: bool,
) -> Iterator[Recommendation]:
    """For each load: for each class, then for the mix where it has several.

    ``advises``: whether sentences say what to do. None where nobody knows how sure they are.
    """
    if not outlook.certain:
        return
    numbers = {name: number for number, name in enumerate(observed.classes)}
    mixed = {name: share for name, share in mix.items() if share > 0}
    for load, point in enumerate(observed.loads):
        measured = {prospect.prompt_class for prospect in prospects if prospect.load == point}
        scopes: list[tuple[str | None, dict[int, float]]] = [
            (name, {number: 1.0}) for name, number in numbers.items() if name in measured
        ]
        if len(observed.classes) > 1 and {*mixed} <= measured:
            scopes.append((None, {numbers[name]: share for name, share in mixed.items()}))
        for prompt_class, of_classes in scopes:
            scope = Scope(observed, _that_take(lines, point), outlook, load, of_classes)
            fixed = any(series.fixed for series in scope.lines)
            if len(scope.choices) > (1 if fixed else 2):
                yield _recommended(scope, prompt_class, cost, advises=advises)


def _that_take(lines: Sequence[Series], point: LoadPoint) -> list[Series]:
    """The lines whose batch takes the load, or the largest: others would have a queue."""
    if point.concurrency is None:
        return [*lines]
    largest = max((series.batch or point.concurrency for series in lines), default=1)
    enough = min(point.concurrency, largest)
    return [series for series in lines if (series.batch or enough) >= enough]


def _recommended(
    scope: Scope, prompt_class: str | None, cost: Cost | None, *, advises: bool
) -> Recommendation:
    choices = scope.choices
    logs = np.array([scope.seconds(scope.figures(choice)) for choice in choices])
    order = np.argsort(logs[:, 0], kind="stable")
    choices, logs = [choices[number] for number in order], logs[order]
    measured = [each for each in choices if scope.variant(each) is not None]
    # The fastest, or the fastest measured one where it is as good.
    choice = choices[0]
    if logs[choices.index(measured[0]), 0] - logs[0, 0] <= math.log1p(_WORTH):
        choice = measured[0]
    speedup = Interval(1.0, 1.0, 1.0)
    if choice.line is not None:
        speedup = scope.gain(scope.series(choice.line), scope.figures(choice))
    usd = None
    # In an open loop the rate says how much a node does for its price.
    if cost is not None and not scope.point.open:
        usd = cost.usd_per_million_seconds * sum(
            share * scope.seconds_together(choice, number) for number, share in scope.shares.items()
        )
    recommendation = Recommendation(
        prompt_class=prompt_class,
        load=scope.point,
        choice=choice,
        measured=choice in measured,
        speedup=speedup,
        usd_per_million_output_tokens=usd,
        near=tuple(
            each
            for each, near in zip(choices, _near(logs, scope.units - 1), strict=True)
            if near and each != choice
        ),
        sentence="",
        measure_next="",
    )
    return replace(
        recommendation,
        sentence=_sentence(recommendation, measured, advises=advises),
        measure_next=_measure_next(recommendation, scope) if advises else "",
    )


def _near(logs: Array, degrees: int) -> list[bool]:
    """Whether each choice may be within 2 % of the best; ``logs`` are over choice and draw.

    It is not where it is surely slower by more than any other. These comparisons are one family
    (Hsu, Annals of Statistics 9, 1981): the largest t value of replicates, whose scatter is as
    uncertain as Student's t has it, says which is too large.
    """
    points, errors = logs[:, 0], logs[:, 1:] - logs[:, 1:].mean(axis=1, keepdims=True)
    generator = np.random.default_rng(_SEED)
    spread = np.sqrt(degrees / generator.chisquare(degrees, size=errors.shape[1]))
    near = []
    for point, error in zip(points, errors, strict=True):
        differences = error - errors
        scales = np.maximum(differences.std(axis=1), _LEAST_ERROR)
        values = (point - points - math.log1p(_NEAR)) / scales
        largest = (differences / scales[:, np.newaxis]).max(axis=0)
        near.append(bool(values.max() <= np.quantile(largest * spread, 1 - ALPHA)))
    return near


def _sentence(recommendation: Recommendation, measured: Sequence[Choice], *, advises: bool) -> str:
    """What to serve, or what is fastest where that is not sure, and what may be as good."""
    choice, speedup, near = recommendation.choice, recommendation.speedup, recommendation.near
    subject = f"{recommendation.prompt_class} prompts" if recommendation.prompt_class else "the mix"
    sure = advises and (choice == _OFF or _OFF not in near)
    begin = "Serve {} with" if sure else "Fastest for {}:"
    figure = ""
    if choice != _OFF:
        origin = "measured" if recommendation.measured else "predicted"
        times, bounds = intervals.times(speedup), intervals.bounds(speedup)
        figure = f": {times} the baseline's speed as {origin} (95 % interval {bounds})"
    others = [str(each) for each in near if each in measured]
    if predicted := len(near) - len(others):
        others.append(wording.count(predicted, "predicted window"))
    return (
        f"{begin.format(f'{subject} at {recommendation.load}')} {choice}{figure}. Maybe "
        f"within {100 * _NEAR:.0f} % of the best: {'; '.join(others) or 'nothing else'}."
    )


def _measure_next(recommendation: Recommendation, scope: Scope) -> str:
    """What to measure to be surer; empty where it is clear."""
    choice = recommendation.choice
    if not recommendation.measured:
        return f"Measure {choice}: so far it is only predicted."
    if choice != _OFF and _OFF in recommendation.near:
        return f"Measure more rounds: {choice} and no speculation cannot be told apart yet."
    series = scope.series(choice.line) if choice.line else None
    if series and not series.fixed and choice.window == max(series.windows) < _WIDEST:
        return (
            f"Measure {choice.line} with a window wider than {choice.window}: the widest one is "
            "the best so far."
        )
    return ""
