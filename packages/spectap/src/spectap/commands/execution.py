"""Executes and concludes one run, for the commands ``run``, ``index`` and ``measure``.

AWS modules are imported where they are used, so that a run without AWS needs no AWS SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

from spectap.commands import recorded
from spectap.commands.arguments import Exit, results_folder
from spectap.errors import RunError, ShippingError
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.load import llmperf
from spectap.load.driver import Driver
from spectap.names import COMPLETE, RUN_ID
from spectap.run.folder import Shipper, make_shipper
from spectap.run.run import Run
from spectap.run.taps import Patience
from spectap.wording import printable

if TYPE_CHECKING:
    from spectap.aws.bucket import Bucket

_LONG_PAUSE_SECONDS: Final = 5.0


class Ended(Exception):
    """A signal has ended the run, and with it a thread's pause."""


class Pause(threading.Event):
    """A sleep between two calls of AWS. It ends with the run, so no thread outlives that."""

    def __call__(self, seconds: float) -> None:
        """Sleeps. Raises Ended when the run ends meanwhile."""
        if seconds >= _LONG_PAUSE_SECONDS:
            print(f"AWS does not answer; trying again in {seconds:.0f} s", file=sys.stderr)
        if self.wait(seconds):
            raise Ended


class Measured(NamedTuple):
    """The outcome of measuring."""

    run: Run
    failed: list[str]
    """A line for each thing that failed."""
    by: signal.Signals | None
    """The signal that ended the run, if one did."""


def run_folder(results: str) -> Path:
    """The run's folder: RUN_ID, or the time, in RESULTS_DIR, or ``results``. Raises RunError."""
    name = os.environ.get("RUN_ID") or time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    if not RUN_ID.fullmatch(name):
        raise RunError(f"RUN_ID = {name!r}: must match {RUN_ID.pattern}")
    return results_folder(results) / name


def bucket_of(config: Config) -> Bucket | None:
    """The bucket that takes the results; None where they stay on this machine."""
    if config.bucket is None or config.region is None:
        return None
    from spectap.aws.bucket import Bucket

    return Bucket(config.bucket, config.region, Pause())


@contextlib.contextmanager
def inputs(path: Path) -> Iterator[tuple[Config, Path]]:
    """The configuration in ``path``, and the folder of the user's prompts.

    The prompts lie beside the configuration, unless a bucket has them. Raises ConfigError and
    RunError.
    """
    config = configuration.read(path)
    if config.prompts_bucket is None:
        yield config, path.parent
        return
    from spectap.aws.bucket import fetch_prompts

    with tempfile.TemporaryDirectory(prefix="prompts-") as folder:
        with ending_at_once():
            config = fetch_prompts(config, Path(folder), Pause())
        yield config, Path(folder)


def execute(
    config: Config,
    folder: Path,
    patience: Patience,
    *,
    files: Path,
    relaunch: str | None = None,
    verbose: bool = False,
) -> int:
    """Measures, writes the report, uploads what the configuration says; returns the exit status.

    If all is well, it stops the nodes where the configuration says so. ``files`` is the folder of
    the user's prompts; ``relaunch`` is as in Run. The status is 75 where a person is asked to
    restart the servers.
    """
    run, failed, by = measure(config, folder, folder.name, patience, files=files, relaunch=relaunch)
    if by is not None:
        return say_ended(by, folder)
    if run.request is not None:
        for line in (*failed, run.request):
            print(f"spectap: {printable(line)}", file=sys.stderr)
        return Exit.RESTART
    recorded.draw(folder, verbose=verbose)
    if run.shipper is not None:
        try:
            if failed:
                run.shipper.upload()
            else:
                mark_complete(folder, run.shipper)
        except (ShippingError, OSError) as error:
            failed.append(str(error))
    for failure in dict.fromkeys(failed):
        print(f"spectap: failed: {printable(failure)}", file=sys.stderr)
    if failed:
        print(f"spectap: the rest is kept in {folder}", file=sys.stderr)
        return 1
    print(f"results: {folder}" + (f" and s3://{config.bucket}" if config.bucket else ""))
    stop_nodes(config)
    return 0


def measure(
    config: Config,
    folder: Path,
    run_id: str,
    patience: Patience,
    *,
    files: Path,
    window: int = 0,
    relaunch: str | None = None,
) -> Measured:
    """Measures, and uploads what the configuration says.

    ``run_id`` is the folder's name in the bucket; ``files``, ``window`` and ``relaunch`` are as in
    Run. Raises RunError.
    """
    pause = Pause()
    if config.api_key_secret is not None and config.region is not None:
        from spectap.aws.calls import read_secret

        os.environ["OPENAI_API_KEY"] = read_secret(config.api_key_secret, config.region, pause)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        run = Run(
            config,
            folder,
            driver=Driver(llmperf.find(os.environ), Path(scratch)),
            files=files,
            shipper=make_shipper(config, folder, run_id, pause),
            patience=patience,
            window=window,
            relaunch=relaunch,
        )
        return Measured(run, *asyncio.run(_until_ended(run, pause)))


async def _until_ended(run: Run, pause: Pause) -> tuple[list[str], signal.Signals | None]:
    """Waits for the run: the failures, and the signal that ended it, if one did."""
    received: list[signal.Signals] = []
    task = asyncio.ensure_future(run.execute())

    def end(by: signal.Signals) -> None:
        received.append(by)
        # A second Ctrl-C waits for nothing: it is a KeyboardInterrupt from now on.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        pause.set()
        task.cancel()

    for by in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(by, end, by)
    try:
        return await task, None
    except asyncio.CancelledError:
        return [], received[0]


def say_ended(by: signal.Signals, folder: Path) -> int:
    """Says that a signal has ended the run; returns the exit status."""
    # On standard output, for the log: a rehearsal shows standard error to who has ended it.
    print(f"spectap: ended by {by.name}; what was measured is kept in {folder}", flush=True)
    return 128 + by


def mark_complete(folder: Path, shipper: Shipper | None) -> None:
    """Uploads the folder, and then the mark that it is complete. Raises ShippingError, OSError."""
    if shipper is not None:
        shipper.upload()
    # Only when the rest is there: what has this file in the bucket is whole.
    (folder / COMPLETE).touch()
    if shipper is not None:
        shipper.upload()


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Lets SIGTERM end the process where nothing has to be put in order first.

    A container's first process ignores signals that it has no handler for (pid_namespaces(7)).
    """

    def end(by: int, _: FrameType | None) -> None:
        # Not by print, which a signal may have interrupted, nor by sys.exit, which would wait for
        # threads.
        os.write(sys.stdout.fileno(), b"spectap: ended by SIGTERM\n")
        os._exit(128 + by)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_nodes(config: Config) -> None:
    """Stops the nodes, once all results are in the bucket, where the configuration says how.

    A failure is printed and fails nothing: the results are safe, and the guard ends the nodes
    later.
    """
    if config.stopper is None or config.region is None:
        return
    from spectap.aws import calls

    try:
        calls.start_state_machine(config.stopper, config.region, Pause())
    except RunError as error:
        print(
            f"spectap: the Trainium nodes were not stopped: {error}; make stop stops them, and "
            "later their guard",
            file=sys.stderr,
        )
    else:
        print("spectap: the Trainium nodes are being stopped; make start brings them back")
