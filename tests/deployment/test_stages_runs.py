"""What the bucket says of an experiment: which checkpoints, graphs and runs are complete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from charts.indexes import run_id
from charts.llmperf import benchmark_config
from deployment.place import Place, find
from deployment.stages import runs
from deployment.stages.prepare import Compile, Download
from deployment.stages.stage import Way
from deployment.stages.store import Store, checkpoints, graphs
from rehearsal.aws.client import Aws
from spectap import config

At = Callable[..., Place]
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def put(aws: Aws, place: Place, *keys: str, body: str = "") -> None:
    store, bucket = aws.client("s3"), Store(place).bucket
    if bucket not in {each["Name"] for each in store.list_buckets()["Buckets"]}:
        store.create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": place.region}
        )
    for key in keys:
        store.put_object(Bucket=bucket, Key=key, Body=body.encode())


def measured(aws: Aws, place: Place, run: str, **changes: Any) -> None:
    """A complete run, asked what ``place`` asks but for ``changes`` of its configuration."""
    told = benchmark_config(place.experiment, Store(place).bucket).model_copy(update=changes)
    put(aws, place, f"results/{run}/config.json", body=config.dump(told))
    put(aws, place, f"results/{run}/_COMPLETE")


def test_without_a_bucket_nothing_is_there(at: At) -> None:
    way = Way(at("empty"))
    assert Download(way).there() is None
    assert Compile(way).there() is None
    assert runs.complete(way.place) is None
    assert runs.measured(way) is None
    assert not runs.begun(way.place, "any")


def test_checkpoints_and_graphs_are_there_with_their_markers(aws: Aws, at: At) -> None:
    way = Way(at("marked"))
    wanted = checkpoints(way.place.experiment)
    assert wanted == [
        "models/Qwen/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137/",
        "models/Qwen/Qwen3-1.7B/70d244cc86ccca08cf5af4e1e306ecf908b1ad5e/",
    ]
    put(aws, way.place, *(f"{prefix}config.json" for prefix in wanted))
    put(aws, way.place, f"{wanted[0]}_COMPLETE")
    assert Download(way).there() is None
    put(aws, way.place, f"{wanted[1]}_COMPLETE")
    assert Download(way).there() == "2 checkpoints"

    assert Compile(way).there() is None
    put(aws, way.place, *(f"{prefix}_COMPLETE" for prefix in graphs(way.place.experiment)))
    assert Compile(way).there() == "2 graphs"


def test_the_newest_complete_run_counts(aws: Aws, at: At) -> None:
    place = at("measured")
    put(aws, place, "results/ended/ledger.jsonl", "results/quality/qwen-vllm/_COMPLETE")
    assert runs.complete(place) is None
    assert runs.begun(place, "ended")
    measured(aws, place, "first")
    assert runs.complete(place) == "first"
    assert runs.measured(Way(place)) == "first"
    assert runs.measured(Way(place, again=True)) is None


def test_what_is_no_name_of_a_run_does_not_count(aws: Aws, at: At) -> None:
    place = at("named")
    measured(aws, place, "`touch ran`")
    assert runs.complete(place) is None


def test_a_run_of_another_load_does_not_count(aws: Aws, at: At) -> None:
    measured(aws, at("asked"), "four")
    assert runs.complete(at("asked", {"benchmark.rounds": 7})) is None
    assert runs.complete(at("asked", {"serving.length": 2048})) is None
    assert runs.complete(at("asked")) == "four"


def test_a_run_at_another_price_counts(aws: Aws, at: At) -> None:
    measured(aws, at("priced"), "cheap")
    assert runs.complete(at("priced", {"capacity.price.usd_per_hour": 1.5})) == "cheap"


def test_a_run_of_a_version_that_cannot_be_read_does_not_count(aws: Aws, at: At) -> None:
    place = at("older")
    put(aws, place, "results/old/config.json", body='{"experiment": "older"}')
    put(aws, place, "results/old/_COMPLETE")
    assert runs.complete(place) is None


@pytest.fixture
def sweep(at: At) -> Place:
    assert at("any")  # leads to the embedded AWS
    return find(str(EXPERIMENTS / "article-sweep.yaml"))


def test_a_sweep_is_complete_once_all_its_variants_are_in_one_run(aws: Aws, sweep: Place) -> None:
    told, folder = runs.indexes(sweep), f"results/{run_id(sweep.experiment)}"
    marks = {its.name: f"{folder}/variants/{its.folder}/_COMPLETE" for its in told.variants}
    first, *others = told.names
    put(aws, sweep, *(marks[name] for name in others))
    assert runs.complete_indexes(sweep) == others
    put(aws, sweep, f"{folder}/merged.json", body=json.dumps({"complete": others}))
    assert runs.complete(sweep) is None
    put(aws, sweep, marks[first])
    assert runs.complete(sweep) is None  # the last is still being merged
    put(aws, sweep, f"{folder}/merged.json", body=json.dumps({"complete": [*told.names]}))
    assert runs.complete(sweep) == run_id(sweep.experiment)
