"""What was to be measured, and what is compared with what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectap.analysis import keys, stopping
from spectap.analysis.compared import claims
from spectap.analysis.compared.ladder import ladder_points
from spectap.analysis.keys import CellKey, Place
from spectap.config import Config, Cost, Objectives
from spectap.load_points import LoadPoint
from spectap.record import Record


@dataclass(frozen=True)
class Kind:
    """What a test case is."""

    structure: str = ""
    headline: bool = False
    named: bool = False
    """Whether its prompts have names and classes of their own."""


@dataclass(frozen=True)
class Plan:
    """What was to be measured, as far as it is known."""

    cases: Mapping[str, Kind]
    points: Mapping[str, LoadPoint | None]
    """By their names."""
    baselines: Mapping[str, str | None]
    """By variant, in the order of the variants; None for a baseline."""
    rounds: Mapping[Place, int]
    """How many make a test case complete at a load point; 0 where nobody knows."""
    alpha: float
    """The level of every interval."""
    batches: Mapping[str, int | None] = field(default_factory=dict)
    objectives: Objectives | None = None
    cost: Cost | None = None
    known: bool = False
    """Whether there is a configuration."""
    fixed: bool = True
    """Whether the number of rounds is."""
    not_run: int = 0
    """Turns that were to be measured after the last of each test case and load point."""
    apart: bool = False
    """Whether each variant was measured at a time of its own."""
    rehearsal: bool = False
    repeated: Sequence[Record] = ()
    """Requests of turns that were measured again."""

    @staticmethod
    def of_config(
        config: Config, rounds: Mapping[Place, int], not_run: int, repeated: Sequence[Record]
    ) -> Plan:
        """That of a run; ``rounds`` is how many each test case has at each load point."""
        return Plan(
            cases={
                one.name: Kind(str(one.structure or ""), one.headline, one.prompts is not None)
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
            not_run=not_run,
            apart=config.apart,
            rehearsal=config.stand_in is not None,
            repeated=repeated,
        )

    @staticmethod
    def of_ledgers(records: Sequence[Record], repeated: Sequence[Record]) -> Plan:
        """What the records themselves name, in the order of their first request.

        The first variant is the baseline of all others.
        """
        variants = list(dict.fromkeys(record.variant for record in records))
        return Plan(
            cases={record.case: Kind(named=bool(record.prompt)) for record in records},
            points=keys.recorded_points(records),
            baselines={name: variants[0] if place else None for place, name in enumerate(variants)},
            rounds=_in_order_of_cases(records),
            alpha=stopping.alpha(None),
            repeated=repeated,
        )

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
    def ladders(self) -> list[tuple[LoadPoint, ...]]:
        """The load points of each ladder that a test case has of a variant."""
        return [*ladder_points(point for point in self.points.values() if point)]

    @property
    def crossovers(self) -> int:
        """How many a report of it has."""
        questions = sum(len(claims.questions(points[0])) for points in self.ladders)
        return questions * len(self.cases) * len(self.compared)

    @property
    def claims(self) -> int:
        """How many a report of it could make."""
        return sum(len(claims.questions(self.points[key.load])) for key, _ in self.pairs)


def _in_order_of_cases(records: Sequence[Record]) -> dict[Place, int]:
    cases = [*dict.fromkeys(record.case for record in records)]
    places = dict.fromkeys((record.case, record.load) for record in records)
    return dict.fromkeys(sorted(places, key=lambda place: cases.index(place[0])), 0)
