"""Takes a run's results off this machine: its folder to the bucket, its metrics to CloudWatch."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from spectap.config import Config
from spectap.errors import ShippingError
from spectap.ledger import last_attempts
from spectap.names import namespace
from spectap.record import Record
from spectap.run.turns import Turn


class Shipper:
    """Ships one run's folder."""

    def __init__(
        self, upload: Callable[[], None], publish: Callable[[Sequence[Record]], None]
    ) -> None:
        """``upload`` uploads the folder, and ``publish`` publishes each request and turn once.

        They raise ShippingError.
        """
        self.upload, self._publish = upload, publish
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

    upload = partial(Bucket(config.bucket, config.region, sleep).upload, folder, run_id)
    publisher = Publisher(
        config.experiment,
        config.region,
        folder,
        sleep,
        namespace=namespace(config.model),
        by_load=len(config.load.points) > 1,
        # Of an isolated variant the bucket is all that a killed pod leaves.
        keep=upload if config.isolated else None,
    )
    return Shipper(upload, publisher.publish)
