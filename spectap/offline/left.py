"""What of a job's measurement is left: the ledger says what is there already."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spectap.config import Config
from spectap.ledger import last_attempts, whole_controls
from spectap.names import CONTROL, WARM_UP
from spectap.offline.generation import refused
from spectap.record import Record
from spectap.run.attempts import Turn
from spectap.run.order import orders

_CONTROLS: Final = 2
"""At least one before and one after what is measured."""


class Part(NamedTuple):
    """A turn of which something is to be generated."""

    turn: Turn
    attempt: int
    done: int
    """So many of its prompts, from the first, are generated in this attempt already."""


class Left:
    """What is left of one variant, whose ``config`` has it alone.

    Prompts are generated one after the other, so a turn that was interrupted goes on where it
    ended. One in which something failed is done again as a whole, as every run does it.
    """

    def __init__(self, config: Config, records: Sequence[Record]) -> None:
        """``records`` are the variant's ledger."""
        self._config, self._records = config, records
        self._last: defaultdict[Turn, list[Record]] = defaultdict(list)
        for record in last_attempts(records, apart=True):
            self._last[Turn(record.round, record.case, record.load)].append(record)
        points = [point.name for point in config.load.points]
        cells = [(case.name, point) for case in config.test_cases for point in points]
        self.turns = [
            Turn(number, *cell)
            for number, order in enumerate(orders(cells, config.load.rounds.at_most), start=1)
            for cell in order
        ]
        """All turns, in the order in which they are measured."""

    @property
    def parts(self) -> list[Part]:
        """In their order, what is to be generated now: with a warm-up and controls around it.

        Empty where the variant is complete.
        """
        pending = [part for turn in self.turns if (part := self._part(turn)) is not None]
        if not pending and self.controlled:
            return []
        case, load = self._config.test_cases[0].name, self._config.wave.name
        controls = [Part(one, number, 0) for one, number in self._controls(case, load)]
        warm_up = Turn(WARM_UP, case, load)
        first = Part(warm_up, self._attempts(warm_up) + 1, 0)
        return [first, controls[0], *pending, controls[1]] if pending else [first, controls[0]]

    @property
    def settled(self) -> list[Turn]:
        """The turns that will not be measured again."""
        return [turn for turn in self.turns if self._part(turn) is None]

    @property
    def controlled(self) -> bool:
        """Whether controls show what changed: two succeeded, one of them after all turns."""
        last = self._records[-1] if self._records else None
        ends = last is not None and last.round == CONTROL and last.succeeded
        return ends and len(whole_controls(self._records, self._config)) >= _CONTROLS

    @property
    def complete(self) -> bool:
        """Whether all that was to be measured is."""
        return not self.parts

    @property
    def failures(self) -> Iterator[str]:
        """A line for each thing that keeps the variant from being complete."""
        missing = 0
        for turn in self.turns:
            own = self._last[turn]
            failed = [record for record in own if _failed(record)]
            if failed:
                errors = Counter(record.error for record in failed)
                good, every = len(own) - len(failed), self._config.load.point(turn.load).requests
                error, _ = errors.most_common(1)[0]
                yield f"{turn.case}, round {turn.round}: {good} of {every} prompts: {error}"
            elif self._part(turn) is not None:
                missing += 1
        if missing:
            yield f"{missing} of {len(self.turns)} turns were not generated to their end"
        elif not self.controlled:
            yield "control load: two have to succeed, one of them after all turns"

    def _part(self, turn: Turn) -> Part | None:
        """None for a turn that is settled."""
        own = self._last[turn]
        attempt = own[0].attempt if own else 1
        if any(map(_failed, own)):
            return Part(turn, attempt + 1, 0)
        whole = len(own) >= self._config.load.point(turn.load).requests
        return None if whole else Part(turn, attempt, len(own))

    def _controls(self, case: str, load: str) -> Iterator[tuple[Turn, int]]:
        turn = Turn(CONTROL, case, load)
        first = self._attempts(turn) + 1
        yield from ((turn, number) for number in (first, first + 1))

    def _attempts(self, turn: Turn) -> int:
        """How many there were, whether or not they came to their end."""
        own = (r.attempt for r in self._records if (r.round, r.case, r.load) == turn)
        return max(own, default=0)


def _failed(record: Record) -> bool:
    return not (record.succeeded or refused(record))
