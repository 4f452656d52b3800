"""The evidence of a run, on which all judging rests: plan, records by cell, comparisons."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from statistics import fmean, median
from typing import Final

from spectap import metrics
from spectap.analysis import claims, crosscheck, grouping, stopping
from spectap.analysis.cells import cell
from spectap.analysis.contrasts import Contrast, contrast, pooled_over_cases
from spectap.analysis.crosscheck import Check
from spectap.analysis.estimate import Component, Estimate
from spectap.analysis.grouping import CellKey, Cells, Kind, Plan, Unit
from spectap.analysis.summary import Cell
from spectap.analysis.verdicts import Finding, Verdict
from spectap.inputs.config import Config
from spectap.names import CONTROL, WARM_UP
from spectap.records.ledger import last_attempts
from spectap.records.record import Record

_SHARED: Final = 0.5
"""The smallest part of the shorter recording that must overlap. In strict turns, two thirds do."""


@dataclass(frozen=True)
class Unsteadiness:
    """The change of a variant's speed between its two controls, by its environment alone."""

    change: float
    """The root mean square, over variants, of the change in the logarithm of a step's time."""
    variants: int
    """The number of variants with two controls: the degrees of freedom of ``change``."""
    seconds: float
    """Seconds between the two controls, on average."""
    middles: Mapping[str, float]
    """The middle of each variant's measurement, in Unix seconds."""

    def between(self, variant: str, baseline: str) -> float:
        """The standard error that the time between two variants adds to the logarithm of their
        ratio.

        It is ``change`` for variants that follow one another, or that ran at the same time on other
        devices. For variants further apart its square grows with the distance, as that of a random
        walk does.
        """
        gap = abs(self.middles[variant] - self.middles[baseline])
        return self.change * math.sqrt(max(1.0, gap / self.seconds))


@dataclass(frozen=True)
class Evidence:
    """A plan with the records, cells and contrasts of a run."""

    plan: Plan
    records: Sequence[Record]
    by_cell: Cells
    cells: Mapping[CellKey, Cell]
    """Each cell, not yet compared."""
    obstacles: Mapping[CellKey, Verdict]
    """The reason why a compared cell has no verdict."""
    billed: Cells
    """The records of each cell with its failed attempts that were measured again. Totals of time
    and tokens are of these."""
    unsteadiness: Unsteadiness | None
    """The change that controls show, for variants that were measured one after another."""
    contrasts: Mapping[CellKey, Contrast]
    """The contrasts of compared cells without an obstacle."""

    def sides(self, key: CellKey, baseline: str, *, billed: bool = False) -> Unit:
        """The records of a cell, and those of a baseline at its test case and load."""
        cells = self.billed if billed else self.by_cell
        return cells[key], cells[key.for_variant(baseline)]

    def widened(self, variant: str, baseline: str, ratio: Estimate) -> Estimate:
        """A ratio of two variants, widened by what changed between the times of both."""
        if self.unsteadiness is None:
            return ratio
        error = self.unsteadiness.between(variant, baseline)
        return ratio.widened(Component(error, self.unsteadiness.variants))


def of_run(
    config: Config, records: Iterable[Record], checks: Iterable[Check] | None = None
) -> Evidence:
    """The evidence of a run. It leaves out the warm-up, turns that were measured again, and
    requests of test cases and load points that the configuration does not name. ``checks`` is None
    where servers have no counters; answers may still count their own drafts."""
    every = grouping.at_load_points(config.load, records)
    counted, repeated = _counted(every, isolated=config.isolated)
    needed = stopping.measured_rounds(config, counted)
    rounds = stopping.begun_rounds(needed, counted)
    ranged = not config.load.rounds.fixed
    measured = [
        record
        for record in counted
        if (point := (record.case, record.load)) in rounds
        and not (ranged and record.round > rounds[point])
    ]
    begun = {(record.case, record.load) for record in measured}
    not_run = sum(needed.values()) - sum(rounds[case_point] for case_point in begun)
    plan = Plan(
        cases={
            case.name: Kind(str(case.structure or ""), case.headline, case.prompts is not None)
            for case in config.test_cases
        },
        points={point.name: point for point in config.load.points},
        baselines={variant.name: variant.baseline for variant in config.variants},
        rounds=rounds,
        alpha=stopping.alpha(config.load, early=not_run > 0),
        batches={variant.name: variant.batch for variant in config.variants},
        objectives=config.objectives,
        cost=config.cost,
        known=True,
        not_run=not_run,
        isolated=config.isolated,
        rehearsal=config.stand_in is not None,
        repeated=repeated,
        launches=config.load.launches,
    )
    unsteadiness = unsteadiness_of(every) if config.isolated else None
    return _evidence(plan, measured, unsteadiness, checks)


def of_ledgers(records: Iterable[Record]) -> Evidence:
    """The evidence of ledgers without a configuration: what their records name, in the order of the
    first request. The first variant is the baseline of the others."""
    counted, repeated = _counted(records, isolated=False)
    variants = [*dict.fromkeys(record.variant for record in counted)]
    cases = [*dict.fromkeys(record.case for record in counted)]
    points = dict.fromkeys((record.case, record.load) for record in counted)
    plan = Plan(
        cases={record.case: Kind(named=bool(record.prompt)) for record in counted},
        points=grouping.recorded_points(counted),
        baselines={name: variants[0] if index else None for index, name in enumerate(variants)},
        rounds=dict.fromkeys(sorted(points, key=lambda point: cases.index(point[0])), 0),
        alpha=stopping.alpha(None),
        repeated=repeated,
        launches=max((record.launch for record in counted), default=1) or 1,
    )
    return _evidence(plan, counted)


def _counted(records: Iterable[Record], *, isolated: bool) -> tuple[list[Record], list[Record]]:
    """The records that count, and those of turns measured again. Both lack the warm-up."""
    measured = [record for record in records if record.round > WARM_UP]
    counted = last_attempts(measured, isolated=isolated)
    last = {id(record) for record in counted}
    return counted, [record for record in measured if id(record) not in last]


def _evidence(
    plan: Plan,
    records: Sequence[Record],
    unsteadiness: Unsteadiness | None = None,
    checks: Iterable[Check] | None = None,
) -> Evidence:
    checks = crosscheck.check(records, ()) if checks is None else checks
    confirmed = {CellKey(check.case, check.load, check.variant): check.confirms for check in checks}
    by_cell = grouping.by_cell(records)
    billed = grouping.by_cell([*records, *_paid_again(plan, records)])
    failures = Counter(grouping.key_of(record) for record in plan.repeated if record.failed)
    cells = {
        key: cell(
            key,
            plan,
            by_cell.get(key, ()),
            billed.get(key, ()),
            repeated_errors=failures[key],
            confirmed=confirmed.get(key),
        )
        for key in plan.keys
    }
    obstacles = {}
    for key, baseline in plan.pairs:
        obstacle = claims.obstacle(cells[key], cells[baseline])
        if plan.isolated and not unsteadiness:
            obstacle = obstacle or Verdict(Finding.UNCONTROLLED)
        if not plan.known:
            obstacle = obstacle or _recorded_apart(by_cell[key], by_cell[baseline])
        if obstacle:
            obstacles[key] = obstacle
    evidence = Evidence(plan, records, by_cell, cells, obstacles, billed, unsteadiness, {})
    contrasts = {
        key: contrast(
            *evidence.sides(key, baseline.variant),
            billed=evidence.sides(key, baseline.variant, billed=True),
            point=plan.points[key.load],
            planned=plan.known,
        )
        for key, baseline in plan.pairs
        if key not in obstacles
    }
    widened = {}
    for key, of_cell in pooled_over_cases(contrasts).items():
        widen = partial(evidence.widened, key.variant, plan.compared[key.variant])
        ratios = {of: widen(ratio) for of, ratio in of_cell.ratios.items()}
        widened[key] = replace(of_cell, ratios=ratios)
    return replace(evidence, contrasts=widened)


def _paid_again(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """Requests of failed attempts at turns of ``records``, which are billed as well."""

    def turn(record: Record) -> tuple[str, int, str, str, str]:
        """The turn of a record. It spans all variants, unless each is measured alone."""
        variant = record.variant if plan.isolated else ""
        return record.run, record.round, record.case, record.load, variant

    failed = {(record.attempt, turn(record)) for record in plan.repeated if record.failed}
    turns = set(map(turn, records)) if failed else set()
    return [r for r in plan.repeated if turn(r) in turns and (r.attempt, turn(r)) in failed]


def _recorded_apart(*sides: Sequence[Record]) -> Verdict | None:
    """The verdict on sides that were recorded at different times; None where they overlap enough.

    The shorter span counts: of two loads that begin together, the one that is three times as fast
    ends after a third of the time.
    """
    spans = [(min(r.sent for r in side), max(r.sent + r.end for r in side)) for side in sides]
    shorter = min(end - begin for begin, end in spans)
    shared = max(0.0, min(end for _, end in spans) - max(begin for begin, _ in spans))
    if shared >= _SHARED * shorter:
        return None
    return Verdict(Finding.SEQUENTIAL, shared=shared / shorter)


def unsteadiness_of(records: Iterable[Record]) -> Unsteadiness | None:
    """The changes that the controls among ``records`` show; None where no variant has two.

    A variant that is measured alone begins and ends with the same short load, a control. A step's
    time depends on the devices and not on accepted drafts. So two controls of a variant differ by
    what changed in between: the node, and what else runs there. ``records`` are all of a run: those
    of earlier attempts count as well.
    """
    controls = defaultdict[str, dict[int, list[Record]]](dict)
    measured = defaultdict[str, list[Record]](list)
    for record in records:
        if record.round > WARM_UP:
            measured[record.variant].append(record)
        elif record.round == CONTROL and record.succeeded and len(record.chunks) > 1:
            controls[record.variant].setdefault(record.attempt, []).append(record)
    changes = []
    for attempts in controls.values():
        # Not means: a client that stalls once reads several steps as one long one.
        times = [
            median(chain.from_iterable(map(metrics.inter_chunk_latencies, attempt)))
            for attempt in attempts.values()
        ]
        sent = [min(record.sent for record in attempt) for attempt in attempts.values()]
        if len(times) > 1 and min(times) > 0 and max(sent) > min(sent):
            changes.append((math.log(max(times) / min(times)), max(sent) - min(sent)))
    if not changes:
        return None
    return Unsteadiness(
        change=math.sqrt(fmean(log**2 for log, _ in changes)),
        variants=len(changes),
        seconds=fmean(seconds for _, seconds in changes),
        middles={
            name: (min(r.sent for r in turns) + max(r.sent + r.end for r in turns)) / 2
            for name, turns in measured.items()
        },
    )
