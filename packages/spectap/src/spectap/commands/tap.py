"""``tap``: serves the tap until a signal, and prints what passed."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from spectap import wording
from spectap.commands.arguments import Command, add_trust, base_url, name, whole_number
from spectap.errors import ConfigError, JournalError
from spectap.protocol import access
from spectap.records.journal import Journal
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from spectap.tap.monitor import Monitor
from spectap.tap.proxy import LOOPBACK
from spectap.tap.tap import Tap, collect_garbage
from spectap.wording import printable

_PORT: Final = 8001  # beside 8000, where vLLM listens

# The client's own timeout decides, not the tap's: an answer that is not a stream may take long.
_STALL_SECONDS: Final = 3600.0
_COUNT_SECONDS: Final = 10.0


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--upstream", type=base_url, required=True, metavar="URL", help="the server's base URL")
    add("--ledger", type=Path, required=True, metavar="FILE", help="takes a line for each request")
    add("--port", type=whole_number(0, 65535), default=_PORT, help="0 takes a free one")
    reach = "where the tap listens; 0.0.0.0 lets other machines in"
    add("--host", type=ip_address, default=LOOPBACK, metavar="ADDRESS", help=reach)
    add_trust(add)
    add("--variant", type=name, default="Base", metavar="NAME", help="of the server")
    add("--case", type=name, default="all", metavar="NAME", help="test case")


def tap(arguments: argparse.Namespace) -> int:
    """``tap``: stands before any OpenAI-compatible server and records what passes.

    Clients use the base URL that it prints; every 10 s a line counts what has passed, and
    /spectap/metrics has it for Prometheus. Ctrl-C prints the table of what passed. An existing
    ledger is appended to, an empty one is removed.
    """
    path: Path = arguments.ledger
    _check(path)
    access.trust(arguments.ca, anyone=arguments.insecure)
    # With the process id: two taps may begin in one second and share a ledger.
    session = time.strftime(f"tap-%Y%m%d-%H%M%S-{os.getpid()}", time.gmtime())
    existed = path.exists()
    try:
        journal = Journal(path)
    except OSError as error:
        raise JournalError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with journal:
            failure = asyncio.run(_serve(arguments, session, journal))
        if records := [record for record in read_ledger(path) if record.run == session]:
            # Imported here: numpy takes a while, and clients wait for the URL.
            from spectap.analysis.summarise import summarise_ledgers
            from spectap.report import run_view, terminal

            terminal.show(run_view.of_ledgers(summarise_ledgers(records)))
        else:
            print("no completion was recorded")
    finally:
        if not existed and path.stat().st_size == 0:
            path.unlink()
    if path.exists():
        print(f"ledger: {path}")
    if failure is not None:
        print(f"spectap: failed: {path}: cannot be written: {failure.strerror}", file=sys.stderr)
    return 0 if failure is None else 1


COMMAND: Final = Command(tap, _add_options)


async def _serve(arguments: argparse.Namespace, session: str, journal: Journal) -> OSError | None:
    """Serves until a signal ends it; returns the ledger's failure, if there was one."""
    ended = asyncio.Event()
    passed = Counter[bool]()  # by success

    def note(record: Record) -> None:
        passed[record.succeeded] += 1
        monitor.note(record)

    def counts() -> str:
        problem = f"ledger: {server.failure.strerror}; " if server.failure is not None else ""
        return (
            f"{problem}{wording.count(passed.total(), 'request')}, {server.in_flight} in flight, "
            f"{wording.count(passed[False], 'error')}"
        )

    for by in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(by, ended.set)
    monitor = Monitor(lambda: server.in_flight)
    server = Tap(
        arguments.upstream,
        run=session,
        variant=arguments.variant,
        ledger=journal,
        host=str(arguments.host),
        port=arguments.port,
        stall_seconds=_STALL_SECONDS,
        on_record=note,
        page=monitor.page,
    )
    server.label(arguments.case, round=1)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise ConfigError(f"--port {arguments.port}: cannot listen there: {reason}") from None
        print(server.url, flush=True)
        print(f"records what passes to {arguments.upstream}; Ctrl-C ends the tap", file=sys.stderr)
        collect_garbage()
        printed = counts()
        while not ended.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ended.wait(), _COUNT_SECONDS)
            if (line := counts()) != printed:
                print(line, file=sys.stderr, flush=True)
                printed = line
        if server.unrecorded:
            paths = ", ".join(
                f"{count} to {path}" for path, count in server.unrecorded.most_common(5)
            )
            total = wording.count(server.unrecorded.total(), "request")
            print(printable(f"{total} passed unrecorded: {paths}"), file=sys.stderr)
        if server.server.lost:
            print(f"the server refuses {server.server.lost}", file=sys.stderr)
    return server.failure


def _check(path: Path) -> None:
    """Refuses a file that is not a ledger: appending would cut off its last line."""
    if path.exists() and not path.is_file():
        raise JournalError(f"{path}: is not a file")
    try:
        records = read_ledger(path)
        if not records and path.exists() and path.stat().st_size > 0:
            raise JournalError(f"{path}: is not a ledger: it has no complete line")
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
