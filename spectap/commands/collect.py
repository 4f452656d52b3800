"""``collect``: makes a run of what inference_demo reports of a variant that runs as a job.

Its input is the environment: BENCHMARK_CONFIG, RUN_ID and RESULTS_DIR as ``run`` has them, and
JOB_COMPLETION_INDEX (which variant: its number in the configuration, from 0). Report and log lie in
RESULTS_DIR/RUN_ID/variants/NAME-SERVED. They go to the bucket, and all variants that are complete
are made one run with one report.
"""

from __future__ import annotations

import argparse
import time

from spectap import inference_demo
from spectap.commands import execution
from spectap.commands.alone import Alone
from spectap.errors import JournalError
from spectap.names import INFERENCE_DEMO
from spectap.run.folder import prepare
from spectap.run.shipper import make_shipper


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Collects, merges; returns the exit status. Raises ConfigError, RunError and BucketError."""
    alone = Alone.told(offline=True)
    alone.begin()
    with execution.ending_at_once():
        prepare(alone.folder, alone.config)
        failed = []
        try:
            inference_demo.read(alone.folder / INFERENCE_DEMO)
        except JournalError as error:
            failed.append(str(error))
        shipper = make_shipper(alone.config, alone.folder, alone.run_id, time.sleep)
        return alone.conclude(failed, complete=not failed, shipped=True, shipper=shipper)
