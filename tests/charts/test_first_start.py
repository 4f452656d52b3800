"""Services of a runtime that compiles on the devices, at its first start."""

from __future__ import annotations

import re
from typing import Any

import pytest

from charts.llmperf import benchmark_config
from experiment import Experiment, ExperimentError
from experiment.loader import parse
from experiment.variants import variants
from tests.charts.test_vllm import difference, largest
from tests.experiment.files import QWEN3_HEAD, edited, swept
from tests.synthesis import pods, render

EAGLE3: dict[str, Any] = {
    "runtime": "vllm-neuron-1.x",
    "speculation.mode": "eagle3",
    "speculation.num_speculative_tokens": 3,
    "models.draft": QWEN3_HEAD,
}


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    """A baseline and EAGLE3 on vllm-neuron."""
    return parse(edited(EAGLE3), "mine.yaml")


@pytest.fixture
def served(experiment: Experiment) -> list[dict[str, Any]]:
    """The pods of both services."""
    pod_specs = dict(pods(render(experiment)))
    return [pod_specs["qwen-vllm"], pod_specs["qwen-sd-vllm"]]


def test_the_services_of_a_node_compile_side_by_side(
    experiment: Experiment, served: list[dict[str, Any]]
) -> None:
    instance = experiment.capacity.instance
    # What runs at the same time: the server and its sidecar.
    running = [c for pod in served for c in (pod["initContainers"][-1], *pod["containers"])]
    cpus, memory = zip(*(largest({"containers": [c]}) for c in running), strict=True)
    assert sum(cpus) <= instance.vcpus - 8
    assert sum(memory) <= instance.memory_gib * 0.95


def test_variants_differ_in_their_key_their_checkpoints_and_the_mode(
    experiment: Experiment, served: list[dict[str, Any]]
) -> None:
    """The comparison is fair only if this is the whole difference."""
    for variant, pod in zip(variants(experiment), served, strict=True):
        _, fetch, keep = pod["initContainers"]
        (server,) = pod["containers"]
        assert fetch["args"].pop(0) == keep["args"].pop(0) == f"compiled/{variant.artifact}/"
        if variant.draft:
            assert fetch["args"].pop().startswith("models/example/qwen3-32b-eagle3/")
            assert server["command"][-2] == "--speculative-config"
            del server["command"][-2:]
            # vLLM turns it off itself. A baseline is served as one would serve it.
            server["command"].remove("--no-async-scheduling")
    assert list(difference(served[0], served[1])) == []


def test_a_matched_baseline_is_the_variant_that_speculates_without_its_draft() -> None:
    """The other baseline, which decides, differs from it by async scheduling alone."""
    changes = EAGLE3 | {"serving.devices": 4, "serving.tensor_parallel": 16}
    experiment = parse(edited(changes), "mine.yaml")
    base, speculative, matched = (list(v.compile_flags) for v in variants(experiment))
    assert matched == speculative[:-2]
    matched.remove("--no-async-scheduling")
    assert matched == base
    without = [each.without for each in benchmark_config(experiment, "bucket").variants]
    assert without == [None, "async scheduling", "async scheduling"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (EAGLE3 | {"capacity.nodes": 2}, "capacity.nodes = 2: must be 1"),
        (
            {k: v for k, v in EAGLE3.items() if not k.startswith("speculation")}
            | swept(mode="eagle3", windows=[3, 5]),
            'runtime = "vllm-neuron-1.x": must not be one that compiles',
        ),
    ],
)
def test_no_node_is_paid_for_a_matched_baseline_and_no_sweep_compiles_first(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ExperimentError, match=re.escape(words)):
        parse(edited(changes), "mine.yaml")
