"""One run: each round, each test case, all variants at once."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spectap import wording
from spectap.analysis import crosscheck
from spectap.analysis.grouping import at_load_points
from spectap.config import Config
from spectap.endpoint import greedy, health
from spectap.errors import JournalError, RunError
from spectap.journal import Journal
from spectap.ledger import last_attempts, read_ledger
from spectap.load.cases import of_turn
from spectap.load.driver import Driver
from spectap.load_points import LoadPoint
from spectap.names import CONTROL, LEDGER, WARM_UP
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run import progress
from spectap.run import prompts as prompt_sets
from spectap.run.folder import Observations, Shipper, prepare, writing
from spectap.run.progress import Progress
from spectap.run.taps import UNREADY, Patience, Taps, refused
from spectap.run.turns import Attempts, Turn
from spectap.text import PATHS

_CONTROL_TRIES: Final = 2
"""A variant without an opening control cannot complete."""

_SEND_USAGE: Final = (
    'its tokens cannot be counted. Make it honour stream_options {"include_usage": true}, which is '
    "sent with each request, or send usage always (vLLM: --enable-force-include-usage; LiteLLM: "
    "general_settings: always_include_stream_usage: true)"
)


class Run:
    """A run in its folder. If it was begun before, what is complete is not measured again."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        driver: Driver,
        files: Path = Path(),
        shipper: Shipper | None = None,
        patience: Patience | None = None,
        window: int = 0,
        relaunch: str | None = None,
    ) -> None:
        """``files`` is the folder of the user's prompts. Without a ``shipper``, results stay here.

        ``relaunch`` is a shell's command that restarts the servers, and returns once the old ones
        are gone. Without one, a run of several launches ends after each and asks for the next.

        ``window`` is the widest of the isolated variants that are compared with these.
        Raises RunError where the folder holds something that cannot be continued.
        """
        self._config, self._folder, self._driver = config, folder, driver
        self._files, self._window = files, window
        self._relaunch = relaunch
        self.request: str | None = None
        """The request to a person who must act before the run can go on."""
        self._prompts: Mapping[str, Sequence[Prompt]] = {}
        self._shipper, self._patience = shipper, patience or Patience()
        self._not_serving: str | None = None
        self._not_shipped: str | None = None
        self._control_failed: str | None = None
        prepare(folder, config)
        try:
            self._records = [*at_load_points(config.load, read_ledger(folder / LEDGER))]
            self._attempts = Attempts(folder, config, self._records)
            self._observations = Observations(config, folder)
            self._ledger = Journal(folder / LEDGER)
        except JournalError as error:
            raise RunError(str(error)) from None
        except OSError as error:
            raise RunError(f"{folder}: {error}") from None
        self._end_cases()
        self._progress = Progress(
            total=self._requests(self._attempts.turns), done=self._requests(self._attempts.settled)
        )
        self._say = self._progress.say

    async def execute(self) -> list[str]:
        """Measures what is left to measure, and ships after each turn and at the end.

        Returns a line for each thing that failed: none is success. Raises RunError.
        """
        try:
            if self._attempts.pending or self._control_is_due:
                await self._measure()
            else:
                if not self._attempts.failures:
                    self._say("every case is complete")
                if not (self._folder / greedy.DIVERGENCE).exists():  # ended just before
                    await self._compare_answers()
            await self._ship()
        finally:
            self._progress.close()
            self._attempts.close()
            self._observations.close()
            self._ledger.close()
        return list(self._what_failed())

    @property
    def complete(self) -> bool:
        """Whether all that was to be measured is, and in the folder."""
        return not (self._attempts.pending or self._attempts.failures or self._control_is_due)

    @property
    def shipped(self) -> bool:
        """Whether all that was to leave this machine has left it."""
        return self._not_shipped is None

    @property
    def never_served(self) -> bool:
        """Whether a variant did not serve, and nothing was ever measured."""
        return self._not_serving is not None and not self._records

    @property
    def _control_is_due(self) -> bool:
        """A variant that is measured alone ends with a control."""
        return self._config.isolated and not self._attempts.controlled

    def _what_failed(self) -> Iterator[str]:
        failures = self._attempts.failures
        for turn, failure in failures.items():
            yield f"{self._label(turn)}, round {turn.round}: {failure}"
        not_run = sum(turn not in failures for turn in self._attempts.pending)
        turns = self._at_most(len(self._attempts.turns))
        missing = f"; {not_run} of {turns} turns were not run"
        if self._control_failed is not None and self._control_is_due:
            yield f"control load: {self._control_failed}{missing if not_run else ''}"
        if self._not_serving is not None:
            yield f"{self._not_serving}{missing}"
        for check in crosscheck.check(last_attempts(self._records), self._observations.counts):
            yield from check.failures
        if self._not_shipped is not None:
            yield self._not_shipped

    async def _measure(self) -> None:
        prompt_sets.loaded(self._config, self._files)  # nobody should wait to learn of a bad one
        if not await self._serving(self._patience.start):
            return
        self._prompts = await prompt_sets.prepare(
            self._config, self._files, self._folder, self._window
        )
        taps = Taps(
            self._config,
            self._folder,
            driver=self._driver,
            ledger=self._ledger,
            on_record=self._on_record,
            patience=self._patience,
        )
        async with taps:
            taps.launch = self._attempts.launch
            await self._warm_up(taps)
            silent = taps.silent
            if self._config.isolated and self._attempts.pending and not await self._control(taps):
                return
            # Each turn once: what fails now probably fails again at once, but not after a restart.
            for number in range(1, self._config.load.rounds.at_most + 1):
                turns = [turn for turn in self._attempts.pending if turn.round == number]
                if turns and not await self._launched(number, taps):
                    return
                if turns:
                    await self._until_due(number)
                for turn in turns:
                    if not await self._serving(self._patience.recovery):
                        return
                    await self._attempt(turn, taps)
                    if again := taps.silent & silent:
                        names = wording.listed(sorted(again))
                        self._not_serving = f"{names} answered nothing in two turns on end"
                        return
                    silent = taps.silent
                    # After a failure only once more, at the end: while the run waits for a bucket,
                    # the node costs as much as while it measures.
                    if self._not_shipped is None:
                        await self._ship()
                if turns:
                    for (case, load), rounds in self._end_cases().items():
                        label = self._label(Turn(rounds, case, load))
                        self._say(f"{label}: has enough after {wording.count(rounds, 'round')}")
                    self._progress.expect(self._requests(self._attempts.turns))
            while self._control_is_due:  # twice where the folder has lost the first
                if not await self._control(taps):
                    break
        if not silent:
            await self._compare_answers()

    async def _until_due(self, number: int) -> None:
        """Waits where rounds are spread, and less than a gap has passed since those before."""
        earlier = [record for record in self._records if 0 < record.round < number]
        if not earlier or not self._config.load.spread_minutes:
            return
        last = max(record.round for record in earlier)
        begun = min(record.sent for record in earlier if record.round == last)
        begins = self._config.load.begins(self._folder.name)
        due = begun + begins[number - 1] - begins[last - 1]
        if (wait := due - time.time()) > 0:
            at = f"{datetime.fromtimestamp(due, UTC):%H:%M:%S} UTC"
            minutes = f"{self._config.load.spread_minutes:g} minutes"
            spread = f"rounds are spread over {minutes}"
            self._say(f"round {number} begins at {at}, in {wording.duration(wait)}: {spread}")
            await asyncio.sleep(wait)

    async def _warm_up(self, taps: Taps) -> None:
        """Sends the servers' first requests, which take many times as long as others.

        Says what is to come before it, and how long that takes after it. Raises RunError where a
        server answers no request, or sends no usage: without tokens there is nothing to compare.
        """
        pending = self._attempts.pending
        requests, tokens_in, tokens_out = progress.amounts(
            self._config, pending, self._prompts, self._fill
        )
        together = len(self._config.variants) > 1 and not self._config.alternate
        full = ", and more that keep each load full until the slowest ends" if together else ""
        self._say(
            f"to send: {self._at_most(requests)} requests in "
            f"{self._at_most(len(pending))} {'turn' if len(pending) == 1 else 'turns'}, "
            f"with about {tokens_in:,} tokens in and at most {tokens_out:,} out{full}"
        )
        records, elapsed = await self._warmed_up(taps)
        uncounted = []
        for name, url in self._config.endpoints.items():
            counts = [r.output_tokens for r in records if r.variant == name and r.succeeded]
            if counts and set(counts) == {None}:
                uncounted.append(f"{name} ({url}) streams answers without usage: {_SEND_USAGE}")
        if uncounted:
            raise RunError("\n".join(uncounted))
        expected = progress.seconds(self._config, pending, records, elapsed, self._fill)
        if expected is not None:
            bound = "" if self._config.load.rounds.fixed else "at most "
            self._say(f"going by the warm-up, this takes {bound}about {wording.duration(expected)}")

    async def _warmed_up(self, taps: Taps) -> tuple[Sequence[Record], float]:
        """Sends one wave, and again while a server that says it is ready answers none of it.

        Returns its records and how long it took. Raises RunError where a server refuses, or is not
        ready in time.
        """
        self._say("warming up")
        deadline, before = time.monotonic() + self._patience.recovery, None
        while True:
            start = time.monotonic()
            _, records, failure = await self._wave(WARM_UP, taps)
            end = time.monotonic()
            if failure is not None and failure != before:
                self._say(f"warm-up: {failure}")
            refusals = refused(records)
            if not refusals:
                for name, lost in taps.lost.items():
                    self._say(f"{name} refuses {lost}")
                return records, end - start
            if end >= deadline or any(r.status not in UNREADY for r in refusals.values()):
                path = PATHS[self._config.load.endpoint_type]
                raise RunError(
                    "\n".join(
                        f"{name}: no request to {url}/{path} succeeded: {_refusal(refusals[name])}"
                        for name, url in self._config.endpoints.items()
                        if name in refusals
                    )
                )
            before = failure
            await asyncio.sleep(health.POLL_SECONDS)

    async def _launched(self, round: int, taps: Taps) -> bool:
        """Restarts the servers where the round is in another launch. Returns whether it may begin.

        A launch is noted once the servers have warmed up, so a run that is killed before restarts
        them again.
        """
        launch = self._config.load.launch(round)
        if launch <= self._attempts.launch:
            return True
        of = f"of {self._config.load.launches}"
        if self._relaunch is not None:
            self._say(f"launch {launch} {of}: {self._relaunch}")
            if status := await _status(self._relaunch):
                self._not_serving = (
                    f"launch {launch} {of}: {self._relaunch!r} ended with status {status}"
                )
                return False
            if not await self._serving(self._patience.start):
                return False
            await self._warmed_up(taps)
        elif self._attempts.asked < launch:
            self.request = (
                f"launch {launch - 1} {of} is measured: restart the servers, then run the same "
                f"command with RUN_ID={self._folder.name}"
            )
            with writing(self._folder):
                self._attempts.note_launch(launch, asked=True)
            return False
        with writing(self._folder):
            self._attempts.note_launch(launch)
        taps.launch = launch
        return True

    async def _control(self, taps: Taps) -> bool:
        """Sends the same load each time, which shows what changes; once more where it fails.

        Returns whether it succeeded.
        """
        for _ in range(_CONTROL_TRIES):
            self._say("control load")
            turn, _, failure = await self._wave(CONTROL, taps)
            with writing(self._folder):
                await taps.flush()
                self._attempts.note(turn, failure)
            self._control_failed = failure
            if failure is None:
                return True
            self._say(f"failed: control load: {failure}")
        return False

    async def _wave(self, round: int, taps: Taps) -> tuple[Turn, Sequence[Record], str | None]:
        """A load that is in no figure: one wave of the first test case."""
        point = self._config.wave
        turn = Turn(round, self._config.test_cases[0].name, point.name)
        prompts = self._sent(turn, point)
        records, failure = await taps.load(turn, self._attempts.begin(turn), point, prompts, 0)
        return turn, records, failure

    def _end_cases(self) -> Mapping[tuple[str, str], int]:
        """Ends the test cases, load point by load point, that have been measured often enough.

        Returns the last round of each that this ended.
        """
        if self._config.load.rounds.fixed or not self._records:
            return {}
        # Imported here: the statistics take a while, and other runs need them only at their end.
        from spectap.analysis import stopping

        counted = last_attempts(self._records)
        return self._attempts.end(stopping.last_rounds(self._config, counted))

    def _at_most(self, amount: int) -> str:
        """``amount``, which is an upper bound where test cases may end early."""
        return f"{'' if self._config.load.rounds.fixed else 'at most '}{amount:,}"

    def _requests(self, turns: Sequence[Turn]) -> int:
        of_turns = sum(self._point(turn).requests for turn in turns)
        return of_turns * len(self._config.variants)

    def _point(self, turn: Turn) -> LoadPoint:
        return self._config.load.point(turn.load)

    def _label(self, turn: Turn) -> str:
        """The test case, with the load point where there are several."""
        several = len(self._config.load.points) > 1
        return f"{turn.case} at {self._point(turn)}" if several else turn.case

    async def _compare_answers(self) -> None:
        """Asks the variants directly, when nothing is measured any more, and all of them serve."""
        if self._config.isolated:
            return
        self._say("comparing the answers")
        divergences = await greedy.compare(self._config, self._prompts)
        if not divergences and len(self._config.variants) > 1:
            self._say("no answers could be compared: a server gave none to what it was asked")
        with writing(self._folder):
            greedy.write(self._folder, divergences)

    async def _serving(self, patience_seconds: float) -> bool:
        """Waits until all variants serve. Returns whether they do; if not, remembers which."""
        endpoints = self._config.endpoints
        problems = await health.wait(endpoints, patience_seconds=patience_seconds, say=self._say)
        if problems:
            self._not_serving = "; ".join(problems)
        return not problems

    async def _attempt(self, turn: Turn, taps: Taps) -> None:
        rounds, label = self._at_most(self._config.load.rounds.at_most), self._label(turn)
        self._progress.begin(f"round {turn.round} of {rounds}: {label}")
        point = self._point(turn)
        prompts = self._sent(turn, point)
        before = await self._observations.scrape()
        attempt = self._attempts.begin(turn)
        fill = self._fill(turn)
        records, failure = await taps.load(turn, attempt, point, prompts, fill)
        after = await self._observations.scrape()
        with writing(self._folder):
            await taps.flush()
            self._observations.count(turn, records, before, after)
            self._attempts.note(turn, failure)
            if prompts:
                try:
                    self._observations.check(turn, attempt, prompts[fill:], taps.answers())
                except JournalError as error:  # the driver's file
                    self._say(f"answers not checked: {label}, round {turn.round}: {error}")
        if failure is not None:
            self._say(f"failed: {label}, round {turn.round}: {failure}")

    def _sent(self, turn: Turn, point: LoadPoint) -> Sequence[Prompt]:
        prompts, load = self._prompts.get(turn.case, ()), self._config.load
        return of_turn(prompts, load, turn.round, point, self._fill(turn))

    def _fill(self, turn: Turn) -> int:
        """How many requests come before those that count: none in a load that is in no figure."""
        if turn.round <= WARM_UP:
            return 0
        load, named = self._config.load, bool(self._prompts.get(turn.case))
        point = self._point(turn)
        return 0 if self._driver.uses_llmperf(load, point, named=named) else point.fill

    async def _ship(self) -> None:
        if self._shipper is None:
            return
        self._not_shipped = await self._shipper.ship(self._attempts.settled, self._records)
        if self._not_shipped is not None:
            self._say(self._not_shipped)

    def _on_record(self, record: Record) -> None:
        self._records.append(record)
        if record.round > WARM_UP:
            self._progress.advance()


def _refusal(record: Record) -> str:
    error = record.error or ""
    # Of a base model, vLLM says that it has no chat template.
    wrong = record.status in (404, 405) or "chat template" in error
    return f"{error}; does it serve that API? --endpoint-type names another" if wrong else error


async def _status(command: str) -> int:
    """Runs a shell's command, whose output is seen; returns its exit status."""
    process = await asyncio.create_subprocess_shell(command)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        raise
