"""The turns of a run, in order: what they send, and which a restarted run can skip."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from spectap.inputs.config import Config
from spectap.inputs.load_points import LoadPoint
from spectap.inputs.prompt import Prompt
from spectap.load.cases import of_turn
from spectap.load.driver import Driver
from spectap.names import CONTROL, LAUNCH, PROGRESS, WARM_UP
from spectap.records.journal import Journal
from spectap.records.ledger import Attempt, last_attempts, read_attempts, whole_controls
from spectap.records.record import Record

MAXIMUM_ATTEMPTS: Final = 3
"""The most attempts at a turn, since Kubernetes restarts a pod without limit. Isolated variants
have no maximum: their Job counts pods."""

_CONTROLS: Final = 2
"""The fewest controls: one before and one after the measurement."""

# Fixed: a run that is resumed goes on in the order in which it began.
_SEED: Final = 0

T = TypeVar("T")


class Turn(NamedTuple):
    """One test case at one load point in one round, on all variants."""

    round: int
    case: str
    load: str
    """The name of the load point."""

    @property
    def series(self) -> tuple[str, str]:
        """The test case and the load point, which every round measures."""
        return self.case, self.load


@dataclass(frozen=True)
class Plan:
    """The requests of a run's turns, with those of warm-ups and controls."""

    config: Config
    driver: Driver
    prompts: Mapping[str, Sequence[Prompt]] = field(default_factory=dict)
    """The prompts of each test case that has any."""

    def wave(self, round: int) -> Turn:
        """A turn that no figure uses: one wave of the first test case."""
        return Turn(round, self.config.test_cases[0].name, self.config.wave.name)

    def point(self, turn: Turn) -> LoadPoint:
        load = self.config.load
        return load.point(turn.load) if turn.round > WARM_UP else self.config.wave

    def label(self, turn: Turn) -> str:
        """The test case, with the load point where there are several."""
        several = len(self.config.load.points) > 1
        return f"{turn.case} at {self.point(turn)}" if several else turn.case

    def fill(self, turn: Turn) -> int:
        """The number of requests before those that count; 0 in a turn that no figure uses."""
        point, named = self.point(turn), bool(self.prompts.get(turn.case))
        if turn.round <= WARM_UP or self.driver.uses_llmperf(self.config.load, point, named=named):
            return 0
        return point.fill

    def sent(self, turn: Turn) -> Sequence[Prompt]:
        """The prompts of a turn, if its test case has any; those that do not count come first."""
        prompts, load = self.prompts.get(turn.case, ()), self.config.load
        return of_turn(prompts, load, turn.round, self.point(turn), self.fill(turn))

    def counted(self, turns: Sequence[Turn]) -> int:
        """The number of requests of these turns that count, over all variants."""
        return sum(self.point(turn).requests for turn in turns) * len(self.config.variants)

    def requests(self, turns: Sequence[Turn]) -> int:
        """The number of all requests of these turns, over all variants."""
        counts = (self.fill(turn) + self.point(turn).requests for turn in turns)
        return len(self.config.variants) * sum(counts)


class Attempts:
    """The attempts of a run, one line each in ``progress.jsonl``.

    A line is written when the attempt's requests are in the ledger and on the disk. A turn is
    complete when an attempt succeeded and the ledger has its requests. An attempt that was killed
    has no line and may have requests, so attempts are numbered by the ledger. Controls have lines,
    too, and so have launches of the servers after the first.
    """

    def __init__(self, folder: Path, config: Config, records: Iterable[Record]) -> None:
        """Reads the attempts so far. Raises OSError and JournalError."""
        records = list(records)
        points = {point.name: point for point in config.load.points}
        series = [(case.name, point) for case in config.test_cases for point in points]
        self._turns = [
            Turn(number, *item)
            for number, order in enumerate(orders(series, config.load.rounds.at_most), start=1)
            for item in order
        ]
        self._last = dict.fromkeys(series, config.load.rounds.at_most)
        self._count: Counter[Turn] = Counter()
        self._outcomes: dict[Turn, str | None] = {}  # why the last attempt failed, if it did
        self._maximum = math.inf if config.isolated else MAXIMUM_ATTEMPTS
        self._controls = 0
        self._ends_with_control = False
        self._number: Counter[Turn] = Counter()
        self.launch = 1 if config.load.launches > 1 else 0
        """Which launch of the servers is running, from 1; 0 where there is but one."""
        self.asked = 0
        """The last launch that a person was asked for."""
        in_ledger: Counter[tuple[Turn, str]] = Counter()
        for record in last_attempts(records):
            turn = Turn(record.round, record.case, record.load)
            self._number[turn] = record.attempt
            in_ledger[turn, record.variant] += record.succeeded
        for attempt in read_attempts(folder):
            if attempt.round == LAUNCH:
                self._count_launch(attempt)
                continue
            turn = Turn(attempt.round, attempt.case, attempt.load)
            failure = attempt.failure
            if turn.round != CONTROL and failure is None:
                fewest = min(in_ledger[turn, name] for name in config.names)
                if fewest < config.needed(points[turn.load]):
                    failure = "the ledger does not have its requests"
            self._count_attempt(turn, failure)
        if config.isolated:
            self._controls = min(self._controls, len(whole_controls(records, config)))
        self._journal = Journal(folder / PROGRESS)

    def end(self, last_rounds: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Leaves out turns after the last round of their test case and load point.

        Turns up to that round come back: a turn that is measured again may change what is enough.
        Returns the new last rounds that are earlier than before.
        """
        last = {turn.series: turn.round for turn in self.turns}
        self._last = dict(last_rounds)
        return {series: number for series, number in last_rounds.items() if number < last[series]}

    def begin(self, turn: Turn) -> int:
        """Begins the turn's next attempt; returns its number, from 1."""
        self._number[turn] += 1
        return self._number[turn]

    def note(self, turn: Turn, failure: str | None) -> None:
        """Adds an attempt, which is on the disk on return. ``failure`` is None if it succeeded."""
        number = self._number[turn]
        self._journal.append(Attempt(turn.round, turn.case, failure, turn.load, number))
        self._journal.flush()
        self._count_attempt(turn, failure)

    def note_launch(self, launch: int, *, asked: bool = False) -> None:
        """Adds a launch of the servers, or that a person was ``asked`` for it."""
        line = Attempt(LAUNCH, "", "asked for" if asked else None, attempt=launch)
        self._journal.append(line)
        self._journal.flush()
        self._count_launch(line)

    @property
    def turns(self) -> list[Turn]:
        """All turns, in the order in which they are measured."""
        return [turn for turn in self._turns if turn.round <= self._last[turn.series]]

    @property
    def pending(self) -> list[Turn]:
        return [
            turn
            for turn in self.turns
            if self._outcomes.get(turn, "") is not None and self._count[turn] < self._maximum
        ]

    @property
    def settled(self) -> list[Turn]:
        """The turns that will not be measured again: complete, or given up."""
        pending = set(self.pending)
        return [turn for turn in self.turns if turn not in pending]

    @property
    def failures(self) -> dict[Turn, str]:
        """The reason why the last attempt failed, of each incomplete turn that was tried."""
        return {turn: why for turn in self.turns if (why := self._outcomes.get(turn)) is not None}

    @property
    def controlled(self) -> bool:
        """Whether controls show what changed: two succeeded, one of them after all turns."""
        return self._controls >= _CONTROLS and self._ends_with_control

    def close(self) -> None:
        self._journal.close()

    def _count_launch(self, line: Attempt) -> None:
        if line.failure is None:
            self.launch = line.attempt
        else:
            self.asked = line.attempt

    def _count_attempt(self, turn: Turn, failure: str | None) -> None:
        self._ends_with_control = turn.round == CONTROL and failure is None
        if turn.round == CONTROL:
            self._controls += failure is None
            return
        self._count[turn] += 1
        self._outcomes[turn] = failure


def orders(items: Sequence[T], rounds: int) -> Iterator[tuple[T, ...]]:
    """An order of ``items`` for each of the ``rounds``, the first as given. It is always the same.

    A change over the run, such as a node that warms up, must not always meet the same item.
    """
    chance = random.Random(_SEED)
    order = list(items)
    for _ in range(rounds):
        yield tuple(order)
        # random() is the one method whose values stay the same over versions of Python.
        order.sort(key=lambda _: chance.random())


def rotated(items: Sequence[T], round: int) -> tuple[T, ...]:
    """``items``, rotated by the round, because the one that starts first has a head start."""
    first = round % len(items)
    return (*items[first:], *items[:first])
