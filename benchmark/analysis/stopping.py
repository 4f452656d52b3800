"""When a test case has been measured often enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmark.config import Config
from benchmark.record import Record


def last_rounds(config: Config, records: Iterable[Record]) -> Mapping[str, int]:
    """The last round of each test case, by its name, as far as these records decide it."""
    return {case.name: config.load.rounds.at_most for case in config.test_cases}
