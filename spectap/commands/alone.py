"""One variant that is measured alone: where it is, what marks it complete, what merges it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectap import config as configuration
from spectap.commands import execution, nodes, report
from spectap.commands.execution import Pause
from spectap.commands.merge import say
from spectap.config import Config, Variant
from spectap.errors import BenchmarkError, RunError, ShippingError
from spectap.names import COMPLETE, VARIANTS, variant_run
from spectap.printing import printable
from spectap.run.shipper import Shipper
from spectap.sweep import part
from spectap.sweep.merge import merge

if TYPE_CHECKING:
    from spectap.aws.bucket import Bucket


@dataclass(frozen=True)
class Alone:
    """The variant that an index of a Job is, and where its results are."""

    whole: Config
    """With all variants."""
    variant: Variant
    beside: Path
    """The folder that the configuration is in."""
    root: Path
    """The folder of the whole run."""

    @classmethod
    def told(cls, *, offline: bool) -> Alone:
        """What the environment says. Raises ConfigError and RunError.

        ``offline``: whether the variants have to be jobs, or else services.
        """
        path = Path(os.environ.get("BENCHMARK_CONFIG", "/etc/benchmark/config.json"))
        whole = configuration.read(path)
        if not whole.apart:
            raise RunError(
                f"{path}: apart = false: must be true, since a variant is measured alone"
            )
        if whole.offline != offline:
            allowed = "must have none, since they run as jobs" if offline else "must have one each"
            raise RunError(f"{path}: variants: endpoint: {allowed}")
        chosen = part.chosen(whole, os.environ.get("JOB_COMPLETION_INDEX", ""))
        return cls(whole, chosen, path.parent, execution.run_folder("/results"))

    @property
    def config(self) -> Config:
        """That of the variant alone."""
        return part.of(self.whole, self.variant.name)

    @property
    def folder(self) -> Path:
        """The variant's own."""
        return part.folder(self.root, self.whole, self.variant.name)

    @property
    def run_id(self) -> str:
        """What its folder is called in the bucket."""
        return variant_run(self.root.name, self.variant.folder)

    @property
    def complete(self) -> bool:
        """Whether it is marked as complete."""
        return (self.folder / COMPLETE).exists()

    def begin(self) -> None:
        """Brings what the bucket has of the variant. Raises RunError and BucketError."""
        part.note(self.root, self.whole)
        bucket = self._bucket()
        if bucket is not None:
            with execution.ending_at_once():
                bucket.fetch(self.run_id, self.folder)

    def conclude(
        self, failed: Sequence[str], *, complete: bool, shipped: bool, shipper: Shipper | None
    ) -> int:
        """Says what failed, merges if the variant is complete; returns the exit status.

        ``complete``: whether all that was to be measured is.
        """
        failed = [*failed]
        complete = complete and self._mark(shipper, failed)
        for line in dict.fromkeys(failed):
            print(f"spectap: failed: {self.variant.name}: {printable(line)}", file=sys.stderr)
        if complete:
            print(f"spectap: {self.variant.name} is complete")
            merged = self._merge()
            if shipped and merged == len(self.whole.variants):
                nodes.stop(self.whole, Pause())
        return 0 if complete and shipped else 1

    def _bucket(self) -> Bucket | None:
        """None where results stay on this machine."""
        if self.whole.bucket is None or self.whole.region is None:
            return None
        # Only here: what ships nothing needs no AWS SDK.
        from spectap.aws.bucket import Bucket

        return Bucket(self.whole.bucket, self.whole.region, Pause())

    def _mark(self, shipper: Shipper | None, failed: list[str]) -> bool:
        """Marks the variant as complete, and returns whether it is; adds to what failed."""
        upload: Callable[[], None] = shipper.upload if shipper else lambda: None
        try:
            upload()
            # Only when the rest is there: what has this file is whole.
            (self.folder / COMPLETE).touch()
            upload()
        except (ShippingError, OSError) as error:
            failed.append(str(error))
            return False
        return True

    def _merge(self) -> int:
        """Merges what is complete, until nothing has become complete meanwhile.

        Returns how many variants are merged, and in the bucket if there is one; 0 if that failed.
        Whatever goes wrong here, the variant stays complete: any other that ends later, and
        ``merge``, can make the report.
        """
        try:
            bucket = self._bucket()
            if bucket is None:
                _draw(self.root)
                return 0
            folders = {variant.folder for variant in self.whole.variants}
            merged: set[str] = set()
            # Of two that end together, each may miss the other, and overwrite its report. Whoever
            # looks last finds both, and writes after both.
            while (complete := bucket.complete(self.root.name) & folders) != merged:
                for folder in sorted(complete):
                    run_id = variant_run(self.root.name, folder)
                    bucket.fetch(run_id, self.root / VARIANTS / folder)
                _draw(self.root)
                bucket.upload(self.root)
                merged = complete
            return len(merged)
        except (BenchmarkError, OSError) as error:
            _not_merged(str(error))
        except Exception as error:
            # Whatever it is: a report that fails must not cost what was measured.
            _not_merged(f"{type(error).__name__}: {error}")
        return 0


def _not_merged(reason: str) -> None:
    reason = printable(" ".join(reason.split()))
    print(f"spectap: the variants were not merged: {reason}", file=sys.stderr)


def _draw(root: Path) -> None:
    merged = merge(root)
    say(merged)
    if merged.complete:
        report.draw(root)
