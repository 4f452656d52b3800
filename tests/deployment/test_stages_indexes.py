"""When a sweep's measurement is over, and that it is not begun twice."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from charts.indexes import run_id
from charts.names import SWEEP_JOB
from deployment.console import Console
from deployment.place import Place
from deployment.stages import runs
from deployment.stages.benchmark import Benchmark
from deployment.stages.shown import Shown
from deployment.stages.stage import Way
from rehearsal.aws.client import Aws
from spectap.names import COMPLETE, MERGED, results_key, variant_run
from tests.deployment.api import Objects
from tests.deployment.groups import sizes, stand
from tests.deployment.test_stages_command import deployment
from tests.deployment.test_stages_failures import place_with_nodes, scaled_by_hand
from tests.deployment.test_stages_runs import put
from tests.experiment.files import swept

At = Callable[..., Place]
SWEEP = swept(windows=[3, 7])


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
    api.lists = Merging(lambda: complete(aws, place))
    console = Console(1, io.StringIO())
    with console.stage("benchmark") as line:
        found = Benchmark(Way(place)).perform(Shown(console, line, poll_seconds=0))
    assert found == f"run {run_id(place.experiment)} is complete"
    assert api.lists.looks == 6


def test_measuring_a_complete_sweep_anew_is_refused_before_anything_costs(aws: Aws, at: At) -> None:
    place = at("twice", SWEEP)
    stand(aws, place)
    complete(aws, place)
    done = deployment(aws, place, "experiment", "--yes", "--again")
    assert done.returncode == 1
    run = run_id(place.experiment)
    assert done.stderr == (
        f"run {run} is complete, and its variants are not measured twice: another sweep.run makes "
        "another run\n"
    )
    assert sizes(place) == {"trainium": 0, "compile": 0}


def complete(aws: Aws, place: Place) -> None:
    """All variants are, and the merged run has them."""
    told, run = runs.indexes(place), run_id(place.experiment)
    merged = json.dumps({"complete": [*told.names]})
    put(aws, place, results_key(run, MERGED), body=merged)
    folders = (variant_run(run, variant.folder) for variant in told.variants)
    put(aws, place, *(results_key(folder, COMPLETE) for folder in folders))
