"""Advice from a run: the front door of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmark.analysis.advice.advice import Advice
from benchmark.config import Config
from benchmark.record import Record


def advise(
    config: Config, records: Sequence[Record], *, mix: Mapping[str, float] | None = None
) -> Advice:
    """What to serve, from the ``records`` of a run.

    ``mix`` has the share of the output tokens that each class has; they are scaled to add up to 1,
    and a class that is not named has none. Without one it is what the baseline answered in the run.
    Raises ConfigError where ``mix`` names a class that was not measured.
    """
    raise NotImplementedError
