"""The commands of a pod, which take their input from the environment: run, index, collect."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spectap.commands import execution, recorded
from spectap.commands.arguments import Command, Exit, whole_number
from spectap.commands.execution import Ended
from spectap.errors import JournalError, RunError, ShippingError, SpectapError
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.names import INFERENCE_DEMO, SWEEP, VARIANTS, variant_run
from spectap.records.journal import write_whole
from spectap.run import sweep
from spectap.run.folder import Shipper, make_shipper, prepare, writing
from spectap.run.taps import Patience
from spectap.wording import printable

_START_SECONDS: Final = "2700"


def run(_: argparse.Namespace) -> int:
    """``run``: measures the variants of a configuration, then stores and publishes the results.

    Its input is the environment: BENCHMARK_CONFIG (the configuration file), RESULTS_DIR (takes the
    run's folder), RUN_ID (the folder's name; the same name continues the same run), LLMPERF_HOME
    and LLMPERF_PYTHON (llmperf, where it is installed), RELAUNCH (a command that restarts the
    servers, where the configuration has several launches), and what the AWS SDK reads.
    """
    path = _config_path()
    folder = execution.run_folder("/results")
    relaunch = os.environ.get("RELAUNCH") or None
    with execution.inputs(path) as (config, files):
        if config.load.launches > 1 and relaunch is None:
            raise RunError(f"RELAUNCH is needed: {path} has load.launches: {config.load.launches}")
        return execution.execute(config, folder, Patience(), files=files, relaunch=relaunch)


def index(_: argparse.Namespace) -> int:
    """``index``: measures one variant of a configuration alone, as an index of a Job does.

    When the variant is complete, all that are complete are made one run with one report. Its input
    is the environment: that of ``run``, with JOB_COMPLETION_INDEX (which variant: its number in the
    configuration, from 0) and START_SECONDS (how long it may take until it serves). The variant's
    results are in RESULTS_DIR/RUN_ID/variants/NAME-SERVED, the whole run's in RESULTS_DIR/RUN_ID.
    What the bucket has of the variant is not measured again. The exit status is 69 where the server
    was waited for in vain and nothing was ever measured.
    """
    start = _number("START_SECONDS", 1, otherwise=_START_SECONDS)
    # A server that ends in between has as long to come back.
    patience = Patience(start=start, recovery=start)
    with execution.inputs(_config_path()) as (sweep_config, files):
        isolated = _IsolatedVariant(sweep_config, offline=False)
        window = max(variant.window or 0 for variant in sweep_config.variants)
        isolated.begin()
        run, failed, by = execution.measure(
            isolated.config, isolated.folder, isolated.run_id, patience, files=files, window=window
        )
    with execution.ending_at_once():
        if by is not None:
            if run.shipper is not None:
                # What there is since the last turn, if that goes at once.
                with contextlib.suppress(ShippingError, Ended):
                    run.shipper.upload()
            return execution.say_ended(by, isolated.folder)
        status = isolated.conclude(failed, run.shipper, complete=run.complete, shipped=run.shipped)
    return Exit.NEVER_SERVED if run.never_served else status


def collect(_: argparse.Namespace) -> int:
    """``collect``: makes a run of what inference_demo reports of a variant that runs as a job.

    Its input is the environment: BENCHMARK_CONFIG, RUN_ID and RESULTS_DIR as ``run`` has them, and
    JOB_COMPLETION_INDEX (which variant: its number in the configuration, from 0). Report and log
    lie in RESULTS_DIR/RUN_ID/variants/NAME-SERVED. They go to the bucket, and all variants that are
    complete are made one run with one report.
    """
    from spectap.report import offline

    with execution.inputs(_config_path()) as (config, _files):
        isolated = _IsolatedVariant(config, offline=True)
    isolated.begin()
    with execution.ending_at_once():
        prepare(isolated.folder, isolated.config)
        failed = []
        try:
            offline.read_timings(isolated.folder / INFERENCE_DEMO)
        except JournalError as error:
            failed.append(str(error))
        shipper = make_shipper(isolated.config, isolated.folder, isolated.run_id, time.sleep)
        return isolated.conclude(failed, shipper, complete=not failed, shipped=True)


COMMANDS: Final = {main.__name__: Command(main, internal=True) for main in (run, index, collect)}


def _config_path() -> Path:
    return Path(os.environ.get("BENCHMARK_CONFIG", "/etc/benchmark/config.json"))


def _number(variable: str, least: int, most: int | None = None, otherwise: str = "") -> int:
    """A whole number in the environment. Raises RunError."""
    try:
        return whole_number(least, most)(os.environ.get(variable) or otherwise)
    except argparse.ArgumentTypeError as error:
        raise RunError(f"{variable} = {error}") from None


class _IsolatedVariant:
    """The variant that one index of a Job measures alone, and the folder of its results."""

    def __init__(self, config: Config, *, offline: bool) -> None:
        """Reads the environment. ``offline``: variants must be jobs; otherwise they must be
        services.

        Raises RunError.
        """
        path = _config_path()
        if not config.isolated:
            raise RunError(
                f"{path}: isolated = false: must be true, since a variant is measured alone"
            )
        if config.offline != offline:
            allowed = "must have none, since they run as jobs" if offline else "must have one each"
            raise RunError(f"{path}: variants: endpoint: {allowed}")
        number = _number("JOB_COMPLETION_INDEX", 0, len(config.variants) - 1)
        variant = config.variants[number]
        self._name, self._root = variant.name, execution.run_folder("/results")
        self._sweep = config
        self.config = sweep.isolated(config, variant)
        self.folder = sweep.variant_folder(self._root, variant)
        self.run_id = variant_run(self._root.name, variant.folder)

    def begin(self) -> None:
        """Downloads what the bucket has of the variant. Raises RunError and ShippingError."""
        with writing(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            write_whole(self._root / SWEEP, [configuration.dump(self._sweep).encode()])
        if (bucket := execution.bucket_of(self._sweep)) is not None:
            with execution.ending_at_once():
                bucket.fetch(self.run_id, self.folder)

    def conclude(
        self, failures: Sequence[str], shipper: Shipper | None, *, complete: bool, shipped: bool
    ) -> int:
        """Prints what failed, and merges if the variant is complete; returns the exit status.

        ``complete``: all that was to be measured is measured.
        """
        failed = [*failures]
        if complete:
            try:
                execution.mark_complete(self.folder, shipper)
            except (ShippingError, OSError) as error:
                failed.append(str(error))
                complete = False
        for failure in dict.fromkeys(failed):
            print(f"spectap: failed: {self._name}: {printable(failure)}", file=sys.stderr)
        if complete:
            print(f"spectap: {self._name} is complete")
            merged = self._merge()
            if shipped and merged == len(self._sweep.variants):
                execution.stop_nodes(self._sweep)
        return 0 if complete and shipped else 1

    def _merge(self) -> int:
        """Merges the complete variants, again if another became complete meanwhile.

        Returns how many variants are merged and in the bucket; 0 if that failed. The variant then
        stays complete: a later index, or ``merge``, can make the report.
        """
        try:
            bucket = execution.bucket_of(self._sweep)
            if bucket is None:
                self._draw()
                return 0
            folders = {variant.folder for variant in self._sweep.variants}
            merged: set[str] = set()
            # Of two that end together, each may miss the other, and overwrite its report. The last
            # to look finds both, and writes after both.
            while (complete := bucket.complete(self._root.name) & folders) != merged:
                for folder in sorted(complete):
                    run_id = variant_run(self._root.name, folder)
                    bucket.fetch(run_id, self._root / VARIANTS / folder)
                self._draw()
                bucket.upload(self._root, self._root.name)
                merged = complete
            return len(merged)
        except Exception as error:  # a report that fails must not cost what was measured
            known = isinstance(error, (SpectapError, OSError))
            reason = " ".join(str(error).split())
            text = reason if known else f"{type(error).__name__}: {reason}"
        print(f"spectap: the variants were not merged: {printable(text)}", file=sys.stderr)
        return 0

    def _draw(self) -> None:
        if recorded.merge_folder(self._root).complete:
            recorded.draw(self._root)
