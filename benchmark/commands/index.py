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
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmark import config as configuration
from benchmark.commands import execution, report
from benchmark.commands.execution import Ended, Measured, Pause
from benchmark.commands.merge import say
from benchmark.config import Config
from benchmark.errors import BenchmarkError, RunError, ShippingError
from benchmark.names import COMPLETE, VARIANTS, variant_run
from benchmark.run.patience import Patience
from benchmark.sweep import part
from benchmark.sweep.merge import merge

if TYPE_CHECKING:
    from benchmark.aws.bucket import Bucket

_START_SECONDS: Final = "2700"


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Measures, merges; returns the exit status. Raises ConfigError, RunError and BucketError."""
    path = Path(os.environ.get("BENCHMARK_CONFIG", "/etc/benchmark/config.json"))
    whole = configuration.read(path)
    if not whole.apart:
        raise RunError(f"{path}: apart = false: must be true, since a variant is measured alone")
    chosen = part.chosen(whole, os.environ.get("JOB_COMPLETION_INDEX", ""))
    variant, patience = chosen.name, _patience()
    root = execution.run_folder("/results")
    own, own_run = part.folder(root, whole, variant), variant_run(root.name, chosen.folder)
    part.note(root, whole)
    bucket = _bucket(whole)
    if bucket is not None:
        with execution.ending_at_once():
            bucket.fetch(own_run, own)
    measured = execution.measure(
        part.of(whole, variant),
        own,
        own_run,
        patience,
        files=path.parent,
        window=part.widest_window(whole),
    )
    if measured.by is not None:
        with execution.ending_at_once():
            _rescue(measured)
        return execution.ended(measured.by, own)
    with execution.ending_at_once():
        return _concluded(whole, root, variant, bucket, measured)


def _concluded(
    whole: Config, root: Path, variant: str, bucket: Bucket | None, measured: Measured
) -> int:
    """Says what failed, merges if the variant is complete; returns the exit status."""
    complete = _complete(part.folder(root, whole, variant), measured)
    for line in dict.fromkeys(measured.failed):
        print(f"benchmark: failed: {variant}: {line}", file=sys.stderr)
    if complete:
        print(f"benchmark: {variant} is complete")
        _conclude(whole, root, bucket)
    if measured.never_served:
        return os.EX_UNAVAILABLE
    return 0 if complete and measured.shipped else 1


def _patience() -> Patience:
    """A server that ends in between has as long to come back. Raises RunError."""
    text = os.environ.get("START_SECONDS") or _START_SECONDS
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise RunError(f"START_SECONDS = {text!r}: must be a whole number of at least 1")
    return Patience(start=int(text), recovery=int(text))


def _bucket(config: Config) -> Bucket | None:
    """None where results stay on this machine."""
    if config.bucket is None or config.region is None:
        return None
    # Only here: what ships nothing needs no AWS SDK.
    from benchmark.aws.bucket import Bucket

    return Bucket(config.bucket, config.region, Pause())


def _rescue(measured: Measured) -> None:
    """Uploads what there is since the last turn, if that goes at once."""
    if measured.shipper is not None:
        with contextlib.suppress(ShippingError, Ended):
            measured.shipper.upload()


def _complete(own: Path, measured: Measured) -> bool:
    """Marks the variant as complete, if it is; adds to what failed."""
    if not measured.complete:
        return False
    upload: Callable[[], None] = measured.shipper.upload if measured.shipper else lambda: None
    try:
        upload()
        # Only when the rest is there: what has this file is whole.
        (own / COMPLETE).touch()
        upload()
    except (ShippingError, OSError) as error:
        measured.failed.append(str(error))
        return False
    return True


def _conclude(whole: Config, root: Path, bucket: Bucket | None) -> None:
    """Merges what is complete, until nothing has become complete meanwhile.

    Whatever goes wrong here, the variant stays complete: any other that ends later, and ``merge``,
    can make the report.
    """
    try:
        if bucket is None:
            _merge(root)
            return
        folders = {variant.folder for variant in whole.variants}
        merged: set[str] = set()
        # Of two that end together, each may miss the other, and overwrite its report. Whoever
        # looks last finds both, and writes after both.
        while (complete := bucket.complete(root.name) & folders) != merged:
            for folder in sorted(complete):
                bucket.fetch(variant_run(root.name, folder), root / VARIANTS / folder)
            _merge(root)
            bucket.upload(root)
            merged = complete
    except (BenchmarkError, OSError) as error:
        _not_merged(str(error))
    except Exception as error:
        # Whatever it is: a report that fails must not cost what was measured.
        _not_merged(f"{type(error).__name__}: {error}")


def _not_merged(reason: str) -> None:
    print(f"benchmark: the variants were not merged: {' '.join(reason.split())}", file=sys.stderr)


def _merge(root: Path) -> None:
    merged = merge(root)
    say(merged)
    if merged.complete:
        report.draw(root)
