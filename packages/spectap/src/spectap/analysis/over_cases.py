"""Figures of a variant over several test cases: class means, windows, matched baselines.

Only what was measured is there; nothing is predicted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from spectap.analysis import claims, contrasts, grouping
from spectap.analysis.contrasts import Question, Ratio
from spectap.analysis.estimate import ALPHA, Estimate, Interval, geometric_mean, jackknife
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey, Unit
from spectap.analysis.summary import Matched, Overall, Window, Windows
from spectap.inputs.config import Config
from spectap.inputs.load_points import FEWEST_ROUNDS, LoadPoint

NEAR: Final = 0.02
"""The largest loss of speed by which a variant still counts as good as the best."""
_MOST_FAILED: Final = 0.01  # share of requests; with more, a variant is not a choice

_Value = TypeVar("_Value")


def of_classes(evidence: Evidence) -> Iterator[Overall]:
    """The mean of each variant over a class's test cases at each load. Prompt sets, and classes of
    a single test case, have none."""
    plan = evidence.plan
    kinds = {name: kind.structure for name, kind in plan.cases.items() if not kind.named}
    for structure in dict.fromkeys(kinds.values()):
        cases = [name for name, kind in kinds.items() if kind == structure]
        for load, point in plan.points.items():
            for variant, baseline in plan.compared.items():
                keys = [CellKey(case, load, variant) for case in cases]
                # Speed is another question where answers are longer.
                known = evidence.contrasts
                keys = [key for key in keys if key in known and not known[key].longer]
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


def windows(config: Config, evidence: Evidence) -> Iterator[Windows]:
    """Ranks the variants of each class at each load, where more than one window was measured."""
    plan = evidence.plan
    classes: dict[str, list[str]] = {}
    for name, kind in plan.cases.items():
        classes.setdefault(kind.structure or name, []).append(name)
    speculating = {variant.name for variant in config.variants if variant.baseline}
    for point in config.load.points:
        for prompts, cases in classes.items():
            chosen = [v.name for v in config.variants if _is_choice(evidence, v.name, cases, point)]
            if len(speculating.intersection(chosen)) > 1:
                yield Windows(prompts, point, tuple(_rows(config, evidence, chosen, cases, point)))


def _is_choice(evidence: Evidence, variant: str, cases: Sequence[str], point: LoadPoint) -> bool:
    """Whether a variant can be chosen: it ran all test cases with few failures and no obstacle."""
    keys = [CellKey(case, point.name, variant) for case in cases]
    cells = [evidence.cells[key] for key in keys]
    return not any(key in evidence.obstacles for key in keys) and not any(
        claims.obstacle(cell, cell) or cell.errors > _MOST_FAILED * cell.requests for cell in cells
    )


def _rows(
    config: Config,
    evidence: Evidence,
    chosen: Sequence[str],
    cases: Sequence[str],
    point: LoadPoint,
) -> Iterator[Window]:
    """The chosen variants, fastest first, without those that have no estimate.

    A variant that may be within 2 % of the best is near it. The true best is left out of these with
    a chance of at most 5 %: each other variant is compared with the one that looks best, and the
    comparisons share the chance (Bonferroni).
    """
    against_first = {
        name: ratio
        for name in chosen
        if (ratio := _speed(evidence, name, chosen[0], cases, point)) is not None
    }
    if not against_first:
        return
    order = sorted(against_first, key=lambda name: against_first[name].log, reverse=True)
    best, level = order[0], 2 * ALPHA / max(1, len(order) - 1)
    variants = {variant.name: variant for variant in config.variants}
    for name in order:
        variant = variants[name]
        to_best = _speed(evidence, name, best, cases, point)
        gain = _speed(evidence, name, variant.baseline or name, cases, point)
        if to_best and gain:
            yield Window(
                variant=name,
                draft=variant.draft,
                mode=variant.mode,
                window=variant.window,
                speed=gain.interval(evidence.plan.alpha),
                tokens_per_step=_tokens_per_step(evidence, name, cases, point),
                near=to_best.interval(level).high >= 1 / (1 + NEAR),
            )


def matched_baselines(config: Config, evidence: Evidence) -> Iterator[Matched]:
    """Variants that are served without a feature of their baseline, such as async scheduling, and
    what that explains of their gain."""
    variants = {variant.name: variant for variant in config.variants}
    plain = {(v.without, v.batch): v.name for v in reversed(config.variants) if not v.baseline}
    for name, variant in variants.items():
        baseline, without = variant.baseline, variant.without
        if baseline is None or without is None or without == variants[baseline].without:
            continue
        matched = plain.get((without, variant.batch))
        speeds = [
            (point, explaining, deciding)
            for point in config.load.points
            if matched
            and (explaining := _speed_up(evidence, name, matched, point))
            and (deciding := _speed_up(evidence, name, baseline, point))
        ]
        yield Matched(name, baseline, without, matched, tuple(speeds))


def _speed_up(evidence: Evidence, variant: str, other: str, point: LoadPoint) -> Interval | None:
    """The speed-up over the test cases in which the two can be compared."""
    cells = evidence.cells
    keys = [CellKey(case, point.name, variant) for case in evidence.plan.cases]
    cases = [
        key.case
        for key in keys
        if key in evidence.contrasts
        and not claims.obstacle(cells[key], cells[key.for_variant(other)])
    ]
    ratio = _speed(evidence, variant, other, cases, point)
    return ratio.interval(evidence.plan.alpha) if ratio else None


def _speed(
    evidence: Evidence, variant: str, other: str, cases: Sequence[str], point: LoadPoint
) -> Estimate | None:
    """How many times faster a variant answers a request than another one does."""
    if variant == other:
        return Estimate(0.0, 0.0, FEWEST_ROUNDS)
    sides = {case: evidence.sides(CellKey(case, point.name, variant), other) for case in cases}
    if len(cases) == 1:
        of_case = contrasts.contrast(*sides[cases[0]], point=point, planned=evidence.plan.known)
        ratio = of_case.ratios.get(Ratio.SPEED)
    else:
        ratio = overall(sides, point=point).get(Question.SPEED)
    return evidence.widened(variant, other, ratio) if ratio else None


def _tokens_per_step(
    evidence: Evidence, variant: str, cases: Sequence[str], point: LoadPoint
) -> float | None:
    """The mean over all steps of the test cases; None where one of them shows no steps."""
    steps = [evidence.cells[CellKey(case, point.name, variant)].steps for case in cases]
    sizes = [size for of_case in steps if of_case for size in of_case.histogram]
    if not sizes or any(of_case is None or of_case.doubt for of_case in steps):
        return None
    return sum(tokens * count for tokens, count in sizes) / sum(count for _, count in sizes)


def overall(
    sides: Mapping[str, Unit],
    *,
    billed: Mapping[str, Unit] | None = None,
    point: LoadPoint | None = None,
) -> dict[Question, Estimate]:
    """Answers each question over several test cases by the geometric mean of their ratios.

    ``sides`` has the cell and the baseline of each test case; ``billed`` has them with their failed
    attempts; ``point`` is their load. A round with all its test cases is one unit, because what
    differs between rounds may affect them all. Each test case has the same weight, whatever its
    rounds.
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
