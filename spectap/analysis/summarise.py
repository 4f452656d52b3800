"""What a ledger says: cells, comparisons, verdicts and what to know before believing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spectap.analysis import caveats, claims, contrasts
from spectap.analysis.comparison import cautions, comparison, decoding
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.correctness import correctness
from spectap.analysis.evidence import Evidence, Plan, of_ledgers, of_run
from spectap.analysis.grouping import CellKey
from spectap.analysis.ladder import Rung, ladder
from spectap.analysis.overall import matched_baselines, of_classes
from spectap.analysis.summary import Case, Cell, Ladder, Summary, Verdict
from spectap.answer import CheckedAnswer, Score
from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.prompt import UsedSet
from spectap.record import Record


def summarise(
    config: Config,
    records: Iterable[Record],
    *,
    sets: Sequence[UsedSet] = (),
    answers: Sequence[CheckedAnswer] = (),
    scores: Sequence[Score] = (),
) -> Summary:
    """Everything the table, the figures and the report say, from the ledger alone.

    Intervals describe the conditions of this run: another day, or another node, may differ by more.
    ``sets`` are the prompts that were sent, ``answers`` what came back to them, ``scores`` those of
    an evaluation.
    """
    evidence = of_run(config, records)
    summary = _summary(evidence)
    return dataclasses.replace(
        summary,
        experiment=config.experiment,
        model=config.model,
        correctness=correctness(config, answers, scores),
        sets=tuple(sets),
        notes=(
            *caveats.of_run(config, summary, evidence),
            *matched_baselines(config, evidence),
            *caveats.of_repetitions(evidence.plan.repeated),
        ),
    )


def summarise_ledgers(records: Iterable[Record]) -> Summary:
    """What ledgers say that no configuration belongs to.

    Variants, test cases and load points are those that the records name, in the order of their
    first request. The first variant is the baseline of all others. Costs are None: the price is not
    known.
    """
    evidence = of_ledgers(records)
    notes = tuple(caveats.of_repetitions(evidence.plan.repeated))
    return dataclasses.replace(_summary(evidence), notes=notes)


def _summary(evidence: Evidence) -> Summary:
    plan, records = evidence.plan, evidence.records
    family = claims.decide(evidence.contrasts, plan.alpha, plan.claims)
    outcomes: dict[CellKey, Contrast | Verdict] = {**evidence.contrasts, **evidence.obstacles}
    cells = {
        key: dataclasses.replace(
            cell,
            comparison=comparison(plan, key, evidence.cells, outcomes[key], family)
            if key in outcomes
            else None,
        )
        for key, cell in evidence.cells.items()
    }
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
                notes=tuple(caveats.of_case(of_case, known=plan.known)),
                ladders=tuple(_ladders(plan, name, cells, evidence.contrasts)),
            )
            for name, kind in plan.cases.items()
            for of_case in [tuple(cell for key, cell in cells.items() if key.case == name)]
        ),
        overall=tuple(of_classes(evidence)),
        correctness=(),
        sets=(),
        rehearsal=plan.rehearsal,
        notes=(),
        not_run=plan.not_run,
    )


def _ladders(
    plan: Plan, case: str, cells: Mapping[CellKey, Cell], by_cell: Mapping[CellKey, Contrast]
) -> Iterator[Ladder]:
    for variant, baseline in plan.compared.items():
        for points in plan.ladders:
            keys = [CellKey(case, point.name, variant) for point in points]
            rungs = {
                question: [
                    _rung(point, question, cells.get(key), by_cell.get(key))
                    for point, key in zip(points, keys, strict=True)
                ]
                for question in contrasts.questions(points[0])
            }
            sides = [cells[k] for key in keys for k in (key, key.of(baseline)) if k in cells]
            clauses = *decoding(sides, at=True), *cautions(sides, at=True)
            # The crossovers of a report are a family: they all hold with the chance of one.
            alpha = plan.alpha / plan.crossovers
            failed = any(cell.errors for cell in sides)
            yield ladder(variant, baseline, points, rungs, alpha, clauses, failed=failed)


def _rung(
    point: LoadPoint, question: Question, own: Cell | None, contrast: Contrast | None
) -> Rung:
    compared = own.comparison if own else None
    claim = compared and (compared.speed if question is Question.SPEED else compared.cost)
    estimate = contrast.answers.get(question) if contrast and claim else None
    return Rung(point.amount, estimate, claim.answer if claim else None)
