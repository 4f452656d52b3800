"""How far a run is: what a restarted one need not do again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from benchmark.config import Config
from benchmark.journal import Journal
from benchmark.names import VARIANTS
from benchmark.record import Record

PROGRESS: Final = "progress.jsonl"

# A pod is restarted for ever; a case that never succeeds must not be measured for ever.
MAXIMUM_ATTEMPTS: Final = 3


class Pair(NamedTuple):
    """One test case in one round: the unit that is run, or run again, as a whole."""

    round: int
    case: str


class State:
    """The attempts of a run, in ``progress.jsonl``: one line each, written once the ledger is on
    the disk. A pair is complete when an attempt ended well and the ledger has its requests."""

    def __init__(self, folder: Path, config: Config, records: Iterable[Record]) -> None:
        """Reads what there is. Raises OSError and ValueError."""
        self._config = config
        self._attempts: Counter[Pair] = Counter()
        self._failures: dict[Pair, str] = {}
        self._complete: set[Pair] = set()
        counts = Counter(
            (Pair(record.round, record.case), record.variant)
            for record in records
            if record.succeeded
        )
        path = folder / PROGRESS
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
            entry = json.loads(line)
            pair = Pair(entry["round"], entry["case"])
            in_ledger = min(counts[pair, variant] for variant in VARIANTS)
            failure = entry["failure"]
            if failure is None and in_ledger < config.load.requests:
                failure = "the ledger does not have its requests"
            self._note(pair, failure)
        self._journal = Journal(path)

    def note(self, pair: Pair, failure: str | None) -> None:
        """An attempt has ended, well if ``failure`` is None. On the disk when this returns."""
        self._journal.append({"round": pair.round, "case": pair.case, "failure": failure})
        self._journal.flush()
        self._note(pair, failure)

    @property
    def pairs(self) -> list[Pair]:
        """All there are, in the order they are run in."""
        rounds = range(1, self._config.load.rounds + 1)
        return [Pair(number, case.name) for number in rounds for case in self._config.test_cases]

    @property
    def pending(self) -> list[Pair]:
        """Those to be run."""
        return [
            pair
            for pair in self.pairs
            if pair not in self._complete and self._attempts[pair] < MAXIMUM_ATTEMPTS
        ]

    @property
    def settled(self) -> list[Pair]:
        """Those that will not be run again: complete, or given up."""
        pending = set(self.pending)
        return [pair for pair in self.pairs if pair not in pending]

    @property
    def failures(self) -> dict[Pair, str]:
        """Why those failed that are not complete, as far as they were tried."""
        return {pair: self._failures[pair] for pair in self.pairs if pair in self._failures}

    def close(self) -> None:
        """Closes the journal."""
        self._journal.close()

    def _note(self, pair: Pair, failure: str | None) -> None:
        self._attempts[pair] += 1
        if failure is None:
            self._complete.add(pair)
            self._failures.pop(pair, None)
        else:
            self._failures[pair] = failure
