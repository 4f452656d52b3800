"""One run: each round, each test case, both endpoints at once; results first, then metrics."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from benchmark import config as configuration
from benchmark import wording
from benchmark.analysis import crosscheck
from benchmark.config import Config, TestCase
from benchmark.endpoint import counters, greedy, health
from benchmark.endpoint.counters import COUNTERS, Count, Counters
from benchmark.errors import ConfigError, LedgerError, LoadError, RunError, ShippingError
from benchmark.journal import Journal
from benchmark.ledger import read_ledger
from benchmark.load import llmperf
from benchmark.load.driver import Driver
from benchmark.names import VARIANTS
from benchmark.record import Record
from benchmark.run.attempts import Pair, State
from benchmark.run.console import Progress
from benchmark.tap.tap import STALL_SECONDS, Tap, settle

CONFIG: Final = "config.json"
LEDGER: Final = "ledger.jsonl"
LLMPERF: Final = "llmperf"
WARM_UP: Final = 0


class Bucket(Protocol):
    """Where a run's folder is kept."""

    def upload(self, run_dir: Path) -> None:
        """Puts every file there that is not there yet in this form."""


class Publisher(Protocol):
    """Where metrics go."""

    def publish(
        self,
        case: str,
        round: int,
        records: Sequence[Record],
        llmperf_itl: Mapping[str, Sequence[float]],
    ) -> None:
        """Publishes the values of one pair, once."""


@dataclass(frozen=True)
class Patience:
    """Seconds to wait: for the endpoints to come up, for one to come back, for a silent one."""

    start: float = 6 * 3600
    recovery: float = 600
    stall: float = STALL_SECONDS
    poll: float = health.POLL_SECONDS
    grace: float = 300


def prepare(folder: Path, config: Config) -> None:
    """Makes the run's folder, or checks that it is this run's. Raises RunError."""
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.write_text(configuration.dump(config), encoding="utf-8")
            draft.replace(path)
        elif configuration.read(path) != config:
            raise RunError(f"{path}: this run was begun with another configuration: new RUN_ID")
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(str(error)) from None


class Run:
    """A run in its folder. It may have been begun before: what is complete is not done again."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        driver: Driver,
        store: Bucket,
        publisher: Publisher,
        patience: Patience = Patience(),
    ) -> None:
        """Raises RunError where the folder holds something that cannot be continued."""
        self._config, self._folder, self._driver = config, folder, driver
        self._store, self._publisher = store, publisher
        self._patience = patience
        self._shipping_problem: str | None = None
        self._stopped: str | None = None
        self._cases = {case.name: case for case in config.test_cases}
        prepare(folder, config)
        try:
            self._records = read_ledger(folder / LEDGER)
            self._state = State(folder, config, self._records)
            self._counts = [*counters.read(folder / COUNTERS)]
            self._ledger = Journal(folder / LEDGER)
            self._counters = Journal(folder / COUNTERS)
        except (LedgerError, OSError, ValueError, KeyError) as error:
            raise RunError(f"{folder}: {error}") from None
        requests = config.load.requests * len(VARIANTS)
        self._progress = Progress(
            total=requests * len(self._state.pairs), done=requests * len(self._state.settled)
        )

    async def execute(self) -> list[str]:
        """Runs what is to be run and ships all of it.

        Returns a line for each thing that failed: none is success. Raises RunError.
        """
        try:
            if self._state.pending:
                await self._measure()
            else:
                self._say("every case is complete")
            await self._ship()
        finally:
            self._progress.close()
            self._state.close()
            self._counters.close()
            self._ledger.close()
        return list(self._what_failed())

    def _what_failed(self) -> Iterator[str]:
        failures = self._state.failures
        for pair, failure in failures.items():
            yield f"{pair.case}, round {pair.round}: {failure}"
        not_run = sum(pair not in failures for pair in self._state.pending)
        if self._stopped is not None:
            yield f"{self._stopped}; {not_run} of {len(self._state.pairs)} cases were not run"
        for check in crosscheck.check(self._records, self._counts):
            yield from check.failures
        if self._shipping_problem is not None:
            yield self._shipping_problem

    async def _measure(self) -> None:
        self._stopped = await self._wait(self._patience.start)
        if self._stopped is not None:
            return
        async with contextlib.AsyncExitStack() as stack:
            taps = {
                variant: await stack.enter_async_context(self._tap(variant)) for variant in VARIANTS
            }
            await self._warm_up(taps)
            for pair in self._state.pending:
                self._stopped = await self._wait(self._patience.recovery)
                if self._stopped is not None:
                    return
                await self._attempt(pair, taps)
                if self._shipping_problem is None:
                    await self._ship()
        await self._compare_answers()

    async def _compare_answers(self) -> None:
        """Asks past the taps, when nothing is measured any more."""
        self._say("comparing the answers")
        try:
            greedy.write(self._folder, await greedy.compare(self._config))
        except OSError as error:
            raise RunError(f"{self._folder}: cannot be written: {error}") from None

    def _tap(self, variant: str) -> Tap:
        return Tap(
            self._config.endpoints[variant],
            run=self._folder.name,
            variant=variant,
            ledger=self._ledger,
            stall_seconds=self._patience.stall,
            on_record=self._on_record,
        )

    async def _wait(self, patience_seconds: float) -> str | None:
        """Returns why it is of no use to go on, None if both endpoints serve."""
        problems = await health.wait(
            self._config.endpoints,
            patience_seconds=patience_seconds,
            say=self._say,
            poll_seconds=self._patience.poll,
        )
        if not problems:
            return None
        return f"not serving after {wording.duration(patience_seconds)}: {'; '.join(problems)}"

    async def _warm_up(self, taps: Mapping[str, Tap]) -> None:
        """One full wave, left out: the first requests of a server take many times as long."""
        self._say("warming up")
        pair = Pair(WARM_UP, self._config.test_cases[0].name)
        failure = await self._load(pair, taps, self._config.load.concurrency)
        if failure is not None:
            self._say(f"warm-up: {failure}")

    async def _attempt(self, pair: Pair, taps: Mapping[str, Tap]) -> None:
        self._say(f"round {pair.round} of {self._config.load.rounds}: {pair.case}")
        first, before = len(self._records), await self._scrape()
        failure = await self._load(pair, taps, self._config.load.requests)
        try:
            self._count(pair, self._records[first:], before, await self._scrape())
            await asyncio.to_thread(self._ledger.flush)
            broken = [tap.failure for tap in taps.values() if tap.failure is not None]
            if broken:
                raise broken[0]
            self._state.note(pair, failure)
        except OSError as error:
            raise RunError(f"{self._folder}: cannot be written: {error}") from None
        if failure is not None:
            self._say(f"failed: {pair.case}, round {pair.round}: {failure}")

    async def _scrape(self) -> dict[str, Counters]:
        """What the endpoints have counted so far, of those that count."""
        found = await asyncio.gather(
            *(counters.scrape(self._config.endpoints[variant]) for variant in VARIANTS)
        )
        return {
            variant: counted
            for variant, counted in zip(VARIANTS, found, strict=True)
            if counted is not None
        }

    def _count(
        self,
        pair: Pair,
        records: Sequence[Record],
        before: Mapping[str, Counters],
        after: Mapping[str, Counters],
    ) -> None:
        for variant in VARIANTS:
            if variant not in before or variant not in after:
                continue
            count = Count(
                case=pair.case,
                round=pair.round,
                variant=variant,
                requests=tuple(r.request for r in records if r.variant == variant),
                counters=after[variant].since(before[variant]),
            )
            self._counters.append(count)
            self._counts.append(count)

    async def _load(self, pair: Pair, taps: Mapping[str, Tap], requests: int) -> str | None:
        """Drives both endpoints at once; returns what went wrong, None if nothing did."""
        first = len(self._records)
        for tap in taps.values():
            tap.label(pair.case, pair.round)
        settle()
        problems = await asyncio.gather(
            *(self._drive(pair, variant, tap.url, requests) for variant, tap in taps.items())
        )
        attempt = self._records[first:]
        lines = []
        for variant, problem in zip(taps, problems, strict=True):
            own = [record for record in attempt if record.variant == variant]
            problem = problem or _shortfall(own, requests)
            if problem is not None:
                lines.append(f"{variant}: {problem}")
        return "; ".join(lines) or None

    async def _drive(self, pair: Pair, variant: str, url: str, requests: int) -> str | None:
        try:
            await self._driver.run(
                model=self._config.model,
                case=self._case(pair),
                shape=self._config.load,
                requests=requests,
                endpoint=url,
                results=self._results(pair, variant),
                grace_seconds=self._patience.grace,
            )
        except LoadError as error:
            return str(error)
        return None

    async def _ship(self) -> None:
        """Uploads everything, then publishes what is settled.

        Raw results first: metrics can be made from them again, they cannot be made from metrics.
        When it fails in mid-run, that is said once and left to the end, for a node that waits for
        a store costs as much as one that measures.
        """
        self._shipping_problem = None
        try:
            await asyncio.to_thread(self._store.upload, self._folder)
            for pair in self._state.settled:
                records = [
                    record
                    for record in self._records
                    if (record.round, record.case) == pair and record.succeeded
                ]
                await asyncio.to_thread(
                    self._publisher.publish, pair.case, pair.round, records, self._published(pair)
                )
        except ShippingError as error:
            self._shipping_problem = str(error)
            self._say(str(error))

    def _published(self, pair: Pair) -> dict[str, list[float]]:
        """llmperf's own inter-token latencies of one pair, by variant."""
        found: dict[str, list[float]] = {}
        for variant in VARIANTS:
            with contextlib.suppress(LoadError):
                found[variant] = [
                    response.inter_token_latency
                    for response in llmperf.responses(self._results(pair, variant))
                    if response.error is None and response.inter_token_latency > 0
                ]
        return found

    def _results(self, pair: Pair, variant: str) -> Path:
        return self._folder / LLMPERF / pair.case / variant / f"round-{pair.round}"

    def _case(self, pair: Pair) -> TestCase:
        return self._cases[pair.case]

    def _on_record(self, record: Record) -> None:
        self._records.append(record)
        if record.round != WARM_UP:
            self._progress.advance()

    def _say(self, text: str) -> None:
        self._progress.say(text)


def _shortfall(records: Sequence[Record], requests: int) -> str | None:
    """What keeps the requests of one endpoint from being enough."""
    good = sum(record.succeeded for record in records)
    if good >= requests:
        return None
    errors = Counter(record.error for record in records if record.error is not None)
    if not errors:
        return f"{good} of {requests} requests in the time there was"
    error, _ = errors.most_common(1)[0]
    return f"{good} of {requests} requests succeeded: {error}"
