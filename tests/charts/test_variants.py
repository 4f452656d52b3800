"""Variants of several batches, from the file to their manifests."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import cdk8s
import pytest

from charts.deployed import Deployed
from charts.manifests import charts
from experiment.loader import parse
from tests.experiment.files import edited

SERVICES = {
    "qwen-vllm": "4",
    "qwen-sd-vllm": "4",
    "qwen-base-batch-8-vllm": "8",
    "qwen-wide-vllm": "8",
}
"""Each service with its batch: two variants, and a baseline for each batch."""


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    """Every object by kind and name, the digests of Jobs left out."""
    fused = {"mode": "fused", "num_speculative_tokens": 7}
    changes = {
        "speculation": [fused | {"name": "SD"}, fused | {"name": "wide", "batch": 8}],
        "serving.devices": 4,
        "serving.tensor_parallel": 16,
    }
    experiment = parse(edited(changes), "mine.yaml")
    deployed = Deployed(bucket="bucket", benchmark_image="registry.example.com/benchmark:1")
    found = [o for c in charts(cdk8s.App(), experiment, deployed) for o in c.to_json()]
    named = ((o["kind"], o["metadata"]["name"], o) for o in found)
    return {(k, n.rpartition("-")[0] if k == "Job" else n): o for k, n, o in named}


def test_each_has_a_service_of_its_batch(objects: dict[tuple[str, str], Any]) -> None:
    batches = {}
    for (kind, name), manifest in objects.items():
        if kind == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            batches[name] = dict(pairwise(container["command"]))["--max-num-seqs"]
    assert batches == SERVICES


def test_each_is_compiled_for_its_batch(objects: dict[tuple[str, str], Any]) -> None:
    for service, batch in SERVICES.items():
        job = objects["Job", f"compile-{service}"]["spec"]["template"]["spec"]
        flags = dict(pairwise(job["initContainers"][-1]["args"]))
        assert [flags["--batch-size"], flags["--tkg-batch-size"]] == [batch, batch]


def test_the_benchmark_holds_each_against_the_baseline_of_its_batch(
    objects: dict[tuple[str, str], Any],
) -> None:
    config = json.loads(objects["ConfigMap", "qwen-llmperf"]["data"]["config.json"])
    assert [(v["name"], v["baseline"], v["batch"]) for v in config["variants"]] == [
        ("Base", None, 4),
        ("SD", "Base", 4),
        ("Base-batch-8", None, 8),
        ("wide", "Base-batch-8", 8),
    ]
