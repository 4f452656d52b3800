"""Every request's values into CloudWatch, each at most once.

CloudWatch adds up what it is sent and has no token to recognise a repeated call by. So each call
is announced in ``published.jsonl`` before it is made, and what became of it is noted after; both
lines are on the disk before anything else happens. A call whose fate is not known, because the
process was killed in it or because no answer came, is not made again: a gap in a dashboard does
less harm than values that count twice, and the values themselves lie in the ledger. A call that
was answered with an error was not taken, and is made again. What is put into which call depends
on the values alone, so that a restarted run finds its own calls in the journal.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3
from typing_extensions import Self

from benchmark import metrics
from benchmark.aws.retry import AWS_ERRORS, NO_ANSWER, ONE_ATTEMPT, Sleep, explain, persist
from benchmark.errors import PublishError
from benchmark.journal import Journal
from benchmark.metrics import (
    END_TO_END_LATENCY,
    INPUT_TOKENS,
    INTER_CHUNK_LATENCY,
    INTER_TOKEN_LATENCY,
    METRICS,
    OUTPUT_TOKENS,
    REQUEST_OUTPUT_THROUGHPUT,
    TIME_PER_OUTPUT_TOKEN,
    TOKENS_PER_STEP,
    TTFT,
    Metric,
)
from benchmark.names import NAMESPACE, TEST_CASE_DIMENSION, VARIANT_DIMENSION
from benchmark.record import Record

JOURNAL: Final = "published.jsonl"

# CloudWatch API reference, PutMetricData and MetricDatum.
VALUES_PER_DATUM: Final = 150
DATA_PER_CALL: Final = 1000
BYTES_PER_CALL: Final = 1_000_000
OLDEST_SECONDS: Final = 14 * 24 * 3600
FURTHEST_AHEAD_SECONDS: Final = 2 * 3600

# Upper bounds of what a datum and a value of it take in the wordiest of the API's three protocols,
# "query", before compression; a quarter is left for what surrounds them.
_BYTES_PER_DATUM: Final = 1200
_BYTES_PER_VALUE: Final = 120
_BUDGET: Final = BYTES_PER_CALL * 3 // 4

_METRICS: Final = {metric.name: metric for metric in METRICS}
_WARM_UP: Final = 0
_CHECK: Final = (
    f"check the region, and that the pod's role may cloudwatch:PutMetricData into {NAMESPACE}"
)
_LOG: Final = logging.getLogger(__name__)


class Datum(NamedTuple):
    """Values of one metric in one minute (Unix seconds), and how often each occurred."""

    minute: int
    variant: str
    metric: Metric
    values: tuple[tuple[float, int], ...]

    def parameters(self, case: str) -> dict[str, Any]:
        """As PutMetricData takes it."""
        return {
            "MetricName": self.metric.name,
            "Unit": self.metric.unit,
            "Dimensions": [
                {"Name": VARIANT_DIMENSION, "Value": self.variant},
                {"Name": TEST_CASE_DIMENSION, "Value": case},
            ],
            "Timestamp": datetime.fromtimestamp(self.minute, timezone.utc),
            "Values": [value for value, _ in self.values],
            "Counts": [count for _, count in self.values],
        }


class Fate(str, Enum):
    """What became of a call, as far as the journal knows."""

    BEGUN = "begun"
    TAKEN = "taken"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Call:
    """The ``number``-th call of one case and round. ``plan`` tells a set of calls from others."""

    case: str
    round: int
    plan: str
    number: int
    data: tuple[Datum, ...]

    def __str__(self) -> str:
        values = sum(count for datum in self.data for _, count in datum.values)
        return f"{self.case}, round {self.round}: {values} values"


class Publisher:
    """Publishes one run's values, in calls that its journal remembers."""

    def __init__(
        self,
        region: str,
        run_dir: Path,
        sleep: Sleep = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = boto3.client("cloudwatch", region_name=region, config=ONE_ATTEMPT)
        self._region, self._path = region, run_dir / JOURNAL
        self._sleep, self._now = sleep, now
        self._finished: set[tuple[str, int]] = set()

    def publish(
        self,
        case: str,
        round: int,
        records: Sequence[Record],
        llmperf_itl: Mapping[str, Sequence[float]],
    ) -> None:
        """Publishes one case and round: whatever of it was not published before.

        ``llmperf_itl`` has, by variant, llmperf's own inter-token latencies in seconds, in the
        order in which the requests ended. Failed requests and the warm-up are left out. Goes on
        for five minutes where CloudWatch fails. Raises PublishError.
        """
        if round == _WARM_UP or (case, round) in self._finished:
            return
        calls = plan(case, round, records, llmperf_itl)
        try:
            with _Fates(self._path) as fates:
                self._settle(calls, fates)
        except (OSError, ValueError, KeyError) as error:
            raise PublishError(f"{self._path}: cannot be gone on with: {error}") from None
        self._finished.add((case, round))

    def _settle(self, calls: Sequence[Call], fates: _Fates) -> None:
        for call in calls:
            if fates.has_another_plan(call):
                _LOG.warning("%s: published before, when the values were others", call)
                return
            fate = fates.of(call)
            if fate is Fate.BEGUN:
                self._leave(call, fates)
            elif fate in (None, Fate.REFUSED):
                self._deliver(call, fates)

    def _deliver(self, call: Call, fates: _Fates) -> None:
        try:
            persist(partial(self._attempt, call, fates), self._sleep)
        except AWS_ERRORS as error:
            raise PublishError(f"CloudWatch {self._region}: {explain(error, _CHECK)}") from None

    def _attempt(self, call: Call, fates: _Fates) -> None:
        data = self._accepted(call)
        fates.note(call, Fate.BEGUN)
        try:
            if data:
                self._client.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        except NO_ANSWER:
            self._leave(call, fates)
        except AWS_ERRORS:
            fates.note(call, Fate.REFUSED)
            raise
        else:
            fates.note(call, Fate.TAKEN)

    def _accepted(self, call: Call) -> list[dict[str, Any]]:
        # One datum out of bounds and CloudWatch would refuse the whole call.
        now = self._now()
        first, last = now - OLDEST_SECONDS, now + FURTHEST_AHEAD_SECONDS
        accepted = [datum for datum in call.data if first <= datum.minute <= last]
        if len(accepted) < len(call.data):
            _LOG.warning(
                "%s: CloudWatch takes none older than two weeks or two hours ahead; "
                "left out %d of %d data",
                call,
                len(call.data) - len(accepted),
                len(call.data),
            )
        return [datum.parameters(call.case) for datum in accepted]

    def _leave(self, call: Call, fates: _Fates) -> None:
        fates.note(call, Fate.UNKNOWN)
        _LOG.warning(
            "%s may or may not be in CloudWatch: no answer came. They are not sent again, lest "
            "they count twice; the ledger has them",
            call,
        )


class _Fates:
    """The journal: the last that is known of each call. Raises OSError, ValueError, KeyError."""

    def __init__(self, path: Path) -> None:
        self._last: dict[tuple[str, int, int], Fate] = {}
        self._plans: dict[tuple[str, int], str] = {}
        # The last line has no newline only if a kill tore it; Journal cuts it off.
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
            entry = json.loads(line)
            self._learn(
                entry["case"], entry["round"], entry["plan"], entry["call"], Fate(entry["fate"])
            )
        self._journal = Journal(path)

    def of(self, call: Call) -> Fate | None:
        """None where the call was never begun."""
        return self._last.get((call.case, call.round, call.number))

    def has_another_plan(self, call: Call) -> bool:
        """Whether its case and round were published in calls that held other values."""
        return self._plans.get((call.case, call.round), call.plan) != call.plan

    def note(self, call: Call, fate: Fate) -> None:
        """On the disk when this returns."""
        self._journal.append(
            {
                "case": call.case,
                "round": call.round,
                "plan": call.plan,
                "call": call.number,
                "fate": fate.value,
            }
        )
        self._journal.flush()
        self._learn(call.case, call.round, call.plan, call.number, fate)

    def _learn(self, case: str, number: int, plan: str, call: int, fate: Fate) -> None:
        self._last[case, number, call] = fate
        self._plans[case, number] = plan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()


def plan(
    case: str,
    number: int,
    records: Iterable[Record],
    llmperf_itl: Mapping[str, Sequence[float]],
) -> list[Call]:
    """The calls that publish one case and round; the same for the same values, in any order."""
    data = list(_data(records, llmperf_itl))
    digest = hashlib.sha256(json.dumps(data, default=vars).encode()).hexdigest()[:16]
    return [Call(case, number, digest, index, batch) for index, batch in enumerate(_batches(data))]


def _batches(data: Iterable[Datum]) -> Iterator[tuple[Datum, ...]]:
    batch: list[Datum] = []
    size = 0
    for datum in data:
        more = _BYTES_PER_DATUM + _BYTES_PER_VALUE * len(datum.values)
        if batch and (len(batch) == DATA_PER_CALL or size + more > _BUDGET):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(datum)
        size += more
    if batch:
        yield tuple(batch)


def _data(records: Iterable[Record], llmperf_itl: Mapping[str, Sequence[float]]) -> Iterator[Datum]:
    """All values, by minute, variant and metric, equal ones counted."""
    found: dict[tuple[int, str, str], Counter[float]] = defaultdict(Counter)
    for minute, variant, metric, value in _values(records, llmperf_itl):
        # The ledger has microseconds. What a subtraction adds behind them would only keep equal
        # values apart.
        found[minute, variant, metric.name][round(float(value), 9)] += 1
    for (minute, variant, name), counts in sorted(found.items()):
        pairs = sorted(counts.items())
        for start in range(0, len(pairs), VALUES_PER_DATUM):
            values = tuple(pairs[start : start + VALUES_PER_DATUM])
            yield Datum(minute, variant, _METRICS[name], values)


def _values(
    records: Iterable[Record], llmperf_itl: Mapping[str, Sequence[float]]
) -> Iterator[tuple[int, str, Metric, float]]:
    minutes: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record.round == _WARM_UP or not record.succeeded:
            continue
        minute, variant = _minute(record), record.variant
        minutes[variant].append(minute)
        for metric, value in _measured(record, with_itl=not llmperf_itl.get(variant)):
            if value is not None:
                yield minute, variant, metric, value
    for variant, ended in minutes.items():
        for minute, value in _dated(llmperf_itl.get(variant, ()), sorted(ended)):
            yield minute, variant, INTER_TOKEN_LATENCY, value


def _measured(record: Record, *, with_itl: bool) -> Iterator[tuple[Metric, float | None]]:
    yield TTFT, metrics.ttft(record)
    yield END_TO_END_LATENCY, metrics.end_to_end(record)
    yield REQUEST_OUTPUT_THROUGHPUT, metrics.output_throughput(record)
    yield INPUT_TOKENS, record.prompt_tokens
    yield OUTPUT_TOKENS, record.output_tokens
    yield TIME_PER_OUTPUT_TOKEN, metrics.time_per_output_token(record)
    yield TOKENS_PER_STEP, metrics.tokens_per_step(record)
    for gap in metrics.inter_chunk_latencies(record):
        yield INTER_CHUNK_LATENCY, gap
    if with_itl:
        yield INTER_TOKEN_LATENCY, metrics.llmperf_inter_token_latency(record)


def _dated(values: Sequence[float], ended: Sequence[int]) -> Iterator[tuple[int, float]]:
    """llmperf's values in the minutes in which requests ended.

    It notes no times but lists requests as they end. The last belong together: where an attempt
    failed and another followed, its file has those of the last attempt only.
    """
    for behind, value in enumerate(reversed(values), start=1):
        yield ended[max(len(ended) - behind, 0)], value


def _minute(record: Record) -> int:
    return int((record.sent + record.end) // 60) * 60
