"""Services of one comparison and the Jobs that compile for them: what they differ in; and what the
benchmark is told of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charts import benchmark, scripts
from charts.benchmark import benchmark_config
from charts.names import Deployed, bucket_name, prompts_bucket_name, stopper_arn
from charts.pods import digest
from charts.server import program
from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.variants import Variant, variants
from spectap.inputs import config
from tests.experiment.files import EAGLE, QWEN3_HEAD, edited
from tests.matrix import FIRST, LADDER, MATRIX, SWEEP
from tests.synthesis import ACCOUNT, Synthesised, Vary, by_name, pods, render

EAGLE3: dict[str, Any] = {
    "runtime": "vllm-neuron",
    "speculation.mode": "eagle3",
    "speculation.num_speculative_tokens": 3,
    "models.draft": QWEN3_HEAD,
}
"""Compiled by its first start."""
DEPLOYED = Deployed("bucket", "image")


def compared(each: Synthesised) -> list[tuple[Variant, Variant]]:
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
    """The comparison is fair only if this is the whole difference; commands.txt has the flags."""
    deployments = {o["metadata"]["name"]: o for o in side_by_side.objects("Deployment")}
    for pair in compared(side_by_side):
        names = tuple(variant.service for variant in pair)
        fetch = 2 if side_by_side.experiment.serving.api_key else 1  # after the key
        left, right = (json.loads(json.dumps(deployments[name])) for name in names)
        plain, speculative = (
            each["spec"]["template"]["spec"]["containers"][0].pop("command")
            for each in (left, right)
        )
        assert speculative[: len(plain)] == plain
        switches = ["--override-neuron-config", "--speculative-config"]
        assert speculative[len(plain) :: 2] == switches
        settings = json.loads(speculative[-1])
        assert settings["num_speculative_tokens"] == pair[1].window
        assert settings["max_model_len"] == side_by_side.experiment.served_length
        assert dict(difference(left, right)) == {
            "metadata.labels.app": names,
            "metadata.name": names,
            "spec.selector.matchLabels.app": names,
            "spec.template.metadata.labels.app": names,
            f"spec.template.spec.initContainers[{fetch}].args[0]": tuple(
                f"compiled/{variant.artifact}/" for variant in pair
            ),
        }


def test_all_services_can_call_tools_where_prompts_have_some(
    article: Experiment, variation: Vary
) -> None:
    tools = {"--enable-auto-tool-choice", "--tool-call-parser", "hermes"}
    for experiment, expected in ((article, set()), (variation(MATRIX[LADDER]), tools)):
        for variant in variants(experiment):
            assert tools & {*program(variant)[0]} == expected


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    """A baseline and EAGLE3 on vllm-neuron."""
    return parse(edited(EAGLE3), "mine.yaml")


@pytest.fixture
def served(experiment: Experiment) -> list[dict[str, Any]]:
    pod_specs = dict(pods(render(experiment)))
    return [pod_specs["qwen-vllm"], pod_specs["qwen-sd-vllm"]]


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
    without = [each.without for each in benchmark_config(experiment, DEPLOYED).variants]
    assert without == [None, "async scheduling", "async scheduling"]


def test_a_matched_baseline_is_served_where_the_nodes_of_the_file_have_room() -> None:
    full = [
        [v.name for v in variants(parse(edited(EAGLE3 | {"capacity.nodes": nodes}), "mine.yaml"))]
        for nodes in (1, 2)
    ]
    assert full == [["Base", "SD"], ["Base", "SD", "Base-matched"]]


PREPARED_BY = {"prepare_draft.py": (1, "38483cd4"), "prepare_medusa.py": (1, "db709e8a")}
"""The version of each script that prepares a draft, and its digest."""


@pytest.mark.parametrize("name", PREPARED_BY)
def test_a_changed_preparation_makes_another_artifact(name: str) -> None:
    """If this fails: raise the version if the drafts differ from before, and write both here.

    Without a new version, a service goes on with what the old script has prepared.
    """
    assert (PREPARATIONS[name], digest(scripts.read()[name])) == PREPARED_BY[name]
    assert set(PREPARATIONS) == set(PREPARED_BY)


def test_nothing_but_the_image_of_the_pod_depends_on_the_experiment(
    article: Experiment, variation: Vary
) -> None:
    """A pod can be changed in nothing else."""
    changes = {
        "aws.region": "eu-north-1",
        "aws.availability_zones": ["eu-north-1a", "eu-north-1b"],
        "capacity.availability_zone": "eu-north-1a",
        "speculation.num_speculative_tokens": 3,
        "benchmark.rounds": 9,
        "benchmark.image": "registry.example.com/benchmark:1",
    }
    before, after = (
        by_name(render(e))["Pod", "qwen-llmperf"] for e in (article, variation(changes))
    )
    assert [path for path, _ in difference(before, after)] == ["spec.containers[0].image"]


def test_a_pod_of_another_specification_has_another_name(
    article: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl apply refuses to change a pod (kubernetes#121855)."""
    before = by_name(render(article))["Pod", "qwen-llmperf"]
    more = benchmark.BENCHMARK_RESOURCES._replace(memory=5)
    monkeypatch.setattr(benchmark, "BENCHMARK_RESOURCES", more)
    after = by_name(render(article))["Pod", "qwen-llmperf"]
    assert before["metadata"]["name"] != after["metadata"]["name"]
    assert before["metadata"]["labels"] == after["metadata"]["labels"]


def test_the_benchmark_reads_what_is_written(side_by_side: Synthesised, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(side_by_side.object("ConfigMap", "qwen-llmperf")["data"]["config.json"])
    experiment = side_by_side.experiment
    deployed = Deployed(
        bucket_name(experiment, ACCOUNT),
        "any",
        stopper_arn(experiment, ACCOUNT),
        prompts_bucket_name(experiment, ACCOUNT, "hnb659fds"),
    )
    # Its lines are an object beside the files of prompts.
    assert config.read(path) == config.without_lines(benchmark_config(experiment, deployed))[0]


@pytest.mark.parametrize(
    ("kwargs", "settings"),
    [
        ({"enable_thinking": False}, {"Thinking": "off"}),
        # Only false keeps Qwen3's template from it.
        ({"enable_thinking": "false"}, {"Thinking": "on"}),
        ({"a": 1}, {"Thinking": "on, the model's default", "Chat template": '{"a": 1}'}),
    ],
)
def test_what_the_chat_template_is_told_is_sent_and_said(
    variation: Vary, kwargs: Any, settings: dict[str, str]
) -> None:
    assert "Thinking" not in benchmark_config(variation(EAGLE), DEPLOYED).settings
    written = benchmark_config(variation({"benchmark.chat_template_kwargs": kwargs}), DEPLOYED)
    assert written.load.sampling == {"temperature": 0.0, "chat_template_kwargs": kwargs}
    listed = {key: written.settings.get(key) for key in ("Thinking", "Chat template")}
    assert {key: value for key, value in listed.items() if value} == settings


def test_services_on_two_nodes_are_on_two_machines(variation: Vary) -> None:
    written = [
        benchmark_config(variation(MATRIX[name]), DEPLOYED) for name in (LADDER, FIRST, SWEEP)
    ]
    assert [each.machines for each in written] == [1, 2, 1]
