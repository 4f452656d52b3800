"""Every request's values and every turn's totals into CloudWatch, each at most once.

CloudWatch cannot recognise a repeated call. So the journal ``published.jsonl`` names the requests
and turns of each call before the call is made, and again when CloudWatch has answered. A call that
was never answered is not repeated, and a warning says so: a gap in a dashboard does less harm than
values that count twice, and the ledger has all values
(docs/decisions/0016-less-in-publishing-and-in-the-proxy.md).
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from spectap import journal, metrics
from spectap.aws.calls import AWS_ERRORS, NO_ANSWER, Service, Sleep
from spectap.errors import BucketError, JournalError, PublishError
from spectap.journal import Journal
from spectap.metrics import INTER_TOKEN_LATENCY, Published
from spectap.names import (
    EXPERIMENT_DIMENSION,
    LOAD_DIMENSION,
    TEST_CASE_DIMENSION,
    VARIANT_DIMENSION,
)
from spectap.record import Record

JOURNAL: Final = "published.jsonl"

# CloudWatch API reference, PutMetricData and MetricDatum: 1 MB and 1000 data a call, 150 values a
# datum, nothing older than two weeks or more than two hours ahead.
_VALUES_PER_DATUM: Final = 150
_OLDEST_SECONDS: Final = 14 * 24 * 3600
_FURTHEST_AHEAD_SECONDS: Final = 2 * 3600

# Upper bounds of what a datum and a value take in the wordiest of the API's three protocols,
# "query", before compression. A quarter of a call is left for what surrounds them. No more than
# 625 data fit into the rest, so the limit of 1000 needs no counting.
_BYTES_PER_DATUM: Final = 1200
_BYTES_PER_VALUE: Final = 120
_BYTES_PER_CALL: Final = 750_000
# A request with more values than this, such as an answer of thousands of steps, is published in
# parts. A part fits into a call.
_VALUES_PER_PART: Final = 4000

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """The values of one request, or a part of them where there are thousands; a turn's totals.

    ``name`` is the same whenever it is made from the same request and the same figures of llmperf.
    Before the last slash it names the request or the turn.
    """

    name: str
    minute: int
    """Unix seconds of the full minute in which the request, or the last of the turn, ended."""
    variant: str
    case: str
    load: str
    """The name of the load point."""
    values: tuple[tuple[Published, float], ...]

    @property
    def size(self) -> int:
        """An upper bound of the bytes it takes in a call."""
        data = sum(
            -(-count // _VALUES_PER_DATUM)
            for count in Counter(metric.name for metric, _ in self.values).values()
        )
        return data * _BYTES_PER_DATUM + len(self.values) * _BYTES_PER_VALUE


@dataclass(frozen=True)
class Call:
    """A line of the journal: what became of a call."""

    state: Literal["begun", "refused", "taken"]
    parts: tuple[str, ...]
    """Names of the parts that were in the call."""


_CALL: Final = TypeAdapter(Call)


class Publisher:
    """Publishes one run's values, and remembers in the run's folder what it has published."""

    def __init__(
        self,
        experiment: str,
        region: str,
        run_dir: Path,
        sleep: Sleep = time.sleep,
        *,
        namespace: str,
        by_load: bool = False,
        keep: Callable[[], object] | None = None,
    ) -> None:
        """``namespace`` is that of all metrics. ``by_load``: whether load points are told apart,
        which several need.

        ``keep`` takes the folder to where it outlives this machine, and may raise BucketError. It
        is called before each call to CloudWatch and after it: another machine that continues the
        run must know what was published.
        """
        action = f"cloudwatch:PutMetricData into {namespace}"
        checks = {"": f"check the region, and that the pod's role may {action}"}
        subject = f"CloudWatch {region}"
        self._cloudwatch = Service(
            "cloudwatch", region, sleep, subject=subject, error=PublishError, checks=checks
        )
        self._experiment, self._path = experiment, run_dir / JOURNAL
        self._namespace = namespace
        self._by_load, self._keep = by_load, keep or (lambda: None)
        self._gaps_known = False

    def publish(
        self, records: Sequence[Record], llmperf_latencies: Mapping[str, Sequence[float]]
    ) -> None:
        """Publishes whatever of these turns was not published before.

        ``records`` are whole turns, failed requests included: these have no values of their own.
        ``llmperf_latencies`` has, by request, llmperf's own inter-token latencies in seconds. They
        are published for the requests it has, and the ledger's for the others. Retries for five
        minutes where CloudWatch fails. Raises PublishError.
        """
        try:
            begun = self._begun()
            if not self._gaps_known:
                _warn_of_gap(part for part, accepted in begun.items() if not accepted)
                self._gaps_known = True
            every = [
                part
                for record in records
                if record.succeeded
                for part in parts(record, llmperf_latencies.get(record.request))
            ] + [*totals(records)]
            new = self._in_time([part for part in every if part.name not in begun])
            with Journal(self._path) as published:
                for call in calls(new):
                    self._cloudwatch.call(partial(self._attempt, call, published))
        except JournalError as error:
            raise PublishError(
                f"{error}; publishing cannot resume from this file: set a new RUN_ID"
            ) from None
        except OSError as error:
            raise PublishError(f"{self._path}: {error}") from None

    def _begun(self) -> dict[str, bool]:
        """The parts that are in CloudWatch, or may be: True for those that it has taken."""
        begun: dict[str, bool] = {}
        for call in journal.read(self._path, _CALL):
            for part in call.parts:
                begun[part] = call.state == "taken"
                if call.state == "refused":
                    del begun[part]
        return begun

    def _in_time(self, new: Sequence[Part]) -> list[Part]:
        # One value out of bounds, and CloudWatch would refuse the whole call.
        now = time.time()
        first, last = now - _OLDEST_SECONDS, now + _FURTHEST_AHEAD_SECONDS
        in_time = [part for part in new if first <= part.minute <= last]
        sources, accepted = (_sources(part.name for part in some) for some in (new, in_time))
        if accepted < sources:
            _LOG.warning(
                "CloudWatch takes nothing older than two weeks or more than two hours ahead: left "
                "out %d of %d requests and turns",
                len(sources - accepted),
                len(sources),
            )
        return in_time

    def _attempt(self, call: Sequence[Part], published: Journal) -> None:
        names = tuple(part.name for part in call)

        def note(state: Literal["begun", "refused", "taken"]) -> None:
            published.append(Call(state, names))
            published.flush()

        note("begun")
        try:
            self._keep()
            self._cloudwatch.client.put_metric_data(
                Namespace=self._namespace,
                MetricData=list(data(call, self._experiment, by_load=self._by_load)),
            )
        except NO_ANSWER:
            _warn_of_gap(names)
        except (*AWS_ERRORS, BucketError):
            note("refused")
            raise
        else:
            note("taken")
            self._keep()


def _warn_of_gap(names: Iterable[str]) -> None:
    if lost := _sources(names):
        _LOG.warning(
            "%d requests and turns may be missing in CloudWatch: no answer came. They are not sent "
            "again, because they could count twice; the ledger has them",
            len(lost),
        )


def _sources(names: Iterable[str]) -> set[str]:
    """The requests and turns that these parts are of."""
    return {name.rpartition("/")[0] for name in names}


def parts(record: Record, llmperf_latencies: Sequence[float] | None) -> Iterator[Part]:
    """A request's values, in parts of the same size.

    ``llmperf_latencies`` None stands for the ledger's value of llmperf's formula.
    """
    values = []
    for metric in metrics.METRICS:
        reported = llmperf_latencies if metric is INTER_TOKEN_LATENCY else None
        # The ledger has microseconds. The digits that a subtraction adds would only keep equal
        # values apart.
        values += [
            (metric, round(float(value), 9))
            for value in (metric.values(record) if reported is None else reported)
        ]
    for number, start in enumerate(range(0, len(values), _VALUES_PER_PART)):
        name = f"{record.request}/{number}"
        chunk = tuple(values[start : start + _VALUES_PER_PART])
        yield Part(name, _minute([record]), record.variant, record.case, record.load, chunk)


def totals(records: Iterable[Record]) -> Iterator[Part]:
    """The totals of each turn and variant, together in one part.

    So they have one timestamp and are lost together if at all: whatever of a run is in CloudWatch,
    the quotient of their sums is the throughput of whole turns.
    """
    turns: dict[tuple[int, str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        turns[record.round, record.case, record.load, record.variant].append(record)
    for (number, case, load, variant), requests in turns.items():
        name = "/".join(filter(None, (str(number), case, load, variant)))
        values = tuple((total, round(float(total.value(requests)), 9)) for total in metrics.TOTALS)
        yield Part(name, _minute(requests), variant, case, load, values)


def _minute(records: Iterable[Record]) -> int:
    return int(max(record.sent + record.end for record in records) // 60) * 60


def calls(new: Iterable[Part]) -> Iterator[list[Part]]:
    """The parts in calls, each within CloudWatch's limits."""
    call: list[Part] = []
    size = 0
    for part in new:
        if call and size + part.size > _BYTES_PER_CALL:
            yield call
            call, size = [], 0
        call.append(part)
        size += part.size
    if call:
        yield call


def data(
    call: Iterable[Part], experiment: str, *, by_load: bool = False
) -> Iterator[dict[str, Any]]:
    """A call's values as PutMetricData takes them: by minute and metric, equal values counted.

    ``by_load``: whether load points are told apart.
    """
    counted: dict[tuple[int, str, str, str, str, str], Counter[float]] = defaultdict(Counter)
    for part in call:
        load = part.load if by_load else ""
        for metric, value in part.values:
            key = part.minute, part.variant, part.case, load, metric.name, metric.unit
            counted[key][value] += 1
    for (minute, variant, case, load, name, unit), counts in counted.items():
        dimensions = {EXPERIMENT_DIMENSION: experiment, VARIANT_DIMENSION: variant}
        dimensions[TEST_CASE_DIMENSION] = case
        if by_load:
            dimensions[LOAD_DIMENSION] = load
        pairs = list(counts.items())
        for start in range(0, len(pairs), _VALUES_PER_DATUM):
            values, times = zip(*pairs[start : start + _VALUES_PER_DATUM], strict=True)
            yield {
                "MetricName": name,
                "Unit": unit,
                "Dimensions": [{"Name": key, "Value": dimensions[key]} for key in dimensions],
                "Timestamp": datetime.fromtimestamp(minute, UTC),
                "Values": list(values),
                "Counts": list(times),
            }
