"""``python -m benchmark run`` measures; ``python -m benchmark report RUN_DIR`` draws again.

``run`` reads its input from the environment: BENCHMARK_CONFIG (the configuration file), RESULTS_DIR
(where the run's folder goes), RUN_ID (its name: the same again goes on with the same run),
LLMPERF_HOME and LLMPERF_PYTHON (llmperf, where it is installed), and what the AWS SDK reads.

Exit status: 0 all is well; 1 something failed, which the last lines name, and the rest is kept;
2 it cannot run as asked; 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmark import config as configuration
from benchmark.config import Config
from benchmark.errors import BenchmarkError, BucketError, RunError
from benchmark.load.driver import Driver
from benchmark.names import CONFIG
from benchmark.run.run import Run
from benchmark.run.shipper import make_shipper

_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LONG_PAUSE_SECONDS: Final = 5.0


def main() -> int:
    """Runs one command; returns the exit status."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "report":
            return _report(arguments.run_dir)
        return _run(os.environ)
    except BenchmarkError as error:
        for line in str(error).splitlines():
            print(f"benchmark: {line}", file=sys.stderr)
        return 2


def _run(environment: Mapping[str, str]) -> int:
    config = configuration.read(
        Path(environment.get("BENCHMARK_CONFIG", "/etc/benchmark/config.json"))
    )
    folder = Path(environment.get("RESULTS_DIR", "/results")) / _run_id(environment)
    pause = _Pause()
    shipper = make_shipper(config, folder, pause)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        run = Run(
            config,
            folder,
            driver=Driver.choose(environment, Path(scratch)),
            shipper=shipper,
        )
        failed, by = asyncio.run(_until_ended(run, pause))
    if by is not None:
        # For the log: who ends it on a terminal knows, and a rehearsal says so itself.
        print(f"benchmark: ended by {by.name}; what there is stays in {folder}")
        return 128 + by
    _report(folder)
    try:
        if shipper is not None:
            shipper.upload()
    except BucketError as error:
        failed = [*failed, str(error)]
    return _conclude(config, folder, failed)


class _Ended(Exception):
    """A signal has ended the run, and with it a thread's pause."""


class _Pause:
    """Sleeps between two attempts at AWS, says so when it is for long, and ends with the run.

    A thread that slept on would keep the process, for minutes, from ending.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __call__(self, seconds: float) -> None:
        if seconds >= _LONG_PAUSE_SECONDS:
            print(f"AWS takes nothing now; trying again in {seconds:.0f} s", file=sys.stderr)
        if self.ended.wait(seconds):
            raise _Ended


async def _until_ended(run: Run, pause: _Pause) -> tuple[list[str], signal.Signals | None]:
    """What failed, and the signal that ended the run, if one did."""
    received: list[signal.Signals] = []
    task = asyncio.ensure_future(run.execute())

    def end(by: signal.Signals) -> None:
        received.append(by)
        pause.ended.set()
        task.cancel()

    for by in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(by, end, by)
    try:
        return await task, None
    except asyncio.CancelledError:
        return [], received[0]


def _report(folder: Path) -> int:
    # A name that is mistyped must not come out as an empty run.
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder}: is no run's folder: has no {CONFIG}")
    # Only here: they bring matplotlib, and an error needs no figures.
    from benchmark.report import terminal
    from benchmark.report.page import write_report

    print(terminal.render(folder, terminal.terminal_width()))
    print(f"report: {write_report(folder)}")
    return 0


def _conclude(config: Config, folder: Path, failed: list[str]) -> int:
    for line in dict.fromkeys(failed):
        print(f"benchmark: failed: {line}", file=sys.stderr)
    if failed:
        print(f"benchmark: the rest is kept in {folder}", file=sys.stderr)
        return 1
    print(f"results: {folder}" + (f" and s3://{config.bucket}" if config.bucket else ""))
    return 0


def _run_id(environment: Mapping[str, str]) -> str:
    name = environment.get("RUN_ID") or time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    if not _RUN_ID.fullmatch(name):
        raise RunError(f"RUN_ID = {name!r}: must match {_RUN_ID.pattern}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="measure all variants and write, store and publish results")
    report = commands.add_parser("report", help="draw table and report again from a run's folder")
    report.add_argument("run_dir", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
