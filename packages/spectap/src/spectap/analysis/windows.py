"""Measured windows side by side: which are as good as the best of them.

Nothing is predicted: what was not measured is not there.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from spectap.analysis import claims
from spectap.analysis.classes import overall
from spectap.analysis.contrasts import Question, contrast
from spectap.analysis.estimate import ALPHA, Estimate
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Window, Windows
from spectap.config import Config
from spectap.load_points import FEWEST_ROUNDS, LoadPoint

NEAR: Final = 0.02
"""A variant that is slower by less is as good."""
_MOST_FAILED: Final = 0.01  # share of requests; with more, a variant is not a choice


def windows(config: Config, evidence: Evidence) -> Iterator[Windows]:
    """The variants of each class at each load, where more than one window was measured."""
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
    """Whether a variant answered all test cases, but for few failures, and can be compared."""
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
    """The chosen variants, fastest first. Those without an estimate are left out.

    One that may be within 2 % of the best is near it. The best itself is left out of these with a
    chance of 5 % at most: each of the others is compared with the one that looks best, and these
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


def _speed(
    evidence: Evidence, variant: str, other: str, cases: Sequence[str], point: LoadPoint
) -> Estimate | None:
    """How many times as fast a variant answers a request as another one does."""
    if variant == other:
        return Estimate(0.0, 0.0, FEWEST_ROUNDS)
    sides = {case: evidence.sides(CellKey(case, point.name, variant), other) for case in cases}
    if len(cases) == 1:
        ratio = contrast(*sides[cases[0]], point=point, planned=evidence.plan.known).throughput
    else:
        ratio = overall(sides, point=point).get(Question.SPEED)
    return evidence.widened(variant, other, ratio) if ratio else None


def _tokens_per_step(
    evidence: Evidence, variant: str, cases: Sequence[str], point: LoadPoint
) -> float | None:
    """The mean over all steps of the test cases; None where one of them surely shows none."""
    steps = [evidence.cells[CellKey(case, point.name, variant)].steps for case in cases]
    sizes = [size for of_case in steps if of_case for size in of_case.histogram]
    if not sizes or any(of_case is None or of_case.doubt for of_case in steps):
        return None
    return sum(tokens * count for tokens, count in sizes) / sum(count for _, count in sizes)
