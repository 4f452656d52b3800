"""``tap``: stands before any OpenAI-compatible server and records what passes.

Clients use the base URL that it prints. One line shows what passes. Ctrl-C ends it and prints the
table of what passed. An existing ledger is appended to. One of nothing is removed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from spectap.commands.arguments import base_url, name, port
from spectap.errors import JournalError, TapError
from spectap.journal import Journal
from spectap.ledger import read_ledger
from spectap.tap.tap import LiveLine, Tap, Traffic, settle

PORT: Final = 8001
"""The default: beside 8000, where vLLM listens."""

# The client's own timeout decides, not the tap's: an answer that is no stream may take long.
_STALL_SECONDS: Final = 3600.0


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--upstream", type=base_url, required=True, metavar="URL", help="the server's base URL"
    )
    parser.add_argument("--ledger", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--port",
        type=port,
        default=PORT,
        help=f"on loopback; 0 takes a free one (default: {PORT})",
    )
    parser.add_argument(
        "--variant", type=name, default="Base", metavar="NAME", help="(default: Base)"
    )
    parser.add_argument(
        "--case", type=name, default="all", metavar="NAME", help="test case (default: all)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit status. Raises JournalError and TapError."""
    path: Path = arguments.ledger
    _check(path)
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
        _print_table(path, session)
    finally:
        if not existed and path.stat().st_size == 0:
            path.unlink()
    if path.exists():
        print(f"ledger: {path}")
    if failure is not None:
        print(f"spectap: failed: {path}: cannot be written: {failure.strerror}", file=sys.stderr)
    return 0 if failure is None else 1


async def _serve(arguments: argparse.Namespace, session: str, journal: Journal) -> OSError | None:
    """Serves until a signal ends it; returns the ledger's failure, if there was one."""
    traffic, line, ended = Traffic(), LiveLine(sys.stderr), asyncio.Event()
    for by in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(by, ended.set)
    tap = Tap(
        arguments.upstream,
        run=session,
        variant=arguments.variant,
        ledger=journal,
        port=arguments.port,
        stall_seconds=_STALL_SECONDS,
        on_record=traffic.note,
    )
    tap.label(arguments.case, round=1)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(tap)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise TapError(f"--port {arguments.port}: cannot listen there: {reason}") from None
        print(tap.url, flush=True)
        print(f"records what passes to {arguments.upstream}; Ctrl-C ends the tap", file=sys.stderr)
        settle()
        while not ended.is_set():
            line.show(_text(tap, traffic))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ended.wait(), line.every_seconds)
    line.show(_text(tap, traffic))
    line.close()
    return tap.failure


def _text(tap: Tap, traffic: Traffic) -> str:
    """The live line, which begins with what is wrong with the ledger."""
    problem = f"ledger: {tap.failure.strerror}; " if tap.failure is not None else ""
    return problem + traffic.line(tap.in_flight)


def _check(path: Path) -> None:
    """Refuses a file that is no ledger: appending would cut off its last line."""
    if path.exists() and not path.is_file():
        raise JournalError(f"{path}: is no file")
    try:
        records = read_ledger(path)
        if not records and path.exists() and path.stat().st_size > 0:
            raise JournalError(f"{path}: is not a ledger: it has no complete line")
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None


def _print_table(path: Path, session: str) -> None:
    """Prints the table of what this session recorded."""
    records = [record for record in read_ledger(path) if record.run == session]
    if not records:
        print("no completion was recorded")
        return
    # Imported here: numpy takes a while, and clients wait for the URL.
    from spectap.report import terminal

    terminal.show_ledgers(records)
