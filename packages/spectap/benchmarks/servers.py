"""Servers as they live: neighbours, launches, sessions, hangs, and variants that slow each other.

Each world changes the requests of a simulated run, whose truth is known, by what happens to the
server that serves them.
"""

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from benchmarks import harness, simulation, verdicts
from benchmarks.harness import Bar, Group, Statement
from benchmarks.simulation import RANGE, SIDES, World, slower
from benchmarks.verdicts import COST, SPEED, Truth
from spectap.analysis.changes import Run
from spectap.analysis.compare import compare
from spectap.analysis.grouping import CasePoint
from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.inputs.config import Config
from spectap.inputs.load_points import Rounds
from spectap.records.record import STALLED, Record

BASE, SD = SIDES
GATE: Final = 0.95
VERDICT: Final = "verdict"
NOTE: Final = "note"

HOLDS: Final = Bar(0.90)
CLAIMS: Final = Bar(None, wrong=0.07)
HELD: Final = {SPEED: HOLDS, COST: HOLDS, harness.ANY: CLAIMS}


@dataclass(frozen=True)
class Changed:
    """A simulated run to which something happens."""

    name: str
    world: World

    def chance(self, number: int) -> np.random.Generator:
        """The source of randomness of what happens; the same number, the same."""
        return np.random.default_rng([zlib.crc32(repr(self).encode()), number])

    def config(self) -> Config:
        """The configuration of its runs."""
        return simulation.configuration(self.world)

    def records(self, number: int) -> list[Record]:
        """The requests of one of its runs."""
        return simulation.records(self.world, number)

    def begins(self, number: int, gap: float) -> list[float]:
        """When its rounds begin, where they are spread, this long apart on average."""
        minutes = gap / 60 * (self.world.most_rounds - 1)
        load = self.config().load.model_copy(update={"spread_minutes": minutes})
        return load.begins(f"run {number}")

    def truths(self) -> Mapping[CasePoint, Truth]:
        """What is true of each test case at each load."""
        return simulation.truths(self.world)

    def statements(self, number: int) -> Iterator[Statement]:
        """What the report on the run of that number states."""
        return simulation.report(self.config(), self.records(number), self.truths())


@dataclass(frozen=True)
class Neighbour(Changed):
    """Something else runs beside the variant, or beside both sides, for a while, and ends for as
    long. It is centred: what it costs in the long run is nothing."""

    seconds: float = 60.0
    """How long it runs on average, and then does not: both are exponential."""
    slowdown: float = 0.10
    shared: bool = False
    pause: float = 0.0
    """Between two rounds, in seconds: rounds are spread."""

    def records(self, number: int) -> list[Record]:
        begins = self.begins(number, self.pause)
        plain = [replace(r, sent=r.sent + begins[r.round - 1]) for r in super().records(number)]
        ends = max(record.sent + record.end for record in plain)
        chance = self.chance(number)
        gaps = chance.exponential(self.seconds, size=10 + int(4 * ends / self.seconds))
        changes, first = np.cumsum(gaps), chance.integers(2)
        half = math.log1p(self.slowdown) / 2

        def level(record: Record) -> float:
            if record.variant == BASE and not self.shared:
                return 0.0
            before = int(np.searchsorted(changes, record.sent + record.end / 2))
            return half if (first + before) % 2 else -half

        return [slower(record, level(record)) for record in plain]

    def truths(self) -> Mapping[CasePoint, Truth]:
        """Good requests are so in either state: their time per token is log-normal."""
        truths = super().truths()
        if not self.world.limit:
            return truths
        scatter = math.hypot(self.world.request, self.world.wave, self.world.round)
        room, half = math.log(self.world.limit / 0.045), math.log1p(self.slowdown) / 2
        met = [NormalDist(0, scatter).cdf(room + sign * half) for sign in (-1, 1)]
        return {place: replace(t, goodput=sum(met) / 2) for place, t in truths.items()}


@dataclass(frozen=True)
class SlowRounds(Changed):
    """Rounds of the variant are slow now and then, each test case by itself. Speed is centred: what
    it costs in the long run is nothing."""

    share: float = 0.25
    slowdown: float = 0.5

    def records(self, number: int) -> list[Record]:
        plain, chance = super().records(number), self.chance(number)
        turns = dict.fromkeys((r.case, r.load, r.round) for r in plain)
        slow = dict(zip(turns, chance.random(len(turns)) < self.share, strict=True))
        log = math.log1p(self.slowdown)

        def level(record: Record) -> float:
            is_slow = slow[record.case, record.load, record.round]
            return log * (is_slow - self.share) if record.variant == SD else 0.0

        return [slower(record, level(record)) for record in plain]

    def truths(self) -> Mapping[CasePoint, Truth]:
        """All times of a round are as many times longer, so the mean is a sum of two."""
        mean = 1 + self.share * self.slowdown
        cost = (1 + self.slowdown) ** self.share / mean
        return {place: replace(t, cost=t.cost * cost) for place, t in super().truths().items()}


@dataclass(frozen=True)
class Job(Changed):
    """A job that runs beside the variant every so often, for half of that time. Rounds are spread
    as a run spreads them. Speed is centred."""

    seconds: float = 300.0
    slowdown: float = 0.10
    gap: float = 600.0
    """Between the begins of two rounds, on average."""

    def records(self, number: int) -> list[Record]:
        begins = self.begins(number, self.gap)
        plain, phase = super().records(number), self.chance(number).random()
        first = {n: min(r.sent for r in plain if r.round == n) for n in {r.round for r in plain}}
        half = math.log1p(self.slowdown) / 2

        def moved(record: Record) -> Record:
            at = record.sent - first[record.round] + begins[record.round - 1]
            runs = ((at + record.end / 2) / self.seconds + phase) % 1 < 0.5
            level = (half if runs else -half) if record.variant == SD else 0.0
            return slower(replace(record, sent=at), level)

        return [moved(record) for record in plain]


@dataclass(frozen=True)
class Throttled(Changed):
    """The variant is slower after a round, to the end: whether a note says so."""

    after: int = 5
    slowdown: float = 0.5

    def statements(self, number: int) -> Iterator[Statement]:
        log = math.log1p(self.slowdown)
        measured = [
            slower(r, log) if r.variant == SD and r.round > self.after else r
            for r in super().records(number)
        ]
        noted = summarise(self.config(), measured).halves
        true = {SD} if self.after < self.world.most_rounds else set()
        yield Statement(NOTE, wrong=bool(noted.keys() - true), found=float(SD in noted))


@dataclass(frozen=True)
class Watched(Changed):
    """A run that its user looks at after each round, and ends when it shows something."""

    def statements(self, number: int) -> Iterator[Statement]:
        config, measured = self.config(), self.records(number)
        for rounds in range(3, self.world.most_rounds + 1):
            so_far = [record for record in measured if record.round <= rounds]
            yield from verdicts.statements(summarise(config, so_far), self.truths())


@dataclass(frozen=True)
class Launches(Changed):
    """Each launch of a server has its own level. Nothing else differs between runs."""

    scatter: float = 0.02
    """Of the logarithm of a launch's times."""
    launches: int = 1
    """Of each service, in blocks of rounds."""

    def config(self) -> Config:
        """The rounds are split into as many blocks as there are launches."""
        config = super().config()
        if self.launches == 1:
            return config
        load = config.load.model_copy(update={"launches": self.launches})
        return config.model_copy(update={"load": load})

    def records(self, number: int) -> list[Record]:
        rounds = self.world.most_rounds
        levels = self.scatter * self.chance(number).standard_normal((2, self.launches))
        changed = []
        for record in super().records(number):
            launch = (record.round - 1) * self.launches // rounds
            moved = slower(record, levels[SIDES.index(record.variant), launch])
            changed.append(replace(moved, launch=launch + 1 if self.launches > 1 else 0))
        return changed


@dataclass(frozen=True)
class Compared(Launches):
    """A run before and a run after, through ``compare``."""

    def statements(self, number: int) -> Iterator[Statement]:
        config = self.config()

        def run(of_run: int) -> Run:
            records = tuple(self.records(of_run))
            return Run(f"run-{of_run}", config, records, summarise(config, records))

        changes = compare(run(2 * number), run(2 * number + 1), GATE)
        for _, figure, change in changes.judged:
            yield harness.stated(figure.value, change.ratio, 1.0, wrong=change.differs)
        yield Statement(f"gate of {GATE}", wrong=changes.failed)


@dataclass(frozen=True)
class Sessions(Changed):
    """Two ledgers without a configuration, recorded by taps: one after the other, or at once."""

    scatter: float = 0.02
    """Of the logarithm of a session's times."""
    at_once: bool = False

    def records(self, number: int) -> list[Record]:
        levels = self.scatter * self.chance(number).standard_normal(2)
        plain = super().records(number)
        ends = {v: max(r.sent + r.end for r in plain if r.variant == v) for v in SIDES}
        return [
            replace(
                slower(record, 0.0 if self.at_once else levels[side]),
                run=f"session-{record.variant}",
                round=1,
                sent=record.sent + (0.0 if self.at_once else side * (ends[BASE] + 300)),
                load="",
            )
            for side, variant in enumerate(SIDES)
            for record in plain
            if record.variant == variant
        ]

    def statements(self, number: int) -> Iterator[Statement]:
        truths = {(case, ""): truth for (case, _), truth in self.truths().items()}
        summary = summarise_ledgers(self.records(number))
        comparison = summary.cases[0].cell(SD).comparison
        yield Statement(VERDICT, found=float(bool(comparison and comparison.speed)))
        yield from verdicts.statements(summary, truths)


@dataclass(frozen=True)
class Hangs(Changed):
    """Some requests of the variant hang until the tap ends them; their turn is measured again."""

    share: float = 0.01
    seconds: float = 180.0

    def records(self, number: int) -> list[Record]:
        chance, requests = self.chance(number), self.world.requests
        every, attempt = list[Record](), 0
        pending = {(record.case, record.round) for record in super().records(0)}
        while pending:
            attempt += 1
            hung = {turn: chance.random(requests) < self.share for turn in sorted(pending)}
            seen = dict.fromkeys(pending, 0)
            for record in simulation.records(self.world, 1000 * number + attempt):
                turn = record.case, record.round
                if turn not in pending:
                    continue
                moved = replace(record, attempt=attempt, sent=record.sent + 1e5 * attempt)
                if record.variant == SD:
                    if hung[turn][seen[turn]]:
                        error = f"{STALLED}: no byte for {self.seconds:.0f} s"
                        moved = replace(
                            moved, error=error, chunks=(), output_tokens=None, end=self.seconds
                        )
                    seen[turn] += 1
                every.append(moved)
            pending = {turn for turn in pending if hung[turn].any()}
        return every

    def truths(self) -> Mapping[CasePoint, Truth]:
        """All attempts count, with the tokens of their good requests: repeating changes nothing."""
        p = self.share
        changed = {}
        for place, truth in super().truths().items():
            plain = 0.21 + 0.045 * (self.world.tokens - 1)
            cost = (1 - p) * plain / ((1 - p) * plain / truth.cost + p * self.seconds)
            changed[place] = replace(truth, cost=cost)
        return changed


@dataclass(frozen=True)
class Contention(Changed):
    """Each side is slower while the other runs. Loads end by themselves, or stay full."""

    slowdown: float = 0.15
    full: bool = False

    def records(self, number: int) -> list[Record]:
        plain = super().records(number)
        begins, ends = dict[tuple[str, int], float](), dict[tuple[str, int, str], float]()
        for r in plain:
            turn = r.case, r.round
            begins[turn] = min(r.sent, begins.get(turn, math.inf))
            key = (*turn, r.variant)
            ends[key] = max(r.sent + r.end, ends.get(key, 0.0))

        def moved(record: Record) -> Record:
            turn = record.case, record.round
            # Until the faster side ends, in the time that it would take alone.
            both = min(ends[(*turn, v)] for v in SIDES) - begins[turn]

            def at(seconds: float) -> float:
                seconds += record.sent - begins[turn]
                return seconds + self.slowdown * (seconds if self.full else min(seconds, both))

            chunks = tuple((at(t) - at(0.0), tokens) for t, tokens in record.chunks)
            sent = begins[turn] + at(0.0)
            return replace(record, sent=sent, chunks=chunks, end=at(record.end) - at(0.0))

        return [moved(record) for record in plain]


ONE_CASE: Final = World("one case", request=0.02, wave=0.02, speedups=(1.0,))
GOOD: Final = World(
    *("objective", 0.05),
    limit=0.05,
    requests=8,
    concurrency=1,
    rounds=12,
    tokens=100,
    speedups=(1.0,) * 2,
)
LEVELS: Final = (0.01, 0.02, 0.03)
LAUNCHED: Final = World("launches", request=0.02, wave=0.02, speedups=(1.0,) * 3)
SESSION: Final = World("session", requests=80, rounds=1, tokens=200, speedups=(1.0,))
STEADY: Final = World("steady", request=0.02, wave=0.02)
MANY: Final = replace(STEADY, ladder=(1, 2, 4, 8, 16), speedups=(1.0,) * 300)
"""60 test cases at five loads: 600 claims."""
FASTER: Final = World("2x", rounds=12, requests=24, tokens=190, speedups=(2.0,))
TRIPLE: Final = World("3x", request=0.02, speedups=(3.0,))


def _neighbours(pause: float, rounds: int | Rounds, kind: str) -> tuple[Neighbour, ...]:
    return tuple(
        Neighbour(f"{seconds:g} s, {kind}", replace(ONE_CASE, rounds=rounds), seconds, pause=pause)
        for seconds in (60.0, 180.0, 600.0)
    )


def _reports(launches: int) -> tuple[Launches, ...]:
    return tuple(
        Launches(
            f"levels of {s:.0%}, {rounds} rounds", replace(LAUNCHED, rounds=rounds), s, launches
        )
        for rounds in (9, 24)
        for s in LEVELS
    )


def _compared(launches: int) -> tuple[Compared, ...]:
    return tuple(Compared(f"levels of {s:.0%}", LAUNCHED, s, launches) for s in LEVELS)


GROUPS: Final = (
    Group("neighbours", _neighbours(0, 6, "6 rounds") + _neighbours(0, RANGE, "4-30 rounds")),
    Group("spread", _neighbours(600, 6, "6 rounds") + _neighbours(600, RANGE, "4-30 rounds"), HELD),
    Group(
        "goodput",
        tuple(Neighbour(f"{s:g} s", GOOD, s, shared=True) for s in (60.0, 600.0, 1800.0)),
    ),
    Group(
        "slow rounds",
        (
            SlowRounds("1 in 4, 1.1x as slow", STEADY, slowdown=0.1),
            SlowRounds("1 in 4, 1.5x as slow", STEADY),
            SlowRounds("1 in 10, 2x as slow", replace(STEADY, rounds=RANGE), 0.1, 1.0),
        ),
        HELD,
    ),
    Group(
        "periodic jobs",
        tuple(
            Job(f"every {seconds:g} s", replace(ONE_CASE, rounds=rounds), seconds)
            for rounds in (6, 12)
            for seconds in (300.0, 430.0, 600.0)
        ),
        HELD,
    ),
    Group(
        "throttled",
        (Throttled("after 5 of 6 rounds", STEADY), Throttled("after 3", STEADY, 3, 0.1)),
        {NOTE: Bar(None, wrong=0.05, found=0.95)},
    ),
    Group("never throttled", (Throttled("a calm run", STEADY, 6),), {NOTE: Bar(None, wrong=0.05)}),
    Group(
        "looked at after each round",
        (Watched("no difference", replace(STEADY, rounds=30, speedups=(1.0,) * 2)),),
        {harness.ANY: CLAIMS},
    ),
    Group(
        "600 claims",
        tuple(
            SlowRounds("1 in 2, 1.2x as slow", replace(MANY, rounds=rounds), 0.5, 0.2)
            for rounds in (3, 4)
        ),
        HELD | {verdicts.CROSSOVERS: HOLDS},
        20,
    ),
    Group("one launch", _reports(1)),
    Group("compared", _compared(1), {harness.ANY: CLAIMS}),
    Group("three launches", _reports(3), HELD),
    Group(
        "three launches compared",
        _compared(3),
        {"speed-up": HOLDS, harness.ANY: CLAIMS},
    ),
    Group(
        "sessions",
        tuple(Sessions(f"levels of {s:.0%}", SESSION, s) for s in (0.0, 0.02, 0.05)),
        HELD,
    ),
    Group(
        "sessions at once",
        (Sessions("levels of 5%", SESSION, 0.05, at_once=True),),
        HELD | {VERDICT: Bar(None, found=0.95)},
    ),
    Group("hangs", tuple(Hangs(f"{s:.0%} hang", FASTER, s) for s in (0.0, 0.01, 0.02, 0.05)), HELD),
    Group("contention", (Contention("loads end by themselves", TRIPLE),)),
    Group("full loads", (Contention("loads stay full", TRIPLE, full=True),), HELD),
)
