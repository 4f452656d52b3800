"""``index``: measures one variant of a configuration alone, as an index of a Job does.

When the variant is complete, all that are complete are made one run with one report. Its input is
the environment: that of ``run``, with JOB_COMPLETION_INDEX (which variant: its number in the
configuration, from 0) and START_SECONDS (how long it may take until it serves). The variant's
results are in RESULTS_DIR/RUN_ID/variants/NAME-SERVED, the whole run's in RESULTS_DIR/RUN_ID. What
the bucket has of the variant is not measured again. The exit status is 69 where the server was
waited for in vain and nothing was ever measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Final

from spectap.commands import execution
from spectap.commands.alone import Alone
from spectap.commands.execution import Ended, Measured
from spectap.errors import RunError, ShippingError
from spectap.run.patience import Patience
from spectap.sweep import part

_START_SECONDS: Final = "2700"


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Measures, merges; returns the exit status. Raises ConfigError, RunError and BucketError."""
    alone = Alone.told(offline=False)
    patience = _patience()
    alone.begin()
    with execution.prompt_files(alone.config, alone.beside) as files:
        measured = execution.measure(
            alone.config,
            alone.folder,
            alone.run_id,
            patience,
            files=files,
            window=part.widest_window(alone.whole),
        )
    with execution.ending_at_once():
        if measured.by is not None:
            _rescue(measured)
            return execution.ended(measured.by, alone.folder)
        status = alone.conclude(
            measured.failed,
            complete=measured.complete,
            shipped=measured.shipped,
            shipper=measured.shipper,
        )
    return os.EX_UNAVAILABLE if measured.never_served else status


def _patience() -> Patience:
    """A server that ends in between has as long to come back. Raises RunError."""
    text = os.environ.get("START_SECONDS") or _START_SECONDS
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise RunError(f"START_SECONDS = {text!r}: must be a whole number of at least 1")
    return Patience(start=int(text), recovery=int(text))


def _rescue(measured: Measured) -> None:
    """Uploads what there is since the last turn, if that goes at once."""
    if measured.shipper is not None:
        with contextlib.suppress(ShippingError, Ended):
            measured.shipper.upload()
