"""One number for several test cases: the geometric mean of their ratios.

It speaks of these test cases, not of others like them.

It also says what a matched baseline explains. A runtime may turn something off where a variant
speculates, such as async scheduling. The baseline that decides is served with it, as one would
serve it. A matched one, where there were devices for it, is served without it, too: what a variant
gains over that is by speculation alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from spectap.analysis import claims, contrasts, grouping
from spectap.analysis.contrasts import Question
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.estimate import Estimate, geometric_mean, jackknife
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey, Unit
from spectap.config import Config, Variant
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.record import Record

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
    answers: dict[Question, Estimate | None] = {
        Question.SPEED: _over(sides, contrasts.speed_up, geometric_mean),
        Question.COST: _over(sides, contrasts.sums, contrasts.ratio_of_ratios),
    }
    return {
        question: answer
        for question in contrasts.questions(point)
        if (answer := answers[question]) is not None
    }


def _over(
    sides: Mapping[str, tuple[Sequence[Record], Sequence[Record]]],
    value: Callable[[Unit], _Value | None],
    statistic: Callable[[Sequence[_Value]], float],
) -> Estimate | None:
    rounds: dict[tuple[str, int], dict[str, _Value]] = defaultdict(dict)
    for case, (own, baseline) in sides.items():
        for number, unit in grouping.rounds(own, baseline).items():
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
    fewest = min(
        (sum(case in of_round for of_round in rounds.values()) for case in sides), default=0
    )
    if estimate is None or fewest < FEWEST_ROUNDS:
        return None
    return replace(estimate, units=fewest)


def matched_baselines(config: Config, evidence: Evidence) -> Iterator[str]:
    """On each variant that is served without something that its baseline has."""
    by_name = {variant.name: variant for variant in config.variants}
    for variant in config.variants:
        baseline = by_name.get(variant.baseline or "")
        if baseline is None or variant.without in (None, baseline.without):
            continue
        yield (
            f"{variant.name} is served without {variant.without}, which speculation turns off, and "
            f"{baseline.name} with it, as one would serve it. "
            + _explanation(config, evidence, variant, baseline)
        )


def _explanation(config: Config, evidence: Evidence, variant: Variant, baseline: Variant) -> str:
    alike = (variant.without, variant.batch)
    matched = next(
        (v for v in config.variants if v.baseline is None and (v.without, v.batch) == alike), None
    )
    if matched is None:
        return (
            "What that costs was not measured, because no devices were left for a baseline "
            "without it."
        )
    ratios = [
        f"{explaining} as fast as {matched.name} and {deciding} as fast as {baseline.name} "
        f"at {point}"
        for point in config.load.points
        if (explaining := _times(evidence, point.name, variant, matched))
        and (deciding := _times(evidence, point.name, variant, baseline))
    ]
    measured = f" Over all test cases {variant.name} is {'; '.join(ratios)}." if ratios else ""
    return f"{matched.name} is served without it, too, and decides nothing.{measured}"


def _times(evidence: Evidence, load: str, variant: Variant, baseline: Variant) -> str:
    """The speed-up over all test cases, e.g. ``1.8x (1.7-1.9)``; empty where there is none."""
    plan, cells, records = evidence.plan, evidence.cells, evidence.by_cell
    keys = [CellKey(case, load, variant.name) for case in plan.cases]
    sides = {
        key.case: (records[key], records[key.of(baseline.name)])
        for key in keys
        if key in evidence.contrasts
        and not claims.obstacle(cells[key], cells[key.of(baseline.name)], fixed=plan.fixed)
    }
    estimate = overall(sides).get(Question.SPEED) if sides else None
    if estimate is None:
        return ""
    interval = estimate.interval(plan.alpha)
    return f"{intervals.times(interval)} ({intervals.span(interval)})"
