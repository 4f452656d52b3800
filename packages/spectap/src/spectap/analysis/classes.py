"""A variant over the test cases of a class: one figure of several."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from spectap.analysis import contrasts, grouping
from spectap.analysis.contrasts import Question
from spectap.analysis.estimate import Estimate, geometric_mean, jackknife
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey, Unit
from spectap.analysis.summary import Overall
from spectap.load_points import FEWEST_ROUNDS, LoadPoint

_Value = TypeVar("_Value")


def of_classes(evidence: Evidence) -> Iterator[Overall]:
    """Each variant over the test cases of a class, where it has several, at each load; but sets."""
    plan = evidence.plan
    kinds = {name: kind.structure for name, kind in plan.cases.items() if not kind.named}
    for structure in dict.fromkeys(kinds.values()):
        cases = [name for name, kind in kinds.items() if kind == structure]
        for load, point in plan.points.items():
            for variant, baseline in plan.compared.items():
                keys = [CellKey(case, load, variant) for case in cases]
                # Speed is another question where answers are longer.
                contrast = evidence.contrasts
                keys = [key for key in keys if key in contrast and not contrast[key].longer]
                if len(keys) < 2:
                    continue
                sides = {key.case: evidence.sides(key, baseline) for key in keys}
                billed = {key.case: evidence.sides(key, baseline, billed=True) for key in keys}
                answers = overall(sides, billed=billed, point=point)
                speed, cost = (
                    evidence.widened(variant, baseline, answer).interval(plan.alpha)
                    if (answer := answers.get(question))
                    else None
                    for question in Question
                )
                yield Overall(structure, point, variant, baseline, len(keys), speed, cost)


def overall(
    sides: Mapping[str, Unit],
    *,
    billed: Mapping[str, Unit] | None = None,
    point: LoadPoint | None = None,
) -> dict[Question, Estimate]:
    """To each question the answer over test cases: the geometric mean of their ratios.

    ``sides`` has each one's cell and baseline, ``billed`` with what was measured again; ``point``
    is the load of all. A round is a unit with all its test cases: what differs from round to round
    may differ for all of them. A test case counts once, however many rounds it has.
    """
    speed = _over(sides, contrasts.speed_up, geometric_mean)
    cost = _over(billed or sides, contrasts.sums, contrasts.ratio_of_ratios)
    answers = zip(Question, (speed, cost), strict=True)
    asked = contrasts.questions(point)
    return {question: answer for question, answer in answers if answer and question in asked}


def _over(
    sides: Mapping[str, Unit],
    value: Callable[[Unit], _Value | None],
    statistic: Callable[[Sequence[_Value]], float],
) -> Estimate | None:
    rounds: dict[tuple[str, int], dict[str, _Value]] = defaultdict(dict)
    for case, pair in sides.items():
        for number, unit in grouping.rounds(*pair).items():
            if (ratio := value(unit)) is not None:
                rounds[number][case] = ratio

    def mean_over_cases(chosen: Sequence[Mapping[str, _Value]]) -> float:
        by_case = defaultdict(list)
        for of_round in chosen:
            for case, ratio in of_round.items():
                by_case[case].append(ratio)
        return geometric_mean([statistic(values) for values in by_case.values()])

    estimate = jackknife([*rounds.values()], mean_over_cases)
    # A test case that ended early is as large a part of the mean as one that went on, so the mean
    # is no surer than its few rounds are.
    counts = Counter(case for of_round in rounds.values() for case in of_round)
    fewest = min((counts[case] for case in sides), default=0)
    if estimate is None or fewest < FEWEST_ROUNDS:
        return None
    return replace(estimate, units=fewest)
