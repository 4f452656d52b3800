"""What to serve: the best of all windows of all lines, or no speculation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from spectap.analysis.advice import sentences
from spectap.analysis.advice.advice import Choice, Line, Prospect, Recommendation
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.outlook import Outlook, Snapshot, Window, windows
from spectap.analysis.advice.prospects import tokens_per_second, usd_per_million
from spectap.analysis.advice.resampling import interval, posterior
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

    ``advises``: whether sentences say what to do.
    """
    for load, point in enumerate(observed.loads):
        served = _that_take(lines, point)
        known = frozenset(
            (one.line, one.window, one.prompt_class) for one in prospects if one.load == point
        )
        here = [name for name in observed.classes if any(name == one for *_, one in known)]
        places = [_Place(observed, served, outlook, load, known, {name: 1.0}) for name in here]
        asked = {name: share for name, share in mix.items() if share > 0}
        if len(observed.classes) > 1 and set(asked) <= set(here):
            places.append(_Place(observed, served, outlook, load, known, asked, mixed=True))
        for place in places:
            chances = _chances(place)
            fixed = any(line.fixed for line in place.lines)
            if chances is not None and len(place.choices) > (1 if fixed else 2):
                yield _recommended(place, chances, prospects, cost, advises=advises)


def _that_take(lines: Sequence[Line], point: LoadPoint) -> list[Line]:
    """The lines whose batch takes the load, or the largest: others would have a queue."""
    if point.concurrency is None:
        return [*lines]
    largest = max((line.batch or point.concurrency for line in lines), default=1)
    enough = min(point.concurrency, largest)
    return [line for line in lines if (line.batch or enough) >= enough]


@dataclass(frozen=True)
class _Place:
    """A load, and a class or the mix of several."""

    observed: Observed
    lines: Sequence[Line]
    outlook: Outlook
    load: int
    known: frozenset[tuple[str, int, str]]
    """Line, window and class of which there is a prospect."""
    shares: Mapping[str, float]
    """Of the output tokens, by class."""
    mixed: bool = False

    @cached_property
    def choices(self) -> list[Choice]:
        """Off first, then all windows that there are prospects of; of a line with one measured
        window that one alone."""
        return [
            OFF,
            *(
                Choice(line.name, window)
                for line in self.lines
                for window in (windows(line) if len(line.windows) > 1 else line.windows)
                if all((line.name, window, name) in self.known for name in self.shares)
            ),
        ]

    @cached_property
    def baseline(self) -> str:
        """The fastest one."""
        names = dict.fromkeys(line.baseline for line in self.lines)
        return min(names, key=lambda name: self._of_variant(self.outlook.run, name)[0])

    @cached_property
    def logs(self) -> Array:
        """Logarithms of the seconds of a whole request by its output tokens, over choice."""
        return np.array([self._logs(self.outlook.run, choice)[0] for choice in self.choices])

    @cached_property
    def replicates(self) -> Array:
        """The same over replicate and choice."""
        found = [self._logs(self.outlook.rivals, choice) for choice in self.choices]
        return np.stack(found, axis=-1)

    def measured(self, choice: Choice) -> str | None:
        """The name of its variant; None where it was not measured."""
        if choice.line is None:
            return self.baseline
        return next(
            (
                name
                for line in self.lines
                for window, name in line.variants
                if Choice(line.name, window) == choice
            ),
            None,
        )

    def speedup(self, choice: Choice) -> Interval:
        """Over its own baseline."""
        if choice.line is None:
            return Interval(1.0, 1.0, 1.0)
        baseline = next(line.baseline for line in self.lines if line.name == choice.line)
        run, replicates = (
            self._of_variant(one, baseline) - self._logs(one, choice)
            for one in (self.outlook.run, self.outlook.replicates)
        )
        return interval(float(run[0]), replicates, self.observed.rounds)

    def _logs(self, snapshot: Snapshot, choice: Choice) -> Array:
        name = self.measured(choice)
        if name is not None:
            return self._of_variant(snapshot, name)
        assert choice.line is not None
        assert choice.window is not None
        figures = snapshot.predicted[Window(choice.line, choice.window)]
        line = next(line for line in self.lines if line.name == choice.line)
        requests = snapshot.pooled(name for _, name in line.variants)
        return self._over_classes(requests.seconds(figures))

    def _of_variant(self, snapshot: Snapshot, name: str) -> Array:
        return self._over_classes(snapshot.requests[name].seconds(snapshot.measured[name]))

    def _over_classes(self, logs: Array) -> Array:
        """Each class has its share of the tokens, so their times add up."""
        seconds = sum(
            share * np.exp(logs[:, self.load, self.observed.classes.index(name)])
            for name, share in self.shares.items()
        )
        found: Array = np.log(seconds)
        return found


def _recommended(
    place: _Place,
    chances: Array,
    prospects: Sequence[Prospect],
    cost: Cost | None,
    *,
    advises: bool,
) -> Recommendation:
    point = place.observed.loads[place.load]
    best = _best(place)
    choice = place.choices[best]
    order = [number for number in np.argsort(-chances, kind="stable") if number != best]
    rivals = tuple(
        (place.choices[number], float(chances[number]))
        for number in order[:_MOST_RIVALS]
        if chances[number] >= _RIVAL
    )
    found = Recommendation(
        prompt_class=None if place.mixed else next(iter(place.shares)),
        load=point,
        choice=choice,
        measured=place.measured(choice) is not None,
        speedup=place.speedup(choice),
        usd_per_million_output_tokens=_usd(place, choice, prospects, cost),
        probability=float(chances[best]),
        rivals=rivals,
        sentence="",
        measure_next="",
    )
    return sentences.said(
        found,
        measured={one: place.measured(one) is not None for one in place.choices},
        largest={line.name: max(line.windows) for line in place.lines if not line.fixed},
        advises=advises,
    )


def _best(place: _Place) -> int:
    """The number of the fastest choice, or of the fastest measured one where it is as good."""
    fastest = int(place.logs.argmin())
    measured = [n for n, choice in enumerate(place.choices) if place.measured(choice) is not None]
    known = min(measured, key=lambda number: float(place.logs[number]))
    return known if place.logs[known] - place.logs[fastest] <= math.log1p(_WORTH) else fastest


def _chances(place: _Place) -> Array | None:
    """How likely each choice is the best; None where there are no replicates."""
    values = posterior(place.logs, place.replicates, place.observed.rounds)
    if not len(values):
        return None
    wins = np.bincount(values.argmin(axis=1), minlength=len(place.choices))
    chances: Array = wins / len(values)
    return chances


def _usd(
    place: _Place, choice: Choice, prospects: Sequence[Prospect], cost: Cost | None
) -> float | None:
    """Of a million output tokens, which have their shares of the time."""
    point = place.observed.loads[place.load]
    seconds = 0.0
    for name, share in place.shares.items():
        if choice.line is None:
            number = place.observed.classes.index(name)
            speed = tokens_per_second(place.observed, place.baseline, place.load, number)
        else:
            key = choice.line, choice.window, name, point
            speed = next(
                one.tokens_per_second
                for one in prospects
                if (one.line, one.window, one.prompt_class, one.load) == key
            )
        if not speed:
            return None
        seconds += share / speed
    return usd_per_million(cost, point, 1 / seconds)
