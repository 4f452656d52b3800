"""Services of a runtime that compiles on the devices, at its first start."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from charts.llmperf import benchmark_config
from experiment import Experiment, ExperimentError
from experiment.loader import parse
from experiment.runtimes import Preparation
from experiment.variants import variants
from tests.charts.test_vllm import difference
from tests.experiment.files import QWEN3_HEAD, edited, swept
from tests.synthesis import Synthesised, synthesise

BASE, SD = "qwen-vllm", "qwen-sd-vllm"
EAGLE3: dict[str, Any] = {
    "runtime": "vllm-neuron-1.x",
    "speculation.mode": "eagle3",
    "speculation.num_speculative_tokens": 3,
    "models.draft": QWEN3_HEAD,
}
QUARTER: dict[str, Any] = {"serving.devices": 4, "serving.tensor_parallel": 16}


@pytest.fixture(scope="module")
def first_start(
    variation: Callable[..., Experiment], tmp_path_factory: pytest.TempPathFactory
) -> Synthesised:
    """A baseline and EAGLE3 on vllm-neuron."""
    return synthesise(variation(EAGLE3), tmp_path_factory.mktemp("first-start"))


def pod(synthesised: Synthesised, service: str) -> dict[str, Any]:
    """The pod specification of a service."""
    found = dict(synthesised.pods())
    its: dict[str, Any] = copy.deepcopy(found[service])
    return its


def test_the_services_of_a_node_compile_side_by_side(first_start: Synthesised) -> None:
    instance = first_start.experiment.capacity.instance
    pods = [pod(first_start, service) for service in (BASE, SD)]
    # What runs at the same time: the server and its sidecar.
    running = [c for p in pods for c in (p["initContainers"][-1], *p["containers"])]
    assert sum(int(c["resources"]["requests"]["cpu"]) for c in running) <= instance.vcpus - 8
    memory = [int(c["resources"]["limits"]["memory"].removesuffix("Gi")) for c in running]
    assert sum(memory) <= instance.memory_gib * 0.95
    for each in pods:
        assert each["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "200Gi"
        sizes = {v["name"]: v.get("emptyDir", {}).get("sizeLimit") for v in each["volumes"]}
        assert (sizes["artifact"], sizes["tmp"]) == ("300Gi", "100Gi")


def test_variants_differ_in_their_key_their_checkpoints_and_the_mode(
    first_start: Synthesised,
) -> None:
    """The comparison is fair only if this is the whole difference."""
    sides = []
    for variant in variants(first_start.experiment):
        its = pod(first_start, variant.service)
        _, fetch, keep = its["initContainers"]
        (server,) = its["containers"]
        assert fetch["args"].pop(0) == keep["args"].pop(0) == f"compiled/{variant.artifact}/"
        if variant.draft:
            assert fetch["args"].pop().startswith("models/example/qwen3-32b-eagle3/")
            assert server["command"][-2] == "--speculative-config"
            del server["command"][-2:]
            # vLLM turns it off itself. A baseline is served as one would serve it.
            server["command"].remove("--no-async-scheduling")
        sides.append(its)
    left, right = sides
    assert list(difference(left, right)) == []


def test_a_matched_baseline_is_the_variant_that_speculates_without_its_draft() -> None:
    """The other baseline, which decides, differs from it by async scheduling alone."""
    base, speculative, matched = variants(parse(edited(EAGLE3 | QUARTER), "mine.yaml"))
    assert [matched.name, matched.baseline] == ["Base-matched", None]
    flags = [list(each.compile_flags) for each in (base, speculative, matched)]
    assert flags[1][-2] == "--speculative-config"
    assert flags[2] == flags[1][:-2]
    flags[2].remove("--no-async-scheduling")
    assert flags[2] == flags[0]
    assert len({each.artifact for each in (base, speculative, matched)}) == 3


def test_no_node_is_paid_for_a_matched_baseline(first_start: Synthesised) -> None:
    assert [each.name for each in variants(first_start.experiment)] == ["Base", "SD"]
    with pytest.raises(ExperimentError, match=r"capacity.nodes = 2: must be 1"):
        parse(edited(EAGLE3 | {"capacity.nodes": 2}), "mine.yaml")


def test_the_benchmark_is_told_what_each_is_served_without() -> None:
    told = benchmark_config(parse(edited(EAGLE3 | QUARTER), "mine.yaml"), "bucket")
    assert {each.name: each.without for each in told.variants} == {
        "Base": None,
        "SD": "async scheduling",
        "Base-matched": "async scheduling",
    }


def test_a_sweep_is_refused(first_start: Synthesised) -> None:
    runtime = first_start.experiment.serving_runtime
    assert runtime.preparation is Preparation.FIRST_START
    sweep = swept(mode="eagle3", windows=[3, 5])
    changes = {k: v for k, v in EAGLE3.items() if not k.startswith("speculation")} | sweep
    with pytest.raises(ExperimentError) as refused:
        parse(edited(changes), "mine.yaml")
    assert 'runtime = "vllm-neuron-1.x": must not be one that compiles' in str(refused.value)
