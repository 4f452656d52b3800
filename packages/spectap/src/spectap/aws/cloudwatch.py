"""Publishes each request's values and each turn's totals to CloudWatch, at most once.

CloudWatch cannot recognise a repeated call. So the journal ``cloudwatch.jsonl`` lists a call's
items before the call is made, and CloudWatch's answer after it. A call without an answer is not
repeated, and a warning says so (docs/decisions/0016-less-in-publishing-and-in-the-proxy.md).
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from spectap import metrics
from spectap.aws.calls import AWS_ERRORS, NO_ANSWER, Service, Sleep
from spectap.errors import JournalError, ShippingError
from spectap.metrics import Published
from spectap.names import (
    EXPERIMENT_DIMENSION,
    LOAD_DIMENSION,
    TEST_CASE_DIMENSION,
    VARIANT_DIMENSION,
)
from spectap.records import journal
from spectap.records.journal import Journal
from spectap.records.record import Record

JOURNAL: Final = "cloudwatch.jsonl"

# CloudWatch API reference, PutMetricData and MetricDatum: 1 MB and 1000 data a call, 150 values a
# datum. The bytes are upper bounds in JSON, before compression. A quarter of a call is left for
# what surrounds the data, and no more than 1000 of them fit into the rest.
_VALUES_PER_DATUM: Final = 150
_BYTES_PER_DATUM: Final = 750
_BYTES_PER_VALUE: Final = 30
_BYTES_PER_CALL: Final = 750_000

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Item:
    """The values of one request, or the totals of one turn of a variant."""

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
        counts = Counter(metric.name for metric, _ in self.values).values()
        data = sum(-(-count // _VALUES_PER_DATUM) for count in counts)
        return data * _BYTES_PER_DATUM + len(self.values) * _BYTES_PER_VALUE


@dataclass(frozen=True)
class Call:
    """The state of a call: a line of the journal."""

    state: Literal["begun", "refused", "taken"]
    parts: tuple[str, ...]
    """Names of the items that were in the call."""


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
        """``namespace`` is CloudWatch's for all metrics. ``by_load``: load points have a dimension.

        ``keep`` stores the folder where it outlives this machine, and may raise ShippingError. It
        is called before and after each call: another machine that continues the run must know what
        was published.
        """
        action = f"cloudwatch:PutMetricData into {namespace}"
        checks = {"": f"check the region, and that the pod's role may {action}"}
        subject = f"CloudWatch {region}"
        self._cloudwatch = Service(
            "cloudwatch", region, sleep, subject=subject, error=ShippingError, checks=checks
        )
        self._experiment, self._path = experiment, run_dir / JOURNAL
        self._namespace, self._by_load = namespace, by_load
        self._keep = keep or (lambda: None)
        self._gaps_known = False

    def publish(self, records: Sequence[Record]) -> None:
        """Publishes those of these turns that were not published before.

        ``records`` are whole turns. Failed requests are among them and have no values of their own.
        Retries for five minutes where CloudWatch fails. Raises ShippingError.
        """
        try:
            begun = self._begun()
            if not self._gaps_known:
                _warn_of_gap([name for name, taken in begun.items() if not taken])
                self._gaps_known = True
            new = (item for item in items(records) if item.name not in begun)
            with Journal(self._path) as published:
                for call in calls(new):
                    self._cloudwatch.call(partial(self._attempt, call, published))
        except JournalError as error:
            raise ShippingError(
                f"{error}; publishing cannot resume from this file: set a new RUN_ID"
            ) from None
        except OSError as error:
            raise ShippingError(f"{self._path}: {error}") from None

    def _begun(self) -> dict[str, bool]:
        """Items that are in CloudWatch, or may be. True: CloudWatch has accepted the item."""
        begun: dict[str, bool] = {}
        for call in journal.read(self._path, Call):
            for name in call.parts:
                begun[name] = call.state == "taken"
                if call.state == "refused":
                    del begun[name]
        return begun

    def _attempt(self, call: Sequence[Item], published: Journal) -> None:
        names = tuple(item.name for item in call)

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
        except (*AWS_ERRORS, ShippingError):
            note("refused")
            raise
        else:
            note("taken")
            self._keep()


def _warn_of_gap(names: Sequence[str]) -> None:
    if names:
        _LOG.warning(
            "%d requests and turns may be missing in CloudWatch: no answer came. They are not sent "
            "again, because they could count twice; the ledger has them",
            len(names),
        )


def items(records: Iterable[Record]) -> Iterator[Item]:
    """An item for each request, and one for the totals of each turn of a variant.

    Totals of a turn share one item, so they have one timestamp and are lost together if at all. The
    quotient of their sums in CloudWatch is then always the throughput of whole turns.
    """
    turns: dict[tuple[int, str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        turns[record.round, record.case, record.load, record.variant].append(record)
        if record.succeeded:
            values = ((m, value) for m in metrics.METRICS for value in m.values(record))
            yield _item(record.request, [record], values)
    for (number, case, load, variant), requests in turns.items():
        name = "/".join(filter(None, (str(number), case, load, variant)))
        yield _item(name, requests, ((total, total.value(requests)) for total in metrics.TOTALS))


def _item(name: str, records: Sequence[Record], values: Iterable[tuple[Published, float]]) -> Item:
    # The ledger has microseconds. The digits that a subtraction adds would only keep equal values
    # apart.
    rounded = tuple((metric, round(float(value), 9)) for metric, value in values)
    minute = int(max(record.sent + record.end for record in records) // 60) * 60
    first = records[0]
    return Item(name, minute, first.variant, first.case, first.load, rounded)


def calls(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in calls, each within CloudWatch's limits."""
    call: list[Item] = []
    size = 0
    for item in items:
        if call and size + item.size > _BYTES_PER_CALL:
            yield call
            call, size = [], 0
        call.append(item)
        size += item.size
    if call:
        yield call


def data(
    call: Iterable[Item], experiment: str, *, by_load: bool = False
) -> Iterator[dict[str, Any]]:
    """The values of a call in PutMetricData's form: by minute and metric, equal values counted.

    ``by_load``: load points have a dimension.
    """
    counted: dict[tuple[int, str, str, str, str, str], Counter[float]] = defaultdict(Counter)
    for item in call:
        load = item.load if by_load else ""
        for metric, value in item.values:
            key = item.minute, item.variant, item.case, load, metric.name, metric.unit
            counted[key][value] += 1
    for (minute, variant, case, load, name, unit), counts in counted.items():
        dimensions = {
            EXPERIMENT_DIMENSION: experiment,
            VARIANT_DIMENSION: variant,
            TEST_CASE_DIMENSION: case,
            **({LOAD_DIMENSION: load} if by_load else {}),
        }
        pairs = list(counts.items())
        for start in range(0, len(pairs), _VALUES_PER_DATUM):
            values, times = zip(*pairs[start : start + _VALUES_PER_DATUM], strict=True)
            yield {
                "MetricName": name,
                "Unit": unit,
                "Dimensions": [{"Name": key, "Value": of} for key, of in dimensions.items()],
                "Timestamp": datetime.fromtimestamp(minute, UTC),
                "Values": list(values),
                "Counts": list(times),
            }
