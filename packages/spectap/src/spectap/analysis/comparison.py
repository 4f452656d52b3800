"""A cell against its baseline: figures, claims, the verdict, and what is told beside it."""

from collections.abc import Iterator, Mapping, Sequence

from spectap import load_points, wording
from spectap.analysis import claims
from spectap.analysis.claims import Family
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.evidence import Plan
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Cell, Comparison, Verdict


def comparison(
    plan: Plan,
    key: CellKey,
    cells: Mapping[CellKey, Cell],
    contrast: Contrast | Verdict,
    family: Family[tuple[CellKey, Question]],
    *,
    worse: bool,
) -> Comparison:
    """The cell ``key`` against its baseline's, by their ``contrast``, or why there is none.

    ``worse``: whether its answers are.
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
    verdict = claims.too_few(contrast.rounds, planned=plan.known, unit=plan.unit)
    if speed is not None:
        verdict = claims.judge(
            *(cell, baseline, speed, cost),
            of_answers=(lengths, by_tokens) if lengths and by_tokens else None,
            worse=worse,
            priced=plan.cost is not None,
            advise=not plan.rehearsal,
        )
    return Comparison(
        baseline.variant, by_time, end_to_end, speed, cost, verdict, lengths, by_tokens
    )


def cautions(cells: Sequence[Cell]) -> Iterator[str]:
    """Clauses that begin with a name or a number, and name the loads where there are several.

    ``cells`` are those of variants that are compared, and of their baselines.
    """
    several = len({cell.load for cell in cells if cell.load}) > 1
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.variant, []).append(cell)
    for name, of_variant in by_variant.items():
        failed = [cell for cell in of_variant if cell.errors]
        again = [cell for cell in of_variant if cell.repeated_errors]
        errors, requests = (sum(getattr(c, n) for c in failed) for n in ("errors", "requests"))
        repeated = wording.count(sum(cell.repeated_errors for cell in again), f"{name} request")
        for clause, of_clause in (
            (f"{name} requests queue", [cell for cell in of_variant if cell.queued]),
            (f"{errors} of {requests} {name} requests failed", failed),
            (f"{repeated} failed in turns that were measured again", again),
            (f"{name} requests were sent late", [cell for cell in of_variant if cell.lagging]),
        ):
            if of_clause:
                loads = [*dict.fromkeys(cell.load for cell in of_clause if cell.load)]
                yield f"{clause} at {load_points.listed(loads)}" if several and loads else clause
