"""What a variant is claimed to be against its baseline, and which claims hold together.

Two questions have two answers: how fast one request is, and what all of them together cost. The
speed is that of the whole request, with its queue and its first token. Decoding speed, which leaves
both out, explains it and is never claimed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final, Generic, TypeVar

from spectap import metrics
from spectap.analysis import units
from spectap.analysis.compared import prompts
from spectap.analysis.estimates.estimate import Estimate, geometric_mean, jackknife
from spectap.analysis.keys import CellKey
from spectap.analysis.units import Unit
from spectap.load_points import LoadPoint
from spectap.record import Record

Measure = Callable[[Record], Iterable[float]]
_Key = TypeVar("_Key", bound=Hashable)

SLIGHT: Final = 0.2
"""The part of alpha for calling a difference too little to matter; the rest is for claiming one."""

_TIME_PER_TOKEN: Final = metrics.TIME_PER_OUTPUT_TOKEN.values
_SIGNS: Final = (1, -1, -1, 1)
"""Of the ``sums`` in the logarithm of ``ratio_of_ratios``."""
_THROUGHPUT: Final = metrics.REQUEST_OUTPUT_THROUGHPUT.values


class Question(Enum):
    """What a user decides by."""

    SPEED = "speed"
    """Of one request, from its sending to its end: output tokens by end-to-end latency."""
    COST = "cost"
    """Of all requests together: tokens a second, and so money a token."""


@dataclass(frozen=True)
class Contrast:
    """A cell against that of its baseline. Each ratio is above 1 where the cell is better.

    None where there are too few units, or where the measure is not defined.
    """

    time_per_output_token: Estimate | None
    """Decoding speed."""
    end_to_end: Estimate | None
    throughput: Estimate | None
    """Request speed: output tokens of one request by its end-to-end latency."""
    together: Estimate | None
    """Tokens a second of all requests together. None in an open loop, which has no such question.
    """
    rounds: int
    """That both sides have; too few for an interval where units are blocks of time."""

    def each(self, changed: Callable[[Estimate], Estimate]) -> Contrast:
        """The same with each ratio ``changed``."""
        by_time, end_to_end, throughput, together = (
            changed(one) if one else None
            for one in (
                self.time_per_output_token,
                self.end_to_end,
                self.throughput,
                self.together,
            )
        )
        return Contrast(by_time, end_to_end, throughput, together, self.rounds)

    @property
    def answers(self) -> dict[Question, Estimate]:
        """To each question that has one."""
        answers = {Question.SPEED: self.throughput, Question.COST: self.together}
        return {question: answer for question, answer in answers.items() if answer is not None}


def questions(point: LoadPoint | None) -> tuple[Question, ...]:
    """What there is to answer at a load point.

    What a token costs is a question to a closed loop: how much a node does when it is kept busy. In
    an open loop the rate says how much it does, as long as it keeps up, and the node is paid while
    it waits.
    """
    return (Question.SPEED,) if point and point.open else tuple(Question)


def contrast(
    own: Sequence[Record],
    baseline: Sequence[Record],
    *,
    point: LoadPoint | None = None,
    planned: bool = True,
) -> Contrast:
    """Compares the requests of a cell with those of its baseline, unit by unit.

    What both sides of a unit share cancels: its minute, its prompts, its place in the order. Where
    requests name their prompts, the unit is a prompt in a round.
    ``point``: the load of both, where it is known. ``planned``: whether they were to be measured in
    rounds.
    """
    mean = _mean_over(own, baseline, planned=planned)
    return Contrast(
        time_per_output_token=mean(partial(faster, _TIME_PER_TOKEN)),
        end_to_end=mean(partial(faster, metrics.END_TO_END_LATENCY.values)),
        throughput=mean(speed_up),
        together=_together(own, baseline) if Question.COST in questions(point) else None,
        rounds=len(units.rounds(own, baseline)),
    )


def _together(own: Sequence[Record], baseline: Sequence[Record]) -> Estimate | None:
    by_round = [sums(unit) for unit in units.rounds(own, baseline).values()]
    estimate = jackknife(by_round, ratio_of_ratios)
    if estimate is None or not prompts.named(own, baseline):
        return estimate
    sent = {key: sums(unit) for key, unit in prompts.sendings(own, baseline).items()}
    totals = [*map(sum, zip(*by_round, strict=True))]
    # The first order of the logarithm of ``ratio_of_ratios``.
    pulls = {
        key: sum(
            sign * part / total for sign, part, total in zip(_SIGNS, of_one, totals, strict=True)
        )
        for key, of_one in sent.items()
    }
    variance = estimate.error**2 + prompts.beyond_rounds(pulls)
    count = min(estimate.units, len({prompt for prompt, _ in sent}))
    return replace(estimate, error=math.sqrt(variance), units=count)


def _mean_over(
    own: Sequence[Record], baseline: Sequence[Record], *, planned: bool
) -> Callable[[Callable[[Unit], float | None]], Estimate | None]:
    """Gives the mean of a ratio over what the two sides are compared by."""
    if prompts.named(own, baseline):
        sent = prompts.sendings(own, baseline)
        return lambda value: prompts.mean(values(value, sent), planned=planned)
    pairs = units.units(own, baseline, planned=planned)
    return lambda value: _mean(map(value, pairs))


def values(value: Callable[[Unit], float | None], sent: Mapping[_Key, Unit]) -> dict[_Key, float]:
    """The values of those units that have one."""
    found = {key: value(unit) for key, unit in sent.items()}
    return {key: one for key, one in found.items() if one is not None}


def speed_up(unit: Unit) -> float | None:
    """How many times faster one request is in a unit; ``Contrast.throughput`` is their mean."""
    return ratio(_THROUGHPUT, unit)


def faster(measure: Measure, unit: Unit) -> float | None:
    """How many times faster a unit's first side is, by a measure that is smaller then."""
    return ratio(measure, unit[::-1])


def typical(measure: Measure, parts: Iterable[Sequence[Record]]) -> Estimate | None:
    """The median of a cell's typical round or block: the geometric mean of their medians."""
    return _mean(median(measure, part) for part in parts)


def median(measure: Measure, records: Iterable[Record]) -> float | None:
    """Over the requests that succeeded; None where it is not above 0 or there is no value."""
    values = [value for record in records if record.succeeded for value in measure(record)]
    # 0 is the time per token of an answer that arrives in one piece.
    return (statistics.median(values) or None) if values else None


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """The sum of the first by the sum of the second."""
    return jackknife(pairs, _ratio_of_sums)


@dataclass(frozen=True)
class Family(Generic[_Key]):
    """Which claims of one report hold."""

    decided: frozenset[_Key]
    level: float
    """The p-value that one more claim would have had to stay under."""
    claims: int
    """How many the report could make."""


def decide(
    contrasts: Mapping[CellKey, Contrast], alpha: float, claims: int
) -> Family[tuple[CellKey, Question]]:
    """Which answers hold, all of one report together.

    ``claims`` is how many the report could make, those of cells without a contrast included.
    """
    p_values = {
        (key, question): answer.p
        for key, contrast in contrasts.items()
        for question, answer in contrast.answers.items()
    }
    return holm(p_values, (1 - SLIGHT) * alpha, claims)


def holm(p_values: Mapping[_Key, float], alpha: float, claims: int) -> Family[_Key]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979).

    Whatever is true, the chance that any difference is decided where there is none is at most
    ``alpha``. ``claims`` is how many the report could make; those without a p-value cannot be
    decided.
    """
    decided: set[_Key] = set()
    for key in sorted(p_values, key=lambda key: p_values[key]):
        if p_values[key] > alpha / (claims - len(decided)):
            break
        decided.add(key)
    return Family(frozenset(decided), alpha / max(1, claims - len(decided)), claims)


def ratio(measure: Measure, unit: Unit) -> float | None:
    """Of the medians of a unit's two sides; None where one is not known."""
    above, below = (median(measure, side) for side in unit)
    return above / below if above is not None and below is not None else None


def sums(unit: Unit) -> tuple[float, ...]:
    """Served tokens and request time of each side."""
    return tuple(
        float(total)
        for side in unit
        for total in (metrics.served_tokens(side), metrics.request_time(side))
    )


def ratio_of_ratios(units: Sequence[tuple[float, ...]]) -> float:
    """Tokens a second of the first side by those of the second, over all ``units``."""
    tokens, seconds, tokens_of_baseline, seconds_of_baseline = map(sum, zip(*units, strict=True))
    return _by(tokens * seconds_of_baseline, seconds * tokens_of_baseline)


def _mean(ratios: Iterable[float | None]) -> Estimate | None:
    return jackknife([ratio for ratio in ratios if ratio is not None], geometric_mean)


def _ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> float:
    above, below = map(sum, zip(*pairs, strict=True))
    return _by(above, below)


def _by(above: float, below: float) -> float:
    return above / below if below else math.inf
