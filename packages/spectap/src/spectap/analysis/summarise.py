"""Summarises a ledger: cells, comparisons and verdicts."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from spectap.analysis import beyond_medians, claims, contrasts
from spectap.analysis.claims import Family
from spectap.analysis.contrasts import Contrast, Question, Ratio
from spectap.analysis.correctness import correctness
from spectap.analysis.crosscheck import Check
from spectap.analysis.evidence import Evidence, of_ledgers, of_run
from spectap.analysis.grouping import CellKey, Plan
from spectap.analysis.ladder import crossover
from spectap.analysis.over_cases import matched_baselines, of_classes, windows
from spectap.analysis.published import reproductions
from spectap.analysis.summary import Case, Correctness, Ladder, Summary
from spectap.analysis.verdicts import Answer, Comparison, Finding, Verdict, Wait
from spectap.inputs.config import Config
from spectap.inputs.load_points import kinds
from spectap.inputs.prompt import UsedSet
from spectap.records.answer import CheckedAnswer
from spectap.records.record import Record


def summarise(
    config: Config,
    records: Iterable[Record],
    *,
    sets: Sequence[UsedSet] = (),
    answers: Sequence[CheckedAnswer] = (),
    checks: Sequence[Check] | None = None,
) -> Summary:
    """Computes everything that tables, figures and reports show, from the ledger alone.

    ``sets`` are the prompts that were sent, ``answers`` the answers to them, ``checks`` the
    comparisons with the servers' counters.
    """
    evidence = of_run(config, records, checks)
    correct = correctness(config, answers)
    summary = _summary(evidence, [check for check in correct if check.worse])
    return replace(
        summary,
        experiment=config.experiment,
        model=config.model,
        correctness=correct,
        sets=tuple(sets),
        published=tuple(reproductions(config.published, summary, evidence)),
        windows=tuple(windows(config, evidence)),
        matched=tuple(matched_baselines(config, evidence)),
    )


def summarise_ledgers(records: Iterable[Record]) -> Summary:
    """Summarises ledgers that no configuration belongs to.

    Variants, cases and loads are those that the records name, in the order of their first request.
    The first variant is the baseline of all others. Costs are None.
    """
    return _summary(of_ledgers(records))


def _summary(evidence: Evidence, alarms: Sequence[Correctness] = ()) -> Summary:
    plan, records = evidence.plan, evidence.records
    possible = sum(len(contrasts.questions(plan.points[key.load])) for key, _ in plan.pairs)
    family = claims.decide(evidence.contrasts, plan.alpha, possible)
    waits, cells = beyond_medians.waits(evidence), dict(evidence.cells)
    for key, baseline in plan.pairs:
        compared = (
            Comparison(baseline.variant, None, None, None, None, evidence.obstacles[key])
            if key in evidence.obstacles
            else _comparison(evidence, key, family, alarms, waits.get(key, ()))
        )
        cells[key] = replace(cells[key], comparison=compared)
    return Summary(
        run=records[0].run if records else None,
        experiment=None,
        model=None,
        loads=tuple(point for point in plan.points.values() if point),
        objectives=plan.objectives,
        started=min((record.sent for record in records), default=None),
        ended=max((record.sent + record.end for record in records), default=None),
        cost_denominator=plan.cost.denominator if plan.cost else None,
        variants=tuple(plan.baselines),
        cases=tuple(
            Case(
                name=name,
                structure=kind.structure,
                headline=kind.headline,
                cells=of_case,
                ladders=tuple(_ladders(plan, name, evidence.contrasts)),
            )
            for name, kind in plan.cases.items()
            for of_case in [tuple(cell for key, cell in cells.items() if key.case == name)]
        ),
        overall=tuple(of_classes(evidence)),
        correctness=(),
        sets=(),
        rehearsal=plan.rehearsal,
        not_run=plan.not_run,
        launches=plan.launches,
        halves=beyond_medians.halves(evidence),
        drift=math.expm1(evidence.unsteadiness.change) if evidence.unsteadiness else None,
        repeated=len(plan.repeated),
        repeated_failures=sum(record.failed for record in plan.repeated),
        round_gap_seconds=_round_gap(records),
    )


def _comparison(
    evidence: Evidence,
    key: CellKey,
    family: Family[tuple[CellKey, Question]],
    alarms: Iterable[Correctness],
    waits: tuple[Wait, ...],
) -> Comparison:
    plan, contrast = evidence.plan, evidence.contrasts[key]
    ratios = contrast.ratios
    baseline = plan.compared[key.variant]
    claimed = {
        question: claims.claim(
            answer,
            plan.alpha,
            family,
            decided=(key, question) in family.decided,
            rounds=contrast.rounds,
        )
        for question, answer in (contrast.answers if Ratio.SPEED in ratios else {}).items()
    }
    speed, cost = claimed.get(Question.SPEED), claimed.get(Question.COST)
    by_time, end_to_end, lengths, by_tokens = (
        estimate.interval(plan.alpha) if estimate else None
        for estimate in (
            ratios.get(Ratio.DECODING),
            ratios.get(Ratio.WHOLE),
            contrast.lengths,
            ratios.get(Ratio.TOGETHER) if cost and Ratio.ANSWERED in ratios else None,
        )
    )
    verdict = Verdict(Finding.TOO_FEW, rounds=contrast.rounds)
    if speed is None or speed.answer is Answer.WORSE:
        waits = ()
    if speed is not None:
        verdict = claims.judge(
            *(evidence.cells[key], evidence.cells[key.for_variant(baseline)], speed, cost),
            worse=any(a.variant == key.variant and a.test_case in ("", key.case) for a in alarms),
            longer=contrast.longer,
            waits=bool(waits),
            advise=not plan.rehearsal,
        )
    classes, idle = beyond_medians.spread(evidence, key)
    return Comparison(
        *(baseline, by_time, end_to_end, speed, cost, verdict, lengths, by_tokens),
        longer=contrast.longer,
        waits=waits,
        classes=classes,
        idle=idle,
    )


def _round_gap(records: Iterable[Record]) -> float | None:
    begins = defaultdict[tuple[str, str, str], dict[int, float]](dict)
    for record in records:
        rounds = begins[record.run, record.case, record.load]
        rounds[record.round] = min(record.sent, rounds.get(record.round, math.inf))
    gaps = [
        after - before
        for rounds in begins.values()
        for before, after in pairwise(sorted(rounds.values()))
    ]
    return statistics.median(gaps) if gaps else None


def _ladders(plan: Plan, case: str, by_cell: Mapping[CellKey, Contrast]) -> Iterator[Ladder]:
    ladders = [of_kind for of_kind in kinds(filter(None, plan.points.values())) if len(of_kind) > 1]
    asked = sum(len(contrasts.questions(points[0])) for points in ladders)
    # The crossovers of a report are a family: they all hold with the chance of one.
    alpha = plan.alpha / max(1, asked * len(plan.cases) * len(plan.compared))
    for variant, baseline in plan.compared.items():
        for points in ladders:
            contrasts_at = {
                point: contrast
                for point in points
                if (contrast := by_cell.get(CellKey(case, point.name, variant)))
                and Ratio.SPEED in contrast.ratios
            }
            crossovers = []
            for question in Question:
                answers = ((p.amount, c.answers.get(question)) for p, c in contrasts_at.items())
                known = [(load, answer) for load, answer in answers if answer]
                crossovers.append(crossover(known, alpha))
            judged = tuple(contrasts_at)
            yield Ladder(variant, baseline, points, judged, *crossovers)
