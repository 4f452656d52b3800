"""Up to which load a variant is better than its baseline, and from which load on it is worse.

The bounds come from a fixed sequence of tests (Maurer, Hothorn and Lehmacher, 1995): upward from
the lowest load as long as the variant is better, downward from the highest as long as it is worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

from scipy.optimize import isotonic_regression

from spectap.analysis.contrasts import Question
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.summary import Answer, Crossover, Ladder
from spectap.load_points import LoadPoint

_LEAST_VARIANCE: Final = 1e-12
_NOWHERE: Final = Crossover(None, None, None)


@dataclass(frozen=True)
class Rung:
    """What is known of a variant against its baseline at one load."""

    load: float
    """Requests at once, or a second."""
    estimate: Estimate | None
    """Of the ratio, above 1 where the variant is better; None where there is none."""
    answer: Answer | None
    """As far as it is decided among all claims of the report."""


def crossover(rungs: Iterable[Rung], alpha: float) -> Crossover:
    """Where the ratio falls below 1; ``rungs`` lowest first. Those without an estimate are left
    out. Both bounds hold together with the chance 1 - ``alpha``."""
    known = [(rung.load, rung.estimate) for rung in rungs if rung.estimate]
    intervals = [(load, estimate.interval(alpha)) for load, estimate in known]
    better = [*takewhile(lambda at_load: at_load[1].low > 1, intervals)]
    worse = [*takewhile(lambda at_load: at_load[1].high < 1, reversed(intervals))]
    return Crossover(
        point=_point(known),
        better_up_to=better[-1][0] if better else None,
        worse_from=worse[-1][0] if worse else None,
    )


def _point(known: Sequence[tuple[float, Estimate]]) -> float | None:
    """Where a falling line through the estimates crosses 1: that of isotonic regression, so that
    scatter makes no second crossing. Between two loads it is straight in the logarithms of both."""
    if not known:
        return None
    fitted = isotonic_regression(
        [estimate.log for _, estimate in known],
        weights=[1 / max(estimate.error**2, _LEAST_VARIANCE) for _, estimate in known],
        increasing=False,
    ).x
    for ((low, _), (high, _)), (above, below) in zip(
        pairwise(known), pairwise(fitted), strict=True
    ):
        if above >= 0 > below:
            fraction = above / (above - below)
            return float(math.exp(math.log(low) + fraction * math.log(high / low)))
    return None


def ladder_points(points: Iterable[LoadPoint]) -> Iterator[tuple[LoadPoint, ...]]:
    """The load points of each kind that has several, lowest first."""
    points = sorted(points, key=lambda point: point.amount)
    for is_open in (False, True):
        of_kind = tuple(point for point in points if point.open == is_open)
        if len(of_kind) > 1:
            yield of_kind


def ladder(
    variant: str,
    baseline: str,
    loads: tuple[LoadPoint, ...],
    rungs: Mapping[Question, Sequence[Rung]],
    alpha: float,
    beside: Iterable[str] = (),
    *,
    failed: bool = False,
) -> Ladder:
    """The ladder of ``loads``, which are of one kind and the lowest first.

    ``rungs`` has one for each load. ``alpha`` is the level of each crossover. ``beside`` are the
    cautions on its cells. ``failed``: whether requests of them failed.
    """
    unit = "a second" if loads[0].open else "at once"
    crossovers = {question: crossover(rungs[question], alpha) for question in rungs}
    sentences = []
    for question, known in rungs.items():
        words = [text.format(variant=variant, baseline=baseline) for text in _WORDS[question]]
        speed_of_some = failed and question is Question.SPEED
        sentences.append(_sentence(words, known, crossovers[question], unit, failed=speed_of_some))
    unknown = [rung.load for rung in rungs[Question.SPEED] if rung.estimate is None]
    if unknown:
        sentences.append(f"There is no verdict at {_requests(unknown, unit)}.")
    sentences += (f"{clause}." for clause in beside)
    return Ladder(
        variant=variant,
        baseline=baseline,
        open=loads[0].open,
        loads=loads,
        speed=crossovers[Question.SPEED],
        cost=crossovers.get(Question.COST, _NOWHERE),
        sentence=" ".join(filter(None, sentences)),
        whole=not unknown,
        failed=failed,
    )


_WORDS: Final = {
    Question.SPEED: (
        "{variant} answers requests",
        "faster than {baseline}",
        "slower than {baseline}",
        "whether it is faster or slower",
        "they are equally fast",
    ),
    Question.COST: (
        "it",
        "gains throughput",
        "costs throughput",
        "whether it gains or costs throughput",
        "both have the same",
    ),
}
"""How the answers to a question are said: who, better, worse, either, equal."""


def _sentence(
    words: Sequence[str], rungs: Sequence[Rung], crossover: Crossover, unit: str, *, failed: bool
) -> str:
    loads = [rung.load for rung in rungs if rung.estimate is not None]
    if not loads:
        return ""
    subject, better, worse, either, equal = words
    ahead, behind = (
        [rung.load for rung in rungs if rung.answer is answer]
        for answer in (Answer.BETTER, Answer.WORSE)
    )
    if ahead and behind and behind[0] < ahead[-1]:
        return (
            f"As the load grows it turns back: {subject} {worse} at {_requests(behind, unit)}, "
            f"{better} at {_requests(ahead, unit)}."
        )
    begin = "It" if subject == "it" else subject
    every, end = "at every load", ": no crossover."
    if failed:
        every, end = "wherever they succeed", "."
    if len(loads) < len(rungs):
        every, end = "at every load that has a verdict", "."
    last, first = crossover.better_up_to, crossover.worse_from
    if last == loads[-1]:
        return f"{begin} {better} {every}, up to {_requests([last], unit)}{end}"
    if first == loads[0]:
        return f"{begin} {worse} {every}, from {_requests([first], unit)} on{end}"
    if last is not None and first is not None:
        # To two digits: it is an estimate between two loads.
        point = crossover.point
        about = "" if point is None else f" at about {float(f'{point:.2g}'):g}"
        return (
            f"{begin} {better} up to {_requests([last], unit)}, and {worse} from {first:g} on; "
            f"{equal}{about} (95 % interval {last:g}-{first:g})."
        )
    text = f"Up to which load {subject} {better} cannot be told."
    if last is not None:
        below = _requests([last], unit)
        text = f"{begin} {better} up to {below}; above that, {either} cannot be told."
    elif first is not None:
        above = _requests([first], unit)
        text = f"{begin} {worse} from {above} on; below that, {either} cannot be told."
    # Of a single load, less is claimed: so its row can be decided where the crossover is not.
    alone = [
        rung.load
        for rung in rungs
        if rung.answer not in (None, Answer.UNDECIDED)
        and (last or 0) < rung.load < (first or math.inf)
    ]
    if alone:
        text += (
            f" At {_requests(alone, unit)}, judged alone, a difference is proven; a crossover "
            "needs more proof."
        )
    return text


def _requests(loads: Sequence[float], unit: str) -> str:
    """``1 request at once``, ``2, 4 and 8 requests a second``."""
    *leading, last = (f"{load:g}" for load in loads)
    listed = f"{', '.join(leading)} and {last}" if leading else last
    return f"{listed} request{'' if listed == '1' else 's'} {unit}"
