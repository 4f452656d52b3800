"""The report that inference_demo's own ``--benchmark`` writes.

neuronx-distributed-inference v0.6.10598, ``utils/benchmark.py`` (``generate_report``) and
``utils/constants.py``: an object with a report for each part of the model, or null for a part that
did not run. A report has latencies in milliseconds and a throughput in tokens a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from spectap.errors import JournalError, problems

GENERATION: Final = "e2e_model"
"""The part that is a whole generation: prefill and all steps."""


@dataclass(frozen=True)
class Timing:
    """One part. inference_demo writes further percentiles beside these."""

    latency_ms_p50: float
    latency_ms_p90: float
    latency_ms_p99: float
    throughput: float


_REPORT: Final = TypeAdapter(dict[str, Timing | None])


def read(path: Path) -> Mapping[str, Timing]:
    """The timings of one variant, by part. Raises JournalError."""
    try:
        report = _REPORT.validate_json(path.read_bytes())
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise JournalError(f"{path}: {next(problems(error))}") from None
    timings = {part: timing for part, timing in report.items() if timing is not None}
    if GENERATION not in timings:
        raise JournalError(f"{path}: {GENERATION}: is missing")
    return timings
