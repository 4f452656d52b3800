"""Services of one comparison and the Jobs that compile for them: what they differ in, and fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from charts import scripts
from charts.llmperf import benchmark_config
from charts.pods import digest
from charts.server import serve_command
from experiment import Experiment, ExperimentError
from experiment.known_models import ModelKind
from experiment.loader import parse
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.runtimes.nxdi import Nxdi, ServedMode
from experiment.variants import Variant, variants
from tests.experiment.files import ON_TRAINIUM, QWEN3_HEAD, edited, swept
from tests.matrix import LADDER, MATRIX
from tests.synthesis import ACCOUNT, Manifest, Synthesised, containers, pods, render

EAGLE3: dict[str, Any] = {
    "runtime": "vllm-neuron-1.x",
    "speculation.mode": "eagle3",
    "speculation.num_speculative_tokens": 3,
    "models.draft": QWEN3_HEAD,
}
"""Compiled by its first start."""


def compared(each: Synthesised) -> list[tuple[Variant, Variant]]:
    """Each variant that speculates, after its baseline."""
    named = {variant.name: variant for variant in variants(each.experiment)}
    return [(named[v.baseline], v) for v in named.values() if v.baseline]


def difference(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Path and both values of everything in which two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(set(left) | set(right)):
            below = f"{path}.{key}" if path else key
            yield from difference(left.get(key), right.get(key), below)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from difference(*pair, f"{path}[{index}]")
    elif left != right:
        yield path, (left, right)


def test_deployments_differ_in_name_labels_artifact_and_speculation_alone(
    side_by_side: Synthesised,
) -> None:
    """The comparison is fair only if this is the whole difference."""
    deployments = {o["metadata"]["name"]: o for o in side_by_side.objects("Deployment")}
    for pair in compared(side_by_side):
        names = tuple(variant.service for variant in pair)
        fetch = 2 if side_by_side.experiment.serving.api_key else 1  # after the key
        command = "spec.template.spec.containers[0].command"
        left, right = (_split(deployments[name]) for name in names)
        assert dict(difference(left, right)) == {
            "metadata.labels.app": names,
            "metadata.name": names,
            "spec.selector.matchLabels.app": names,
            "spec.template.metadata.labels.app": names,
            f"spec.template.spec.initContainers[{fetch}].args[0]": tuple(
                f"compiled/{variant.artifact}/" for variant in pair
            ),
            **{f"{command}.{flag}": (None, value) for flag, value in _speculation(pair[1])},
        }


def _speculation(variant: Variant) -> Iterator[tuple[str, dict[str, Any]]]:
    """The flags by which a variant's command line differs from its baseline's."""
    experiment, runtime, support = variant.experiment, variant.runtime, variant.support
    assert isinstance(runtime, Nxdi)
    assert isinstance(support, ServedMode)
    assert variant.draft
    override: dict[str, Any] = dict.fromkeys(support.overrides, True)
    yield (
        f"{runtime.config_flag}",
        {runtime.config_key: override} if runtime.config_key else override,
    )
    # A head is served as it was prepared, which is a part of the artifact.
    is_head = variant.draft.known.kind is not ModelKind.CAUSAL_LM
    published = f"/models/{variant.draft.id}/{variant.draft.revision}"
    largest = max(each.window or 0 for each in variants(experiment))
    settings = {
        "model": "/artifact/draft" if is_head else published,
        "num_speculative_tokens": variant.window,
        "max_model_len": experiment.serving.length - largest,
        **({"method": support.method} if support.method else {}),
    }
    yield "--speculative-config", settings


def _split(deployment: Manifest) -> Manifest:
    """The deployment with its command line as a mapping of flags, JSON parsed."""
    deployment = json.loads(json.dumps(deployment))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    container["command"] = {"program": words[:3], **flags(words)}
    return deployment


def flags(words: list[str]) -> dict[str, Any]:
    """Each flag with its value, parsed if it is JSON; flags without one are True."""
    values: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            value = json.loads(following) if following.startswith("{") else following
            values[word] = True if following.startswith("--") else value
    return values


def test_all_services_can_call_tools_where_prompts_have_some(
    article: Experiment, variation: Callable[..., Experiment]
) -> None:
    tools = {"--enable-auto-tool-choice", "--tool-call-parser", "hermes"}
    for experiment, expected in ((article, set()), (variation(MATRIX[LADDER]), tools)):
        for variant in variants(experiment):
            assert tools & {*serve_command(variant)} == expected


def test_the_services_of_a_node_and_a_compile_fit_it(side_by_side: Synthesised) -> None:
    instance = side_by_side.experiment.capacity.instance
    pods = dict(side_by_side.pods())
    compiles = next(name for name in pods if name.startswith("compile-"))
    services = [variant.service for variant in variants(side_by_side.experiment)]
    of_a_node = services[: instance.devices // side_by_side.experiment.serving.devices]
    cpus, memory = zip(*(largest(pods[name]) for name in (*of_a_node, compiles)), strict=True)
    # Eight vCPUs are for the node's own pods.
    assert sum(cpus) <= instance.vcpus - 8
    assert sum(memory) <= instance.memory_gib * 0.95


def largest(pod: dict[str, Any]) -> tuple[int, int]:
    """The most CPUs that a container of the pod asks for, and GiB that one may take."""
    resources = [container["resources"] for container in containers(pod)]
    return (
        max(int(each["requests"]["cpu"]) for each in resources),
        max(int(each["limits"]["memory"].removesuffix("Gi")) for each in resources),
    )


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


PREPARED_BY = {"prepare_draft.py": (1, "83d1129a"), "prepare_medusa.py": (1, "db709e8a")}
"""The version of each script that prepares a draft, and its digest."""


def test_variants_are_compiled_on_trainium_nodes_where_the_experiment_says() -> None:
    jobs = [o for o in render(parse(edited(ON_TRAINIUM), "mine.yaml")) if o["kind"] == "Job"]
    compiles = [job for job in jobs if "compile" in job["metadata"]["name"]]
    assert len(compiles) == 2
    for pod in (job["spec"]["template"]["spec"] for job in compiles):
        assert pod["nodeSelector"] == {"speculative-decoding/node-group": "trainium"}
        assert [each["key"] for each in pod["tolerations"]] == ["aws.amazon.com/neuron"]


@pytest.mark.parametrize("name", PREPARED_BY)
def test_a_changed_preparation_makes_another_artifact(name: str) -> None:
    """If this fails: raise the version if the drafts differ from before, and write both here.

    Without a new version, a service goes on with what the old script has prepared.
    """
    assert (PREPARATIONS[name], digest(scripts.read()[name])) == PREPARED_BY[name]
    assert set(PREPARATIONS) == set(PREPARED_BY)


def test_variants_are_compiled_alike_but_for_speculation(each: Synthesised) -> None:
    serving = each.experiment.serving
    for baseline, variant in compared(each):
        assert isinstance(variant.support, ServedMode)
        base, speculating = (
            flags(
                each.object("Job", f"compile-{v.service}-")["spec"]["template"]["spec"][
                    "initContainers"
                ][-1]["args"]
            )
            for v in (baseline, variant)
        )
        shape = {
            "--tp-degree": str(serving.tensor_parallel),
            "--logical-nc-config": str(serving.logical_core_size),
            "--batch-size": str(variant.batch),
            "--seq-len": str(serving.length),
            "--on-device-sampling": True,
        }
        assert shape.items() <= base.items() <= speculating.items()
        modes = {f"--{key.replace('_', '-')}" for key in variant.support.overrides}
        speculation = {"--draft-model-path", "--speculation-length"} | modes
        assert set(speculating) - set(base) == speculation
        assert speculating["--speculation-length"] == str(variant.window)


def test_a_changed_job_is_a_new_job_with_a_new_name(article: Experiment) -> None:
    """Its name is a digest of its specification, in which no account is."""
    shorter = parse(edited({"speculation.num_speculative_tokens": 5}), "mine.yaml")
    before, after = ([o for o in render(e) if o["kind"] == "Job"] for e in (article, shorter))
    names, changed_names = ({job["metadata"]["name"] for job in jobs} for jobs in (before, after))
    assert len(names ^ changed_names) == 2
    assert all(name.startswith("compile-qwen-sd-vllm-") for name in names ^ changed_names)
    assert not any(ACCOUNT in str(job) for job in before)
