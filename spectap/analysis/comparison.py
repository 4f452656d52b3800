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
from spectap.analysis.summary import Cell, Comparison, Finding, Verdict
from spectap.metrics import TTFT

_NOTABLY_LATER: Final = 1.5
"""Below this ratio of medians, the first token does not explain a slower request."""


def comparison(
    plan: Plan,
    key: CellKey,
    cells: Mapping[CellKey, Cell],
    contrast: Contrast | Verdict,
    family: Family[tuple[CellKey, Question]],
) -> Comparison:
    """The cell ``key`` against its baseline's, by their ``contrast``, or why there is none."""
    cell, baseline = cells[key], cells[key.of(plan.compared[key.variant])]
    if isinstance(contrast, Verdict):
        return Comparison(baseline.variant, None, None, None, None, None, contrast)
    claimed = {
        question: claims.claim(
            answer,
            plan.alpha,
            family,
            decided=(key, question) in family.decided,
            rounds=contrast.rounds,
        )
        for question, answer in (contrast.answers if contrast.throughput else {}).items()
    }
    speed, cost = claimed.get(Question.SPEED), claimed.get(Question.COST)
    verdict = claims.too_few(contrast.rounds, planned=plan.known)
    if speed is not None:
        verdict = claims.judge(
            *(cell, baseline, speed, cost),
            name_baseline=len(plan.baselines) - len(plan.compared) > 1,
            priced=plan.cost is not None,
            advise=not plan.rehearsal,
        )
    by_time, end_to_end, throughput = (
        estimate.interval(plan.alpha) if estimate else None
        for estimate in (contrast.time_per_output_token, contrast.end_to_end, contrast.throughput)
    )
    compared = Comparison(
        baseline.variant, by_time, end_to_end, throughput, speed=speed, cost=cost, verdict=verdict
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
            yield f"{name} requests queue{_loads(queued, at, measured=of_variant)}"
        if failed := [cell for cell in of_variant if cell.errors]:
            errors = sum(cell.errors for cell in failed)
            requests = sum(cell.requests for cell in failed)
            # From a load on would say that it is the load that fails them.
            yield f"{errors} of {requests} {name} requests failed{_loads(failed, at)}"
        if late := [cell for cell in of_variant if cell.lagging]:
            at_loads = _loads(late, at, measured=of_variant)
            yield f"{name} requests were sent late, so the load was another{at_loads}"


def decoding(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """For each variant that decodes faster where its requests are not, a clause that says both."""
    cells = list(cells)
    misleading: dict[tuple[str, bool], list[tuple[Cell, Interval, Interval]]] = {}
    for cell in cells:
        compared = cell.comparison
        if compared and compared.only_decodes_faster:
            speed, alone = compared.speedup, compared.by_time_per_output_token
            assert speed
            assert alone
            slower = compared.verdict.finding is Finding.SLOWER
            misleading.setdefault((cell.variant, slower), []).append((cell, speed, alone))
    for (name, slower), rows in misleading.items():
        measured = [cell for cell in cells if cell.variant == name]
        at_loads = _loads([cell for cell, *_ in rows], at, measured=measured)
        decodes = f"{name} decodes {_times([alone.point for *_, alone in rows])} as fast{at_loads}"
        if later := [ratio for cell, *_ in rows if (ratio := _first_token(cell, cells))]:
            decodes += f": their first token comes {_times(later)} as late"
        if slower:
            longer = _times([1 / speed.point for _, speed, _ in rows])
            yield f"{name} requests take {longer} as long, though {decodes}"
        else:
            yield f"{name} requests are not shown to be faster, although {decodes}"


def _first_token(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """How many times as late as the baseline's it comes, by medians; None if it is no later."""
    assert cell.comparison
    of_baseline = (cell.comparison.baseline, cell.test_case, cell.load)
    baselines = (c for c in cells if (c.variant, c.test_case, c.load) == of_baseline)
    ttft, baseline_ttfts = cell.measure(TTFT), [baseline.measure(TTFT) for baseline in baselines]
    if ttft is None or not baseline_ttfts or (baseline_ttft := baseline_ttfts[0]) is None:
        return None
    ratio = ttft.p50 / baseline_ttft.p50
    return ratio if ratio >= _NOTABLY_LATER else None


def _times(ratios: Sequence[float]) -> str:
    """``1.65x``, or ``2.90x to 3.05x``."""
    low, high = (f"{bound(ratios):.2f}x" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


def _loads(cells: Sequence[Cell], named: bool, *, measured: Sequence[Cell] = ()) -> str:
    """`` at 4 and 16 at once``; empty unless loads are ``named``.

    `` from 4 at once``, where ``cells`` are at every load of ``measured`` from 4 on.
    """
    clauses = []
    for is_open, unit in ((False, "at once"), (True, "a second")):
        amounts = _amounts(cells, is_open)
        if not (named and amounts):
            continue
        lowest = amounts[0]
        if amounts == [amount for amount in _amounts(measured, is_open) if amount >= lowest]:
            clauses.append(f" from {lowest:g} {unit}")
        else:
            clauses.append(f" at {wording.listed([f'{amount:g}' for amount in amounts])} {unit}")
    return " and".join(clauses)


def _amounts(cells: Sequence[Cell], is_open: bool) -> list[float]:
    """The loads of one kind, lowest first."""
    return sorted({cell.load.amount for cell in cells if cell.load and cell.load.open == is_open})
