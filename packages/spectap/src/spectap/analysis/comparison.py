"""A cell against its baseline: figures, claims and the verdict."""

from collections.abc import Mapping

from spectap.analysis import claims
from spectap.analysis.claims import Family
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.evidence import Plan
from spectap.analysis.grouping import CellKey
from spectap.analysis.spreads import Classes
from spectap.analysis.summary import Answer, Cell, Comparison, Finding, Verdict, Wait


def comparison(
    plan: Plan,
    key: CellKey,
    cells: Mapping[CellKey, Cell],
    contrast: Contrast | Verdict,
    family: Family[tuple[CellKey, Question]],
    *,
    worse: bool,
    waits: tuple[Wait, ...],
    spread: tuple[Classes, float],
) -> Comparison:
    """The cell ``key`` against its baseline's, by their ``contrast``, or why there is none.

    ``worse``: whether its answers are. ``waits`` are those that got longer, ``spread`` is that of
    its prompts.
    """
    cell, baseline = cells[key], cells[key.for_variant(plan.compared[key.variant])]
    if isinstance(contrast, Verdict):
        return Comparison(baseline.variant, None, None, None, None, contrast)
    claimed = {
        question: claims.claim(
            answer,
            plan.alpha,
            family,
            decided=(key, question) in family.decided,
            rounds=contrast.rounds,
            unit=plan.unit,
        )
        for question, answer in (contrast.answers if contrast.throughput else {}).items()
    }
    speed, cost = claimed.get(Question.SPEED), claimed.get(Question.COST)
    by_time, end_to_end, lengths, by_tokens = (
        estimate.interval(plan.alpha) if estimate else None
        for estimate in (
            contrast.time_per_output_token,
            contrast.end_to_end,
            contrast.lengths,
            contrast.together if cost and contrast.answered else None,
        )
    )
    verdict = Verdict(Finding.TOO_FEW, rounds=contrast.rounds)
    if speed is None or speed.answer is Answer.WORSE:
        waits = ()
    if speed is not None:
        verdict = claims.judge(
            *(cell, baseline, speed, cost),
            worse=worse,
            longer=contrast.longer,
            waits=bool(waits),
            advise=not plan.rehearsal,
        )
    return Comparison(
        *(baseline.variant, by_time, end_to_end, speed, cost, verdict, lengths, by_tokens),
        longer=contrast.longer,
        waits=waits,
        classes=spread[0],
        idle=spread[1],
    )
