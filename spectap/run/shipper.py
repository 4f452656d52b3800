"""Takes a run's results off this machine: its folder to the bucket, its metrics to CloudWatch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from spectap.config import Config
from spectap.errors import LoadError, ShippingError
from spectap.ledger import last_attempts
from spectap.load import llmperf
from spectap.names import load_results, namespace
from spectap.record import Record
from spectap.run.turns import Turn


class Bucket(Protocol):
    """Where a run's folder is kept."""

    def upload(self, run_dir: Path, run_id: str) -> None:
        """Puts every file there that is not there yet in this form. Raises BucketError."""


class Publisher(Protocol):
    """Where metrics go."""

    def publish(
        self, records: Sequence[Record], llmperf_latencies: Mapping[str, Sequence[float]]
    ) -> None:
        """Publishes what these turns show, each request and turn once. Raises PublishError."""


def make_shipper(
    config: Config, folder: Path, run_id: str, sleep: Callable[[float], None]
) -> Shipper | None:
    """The shipper that the configuration asks for; None where results stay on this machine.

    ``run_id`` is what the folder is called in the bucket.
    """
    if config.bucket is None or config.region is None:
        return None
    # Only here: a run that ships nothing needs no AWS SDK.
    from spectap.aws.bucket import Bucket
    from spectap.aws.cloudwatch import Publisher

    bucket = Bucket(config.bucket, config.region, sleep)
    publisher = Publisher(
        config.experiment,
        config.region,
        folder,
        sleep,
        namespace=namespace(config.model),
        by_load=len(config.load.points) > 1,
        # Of a run that is measured apart the bucket is all that a killed pod leaves.
        keep=partial(bucket.upload, folder, run_id) if config.apart else None,
    )
    return Shipper(folder, bucket, publisher, run_id)


class Shipper:
    """Ships one run's folder."""

    def __init__(
        self, folder: Path, bucket: Bucket, publisher: Publisher, run_id: str | None = None
    ) -> None:
        """``run_id`` is what the folder is called in the bucket, if that is not its name."""
        self._folder, self._bucket, self._publisher = folder, bucket, publisher
        self._run_id = run_id or folder.name
        self._published: set[Turn] = set()

    async def ship(self, turns: Iterable[Turn], records: Sequence[Record]) -> str | None:
        """Uploads the folder, from which metrics can be made, then publishes the new turns.

        ``turns`` are those that will not be measured again; ``records`` may have others, too. Of
        each turn, only the last attempt is published. Returns what went wrong, None if nothing did.
        """
        counted = last_attempts(records)
        try:
            await asyncio.to_thread(self.upload)
            for turn in turns:
                if turn not in self._published:
                    of_turn = [r for r in counted if (r.round, r.case, r.load) == turn]
                    await asyncio.to_thread(self._publish, of_turn)
                    self._published.add(turn)
        except ShippingError as error:
            return str(error)
        return None

    def upload(self) -> None:
        """Uploads the folder. Raises BucketError."""
        self._bucket.upload(self._folder, self._run_id)

    def _publish(self, records: Sequence[Record]) -> None:
        good = [record for record in records if record.succeeded]
        self._publisher.publish(records, llmperf_latencies(self._folder, good))


def llmperf_latencies(folder: Path, records: Iterable[Record]) -> dict[str, list[float]]:
    """llmperf's own inter-token latencies of one attempt, in seconds, by request.

    llmperf does not say which request a value is of, but it lists its requests in the order in
    which they ended. Values and requests are matched from the last backwards. If there are more
    values than requests, the first request takes the rest. A variant without a readable file has no
    entries.
    """
    by_variant: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.sent + record.end):
        by_variant.setdefault(record.variant, []).append(record)
    latencies: dict[str, list[float]] = {}
    for variant, requests in by_variant.items():
        first = requests[0]
        path = load_results(first.case, variant, first.round, first.attempt, first.load)
        values: list[float] = []
        with contextlib.suppress(LoadError):
            values = llmperf.latencies(folder / path)
        if values:
            latencies |= {record.request: [] for record in requests}
        for behind, value in enumerate(reversed(values), start=1):
            latencies[requests[max(len(requests) - behind, 0)].request].append(value)
    return latencies
