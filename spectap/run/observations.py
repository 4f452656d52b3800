"""What a turn leaves besides the ledger: the servers' counts, and whether answers are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from spectap.answer import Answer
from spectap.checks import checked
from spectap.config import Config
from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.journal import Journal
from spectap.names import ANSWERS
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.attempts import Turn


class Observations:
    """The observations of a run, in its folder."""

    def __init__(self, config: Config, folder: Path, poll_seconds: float) -> None:
        """``poll_seconds`` lie between two looks whether a server's counters rest.

        Raises JournalError and OSError.
        """
        self._config, self._poll_seconds = config, poll_seconds
        self._rested: dict[str, Counters] = {}
        self.counts = [*counters.read(folder / COUNTERS)]
        """What each server counted in each turn."""
        self._counters = Journal(folder / COUNTERS)
        self._answers = Journal(folder / ANSWERS)

    async def scrape(self) -> dict[str, Counters]:
        """What each server has counted since its start, where it counts."""
        endpoints = self._config.endpoints
        self._rested = await counters.scrape_all(endpoints, self._poll_seconds, self._rested)
        return self._rested

    def count(
        self,
        turn: Turn,
        records: Sequence[Record],
        before: Mapping[str, Counters],
        after: Mapping[str, Counters],
    ) -> None:
        """Notes what each server counted in a turn. Raises OSError."""
        for variant in before:
            if variant not in after:
                continue
            count = Count(
                case=turn.case,
                load=turn.load,
                round=turn.round,
                variant=variant,
                requests=tuple(r.request for r in records if r.variant == variant),
                counters=after[variant].since(before[variant]),
            )
            self._counters.append(count)
            self.counts.append(count)

    def check(
        self,
        turn: Turn,
        attempt: int,
        prompts: Sequence[Prompt],
        answers: Mapping[str, Sequence[Answer]],
    ) -> None:
        """Notes of each answer, by variant, whether it is what it had to be. Raises OSError."""
        for answer in checked(
            self._config,
            answers,
            prompts,
            case=turn.case,
            load=turn.load,
            round=turn.round,
            attempt=attempt,
        ):
            self._answers.append(answer)
        self._answers.flush()

    def close(self) -> None:
        """Closes the files."""
        self._counters.close()
        self._answers.close()
