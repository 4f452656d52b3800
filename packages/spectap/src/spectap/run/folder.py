"""A run's folder: whose it is, and what a turn leaves there besides the ledger."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from spectap import config as configuration
from spectap.answer import Answer
from spectap.checks import checked
from spectap.config import Config
from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS, Count, Page
from spectap.errors import ConfigError, RunError
from spectap.journal import Journal, refuse_links, write_whole
from spectap.names import ANSWERS, COMPLETE, CONFIG
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.turns import Turn

_THEN: Final = ", then "


def prepare(folder: Path, config: Config) -> None:
    """Creates the folder, or checks that it belongs to this configuration. Raises RunError.

    What may change between two pods (``config.differences``) is updated; a changed setting keeps
    its earlier value before ``, then``. The configuration of what is complete stays.
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
            config = config.model_copy(update={"settings": _of_both(begun, config)})
            write_whole(path, [configuration.dump(config).encode()])
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raises RunError in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error}") from None


def _of_both(begun: Config, current: Config) -> dict[str, str]:
    settings = {}
    for key, value in current.settings.items():
        before = begun.settings.get(key, value)
        settings[key] = before if before.split(_THEN)[-1] == value else f"{before}{_THEN}{value}"
    return settings


class Observations:
    """The servers' own counts, and whether answers are right, of each turn of a run."""

    def __init__(self, config: Config, folder: Path) -> None:
        """Raises JournalError and OSError."""
        self._config = config
        self.counts = [*counters.read(folder / COUNTERS)]
        """Counts of each server in each turn."""
        self._counters, self._answers = Journal(folder / COUNTERS), Journal(folder / ANSWERS)

    async def scrape(self) -> dict[str, Page]:
        """Reads the counters of each server that counts."""
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
        """Notes what each server counted in a turn. Raises OSError."""
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
        """Notes of each answer, by variant, whether it is what it had to be. Raises OSError."""
        of_turn = turn._asdict() | {"attempt": attempt}
        for answer in checked(self._config, answers, prompts, **of_turn):
            self._answers.append(answer)
        self._answers.flush()

    def close(self) -> None:
        self._counters.close()
        self._answers.close()
