"""What the benchmark's pod is told, and what of the pod depends on the experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from charts.llmperf import CONFIG_PATH, benchmark_config
from charts.names import bucket_name, stopper_arn
from charts.scripts import relaunch
from experiment import Experiment
from spectap import config
from tests.charts.test_vllm import difference
from tests.experiment.files import EAGLE
from tests.matrix import LADDER, MATRIX
from tests.synthesis import ACCOUNT, Synthesised, by_name, render

Vary = Callable[[dict[str, Any]], Experiment]


def test_nothing_but_the_image_of_the_pod_depends_on_the_experiment(
    article: Experiment, variation: Vary
) -> None:
    """A pod can be changed in nothing else."""
    changes = {
        "name": "other",
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


def test_the_benchmark_reads_what_is_written(side_by_side: Synthesised, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(side_by_side.object("ConfigMap", "qwen-llmperf")["data"]["config.json"])
    experiment = side_by_side.experiment
    names = bucket_name(experiment, ACCOUNT), stopper_arn(experiment, ACCOUNT)
    assert config.read(path) == benchmark_config(experiment, *names)


@pytest.mark.parametrize(
    ("kwargs", "settings"),
    [
        ({"enable_thinking": False}, {"Thinking": "off"}),
        ({"enable_thinking": True}, {"Thinking": "on"}),
        # Only false keeps Qwen3's template from it.
        ({"enable_thinking": "false"}, {"Thinking": "on"}),
        ({"a": 1}, {"Thinking": "on, the model's default", "Chat template": '{"a": 1}'}),
    ],
)
def test_what_the_chat_template_is_told_is_sent_and_said(
    variation: Vary, kwargs: Any, settings: dict[str, str]
) -> None:
    assert "Thinking" not in benchmark_config(variation(EAGLE), "bucket").settings
    written = benchmark_config(variation({"benchmark.chat_template_kwargs": kwargs}), "bucket")
    assert written.load.sampling == {"temperature": 0.0, "chat_template_kwargs": kwargs}
    listed = {key: written.settings.get(key) for key in ("Thinking", "Chat template")}
    assert {key: value for key, value in listed.items() if value} == settings


def test_a_ladder_on_prompt_sets_is_passed_on(variation: Vary) -> None:
    rounds = {"at_least": 4, "at_most": 30, "half_width": 0.05}
    experiment = variation(MATRIX[LADDER] | {"benchmark.rounds": rounds})
    written = json.loads(config.dump(benchmark_config(experiment, "bucket")))
    assert written["load"]["rounds"].items() >= rounds.items()
    assert written["load"]["points"] == [
        {"concurrency": 2, "requests": 4},
        {"concurrency": 8, "requests": 16},
        {"rate": 0.5, "requests": 30},
    ]
    assert written["objectives"] == {"ttft_p90_ms": 2000, "tpot_p90_ms": 50, "e2e_p90_ms": None}
    assert written["keep_answers"] is True
    cases = written["test_cases"]
    assert {case["line"] for case in cases} == {case["structure"] for case in cases} == {None}
    assert [{key: value for key, value in case["prompts"].items() if value} for case in cases] == [
        {"known": "mt-bench", "classes": ["coding", "math"]},
        {"known": "bfcl", "limit": 12},
    ]


def test_a_concurrency_gets_at_least_a_full_wave(variation: Vary) -> None:
    ladder = [{"concurrency": 2}, {"concurrency": 6}, {"concurrency": 8, "requests": 20}]
    changes = {"benchmark.concurrency": None, "benchmark.load": ladder, "benchmark.requests": 4}
    points = benchmark_config(variation(changes), "bucket").load.points
    assert [point.requests for point in points] == [4, 6, 20]


def test_a_pod_that_launches_its_services_may_patch_these_alone(variation: Vary) -> None:
    objects = by_name(render(variation({"benchmark.rounds": 6, "benchmark.launches": 3})))
    name = "qwen-llmperf-launches"
    pod, settings = objects["Pod", name], objects["ConfigMap", name]["data"]
    assert json.loads(settings["config.json"])["load"]["launches"] == 3
    assert pod["spec"]["automountServiceAccountToken"] is True
    account = pod["spec"]["serviceAccountName"]
    others = [
        spec
        for (kind, of), manifest in objects.items()
        if kind in ("Pod", "Job", "Deployment") and of != name
        for spec in [manifest["spec"]["template"]["spec"]]
    ]
    assert account not in {spec["serviceAccountName"] for spec in others}
    assert {spec["automountServiceAccountToken"] for spec in others} == {False}
    assert objects["Role", name]["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": ["qwen-vllm", "qwen-sd-vllm"],
            "verbs": ["get", "patch"],
        }
    ]
    binding = objects["RoleBinding", name]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", name)
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    (container,) = pod["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    command, _, path = (variables["RELAUNCH"] or "").partition(" ")
    folder, _, script = path.rpartition("/")
    assert (command, folder, script in settings) == ("python", CONFIG_PATH, True)
    assert relaunch.services(json.loads(settings["config.json"])) == ["qwen-vllm", "qwen-sd-vllm"]


def test_a_pod_of_one_launch_has_no_rights(article: Experiment) -> None:
    objects = by_name(render(article))
    assert not {kind for kind, _ in objects} & {"Role", "RoleBinding"}
    assert objects["Pod", "qwen-llmperf"]["spec"]["automountServiceAccountToken"] is False
