"""What a ledger says: cells, comparisons, verdicts and what to know before believing them.

It only gathers: ``cells`` has a cell's own figures, ``claims`` compares two, ``verdict`` says it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from benchmark.analysis import caveats, keys, stopping
from benchmark.analysis.cells import cell
from benchmark.analysis.compared import claims, verdict
from benchmark.analysis.compared.claims import Contrast, Question
from benchmark.analysis.compared.comparison import comparison
from benchmark.analysis.compared.correctness import correctness, sameness
from benchmark.analysis.compared.crossover import Rung
from benchmark.analysis.compared.drift import drifts
from benchmark.analysis.compared.ladder import ladder
from benchmark.analysis.compared.overall import overall
from benchmark.analysis.compared.spread import spread
from benchmark.analysis.estimates.estimate import Estimate
from benchmark.analysis.estimates.intervals import Interval
from benchmark.analysis.keys import CellKey, Cells
from benchmark.analysis.plan import Plan
from benchmark.analysis.summary import (
    Case,
    Cell,
    Ladder,
    Overall,
    Spread,
    Summary,
)
from benchmark.answer import CheckedAnswer, Score
from benchmark.config import Config
from benchmark.ledger import last_attempts
from benchmark.load_points import LoadPoint
from benchmark.names import WARM_UP
from benchmark.prompt import UsedSet
from benchmark.record import Record


def summarise(
    config: Config,
    records: Iterable[Record],
    *,
    sets: Sequence[UsedSet] = (),
    answers: Sequence[CheckedAnswer] = (),
    scores: Sequence[Score] = (),
) -> Summary:
    """Everything the table, the figures and the report say, from the ledger alone.

    Warm-up requests are left out, and so are requests of cases and load points the configuration
    does not name, and those of turns that were measured again.
    Intervals describe the conditions of this run: another day, or another node, may differ by more.
    ``sets`` are the prompts that were sent, ``answers`` what came back to them, ``scores`` those of
    an evaluation.
    """
    counted, repeated = _counted(keys.at_load_points(config.load, records))
    rounds = stopping.measured_rounds(config, counted)
    strangers = sorted({place for r in counted if (place := (r.case, r.load)) not in rounds})
    own = [record for record in counted if (record.case, record.load) in rounds]
    if not config.load.rounds.fixed:
        own = [record for record in own if record.round <= rounds[record.case, record.load]]
    plan = Plan.of_config(config, rounds, repeated)
    summary = _summary(plan, own)
    return dataclasses.replace(
        summary,
        experiment=config.experiment,
        model=config.model,
        correctness=correctness(config, answers, scores),
        sameness=sameness(config, answers),
        sets=tuple(sets),
        notes=(
            *caveats.of_run(config, summary, plan.rounds, strangers),
            *caveats.of_repetitions(repeated),
        ),
    )


def summarise_ledgers(records: Iterable[Record]) -> Summary:
    """What ledgers say that no configuration belongs to.

    Variants, test cases and load points are those that the records name, in the order of their
    first request. The first variant is the baseline of all others. Costs are None: the price is not
    known.
    """
    counted, repeated = _counted(records)
    plan = Plan.of_ledgers(counted, repeated)
    notes = tuple(caveats.of_repetitions(repeated))
    return dataclasses.replace(_summary(plan, counted), notes=notes)


def _counted(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Those that count, and those of turns that were measured again. The warm-up is neither."""
    measured = [record for record in records if record.round > WARM_UP]
    counted = last_attempts(measured)
    last = {id(record) for record in counted}
    return counted, [record for record in measured if id(record) not in last]


def _summary(plan: Plan, records: Sequence[Record]) -> Summary:
    by_cell = keys.by_cell(records)
    failed = keys.by_cell(record for record in plan.repeated if record.failed)
    cells = {
        key: cell(
            key,
            by_cell.get(key, ()),
            alpha=plan.alpha,
            point=plan.points[key.load],
            batch=plan.batches.get(key.variant),
            objectives=plan.objectives,
            cost=plan.cost,
            rounds=plan.rounds[key.place],
            repeated_errors=len(failed.get(key, ())),
        )
        for key in plan.keys
    }
    contrasts = {
        key: claims.contrast(
            by_cell[key], by_cell[baseline], point=plan.points[key.load], planned=plan.known
        )
        for key, baseline in plan.pairs
        if verdict.obstacle(cells[key], cells[baseline], fixed=plan.fixed) is None
    }
    family = claims.decide(contrasts, plan.alpha, plan.claims)
    compared = {
        key: comparison(plan, key, cells, contrasts.get(key), family) for key, _ in plan.pairs
    }
    cells = {
        key: dataclasses.replace(one, comparison=compared.get(key)) for key, one in cells.items()
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
        cases=tuple(_case(plan, case, cells, contrasts, by_cell) for case in plan.cases),
        overall=tuple(_overall(plan, by_cell, contrasts)),
        drifts=drifts(by_cell, plan.baselines),
        correctness=(),
        sameness=(),
        sets=(),
        rehearsal=plan.rehearsal,
        notes=(),
    )


def _case(
    plan: Plan,
    name: str,
    cells: Mapping[CellKey, Cell],
    contrasts: Mapping[CellKey, Contrast],
    records: Cells,
) -> Case:
    own = tuple(one for key, one in cells.items() if key.case == name)
    kind = plan.cases[name]
    return Case(
        name=name,
        structure=kind.structure,
        headline=kind.headline,
        cells=own,
        notes=tuple(caveats.of_case(own, known=plan.known)),
        ladders=tuple(_ladders(plan, name, cells, contrasts)),
        spreads=tuple(_spreads(plan, name, contrasts, records)) if kind.named else (),
    )


def _spreads(
    plan: Plan, case: str, contrasts: Mapping[CellKey, Contrast], records: Cells
) -> Iterable[Spread]:
    for key, baseline in plan.pairs:
        if key.case == case and key in contrasts:
            found = spread(
                records[key],
                records[baseline],
                load=plan.points[key.load],
                alpha=plan.alpha,
                streamed=contrasts[key].time_per_output_token is not None,
                planned=plan.known,
            )
            if found is not None:
                yield found


def _ladders(
    plan: Plan, case: str, cells: Mapping[CellKey, Cell], contrasts: Mapping[CellKey, Contrast]
) -> Iterable[Ladder]:
    for variant, baseline in plan.compared.items():
        for points in plan.ladders:
            keys = [CellKey(case, point.name, variant) for point in points]
            rungs = {
                question: [
                    _rung(point, question, cells.get(key), contrasts.get(key))
                    for point, key in zip(points, keys, strict=True)
                ]
                for question in claims.questions(points[0])
            }
            lagging = [
                point
                for point, key in zip(points, keys, strict=True)
                if any(one in cells and cells[one].lagging for one in (key, key.of(baseline)))
            ]
            # The crossovers of a report are a family: they all hold with the chance of one.
            alpha = plan.alpha / plan.crossovers
            yield ladder(variant, baseline, points, rungs, alpha, lagging=lagging)


def _rung(
    point: LoadPoint, question: Question, own: Cell | None, contrast: Contrast | None
) -> Rung:
    found = own.comparison if own else None
    claim = found and (found.speed if question is Question.SPEED else found.cost)
    estimate = contrast.answers.get(question) if contrast and claim else None
    return Rung(point.amount, estimate, claim.answer if claim else None)


def _overall(
    plan: Plan, records: Cells, contrasts: Mapping[CellKey, Contrast]
) -> Iterable[Overall]:
    # Sets of prompts have classes of their own.
    kinds = {name: kind.structure for name, kind in plan.cases.items() if not kind.named}
    for structure in dict.fromkeys(kinds.values()):
        for load, point in plan.points.items():
            for variant, baseline in plan.compared.items():
                found = [
                    CellKey(case, load, variant)
                    for case, of_case in kinds.items()
                    if of_case == structure and (case, load, variant) in contrasts
                ]
                if len(found) < 2:
                    continue
                answers = overall(
                    {key.case: (records[key], records[key.of(baseline)]) for key in found},
                    point=point,
                    streamed=all(contrasts[key].time_per_output_token for key in found),
                )
                yield Overall(
                    structure=structure,
                    load=point,
                    variant=variant,
                    baseline=baseline,
                    cases=len(found),
                    speed=_interval(answers.get(Question.SPEED), plan.alpha),
                    cost=_interval(answers.get(Question.COST), plan.alpha),
                )


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None
