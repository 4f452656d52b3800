"""What a ledger says: cells, comparisons, verdicts and what to know before believing them.

It only gathers: ``cells`` has a cell's own figures, ``claims`` compares two, ``verdict`` says it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.analysis import caveats, claims, keys, stopping, verdict
from benchmark.analysis.cells import cell
from benchmark.analysis.claims import Contrast, Family, Question
from benchmark.analysis.drift import drifts
from benchmark.analysis.estimate import Estimate
from benchmark.analysis.intervals import Interval
from benchmark.analysis.keys import CellKey, Cells, Place
from benchmark.analysis.overall import overall
from benchmark.analysis.summary import Case, Cell, Claim, Comparison, Overall, Summary, Verdict
from benchmark.answer import CheckedAnswer, Score
from benchmark.config import Config, Cost, LoadPoint, Objectives
from benchmark.ledger import last_attempts
from benchmark.names import WARM_UP
from benchmark.prompt import UsedSet
from benchmark.record import Record


@dataclass(frozen=True)
class _Kind:
    """What a test case is."""

    structure: str = ""
    headline: bool = False
    named: bool = False
    """Whether its prompts have names and classes of their own."""


@dataclass(frozen=True)
class _Plan:
    """What was to be measured, as far as it is known."""

    cases: Mapping[str, _Kind]
    points: Mapping[str, LoadPoint | None]
    """By their names."""
    baselines: Mapping[str, str | None]
    """By variant, in the order of the variants; None for a baseline."""
    rounds: Mapping[Place, int]
    """How many make a test case complete at a load point; 0 where nobody knows."""
    alpha: float
    """The level of every interval."""
    batches: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    objectives: Objectives | None = None
    cost: Cost | None = None
    known: bool = False
    """Whether there is a configuration."""
    fixed: bool = True
    """Whether the number of rounds is."""
    rehearsal: bool = False
    repeated: Sequence[Record] = ()
    """Requests of turns that were measured again."""

    @property
    def compared(self) -> dict[str, str]:
        """The baseline of each variant that has one."""
        return {name: base for name, base in self.baselines.items() if base is not None}

    @property
    def keys(self) -> Iterable[CellKey]:
        """Each cell, in the order of cases, load points and variants."""
        return (CellKey(*place, variant) for place in self.rounds for variant in self.baselines)

    @property
    def pairs(self) -> Iterable[tuple[CellKey, CellKey]]:
        """Each compared cell with that of its baseline."""
        return (
            (key, key.of(baseline))
            for key in self.keys
            if (baseline := self.baselines[key.variant]) is not None
        )

    @property
    def claims(self) -> int:
        """How many a report of it could make."""
        return sum(len(claims.questions(self.points[key.load])) for key, _ in self.pairs)


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
    plan = _Plan(
        cases={
            one.name: _Kind(str(one.structure or ""), one.headline, one.prompts is not None)
            for one in config.test_cases
        },
        points={point.name: point for point in config.load.points},
        baselines={one.name: one.baseline for one in config.variants},
        rounds=rounds,
        alpha=stopping.alpha(config.load),
        batches={one.name: one.batch for one in config.variants},
        objectives=config.objectives,
        cost=config.cost,
        known=True,
        fixed=config.load.rounds.fixed,
        rehearsal=config.stand_in is not None,
        repeated=repeated,
    )
    summary = _summary(plan, own)
    return dataclasses.replace(
        summary,
        experiment=config.experiment,
        model=config.model,
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
    variants = list(dict.fromkeys(record.variant for record in counted))
    plan = _Plan(
        cases={record.case: _Kind(named=bool(record.prompt)) for record in counted},
        points=keys.recorded_points(counted),
        baselines={name: variants[0] if place else None for place, name in enumerate(variants)},
        rounds=_in_order_of_cases(counted),
        alpha=stopping.alpha(None),
        repeated=repeated,
    )
    notes = tuple(caveats.of_repetitions(repeated))
    return dataclasses.replace(_summary(plan, counted), notes=notes)


def _in_order_of_cases(records: Sequence[Record]) -> dict[Place, int]:
    cases = [*dict.fromkeys(record.case for record in records)]
    places = dict.fromkeys((record.case, record.load) for record in records)
    return dict.fromkeys(sorted(places, key=lambda place: cases.index(place[0])), 0)


def _counted(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Those that count, and those of turns that were measured again. The warm-up is neither."""
    measured = [record for record in records if record.round != WARM_UP]
    counted = last_attempts(measured)
    last = {id(record) for record in counted}
    return counted, [record for record in measured if id(record) not in last]


def _summary(plan: _Plan, records: Sequence[Record]) -> Summary:
    by_cell = keys.by_cell(records)
    failed = keys.by_cell(record for record in plan.repeated if record.failed)
    cells = {
        key: cell(
            key,
            by_cell.get(key, ()),
            alpha=plan.alpha,
            point=plan.points[key.load],
            batch=plan.batches.get(key.variant),
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
        key: _comparison(plan, key, cells, contrasts.get(key), family) for key, _ in plan.pairs
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
        cases=tuple(_case(plan, case, cells) for case in plan.cases),
        overall=tuple(_overall(plan, by_cell, contrasts)),
        drifts=drifts(by_cell, plan.baselines),
        correctness=(),
        sameness=(),
        sets=(),
        rehearsal=plan.rehearsal,
        notes=(),
    )


def _case(plan: _Plan, name: str, cells: Mapping[CellKey, Cell]) -> Case:
    own = tuple(one for key, one in cells.items() if key.case == name)
    kind = plan.cases[name]
    return Case(
        name=name,
        structure=kind.structure,
        headline=kind.headline,
        cells=own,
        notes=tuple(caveats.of_case(own, known=plan.known)),
    )


def _comparison(
    plan: _Plan,
    key: CellKey,
    cells: Mapping[CellKey, Cell],
    contrast: Contrast | None,
    family: Family[tuple[CellKey, Question]],
) -> Comparison:
    own, baseline = cells[key], cells[key.of(plan.compared[key.variant])]
    if contrast is None:
        found = verdict.obstacle(own, baseline, fixed=plan.fixed)
        assert found is not None
        return Comparison(baseline.variant, None, None, None, None, None, found)
    answers = contrast.answers if contrast.speed else {}
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
    return Comparison(
        baseline=baseline.variant,
        by_time_per_output_token=_interval(contrast.time_per_output_token, plan.alpha),
        by_end_to_end=_interval(contrast.end_to_end, plan.alpha),
        by_throughput=_interval(contrast.throughput, plan.alpha),
        speed=said.get(Question.SPEED),
        cost=said.get(Question.COST),
        verdict=_verdict(plan, own, baseline, contrast, said),
    )


def _verdict(
    plan: _Plan,
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
        measure="" if contrast.time_per_output_token else "output throughput",
        name_baseline=len(plan.baselines) - len(plan.compared) > 1,
        priced=plan.cost is not None,
        advise=not plan.rehearsal,
    )


def _overall(
    plan: _Plan, records: Cells, contrasts: Mapping[CellKey, Contrast]
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
