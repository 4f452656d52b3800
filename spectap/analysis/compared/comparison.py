"""What a cell is against that of its baseline: figures, claims and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectap.analysis.compared import verdict
from spectap.analysis.compared.cautions import cautions, decoding
from spectap.analysis.compared.claims import Contrast, Family, Question
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.keys import CellKey
from spectap.analysis.plan import Plan
from spectap.analysis.summary import Cell, Claim, Comparison, Verdict


def comparison(
    plan: Plan,
    key: CellKey,
    cells: Mapping[CellKey, Cell],
    contrast: Contrast | Verdict,
    family: Family[tuple[CellKey, Question]],
) -> Comparison:
    """The cell ``key`` against its baseline's, by their ``contrast``, or why there is none."""
    own, baseline = cells[key], cells[key.of(plan.compared[key.variant])]
    if isinstance(contrast, Verdict):
        return Comparison(baseline.variant, None, None, None, None, None, contrast)
    answers = contrast.answers if contrast.throughput else {}
    said = {
        question: verdict.claim(
            answer,
            plan.alpha,
            family,
            decided=(key, question) in family.decided,
            rounds=contrast.rounds,
        )
        for question, answer in answers.items()
    }
    found = Comparison(
        baseline=baseline.variant,
        by_time_per_output_token=_interval(contrast.time_per_output_token, plan.alpha),
        by_end_to_end=_interval(contrast.end_to_end, plan.alpha),
        by_throughput=_interval(contrast.throughput, plan.alpha),
        speed=said.get(Question.SPEED),
        cost=said.get(Question.COST),
        verdict=_verdict(plan, own, baseline, contrast, said),
    )
    sides = [replace(own, comparison=found), baseline]
    clauses = *decoding(sides, at=False), *cautions(sides, at=False)
    sentence = " ".join((found.verdict.sentence, *(f"{clause}." for clause in clauses)))
    return replace(found, verdict=replace(found.verdict, sentence=sentence))


def _verdict(
    plan: Plan,
    own: Cell,
    baseline: Cell,
    contrast: Contrast,
    said: Mapping[Question, Claim],
) -> Verdict:
    if Question.SPEED not in said:
        return verdict.too_few(contrast.rounds, planned=plan.known)
    return verdict.judge(
        own,
        baseline,
        said[Question.SPEED],
        said.get(Question.COST),
        name_baseline=len(plan.baselines) - len(plan.compared) > 1,
        priced=plan.cost is not None,
        advise=not plan.rehearsal,
    )


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None
