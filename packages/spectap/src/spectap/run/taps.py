"""Measures one turn on all variants, each through its tap."""

import asyncio
import contextlib
import resource
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from spectap.errors import LoadError, RunError
from spectap.names import WARM_UP, load_results
from spectap.protocol import limits
from spectap.records import journal
from spectap.records.answer import Answer
from spectap.records.journal import Journal
from spectap.records.record import Record
from spectap.run.turns import Plan, Turn, rotated
from spectap.tap.tap import STALL_SECONDS, Tap, collect_garbage

_OTHER_FILES: Final = 64  # what is open besides requests


@dataclass(frozen=True)
class Patience:
    """The times to wait, in seconds.

    ``start``: for all variants to serve before the first turn. ``recovery``: for them before a
    later turn, and for a variant that serves to answer. ``stall``: for a server that sends nothing,
    before its turn ends. None for ``stall`` is the tap's default, or the load's length where
    requests may queue.
    """

    start: float = 6 * 3600
    recovery: float = 600
    stall: float | None = None


class Taps:
    """A tap before each variant. ``async with`` serves them; ``on_record`` receives each record."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        ledger: Journal,
        on_record: Callable[[Record], None],
        patience: Patience,
    ) -> None:
        self._plan, self._config, self._folder = plan, plan.config, folder
        self._ledger, self._on_record = ledger, on_record
        stall = patience.stall
        if stall is None:
            # Beyond a server's batch, a request may wait in the queue as long as the load lasts.
            queues = any(map(plan.config.overloads, plan.config.load.points))
            most = plan.config.load.timeout_seconds
            stall = max(STALL_SECONDS, most) if queues else STALL_SECONDS
        self._stall_seconds = stall
        self._cases = {case.name: case for case in plan.config.test_cases}
        self._taps: dict[str, Tap] = {}
        self._records: list[Record] = []
        self._drives: dict[str, asyncio.Future[None]] = {}
        self.launch = 0
        """Which launch of the servers is running, from 1; 0 where there is but one."""
        self._round = WARM_UP
        self._left: dict[str, int] = {}
        self.silent: set[str] = set()
        """The variants whose servers were silent for so long that the last turn ended on them."""

    async def __aenter__(self) -> Self:
        """Raises OSError, and RunError where this process may not have enough files open."""
        async with contextlib.AsyncExitStack() as stack:
            for name, url in self._config.endpoints.items():
                tap = Tap(
                    url,
                    run=self._folder.name,
                    variant=name,
                    ledger=self._ledger,
                    renames=True,
                    stall_seconds=self._stall_seconds,
                    on_record=self._note,
                )
                self._taps[name] = await stack.enter_async_context(tap)
            self._check_open_files()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _check_open_files(self) -> None:
        """Checks the limit of open files. A request takes two in a tap, and fewer in the driver."""
        widest = max(point.concurrency or 0 for point in self._config.load.points)
        sides = 1 if self._config.alternate else len(self._taps)
        needed = _OTHER_FILES + 2 * widest * sides
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= allowed < needed:
            raise RunError(
                f"concurrency {widest} takes about {needed:,} file descriptors, and this process "
                f"may have {allowed:,}: raise the limit (ulimit -n), or ask for less at once"
            )

    async def load(self, turn: Turn, attempt: int) -> tuple[list[Record], str | None]:
        """Drives all variants with what the plan sends in this turn.

        Loads run at the same time and stay full until the slowest ends, or one after another where
        variants alternate. Returns the turn's records and what went wrong, or None.
        """
        records = self._records = []
        self.silent, self._round = set(), turn.round
        requests = self._plan.point(turn).requests
        for tap in self._taps.values():
            tap.label(turn.case, turn.round, attempt, turn.load, self.launch)
            tap.short = False
        collect_garbage()
        in_order = rotated(tuple(self._taps), turn.round)
        ended = list[str | None]()
        for group in [[name] for name in in_order] if self._config.alternate else [in_order]:
            self._left = dict.fromkeys(group, requests)
            self._all_ended = asyncio.get_running_loop().create_future()
            ended += await asyncio.gather(*(self._drive(turn, attempt, name) for name in group))
        problems = dict(zip(in_order, ended, strict=True))
        needed = self._config.needed(self._plan.point(turn))
        if any(tap.short for tap in self._taps.values()):
            return records, limits.SHORTAGE
        failures = []
        for name in self._taps:
            of_variant = [r for r in records if r.variant == name and r.round == turn.round]
            problem = problems[name] or _shortfall(of_variant, requests, needed)
            if problem is not None:
                failures.append(f"{name}: {problem}")
        return records, "; ".join(failures) or None

    @property
    def lost(self) -> dict[str, str]:
        """The variants that refuse the tap's fields: which, and what is unknown then."""
        return {name: tap.server.lost for name, tap in self._taps.items() if tap.server.lost}

    def answers(self) -> dict[str, list[Answer]]:
        """The answers of the last turn by variant, where its prompts have names.

        Raises OSError and JournalError.
        """
        return {name: [*journal.read(self._answers(name), Answer)] for name in self._taps}

    async def flush(self) -> None:
        """Waits until all records are on the disk. Raises OSError if one could not be written."""
        await asyncio.to_thread(self._ledger.flush)
        for tap in self._taps.values():
            if tap.failure is not None:
                raise tap.failure

    async def _drive(self, turn: Turn, attempt: int, variant: str) -> str | None:
        point, prompts = self._plan.point(turn), self._plan.sent(turn)
        results = load_results(turn.case, variant, turn.round, attempt, turn.load)
        drive = self._drives[variant] = asyncio.ensure_future(
            self._plan.driver.run(
                model=self._config.models[variant],
                case=self._cases[turn.case],
                prompts=prompts,
                load=self._config.load,
                point=point,
                # All variants get the same schedule and prompts: what differs is not the load.
                seed=f"{turn.case}/{turn.load}/{turn.round}",
                endpoint=self._taps[variant].url,
                results=self._folder / results,
                answers=self._answers(variant) if prompts else None,
                until=self._all_ended,
                fill=self._plan.fill(turn),
            )
        )
        try:
            await drive
        except LoadError as error:
            return str(error)
        except asyncio.CancelledError:
            if variant not in self.silent:
                raise
        finally:
            self._end(variant, point.requests)
        return None

    def _end(self, variant: str, requests: int) -> None:
        """Counts ended requests. Loads end once all that count have ended on each side."""
        self._left[variant] = self._left.get(variant, 0) - requests
        if max(self._left.values()) <= 0 and not self._all_ended.done():
            self._all_ended.set_result(None)

    def _answers(self, variant: str) -> Path:
        """The file of a variant's answers. It is outside the run's folder, because the experiment
        decides whether texts are kept."""
        return self._plan.driver.scratch / f"answers-{variant}.jsonl"

    def _note(self, record: Record) -> None:
        self._records.append(record)
        self._on_record(record)
        if record.round == self._round:
            self._end(record.variant, 1)
        tap = self._taps[record.variant]
        if record.stalled and tap.silent and record.variant not in self.silent:
            # Its further requests would each wait as long. What is in flight has waited, too.
            self.silent.add(record.variant)
            tap.give_up(record.error or "")
            self._drives[record.variant].cancel()


def _shortfall(records: Sequence[Record], requests: int, needed: int) -> str | None:
    """The reason why one variant's requests are too few; None if they are enough.

    All ``requests`` must have been sent, and ``needed`` of them must have succeeded.
    """
    good = sum(record.succeeded for record in records)
    if len(records) >= requests and good >= needed:
        return None
    errors = Counter(record.error for record in records if record.error is not None)
    if not errors:
        return f"{good} of {requests} requests in the time there was"
    error, _ = errors.most_common(1)[0]
    return f"{good} of {requests} requests succeeded: {error}"
