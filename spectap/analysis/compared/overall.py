"""One number for several test cases: the geometric mean of their ratios.

It speaks of these test cases, not of others like them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from spectap.analysis import units
from spectap.analysis.compared import claims
from spectap.analysis.compared.claims import Question
from spectap.analysis.estimates.estimate import Estimate, geometric_mean, jackknife
from spectap.analysis.units import Unit
from spectap.load_points import LoadPoint
from spectap.record import Record
from spectap.rounds import FEWEST_ROUNDS

_Value = TypeVar("_Value")


def overall(
    sides: Mapping[str, tuple[Sequence[Record], Sequence[Record]]],
    *,
    point: LoadPoint | None = None,
) -> dict[Question, Estimate]:
    """To each question the answer over test cases; ``sides`` has each one's cell and baseline.

    ``point``: the load of all.

    A round is a unit with all its test cases: what differs from round to round may differ for all
    of them. A test case counts once, however many rounds it has.
    """
    found: dict[Question, Estimate | None] = {
        Question.SPEED: _over(sides, claims.speed_up, geometric_mean),
        Question.COST: _over(sides, claims.sums, claims.ratio_of_ratios),
    }
    return {one: answer for one in claims.questions(point) if (answer := found[one]) is not None}


def _over(
    sides: Mapping[str, tuple[Sequence[Record], Sequence[Record]]],
    value: Callable[[Unit], _Value | None],
    statistic: Callable[[Sequence[_Value]], float],
) -> Estimate | None:
    rounds: dict[tuple[str, int], dict[str, _Value]] = defaultdict(dict)
    for case, (own, baseline) in sides.items():
        for number, unit in units.rounds(own, baseline).items():
            if (found := value(unit)) is not None:
                rounds[number][case] = found

    def mean_over_cases(chosen: Sequence[Mapping[str, _Value]]) -> float:
        by_case = defaultdict(list)
        for of_round in chosen:
            for case, found in of_round.items():
                by_case[case].append(found)
        return geometric_mean([statistic(values) for values in by_case.values()])

    estimate = jackknife([*rounds.values()], mean_over_cases)
    # A test case that ended early is as large a part of the mean as one that went on, so the mean
    # is no surer than its few rounds are.
    fewest = min((sum(case in found for found in rounds.values()) for case in sides), default=0)
    if estimate is None or fewest < FEWEST_ROUNDS:
        return None
    return replace(estimate, units=fewest)
