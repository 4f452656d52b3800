"""Measures one run: round by round and case by case, all variants at once."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spectap import wording
from spectap.analysis import crosscheck
from spectap.analysis.grouping import at_load_points
from spectap.endpoint import greedy, health
from spectap.errors import JournalError, RunError
from spectap.inputs.config import Config
from spectap.load.driver import Driver
from spectap.names import CONTROL, LEDGER, WARM_UP
from spectap.records.journal import Journal, write_json
from spectap.records.ledger import last_attempts, read_ledger
from spectap.records.record import Record
from spectap.run import prompts as prompt_sets
from spectap.run.folder import Observations, Shipper, prepare, writing
from spectap.run.progress import Progress
from spectap.run.taps import Patience, Taps
from spectap.run.turns import Attempts, Plan, Turn
from spectap.run.warm_up import check_usage, warm_up

_CONTROL_TRIES: Final = 2
"""Attempts at a control. A variant without an opening control cannot complete."""


class _Stopped(Exception):
    """The remaining turns cannot be run. The text says why, unless a person must act first."""


class Run:
    """A run in its folder. Turns that are complete there are not measured again."""

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
        self._config, self._folder = config, folder
        self._plan = Plan(config, driver)
        self._files, self._window = files, window
        self._relaunch = relaunch
        self.request: str | None = None
        """What a person is asked to do before the run can go on."""
        self.shipper, self._patience = shipper, patience or Patience()
        self.never_served = False
        """Whether a variant never served and nothing was ever measured."""
        self._stopped = ""
        self._not_shipped: str | None = None
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
        turns, settled = self._attempts.turns, self._attempts.settled
        self._progress = Progress(self._plan.counted(turns), self._plan.counted(settled))
        self._say = self._progress.say

    async def execute(self) -> list[str]:
        """Measures the remaining turns, and ships after each turn and at the end.

        Returns a line for each thing that failed; none is success. Raises RunError.
        """
        try:
            if self._attempts.pending or self._control_is_due:
                try:
                    await self._measure()
                except _Stopped as reason:
                    self._stopped = str(reason)
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
        """Whether all that was to be measured is in the folder."""
        return not (self._attempts.pending or self._attempts.failures or self._control_is_due)

    @property
    def shipped(self) -> bool:
        """Whether all results have been shipped."""
        return self._not_shipped is None

    @property
    def _control_is_due(self) -> bool:
        """Whether a variant that is measured alone still needs its closing control."""
        return self._config.isolated and not self._attempts.controlled

    def _what_failed(self) -> Iterator[str]:
        failures = self._attempts.failures
        for turn, failure in failures.items():
            yield f"{self._plan.label(turn)}, round {turn.round}: {failure}"
        not_run = sum(turn not in failures for turn in self._attempts.pending)
        turns = self._at_most(len(self._attempts.turns))
        if self._stopped:
            yield self._stopped + (f"; {not_run} of {turns} turns were not run" if not_run else "")
        for check in crosscheck.check(last_attempts(self._records), self._observations.counts):
            yield from check.failures
        if self._not_shipped is not None:
            yield self._not_shipped

    async def _measure(self) -> None:
        prompt_sets.loaded(self._config, self._files)  # nobody should wait to learn of a bad one
        await self._wait(self._patience.start)
        prompts = await prompt_sets.prepare(self._config, self._files, self._folder, self._window)
        self._plan = replace(self._plan, prompts=prompts)
        taps = Taps(
            self._plan,
            self._folder,
            ledger=self._ledger,
            on_record=self._on_record,
            patience=self._patience,
        )
        async with taps:
            taps.launch = self._attempts.launch
            await self._warm_up(taps)
            silent = taps.silent
            if self._config.isolated and self._attempts.pending:
                await self._control(taps)
            for number in range(1, self._config.load.rounds.at_most + 1):
                if turns := [turn for turn in self._attempts.pending if turn.round == number]:
                    await self._launch(number, taps)
                    await self._until_due(number)
                    silent = await self._round(turns, taps, silent)
            while self._control_is_due:  # twice where the folder has lost the first
                await self._control(taps)
        if not silent:
            await self._compare_answers()

    async def _round(self, turns: Sequence[Turn], taps: Taps, silent: set[str]) -> set[str]:
        """Measures each turn of a round once. A failed one is not repeated at once, when it would
        probably fail again, but after a restart.

        ``silent`` are the variants that answered nothing in the last turn. Returns those of the
        last turn of this round.
        """
        for turn in turns:
            await self._wait(self._patience.recovery)
            await self._attempt(turn, taps)
            if again := taps.silent & silent:
                names = wording.listed(sorted(again))
                raise _Stopped(f"{names} answered nothing in two turns on end")
            silent = taps.silent
            # After a failure only once more, at the end: while the run waits for a bucket,
            # the node costs as much as while it measures.
            if self._not_shipped is None:
                await self._ship()
        for (case, load), rounds in self._end_cases().items():
            label = self._plan.label(Turn(rounds, case, load))
            self._say(f"{label}: has enough after {wording.count(rounds, 'round')}")
        self._progress.expect(self._plan.counted(self._attempts.turns))
        return silent

    async def _until_due(self, number: int) -> None:
        """Waits until the round is due, where rounds are spread over time."""
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
        """Prints what will be measured, and warms the servers up."""
        pending = self._attempts.pending
        together = len(self._config.variants) > 1 and not self._config.alternate
        full = ", and more that keep each load full until the slowest ends" if together else ""
        self._say(
            f"to send: {self._at_most(self._plan.requests(pending))} requests in "
            f"{self._at_most(len(pending))} {'turn' if len(pending) == 1 else 'turns'}{full}"
        )
        check_usage(self._config, await self._warmed_up(taps))

    async def _warmed_up(self, taps: Taps) -> Sequence[Record]:
        async def wave() -> tuple[Sequence[Record], str | None]:
            _, records, failure = await self._wave(WARM_UP, taps)
            return records, failure

        records = await warm_up(self._config, wave, self._patience.recovery, self._say)
        for name, lost in taps.lost.items():
            self._say(f"{name} refuses {lost}")
        return records

    async def _launch(self, round: int, taps: Taps) -> None:
        """Restarts the servers if the round belongs to another launch.

        A launch is recorded once the servers have warmed up, so a run that is killed before
        restarts them again.
        """
        launch = self._config.load.launch(round)
        if launch <= self._attempts.launch:
            return
        of = f"of {self._config.load.launches}"
        if self._relaunch is not None:
            self._say(f"launch {launch} {of}: {self._relaunch}")
            if status := await _status(self._relaunch):
                raise _Stopped(
                    f"launch {launch} {of}: {self._relaunch!r} ended with status {status}"
                )
            await self._wait(self._patience.start)
            await self._warmed_up(taps)
        elif self._attempts.asked < launch:
            self.request = (
                f"launch {launch - 1} {of} is measured: restart the servers, then run the same "
                f"command with RUN_ID={self._folder.name}"
            )
            with writing(self._folder):
                self._attempts.note_launch(launch, asked=True)
            raise _Stopped
        with writing(self._folder):
            self._attempts.note_launch(launch)
        taps.launch = launch

    async def _control(self, taps: Taps) -> None:
        """Sends a control load, which shows what changed; again where it fails."""
        for _ in range(_CONTROL_TRIES):
            self._say("control load")
            turn, _, failure = await self._wave(CONTROL, taps)
            with writing(self._folder):
                await taps.flush()
                self._attempts.note(turn, failure)
            if failure is None:
                return
            self._say(f"failed: control load: {failure}")
        raise _Stopped(f"control load: {failure}")

    async def _wave(self, round: int, taps: Taps) -> tuple[Turn, Sequence[Record], str | None]:
        turn = self._plan.wave(round)
        records, failure = await taps.load(turn, self._attempts.begin(turn))
        return turn, records, failure

    def _end_cases(self) -> Mapping[tuple[str, str], int]:
        """Ends the test cases, by load point, that have been measured often enough.

        Returns the last round of each that this ended.
        """
        if self._config.load.rounds.fixed or not self._records:
            return {}
        # Imported here: the statistics take a while, and other runs need them only at their end.
        from spectap.analysis import stopping

        counted = last_attempts(self._records)
        return self._attempts.end(stopping.last_rounds(self._config, counted))

    def _at_most(self, amount: int) -> str:
        """``amount`` in words, as an upper bound where test cases may end early."""
        return f"{'' if self._config.load.rounds.fixed else 'at most '}{amount:,}"

    async def _compare_answers(self) -> None:
        """Compares greedy answers, without taps, once measuring is over and all variants serve."""
        if self._config.isolated:
            return
        self._say("comparing the answers")
        divergences = await greedy.compare(self._config, self._plan.prompts)
        if not divergences and len(self._config.variants) > 1:
            self._say("no answers could be compared: a server gave none to what it was asked")
        with writing(self._folder):
            write_json(self._folder / greedy.DIVERGENCE, divergences)

    async def _wait(self, patience_seconds: float) -> None:
        """Waits until all variants serve."""
        endpoints = self._config.endpoints
        problems = await health.wait(endpoints, patience_seconds=patience_seconds, say=self._say)
        if problems:
            self.never_served = not self._records
            raise _Stopped("; ".join(problems))

    async def _attempt(self, turn: Turn, taps: Taps) -> None:
        rounds, label = self._at_most(self._config.load.rounds.at_most), self._plan.label(turn)
        self._progress.begin(f"round {turn.round} of {rounds}: {label}")
        before = await self._observations.scrape()
        attempt = self._attempts.begin(turn)
        records, failure = await taps.load(turn, attempt)
        after = await self._observations.scrape()
        with writing(self._folder):
            await taps.flush()
            self._observations.count(turn, records, before, after)
            self._attempts.note(turn, failure)
            if prompts := self._plan.sent(turn)[self._plan.fill(turn) :]:
                try:
                    self._observations.check(turn, attempt, prompts, taps.answers())
                except JournalError as error:  # the driver's file
                    self._say(f"answers not checked: {label}, round {turn.round}: {error}")
        if failure is not None:
            self._say(f"failed: {label}, round {turn.round}: {failure}")

    async def _ship(self) -> None:
        if self.shipper is None:
            return
        self._not_shipped = await self.shipper.ship(self._attempts.settled, self._records)
        if self._not_shipped is not None:
            self._say(self._not_shipped)

    def _on_record(self, record: Record) -> None:
        self._records.append(record)
        if record.round > WARM_UP:
            self._progress.advance()


async def _status(command: str) -> int:
    """Runs a shell command with its output shown; returns its exit status."""
    process = await asyncio.create_subprocess_shell(command)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        raise
