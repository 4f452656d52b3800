"""Compares a cell with its baseline: ratios and their errors.

Where prompts have names, requests are not independent. A speed-up differs from prompt to prompt,
and what slows a round slows all its prompts. So the error is clustered by prompt and by round
(Cameron, Gelbach and Miller, Journal of Business and Economic Statistics 29, 2011).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from spectap import metrics
from spectap.analysis import grouping
from spectap.analysis.estimate import MARGIN, Estimate, geometric_mean, jackknife, pooled
from spectap.analysis.grouping import CellKey, Unit
from spectap.inputs.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.records.record import Record

Measure = Callable[[Record], Iterable[float]]
Total = Callable[[Iterable[Record]], float]
Sending = tuple[str, tuple[str, int]]
"""A prompt and the round in which it was sent: name, (run, number)."""


class Question(Enum):
    """A question that a user decides by."""

    SPEED = "speed"
    """Speed of one request, from its sending to its end: output tokens by end-to-end latency."""
    COST = "cost"
    """Tokens, or answers, a second of all requests together: what each of them costs."""


class Ratio(Enum):
    """A ratio of times or speeds to the baseline's, above 1 where the cell is better."""

    DECODING = "time per output token"
    WHOLE = "end-to-end latency"
    SPEED = "request speed"
    """Output tokens of one request by its end-to-end latency."""
    TOGETHER = "tokens a second of all requests together"
    """Not defined in an open loop."""
    ANSWERED = "answers a second"
    """Used in place of TOGETHER where answers have different lengths."""


@dataclass(frozen=True)
class Contrast:
    """The comparison of a cell with its baseline."""

    ratios: Mapping[Ratio, Estimate]
    """Only ratios that are defined and have units enough."""
    lengths: Estimate | None
    """The ratio of mean output tokens an answer; above 1 where the cell's answers are longer."""
    rounds: int
    """Rounds of both sides; too few of them where blocks of time are the units."""
    named: bool
    """Whether ratios are taken prompt by prompt."""

    @property
    def longer(self) -> bool:
        """Whether lengths surely differ. Speed is then that of the whole answer."""
        return self.lengths is not None and _differ(self.lengths, named=False)

    @property
    def answers(self) -> dict[Question, Estimate]:
        """The estimate that answers each question; questions without one are left out."""
        speed = Ratio.WHOLE if self.longer and Ratio.SPEED in self.ratios else Ratio.SPEED
        cost = Ratio.ANSWERED if Ratio.ANSWERED in self.ratios else Ratio.TOGETHER
        asked = {Question.SPEED: speed, Question.COST: cost}
        return {question: self.ratios[of] for question, of in asked.items() if of in self.ratios}


def questions(point: LoadPoint | None) -> tuple[Question, ...]:
    """The questions at a load point. Cost is asked of closed loops alone, which fill a node."""
    return (Question.SPEED,) if point and point.open else tuple(Question)


def contrast(
    records: Sequence[Record],
    baseline: Sequence[Record],
    *,
    point: LoadPoint | None = None,
    planned: bool = True,
    billed: Unit | None = None,
) -> Contrast:
    """Compares the requests of a cell with those of its baseline, unit by unit.

    What both sides of a unit share cancels. The unit is a prompt in a round where requests name
    their prompts, and a round otherwise. ``planned``: the run was to be measured in rounds.
    ``billed``: the requests of both sides with their failed attempts that were measured again.
    """
    named = names_prompts(records, baseline)
    sent = sendings(records, baseline) if named else {}
    units = grouping.units(records, baseline, planned=planned)
    billed = billed or (records, baseline)
    rounds = [*grouping.rounds(*billed).values()]
    paid = sendings(*billed) if named else {}
    lengths = _of_all(rounds, paid, metrics.served_tokens, metrics.answers)
    together = answered = None
    if Question.COST in questions(point):
        again = math.sqrt(1 + 2 / failed) if (failed := _failed_attempts(billed)) else 1.0

        def per_second(amount: Total) -> Estimate | None:
            ratio = _of_all(rounds, paid, amount, metrics.request_time)
            return ratio and replace(ratio, error=ratio.error * again)

        together = per_second(metrics.served_tokens)
        if together and lengths and _differ(lengths, named=named):
            answered = per_second(metrics.answers)

    def mean(value: Callable[[Unit], float | None]) -> Estimate | None:
        if not named:
            return _mean(map(value, units))
        ratios = {sending: ratio for sending, unit in sent.items() if (ratio := value(unit))}
        return mean_over_prompts(ratios, planned=planned)

    ratios = {
        Ratio.DECODING: mean(lambda unit: ratio(metrics.TIME_PER_OUTPUT_TOKEN.values, unit[::-1])),
        Ratio.WHOLE: mean(whole_speed_up),
        Ratio.SPEED: mean(speed_up),
        Ratio.TOGETHER: together,
        Ratio.ANSWERED: answered,
    }
    return Contrast(
        {of: estimate for of, estimate in ratios.items() if estimate},
        lengths,
        rounds=len(grouping.rounds(records, baseline)),
        named=named,
    )


def pooled_over_cases(by_cell: Mapping[CellKey, Contrast]) -> dict[CellKey, Contrast]:
    """The contrasts, each with at least the error of its test cases at one load together."""
    alike = defaultdict[tuple[str, str, bool, Ratio], dict[CellKey, Estimate]](dict)
    for key, contrast in by_cell.items():
        for of, ratio in contrast.ratios.items():
            alike[key.variant, key.load, contrast.named, of][key] = ratio
    changed = defaultdict[CellKey, dict[Ratio, Estimate]](dict)
    for (*_, of), ratios in alike.items():
        for key, ratio in zip(ratios, pooled([*ratios.values()]), strict=True):
            changed[key][of] = ratio
    return {key: replace(contrast, ratios=changed[key]) for key, contrast in by_cell.items()}


def _differ(lengths: Estimate, *, named: bool) -> bool:
    """Whether lengths differ so much that whole answers are compared in place of tokens.

    For the same prompts, they are compared whole unless lengths are surely alike: long answers must
    not hide cost. Without named prompts, lengths come by chance, and answers are compared whole
    only where lengths surely differ.
    """
    interval = lengths.interval()
    if named:
        return not interval.within(MARGIN)
    return interval.low > 1 + MARGIN or interval.high < 1 / (1 + MARGIN)


def _failed_attempts(billed: Unit) -> int:
    """The number of failed attempts on the side that has more of them.

    The error of all requests together is widened as if there had been two more failures: a rare
    event shows too little scatter in a run that happened to miss some.
    """
    attempts = ({(record.run, record.round, record.attempt) for record in side} for side in billed)
    return max(len(of_side) - len({key[:2] for key in of_side}) for of_side in attempts)


def _of_all(
    rounds: Sequence[Unit], paid: Mapping[Sending, Unit], above: Total, below: Total
) -> Estimate | None:
    """The ratio, between the sides, of ``above`` / ``below`` over all requests together."""
    by_round = [sums(unit, above, below) for unit in rounds]
    estimate = jackknife(by_round, ratio_of_ratios)
    if estimate is None or not paid:
        return estimate
    sent = {sending: sums(unit, above, below) for sending, unit in paid.items()}
    totals = [*map(sum, zip(*by_round, strict=True))]
    # The first order of the logarithm of ``ratio_of_ratios``.
    pulls = {
        sending: sum(
            sign * amount / total
            for sign, amount, total in zip((1, -1, -1, 1), amounts, totals, strict=True)
        )
        for sending, amounts in sent.items()
    }
    variance = estimate.error**2 + _beyond_rounds(pulls)
    count = min(estimate.units, len({prompt for prompt, _ in sent}))
    return replace(estimate, error=math.sqrt(variance), units=count)


def speed_up(unit: Unit) -> float | None:
    """The speed-up of one request in a unit; ``Ratio.SPEED`` is the mean over units."""
    return ratio(metrics.REQUEST_OUTPUT_THROUGHPUT.values, unit)


def whole_speed_up(unit: Unit) -> float | None:
    """The speed-up of a whole answer in a unit, whatever its length."""
    return ratio(metrics.END_TO_END_LATENCY.values, unit[::-1])


def _mean(ratios: Iterable[float | None]) -> Estimate | None:
    return jackknife([ratio for ratio in ratios if ratio is not None], geometric_mean)


def typical(parts: Iterable[Sequence[float]]) -> Estimate | None:
    """The geometric mean of the parts' medians; a part has the values of a round or a block."""
    return _mean(map(_median, parts))


def median(measure: Measure, records: Iterable[Record]) -> float | None:
    """The median over requests that succeeded; None where it is not above 0, or without values."""
    return _median([value for r in records if r.succeeded for value in measure(r)])


def _median(values: Sequence[float]) -> float | None:
    # 0 is the time per token of an answer that arrives in one piece.
    return max(0.0, statistics.median(values)) or None if values else None


def ratio(measure: Measure, unit: Unit) -> float | None:
    """The ratio of the sides' medians; None where one is not known."""
    above, below = (median(measure, side) for side in unit)
    return above / below if above is not None and below is not None else None


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> Estimate | None:

    def ratio_of(chosen: Sequence[tuple[float, float]]) -> float:
        above, below = map(sum, zip(*chosen, strict=True))
        return above / below if below else math.inf

    return jackknife(pairs, ratio_of)


def sums(
    unit: Unit, above: Total = metrics.served_tokens, below: Total = metrics.request_time
) -> tuple[float, ...]:
    return tuple(float(total(side)) for side in unit for total in (above, below))


def ratio_of_ratios(units: Sequence[tuple[float, ...]]) -> float:
    """The ratio of above / below between the sides, each summed over ``units``."""
    above, below, above_of_baseline, below_of_baseline = map(sum, zip(*units, strict=True))
    divisor = below * above_of_baseline
    return above * below_of_baseline / divisor if divisor else math.inf


def names_prompts(*sides: Sequence[Record]) -> bool:
    return all(side and all(record.prompt for record in side) for side in sides)


def sendings(
    *sides: Sequence[Record], by: Callable[[Record], tuple[str, int]] = grouping.unit_of
) -> dict[Sending, Unit]:
    """The requests of each side by prompt and round, where all sides sent that prompt."""
    units: dict[Sending, Unit] = {}
    for round_, unit in grouping.rounds(*sides, by=by).items():
        by_prompt = [defaultdict[str, list[Record]](list) for _ in unit]
        for side, prompts in zip(unit, by_prompt, strict=True):
            for record in side:
                prompts[record.prompt].append(record)
        for prompt in sorted(set.intersection(*map(set, by_prompt))):
            units[prompt, round_] = tuple(prompts[prompt] for prompts in by_prompt)
    return units


def mean_over_prompts(ratios: Mapping[Sending, float], *, planned: bool = True) -> Estimate | None:
    """The geometric mean over prompts of each prompt's ratio.

    Its degrees of freedom are those of prompts or of rounds, whichever are fewer. Prompts alone
    count if nobody ``planned`` rounds and there are too few. None for fewer than ``FEWEST_ROUNDS``.
    """
    logs = {sending: math.log(ratio) for sending, ratio in ratios.items()}
    prompts, rounds = defaultdict[str, list[float]](list), {round_ for _, round_ in logs}
    for (prompt, _), log in logs.items():
        prompts[prompt].append(log)
    count = len(prompts)
    if planned or len(rounds) >= FEWEST_ROUNDS:
        count = min(count, len(rounds))
    if count < FEWEST_ROUNDS:
        return None
    mean = statistics.fmean([statistics.fmean(values) for values in prompts.values()])
    pulls = {
        sending: (log - mean) / len(prompts[sending[0]]) / len(prompts)
        for sending, log in logs.items()
    }
    of_rounds = _clustered(pulls, lambda sending: sending[1])
    return Estimate(mean, math.sqrt(of_rounds + _beyond_rounds(pulls)), count)


def _beyond_rounds(pulls: Mapping[Sending, float]) -> float:
    """The variance that prompts add to that over rounds.

    Other rounds with the same prompts do not show how other prompts would differ. ``pulls`` says
    how far each sending moves the figure.
    """
    of_prompts = _clustered(pulls, lambda sending: sending[0])
    return max(0.0, of_prompts - _clustered(pulls, lambda sending: sending))


def _clustered(pulls: Mapping[Sending, float], cluster: Callable[[Sending], Hashable]) -> float:
    """The variance of a mean whose clusters are independent."""
    sums: dict[Hashable, float] = defaultdict(float)
    for sending, pull in pulls.items():
        sums[cluster(sending)] += pull
    count = len(sums)
    return count / (count - 1) * math.fsum(pull**2 for pull in sums.values()) if count > 1 else 0.0
