"""What the records of a run come to before anything is said: which count, cells, what is compared.

Whatever judges a run starts here, so that all judge by the same requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spectap.analysis import controls, keys, stopping
from spectap.analysis.cells import cell
from spectap.analysis.compared import claims, verdict
from spectap.analysis.compared.claims import Contrast
from spectap.analysis.controls import Unsteadiness
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.keys import CellKey, Cells, Place
from spectap.analysis.plan import Plan
from spectap.analysis.summary import Cell, Verdict
from spectap.config import Config
from spectap.ledger import last_attempts
from spectap.names import WARM_UP
from spectap.record import Record


@dataclass(frozen=True)
class Evidence:
    """What was to be measured, and what was."""

    plan: Plan
    records: Sequence[Record]
    """Those that count."""
    by_cell: Cells
    cells: Mapping[CellKey, Cell]
    """Without their comparisons."""
    contrasts: Mapping[CellKey, Contrast]
    """Of each compared cell that something can be said of."""
    obstacles: Mapping[CellKey, Verdict]
    """Why nothing can be said of the others."""
    unsteadiness: Unsteadiness | None
    """Of a run whose variants were measured one after another, and whose controls show it."""
    strangers: Sequence[Place] = ()
    """Test cases and load points that only the ledger names."""

    def widened(self, variant: str, baseline: str, ratio: Estimate) -> Estimate:
        """A ratio of two variants, with what changed from the time of one to that of the other."""
        if self.unsteadiness is None:
            return ratio
        return self.unsteadiness.widened(ratio, variant, baseline)


def of_run(config: Config, records: Iterable[Record]) -> Evidence:
    """That of a run.

    Warm-up requests do not count, nor do those of cases and load points the configuration does not
    name, and those of turns that were measured again.
    """
    every = keys.at_load_points(config.load, records)
    counted, repeated = _counted(every, apart=config.apart)
    needed = stopping.measured_rounds(config, counted)
    rounds = stopping.begun_rounds(needed, counted)
    strangers = sorted({place for r in counted if (place := (r.case, r.load)) not in rounds})
    own = [record for record in counted if (record.case, record.load) in rounds]
    if not config.load.rounds.fixed:
        own = [record for record in own if record.round <= rounds[record.case, record.load]]
    begun = {(record.case, record.load) for record in own}
    not_run = sum(needed.values()) - sum(rounds[place] for place in begun)
    plan = Plan.of_config(config, rounds, not_run, repeated)
    found = controls.unsteadiness(every) if config.apart else None
    return _evidence(plan, own, found, strangers)


def of_ledgers(records: Iterable[Record]) -> Evidence:
    """That of ledgers without a configuration: what the records themselves name."""
    counted, repeated = _counted(records, apart=False)
    return _evidence(Plan.of_ledgers(counted, repeated), counted, None, ())


def _counted(records: Iterable[Record], *, apart: bool) -> tuple[list[Record], list[Record]]:
    """Those that count, and those of turns that were measured again. The warm-up is neither."""
    measured = [record for record in records if record.round > WARM_UP]
    counted = last_attempts(measured, apart=apart)
    last = {id(record) for record in counted}
    return counted, [record for record in measured if id(record) not in last]


def _evidence(
    plan: Plan,
    records: Sequence[Record],
    unsteadiness: Unsteadiness | None,
    strangers: Sequence[Place],
) -> Evidence:
    by_cell = keys.by_cell(records)
    cells = _cells(plan, by_cell)
    obstacles = {
        key: found
        for key, baseline in plan.pairs
        if (found := verdict.obstacle(cells[key], cells[baseline], fixed=plan.fixed))
        or (found := verdict.uncontrolled() if plan.apart and not unsteadiness else None)
    }
    evidence = Evidence(plan, records, by_cell, cells, {}, obstacles, unsteadiness, strangers)
    contrasts = {
        key: claims.contrast(
            by_cell[key], by_cell[baseline], point=plan.points[key.load], planned=plan.known
        ).each(partial(evidence.widened, key.variant, baseline.variant))
        for key, baseline in plan.pairs
        if key not in obstacles
    }
    return replace(evidence, contrasts=contrasts)


def _cells(plan: Plan, by_cell: Cells) -> dict[CellKey, Cell]:
    failed = keys.by_cell(record for record in plan.repeated if record.failed)
    return {
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
