"""A run's folder: its owner, what a turn stores besides the ledger, and where it is sent.

The folder goes to the bucket, and its metrics go to CloudWatch.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS, Count, Page
from spectap.errors import ConfigError, RunError, ShippingError
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.inputs.prompt import Prompt
from spectap.names import ANSWERS, COMPLETE, CONFIG, namespace
from spectap.records.answer import Answer
from spectap.records.journal import Journal, refuse_links, write_whole
from spectap.records.ledger import last_attempts
from spectap.records.record import Record
from spectap.run.checks import checked
from spectap.run.turns import Turn


def prepare(folder: Path, config: Config) -> None:
    """Creates the folder, or checks that it belongs to this configuration. Raises RunError.

    Fields that may change between two pods (``config.differences``) are updated. A complete run
    keeps its configuration.
    """
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        if not path.exists():
            write_whole(path, [configuration.dump(config).encode()])
            return
        begun = configuration.read(path)
        if changed := configuration.differences(begun, config):
            raise RunError(
                f"{path}: this run was begun with another configuration ({', '.join(changed)}): "
                "set a new RUN_ID"
            )
        if begun != config and not (folder / COMPLETE).exists():
            write_whole(path, [configuration.dump(config).encode()])
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an OSError into a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error}") from None


class Observations:
    """The servers' own counts of each turn, and the checks of its answers."""

    def __init__(self, config: Config, folder: Path) -> None:
        """Raises JournalError and OSError."""
        self._config = config
        self.counts = [*counters.read(folder / COUNTERS)]
        """Counts of each server in each turn."""
        self._counters, self._answers = Journal(folder / COUNTERS), Journal(folder / ANSWERS)

    async def scrape(self) -> dict[str, Page]:
        endpoints, models = self._config.endpoints, self._config.models
        scraped = await asyncio.gather(
            *(counters.scrape(url, models[name]) for name, url in endpoints.items())
        )
        return {name: page for name, page in zip(endpoints, scraped, strict=True) if page}

    def count(
        self,
        turn: Turn,
        records: Sequence[Record],
        before: Mapping[str, Page],
        after: Mapping[str, Page],
    ) -> None:
        """Stores what each server counted in a turn. Raises OSError."""
        for variant in [name for name in before if name in after]:
            count = Count(
                **turn._asdict(),
                variant=variant,
                requests=tuple(r.request for r in records if r.variant == variant),
                counters=after[variant].since(before[variant]),
                obstacle=after[variant].obstacle_since(before[variant]),
            )
            self._counters.append(count)
            self.counts.append(count)

    def check(
        self,
        turn: Turn,
        attempt: int,
        prompts: Sequence[Prompt],
        answers: Mapping[str, Sequence[Answer]],
    ) -> None:
        """Stores for each answer, by variant, whether it passes its check. Raises OSError."""
        of_turn = turn._asdict() | {"attempt": attempt}
        for answer in checked(self._config, answers, prompts, **of_turn):
            self._answers.append(answer)
        self._answers.flush()

    def close(self) -> None:
        self._counters.close()
        self._answers.close()


class Shipper:
    """Ships one run's folder."""

    def __init__(
        self, upload: Callable[[], None], publish: Callable[[Sequence[Record]], None]
    ) -> None:
        """``upload`` uploads the folder, and ``publish`` publishes each request and turn once.

        Both raise ShippingError.
        """
        self.upload, self._publish = upload, publish
        self._published: set[Turn] = set()

    async def ship(self, turns: Iterable[Turn], records: Sequence[Record]) -> str | None:
        """Uploads the folder, from which metrics can be made again, then publishes the new turns.

        ``turns`` are those that will not be measured again; ``records`` may have others as well.
        Only the last attempt at a turn is published. Returns what went wrong, or None.
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
