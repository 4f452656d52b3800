"""What the bucket says of an experiment: which checkpoints, graphs and runs are complete."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from charts.indexes import run_id
from charts.llmperf import benchmark_config
from deployment.account import Deployment
from deployment.bucket import Bucket, checkpoints, graphs
from deployment.stages import runs
from deployment.stages.measure import Benchmark
from deployment.stages.prepare import Compile, Download
from deployment.stages.stage import Context
from rehearsal.aws.client import Aws
from spectap import config
from spectap.names import COMPLETE, MERGED, results_key, variant_run
from tests.deployment import account
from tests.deployment.account import put
from tests.deployment.api import Objects
from tests.deployment.conftest import At, performed
from tests.deployment.test_stages_command import command
from tests.experiment.files import swept

SWEEP = swept(windows=[3, 7])


def measured(aws: Aws, deployment: Deployment, run: str, **changes: Any) -> None:
    """A complete run, asked what ``deployment`` asks but for ``changes`` of its configuration."""
    asked = benchmark_config(deployment.experiment, Bucket(deployment).name)
    body = config.dump(asked.model_copy(update=changes))
    put(aws, deployment, f"results/{run}/config.json", body=body)
    put(aws, deployment, f"results/{run}/_COMPLETE")


def test_checkpoints_and_graphs_are_there_with_their_markers(aws: Aws, at: At) -> None:
    context = Context(at("marked"))
    download, compile_ = Download(context), Compile(context)
    # Without a bucket nothing is there.
    assert (download.existing(), compile_.existing()) == (None, None)
    assert (runs.complete(context.deployment), runs.measured(context)) == (None, None)
    wanted = checkpoints(context.deployment.experiment)
    assert wanted == [
        "models/Qwen/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137/",
        "models/Qwen/Qwen3-1.7B/70d244cc86ccca08cf5af4e1e306ecf908b1ad5e/",
    ]
    put(aws, context.deployment, *(f"{prefix}config.json" for prefix in wanted))
    put(aws, context.deployment, f"{wanted[0]}_COMPLETE")
    assert download.existing() is None
    put(aws, context.deployment, f"{wanted[1]}_COMPLETE")
    assert download.existing() == "checkpoints: 2"

    markers = (f"{prefix}_COMPLETE" for prefix in graphs(context.deployment.experiment))
    put(aws, context.deployment, *markers)
    assert compile_.existing() == "graphs: 2"


def test_the_newest_complete_run_of_the_same_load_counts(aws: Aws, at: At) -> None:
    deployment = at("measured")
    put(aws, deployment, "results/ended/ledger.jsonl", "results/quality/qwen-vllm/_COMPLETE")
    measured(aws, deployment, "`touch ran`")  # no name of a run
    put(aws, deployment, "results/old/config.json", body='{"experiment": "of another version"}')
    put(aws, deployment, "results/old/_COMPLETE")
    assert runs.complete(deployment) is None
    measured(aws, deployment, "first")
    assert runs.complete(deployment) == "first"
    assert runs.measured(Context(deployment)) == "first"
    assert runs.measured(Context(deployment, again=True)) is None
    assert runs.complete(at("measured", {"capacity.price.usd_per_hour": 1.5})) == "first"
    assert runs.complete(at("measured", {"benchmark.rounds": 7})) is None
    assert runs.complete(at("measured", {"serving.length": 2048})) is None


def test_a_sweep_is_complete_once_all_its_variants_are_in_one_run(aws: Aws, at: At) -> None:
    sweep = at("swept", SWEEP)
    indexes, folder = runs.indexes(sweep), f"results/{run_id(sweep.experiment)}"
    marks = {v.name: f"{folder}/variants/{v.folder}/_COMPLETE" for v in indexes.variants}
    first, *others = indexes.names
    put(aws, sweep, *(marks[name] for name in others))
    assert runs.complete_indexes(sweep) == others
    put(aws, sweep, f"{folder}/merged.json", body=json.dumps({"complete": others}))
    assert runs.complete(sweep) is None
    put(aws, sweep, marks[first])
    assert runs.complete(sweep) is None  # the last is still being merged
    put(aws, sweep, f"{folder}/merged.json", body=json.dumps({"complete": [*indexes.names]}))
    assert runs.complete(sweep) == run_id(sweep.experiment)


def complete(aws: Aws, deployment: Deployment) -> None:
    """All variants of a sweep are, and the merged run has them."""
    indexes, run = runs.indexes(deployment), run_id(deployment.experiment)
    merged = json.dumps({"complete": [*indexes.names]})
    put(aws, deployment, results_key(run, MERGED), body=merged)
    folders = (variant_run(run, variant.folder) for variant in indexes.variants)
    put(aws, deployment, *(results_key(folder, COMPLETE) for folder in folders))


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
        metadata = {"name": "qwen-sweep", "labels": {"app": "qwen-sweep"}}
        metadata |= {"creationTimestamp": "2026-11-22T10:00:00Z"}
        return [{"metadata": metadata, "status": {"active": int(self.looks < 6)}}]


def test_a_run_is_over_when_no_index_merges_any_more(aws: Aws, at: At, api: Objects) -> None:
    """Its nodes are ended then: what an index still uploads would be lost, or half of it."""
    deployment = at("merging", SWEEP)
    account.groups(aws, deployment)
    account.scale(aws, deployment, 1)
    api.lists = Merging(lambda: complete(aws, deployment))
    shown = performed(Benchmark(Context(deployment)))
    assert f"run {run_id(deployment.experiment)} is complete" in shown
    assert api.lists.looks == 6


def test_measuring_a_complete_sweep_anew_is_refused_before_anything_costs(
    aws: Aws, at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = at("twice", SWEEP)
    account.groups(aws, deployment)
    complete(aws, deployment)
    assert command("experiment", deployment, "--yes", "--again") == 1
    refusal = capsys.readouterr().err
    assert refusal.startswith(f"run {run_id(deployment.experiment)} is complete")
    assert "another sweep.run makes another run" in refusal
    assert account.sizes(deployment) == {"trainium": 0, "compile": 0}
