"""What a ledger says: cells, comparisons, verdicts and what to know before believing them.

It only gathers: ``cells`` has a cell's own figures, ``claims`` compares two, ``verdict`` says it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.analysis import caveats, claims, stopping, verdict
from benchmark.analysis.cells import cell
from benchmark.analysis.claims import Contrast, Family, Question
from benchmark.analysis.drift import drifts
from benchmark.analysis.estimate import Estimate
from benchmark.analysis.intervals import Interval
from benchmark.analysis.overall import overall
from benchmark.analysis.summary import Case, Cell, Claim, Comparison, Overall, Summary, Verdict
from benchmark.config import Config, Cost, Load
from benchmark.ledger import last_attempts
from benchmark.names import WARM_UP
from benchmark.record import Record

_Records = Mapping[tuple[str, str], Sequence[Record]]
"""By test case and variant."""


@dataclass(frozen=True)
class _Plan:
    """What was to be measured, as far as it is known."""

    cases: Mapping[str, tuple[str, bool]]
    """Structure, and whether it is a headline, by the name of the test case."""
    baselines: Mapping[str, str | None]
    """By variant, in the order of the variants; None for a baseline."""
    rounds: Mapping[str, int]
    """How many each test case needs to be complete; 0 where nobody knows."""
    load: Load | None = None
    cost: Cost | None = None
    rehearsal: bool = False
    repeated: Sequence[Record] = ()
    """Requests of turns that were measured again."""

    @property
    def alpha(self) -> float:
        """The level of every interval."""
        return stopping.alpha(self.load)

    @property
    def compared(self) -> dict[str, str]:
        """The baseline of each variant that has one."""
        return {name: base for name, base in self.baselines.items() if base is not None}


def summarise(config: Config, records: Iterable[Record]) -> Summary:
    """Everything the table, the figures and the report say, from the ledger alone.

    Warm-up requests are left out, and so are requests of cases the configuration does not name, and
    those of turns that were measured again.
    Intervals describe the conditions of this run: another day, or another node, may differ by more.
    """
    counted, repeated = _counted(records)
    named = {case.name: (str(case.structure), case.headline) for case in config.test_cases}
    own = [record for record in counted if record.case in named]
    rounds = stopping.measured_rounds(config, own)
    if not config.load.rounds.fixed:
        own = [record for record in own if record.round <= rounds[record.case]]
    plan = _Plan(
        cases=named,
        baselines={one.name: one.baseline for one in config.variants},
        rounds=rounds,
        load=config.load,
        cost=config.cost,
        rehearsal=config.stand_in is not None,
        repeated=repeated,
    )
    summary = _summary(plan, own)
    strangers = sorted({record.case for record in counted} - named.keys())
    return dataclasses.replace(
        summary,
        experiment=config.experiment,
        model=config.model,
        notes=(
            *caveats.of_run(config, summary, plan.rounds, strangers),
            *caveats.of_repetitions(repeated),
        ),
    )


def summarise_ledgers(records: Iterable[Record]) -> Summary:
    """What ledgers say that no configuration belongs to.

    Variants and test cases are those that the records name, in the order of their first request.
    The first variant is the baseline of all others. Costs are None: the price is not known.
    """
    counted, repeated = _counted(records)
    variants = list(dict.fromkeys(record.variant for record in counted))
    names = list(dict.fromkeys(record.case for record in counted))
    plan = _Plan(
        cases=dict.fromkeys(names, ("", False)),
        baselines={name: variants[0] if place else None for place, name in enumerate(variants)},
        rounds=dict.fromkeys(names, 0),
        repeated=repeated,
    )
    notes = tuple(caveats.of_repetitions(repeated))
    return dataclasses.replace(_summary(plan, counted), notes=notes)


def _counted(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Those that count, and those of turns that were measured again. The warm-up is neither."""
    measured = [record for record in records if record.round != WARM_UP]
    counted = last_attempts(measured)
    last = {id(record) for record in counted}
    return counted, [record for record in measured if id(record) not in last]


def _summary(plan: _Plan, records: Sequence[Record]) -> Summary:
    by_cell = claims.by_cell(records)
    failed = Counter((record.case, record.variant) for record in plan.repeated if record.failed)
    cells = {
        (case, variant): cell(
            case,
            variant,
            by_cell.get((case, variant), ()),
            alpha=plan.alpha,
            load=plan.load,
            cost=plan.cost,
            rounds=rounds,
            repeated_errors=failed[case, variant],
        )
        for case, rounds in plan.rounds.items()
        for variant in plan.baselines
    }
    contrasts = {
        (case, variant): claims.contrast(
            by_cell[case, variant], by_cell[case, baseline], planned=plan.load is not None
        )
        for case in plan.cases
        for variant, baseline in plan.compared.items()
        if _obstacle(plan, cells[case, variant], cells[case, baseline]) is None
    }
    family = claims.decide(contrasts, plan.alpha, len(plan.cases) * len(plan.compared))
    return Summary(
        run=records[0].run if records else None,
        experiment=None,
        model=None,
        load=plan.load.point if plan.load else None,
        started=min((record.sent for record in records), default=None),
        ended=max((record.sent + record.end for record in records), default=None),
        cost_denominator=plan.cost.denominator if plan.cost else None,
        variants=tuple(plan.baselines),
        cases=tuple(_case(plan, case, cells, contrasts, family) for case in plan.cases),
        overall=tuple(_overall(plan, by_cell, contrasts)),
        drifts=drifts(by_cell, plan.baselines),
        rehearsal=plan.rehearsal,
        notes=(),
    )


def _case(
    plan: _Plan,
    name: str,
    cells: Mapping[tuple[str, str], Cell],
    contrasts: Mapping[tuple[str, str], Contrast],
    family: Family[tuple[str, str, Question]],
) -> Case:
    own = [
        dataclasses.replace(
            cells[name, variant],
            comparison=_comparison(
                plan,
                cells[name, variant],
                cells[name, baseline],
                contrasts.get((name, variant)),
                family,
            )
            if baseline is not None
            else None,
        )
        for variant, baseline in plan.baselines.items()
    ]
    structure, headline = plan.cases[name]
    return Case(name, structure, headline, tuple(own), tuple(caveats.of_case(plan.load, own)))


def _comparison(
    plan: _Plan,
    own: Cell,
    baseline: Cell,
    contrast: Contrast | None,
    family: Family[tuple[str, str, Question]],
) -> Comparison:
    if contrast is None:
        found = _obstacle(plan, own, baseline)
        assert found is not None
        return Comparison(baseline.variant, None, None, None, None, None, found)
    answers = contrast.answers if contrast.speed else {}
    said = {
        question: verdict.claim(
            answer,
            plan.alpha,
            family,
            decided=(own.test_case, own.variant, question) in family.decided,
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


def _obstacle(plan: _Plan, own: Cell, baseline: Cell) -> Verdict | None:
    fixed = plan.load is None or plan.load.rounds.fixed
    return verdict.obstacle(own, baseline, fixed=fixed)


def _verdict(
    plan: _Plan,
    own: Cell,
    baseline: Cell,
    contrast: Contrast,
    said: Mapping[Question, Claim],
) -> Verdict:
    if Question.SPEED not in said:
        return verdict.too_few(contrast.rounds, planned=plan.load is not None)
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
    plan: _Plan, records: _Records, contrasts: Mapping[tuple[str, str], Contrast]
) -> Iterable[Overall]:
    for structure in dict.fromkeys(structure for structure, _ in plan.cases.values()):
        for variant, baseline in plan.compared.items():
            sides = {
                case: (records[case, variant], records[case, baseline])
                for case, (of_case, _) in plan.cases.items()
                if of_case == structure and (case, variant) in contrasts
            }
            if len(sides) < 2:
                continue
            streamed = all(contrasts[case, variant].time_per_output_token for case in sides)
            answers = overall(sides, streamed=streamed)
            yield Overall(
                structure=structure,
                variant=variant,
                baseline=baseline,
                cases=len(sides),
                speed=_interval(answers.get(Question.SPEED), plan.alpha),
                cost=_interval(answers.get(Question.COST), plan.alpha),
            )


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None
