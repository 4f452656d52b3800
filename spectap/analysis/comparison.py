"""A cell against its baseline: figures, claims, the verdict, and what is told beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from spectap import wording
from spectap.analysis import claims
from spectap.analysis.claims import Family
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.evidence import Plan
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Answer, Cell, Comparison, Finding, Verdict
from spectap.metrics import TTFT

_NOTABLY_LATER: Final = 1.5  # a ratio of medians; below, first tokens explain nothing
_MOST_NAMED: Final = 3  # test cases; of more, the number says enough


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
    cell, baseline = cells[key], cells[key.under(plan.compared[key.variant])]
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
            name_baseline=len(plan.baselines) - len(plan.compared) > 1,
            priced=plan.cost is not None,
            advise=not plan.rehearsal,
        )
    compared = Comparison(
        baseline.variant, by_time, end_to_end, speed, cost, verdict, lengths, by_tokens
    )
    sides = [replace(cell, comparison=compared), baseline]
    clauses = *decoding(sides, at=False), *cautions(sides, at=False)
    sentence = " ".join((verdict.sentence, *(f"{clause}." for clause in clauses)))
    return replace(compared, verdict=replace(verdict, sentence=sentence))


def cautions(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """Clauses that begin with a name or a number.

    ``cells`` are those of variants that are compared, and of their baselines. ``at``: whether a
    clause names the loads, as it must where there are several.
    """
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.variant, []).append(cell)
    for name, of_variant in by_variant.items():
        if queued := [cell for cell in of_variant if cell.queued]:
            yield f"{name} requests queue{_loads(queued, at)}"
        if failed := [cell for cell in of_variant if cell.errors]:
            errors = sum(cell.errors for cell in failed)
            requests = sum(cell.requests for cell in failed)
            yield f"{errors} of {requests} {name} requests failed{_loads(failed, at)}"
        if again := [cell for cell in of_variant if cell.repeated_errors]:
            failures = sum(cell.repeated_errors for cell in again)
            text = f"{wording.count(failures, f'{name} request')} failed in turns that were "
            text += f"measured again{_loads(again, at)}"
            closed = any(not (cell.load and cell.load.open) for cell in again)
            yield f"{text}, and their time is in the cost" if closed else text
        if late := [cell for cell in of_variant if cell.lagging]:
            yield f"{name} requests were sent late, so the load was another{_loads(late, at)}"


def of_answers(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """For each variant whose cost is that of an answer, a clause on how long its answers are."""
    longer: dict[str, list[tuple[Cell, float]]] = {}
    for cell in cells:
        if (compared := cell.comparison) and compared.by_tokens and compared.lengths:
            longer.setdefault(cell.variant, []).append((cell, compared.lengths.point))
    for name, rows in longer.items():
        at_loads = _loads([cell for cell, _ in rows], at)
        yield (
            f"{name} answers are {_times([ratio for _, ratio in rows])} as long{at_loads}, so cost "
            "is that of an answer"
        )


def decoding(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """For each variant that decodes faster where its requests are not, a clause that says both."""
    cells = list(cells)
    medians = {(c.variant, c.test_case, c.load): m.p50 for c in cells if (m := c.measure(TTFT))}
    misleading: dict[tuple[str, bool], list[tuple[Cell, Interval, Interval]]] = {}
    for cell in cells:
        if (compared := cell.comparison) and compared.speed and compared.by_time_per_output_token:
            speed, alone = compared.speed, compared.by_time_per_output_token
            if alone.low > 1 and speed.answer is not Answer.BETTER:
                slower = compared.verdict.finding is Finding.SLOWER
                row = cell, speed.interval, alone
                misleading.setdefault((cell.variant, slower), []).append(row)
    compared_cases = {cell.test_case for cell in cells if cell.comparison}
    for (name, slower), rows in misleading.items():
        cases = list(dict.fromkeys(cell.test_case for cell, *_ in rows))
        several = wording.listed(cases) if len(cases) <= _MOST_NAMED else f"{len(cases)} test cases"
        in_cases = f" in {several}" if len(cases) < len(compared_cases) else ""
        at_loads = _loads([cell for cell, *_ in rows], at)
        decodes = f"{name} decodes {_times([alone.point for *_, alone in rows])} as fast{at_loads}"
        ratios = []
        for cell, *_ in rows:
            key = cell.variant, cell.test_case, cell.load
            of_baseline = (cell.comparison.baseline if cell.comparison else "", *key[1:])
            if key in medians and of_baseline in medians:
                ratios.append(medians[key] / medians[of_baseline])
        if later := [ratio for ratio in ratios if ratio >= _NOTABLY_LATER]:
            decodes += f": their first token comes {_times(later)} as late"
        if slower:
            longer = _times([1 / speed.point for _, speed, _ in rows])
            yield f"{name} requests take {longer} as long{in_cases}, though {decodes}"
        else:
            yield f"{name} requests are not shown to be faster{in_cases}, although {decodes}"


def _times(ratios: Sequence[float]) -> str:
    """``1.65x``, or ``2.90x to 3.05x``."""
    low, high = (f"{bound(ratios):.2f}x" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


def _loads(cells: Sequence[Cell], named: bool) -> str:
    """`` at 4 and 16 at once``; empty unless loads are ``named``."""
    clauses = []
    for is_open, unit in ((False, "at once"), (True, "a second")):
        loads = {cell.load.amount for cell in cells if cell.load and cell.load.open == is_open}
        if named and loads:
            clauses.append(f" at {wording.listed([f'{load:g}' for load in sorted(loads)])} {unit}")
    return " and".join(clauses)
