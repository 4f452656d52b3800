"""The report that inference_demo's own ``--benchmark`` writes, shown as it is published.

neuronx-distributed-inference v0.6.10598, ``utils/benchmark.py`` (``benchmark_sampling``,
``LatencyCollector``) and ``utils/constants.py``: an object with a report for each submodel, or null
for one without data; a report has latencies in milliseconds and a throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from spectap import wording
from spectap.errors import JournalError
from spectap.names import INFERENCE_DEMOS

COLUMNS: Final = ("p50", "p90", "p95", "p99", "p100", "average", "throughput")

COUNTS: Final = (
    "inference_demo's own report counts something else: it generates from random token ids below "
    "100, so that its acceptance has nothing to do with a text; its throughput takes each run for "
    "as long as the compiled length, the prompt's tokens included, whether or not an answer ended "
    "before; and after the warm-up its draft model begins each run without a prefill."
)
"""``benchmark_sampling``: ``torch.randint(0, 100, ...)``, ``n_runs * max_length / total_time``, one
warm-up and 20 runs; between runs it resets the target alone."""

_NAMES: Final = {
    "e2e_model": "whole generation",
    "context_encoding_model": "prefill",
    "token_generation_model": "step",
    "speculation_model": "verification step",
}


@dataclass(frozen=True)
class Times:
    """One of its reports. A latency is in milliseconds, a throughput in tokens a second."""

    latency_ms_p50: float
    latency_ms_p90: float
    latency_ms_p95: float
    latency_ms_p99: float
    latency_ms_p100: float
    latency_ms_avg: float
    throughput: float

    @property
    def texts(self) -> tuple[str, ...]:
        """A text for each of ``COLUMNS``."""
        latencies = (
            *(self.latency_ms_p50, self.latency_ms_p90, self.latency_ms_p95),
            *(self.latency_ms_p99, self.latency_ms_p100, self.latency_ms_avg),
        )
        return tuple(map(wording.significant, (*latencies, self.throughput)))


_REPORT: Final = TypeAdapter(dict[str, Times | None])

Reports = Mapping[str, Mapping[str, Times]]
"""By variant, and in that by submodel."""


def read(folder: Path, variants: Sequence[str]) -> Reports:
    """The reports in a run's folder. Raises JournalError."""
    return {name: own for name in variants if (own := _read(folder, name))}


def rows(reports: Reports) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Variant, what was timed, and a text for each of ``COLUMNS``."""
    for variant, parts in reports.items():
        for part, times in parts.items():
            yield variant, _NAMES.get(part, part), times.texts


def in_short(reports: Reports) -> Iterator[str]:
    """A sentence for each variant, for the terminal."""
    for variant, parts in reports.items():
        said = [
            f"{_NAMES.get(part, part)} p50 {wording.significant(times.latency_ms_p50)} ms, "
            f"throughput {wording.significant(times.throughput)} tokens/s"
            for part, times in parts.items()
        ]
        yield f"{variant} by inference_demo --benchmark, as published: {'; '.join(said)}."


def _read(folder: Path, variant: str) -> dict[str, Times]:
    path = folder / INFERENCE_DEMOS / f"{variant}.json"
    try:
        found = _REPORT.validate_json(path.read_bytes()) if path.exists() else {}
    except (OSError, ValidationError) as error:
        raise JournalError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    return {part: times for part, times in found.items() if times is not None}
