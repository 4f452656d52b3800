"""Whether the experiment has been measured: a complete run of it in the bucket."""

from __future__ import annotations

import json
from typing import Final

from pydantic import ValidationError

from charts import offline, sweep
from charts.indexes import run_id
from charts.llmperf import benchmark_config
from charts.names import BENCHMARK_POD
from deployment.cluster import connected
from deployment.place import Place
from deployment.stages import objects
from deployment.stages.stage import Way
from deployment.stages.store import Store
from deployment.stages.waiting import nodes_are_gone
from spectap.config import Config
from spectap.names import (
    COMPLETE,
    CONFIG,
    MERGED,
    RESULTS_PREFIX,
    RUN_ID,
    results_key,
    variant_run,
)

_ASKED: Final = ("model", "load", "test_cases", "keep_answers")
"""Fields of a configuration that decide, beside the variants, what is measured."""


def complete(place: Place) -> str | None:
    """The newest complete run of this very experiment; None if there is none.

    A run is complete by its marker, and it is this experiment's if it was asked the same of the
    same variants. Raises DeploymentError.
    """
    store = Store(place)
    if place.experiment.apart:
        return _of_indexes(place, store)
    return _of_services(place, store)


def measured(way: Way) -> str | None:
    """The complete run that makes all that costs unnecessary; None if there is none.

    A run that was begun after it, on nodes that stand, is not to be given up for it. Variants that
    are measured one by one are not measured twice in a run. Raises DeploymentError.
    """
    apart = way.place.experiment.apart
    run = None if way.again and not apart else complete(way.place)
    if run is None or apart or nodes_are_gone(way.place):
        return run
    with connected(way.place) as api:
        pod = objects.pod(api, BENCHMARK_POD)
    if pod is None or pod.status.phase in objects.OVER or pod.metadata.uid == run:
        return run
    return None if begun(way.place, pod.metadata.uid) else run


def begun(place: Place, run: str) -> bool:
    """Whether the bucket has anything of that run. Raises DeploymentError."""
    return bool(Store(place).keys(results_key(run, "")))


def indexes(place: Place) -> Config:
    """What the indexes of the experiment's Job are told."""
    experiment = place.experiment
    job = sweep.indexes(experiment) if experiment.sweep else offline.indexes(experiment)
    return job.indexed_config(experiment, Store(place).bucket, "any")


def complete_indexes(place: Place) -> list[str]:
    """Names of the variants whose results are complete. Raises DeploymentError."""
    store, run = Store(place), run_id(place.experiment)
    return [
        variant.name
        for variant in indexes(place).variants
        if store.has(results_key(variant_run(run, variant.folder), COMPLETE))
    ]


def _of_indexes(place: Place, store: Store) -> str | None:
    run, names = run_id(place.experiment), indexes(place).names
    if set(complete_indexes(place)) != set(names):
        return None
    # Written by whichever index ends last, after all of them are complete.
    merged = json.loads(store.read(results_key(run, MERGED)) or b"{}")
    return run if set(names) <= set(merged.get("complete", [])) else None


def _of_services(place: Place, store: Store) -> str | None:
    ends = {
        run: when
        for key, when in store.keys(RESULTS_PREFIX).items()
        for run, _, name in [key.removeprefix(RESULTS_PREFIX).partition("/")]
        if name == COMPLETE and RUN_ID.fullmatch(run)
    }
    expected = benchmark_config(place.experiment, store.bucket)
    for run in sorted(ends, key=lambda run: ends[run], reverse=True):
        found = _config(store, run)
        if found and _measured(found) == _measured(expected):
            return run
    return None


def _measured(told: Config) -> list[object]:
    """Of variants what they are, and not where they answer."""
    variants = [variant.model_copy(update={"endpoint": None}) for variant in told.variants]
    return [*(getattr(told, name) for name in _ASKED), variants]


def _config(store: Store, run: str) -> Config | None:
    """None for a run of another version, which this one does not read."""
    try:
        return Config.model_validate_json(store.read(results_key(run, CONFIG)) or b"")
    except ValidationError:
        return None
