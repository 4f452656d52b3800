"""The summary of a run: what ``statistics`` computes and ``summary.json`` holds."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from benchmark.analysis.intervals import Interval
from benchmark.analysis.verdict import Tally, Verdict

SUMMARY: Final = "summary.json"


@dataclass(frozen=True)
class Percentiles:
    """Linear-interpolated percentiles of a sample, in the sample's unit."""

    count: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Steps:
    """Tokens in each decoding step after the first chunk.

    ``mean`` is over all requests: the sum of (n - c_0) by the sum of (m - 1). ``histogram`` holds
    (tokens, number of steps) pairs.
    """

    mean: float
    histogram: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Arm:
    """One variant under one test case. Times in seconds, throughputs in output tokens/second.

    ``throughput`` is a request's own; ``tokens_per_second`` is all requests together, at the
    concurrency of the load, over the time in which at least one of them was in flight. Its
    interval is None where too few requests succeeded; the cost's follows from it.
    ``steps`` is None unless the server counted the tokens of each chunk.
    """

    tally: Tally
    expected: int
    ttft: Percentiles | None
    time_per_output_token: Percentiles | None
    inter_chunk: Percentiles | None
    end_to_end: Percentiles | None
    throughput: Percentiles | None
    output_tokens: Percentiles | None
    tokens_per_second: float | None
    tokens_per_second_interval: Interval | None
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_interval: Interval | None
    steps: Steps | None

    @property
    def complete(self) -> bool:
        """Whether every request that was asked for is in the ledger."""
        return self.tally.requests >= self.expected


@dataclass(frozen=True)
class Case:
    """One test case. Each speed-up is above 1 where SD is the better one."""

    name: str
    structure: str
    headline: bool
    base: Arm
    speculative: Arm
    by_time_per_output_token: Interval | None
    by_end_to_end: Interval | None
    by_throughput: Interval | None
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Base, then SD."""
        return self.base, self.speculative

    @property
    def speedup(self) -> Interval | None:
        """What the verdict rests on: time per output token, else output throughput."""
        return self.by_time_per_output_token or self.by_throughput


@dataclass(frozen=True)
class Summary:
    """A run. ``started`` and ``ended`` are Unix seconds; None where nothing was recorded."""

    run: str | None
    experiment: str
    model: str
    concurrency: int
    started: float | None
    ended: float | None
    cost_denominator: str
    cases: tuple[Case, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every request that was asked for is in the ledger."""
        return all(arm.complete for case in self.cases for arm in case.arms)

    def to_json(self) -> str:
        """What ``summary.json`` holds: the fields by their names, findings by their values."""
        content = dataclasses.asdict(self)
        return json.dumps(content, indent=2, default=_plain, allow_nan=False) + "\n"


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} does not belong into a summary")
