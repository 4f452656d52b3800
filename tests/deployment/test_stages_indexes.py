"""What the stage of a sweep's measurement waits for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from benchmark.names import MERGED, results_key, variant_run
from charts.indexes import run_id
from charts.names import SWEEP_JOB
from deployment.console import Console
from deployment.place import Place
from deployment.stages import runs
from deployment.stages.benchmark import Benchmark
from deployment.stages.shown import Shown
from deployment.stages.stage import Way
from rehearsal.aws.client import Aws
from tests.conftest import ABSENT
from tests.deployment.api import Objects
from tests.deployment.test_stages_failures import place_with_nodes, scaled_by_hand
from tests.deployment.test_stages_runs import put

At = Callable[..., Place]
SWEEP = {
    "speculation": ABSENT,
    "quality": ABSENT,
    "sweep": {"mode": "fused", "windows": [3, 7], "at_most_usd": 1000},
}


class Merging(dict[str, list[dict[str, Any]]]):
    """A Job of which the last index is complete at the third look, and over at the sixth."""

    looks = 0

    def __init__(self, complete: Callable[[], None]) -> None:
        super().__init__()
        self._complete = complete

    def get(self, key: str, default: Any = None) -> Any:
        if key != "jobs":
            return super().get(key, default)
        self.looks += 1
        if self.looks == 3:
            self._complete()
        metadata = {"name": SWEEP_JOB, "labels": {"app": SWEEP_JOB}}
        metadata |= {"creationTimestamp": "2026-11-22T10:00:00Z"}
        return [{"metadata": metadata, "status": {"active": int(self.looks < 6)}}]


def test_a_run_is_over_when_no_index_merges_any_more(aws: Aws, at: At, api: Objects) -> None:
    """Its nodes are ended then: what an index still uploads would be lost, or half of it."""
    place = place_with_nodes(aws, at, "merging", SWEEP)
    scaled_by_hand(aws, place, 1)
    told, run = runs.indexes(place), run_id(place.experiment)

    def complete() -> None:
        merged = json.dumps({"complete": [*told.names]})
        put(aws, place, results_key(run, MERGED), body=merged)
        folders = (variant_run(run, variant.folder) for variant in told.variants)
        put(aws, place, *(results_key(folder, "_COMPLETE") for folder in folders))

    api.lists = Merging(complete)
    console = Console(1, io.StringIO())
    with console.stage("benchmark") as line:
        found = Benchmark(Way(place)).perform(Shown(console, line, poll_seconds=0))
    assert found == f"run {run} is complete"
    assert api.lists.looks == 6
