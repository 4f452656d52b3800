from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from charts.llmperf import benchmark_config
from charts.names import bucket_name, stopper_arn
from experiment import Experiment
from experiment.variants import variants
from spectap import config
from spectap.load_points import Rounds
from tests.charts.test_vllm import difference
from tests.experiment.files import EAGLE
from tests.matrix import LADDER
from tests.synthesis import ACCOUNT, Synthesised, synthesise


def test_is_the_articles_pod(synthesised: Synthesised) -> None:
    pod = synthesised.object("Pod", "qwen-llmperf")
    assert pod["metadata"]["name"] == "qwen-llmperf"
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    # It measures from a CPU node: the Trainium nodes are tainted.
    assert "tolerations" not in pod["spec"]


def test_nothing_but_the_image_of_the_pod_depends_on_the_experiment(
    synthesised: Synthesised,
    variation: Callable[[dict[str, Any]], Experiment],
    tmp_path: Path,
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
    other = synthesise(variation(changes), tmp_path)
    before, after = (s.object("Pod", "qwen-llmperf") for s in (synthesised, other))
    assert [path for path, _ in difference(before, after)] == ["spec.containers[0].image"]


def test_configuration_says_what_each_variant_is(synthesised: Synthesised) -> None:
    namespace = "speculative-decoding.svc.cluster.local:8000/v1"
    base, sd = (variant.artifact for variant in variants(synthesised.experiment))
    common = {"runtime": "vllm-0.9.1-nxdi", "batch": 4}
    assert _config(synthesised)["variants"] == [
        common
        | dict.fromkeys(["baseline", "mode", "draft", "window", "drafts_per_step"])
        | {"name": "Base", "endpoint": f"http://qwen-vllm.{namespace}", "artifact": base},
        common
        | {"name": "SD", "endpoint": f"http://qwen-sd-vllm.{namespace}", "artifact": sd}
        # NxDI verifies a window of seven positions with six drafts.
        | {"baseline": "Base", "mode": "fused", "window": 7, "drafts_per_step": 6}
        | {"draft": "Qwen/Qwen3-1.7B @ 70d244cc"},
    ]


def test_configuration_has_every_variant_in_the_order_they_are_shown_in(
    side_by_side: Synthesised,
) -> None:
    services = {s["metadata"]["name"] for s in side_by_side.objects("Service")}
    told = _config(side_by_side)["variants"]
    shown = [(v.name, v.baseline, v.window) for v in variants(side_by_side.experiment)]
    assert [(v["name"], v["baseline"], v["window"]) for v in told] == shown
    assert {v["endpoint"].partition("//")[2].partition(".")[0] for v in told} == services


def test_a_range_of_rounds_is_passed_on(variation: Callable[[dict[str, Any]], Experiment]) -> None:
    rounds = {"at_least": 4, "at_most": 30, "half_width": 0.05}
    told = benchmark_config(variation({"benchmark.rounds": rounds}), "bucket")
    assert told.load.rounds == Rounds.model_validate(rounds)
    assert config.Config.model_validate_json(config.dump(told)) == told


def test_the_benchmark_reads_what_is_written(side_by_side: Synthesised, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(side_by_side.object("ConfigMap", "qwen-llmperf")["data"]["config.json"])
    experiment = side_by_side.experiment
    names = bucket_name(experiment, ACCOUNT), stopper_arn(experiment, ACCOUNT)
    assert config.read(path) == benchmark_config(experiment, *names)


def test_settings_hold_nothing_of_one_variant(synthesised: Synthesised) -> None:
    assert _config(synthesised)["settings"] == {
        "Target": "Qwen/Qwen3-32B @ 9216db57",
        "Image": "0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04",
        "Devices": "8 of a trn2.48xlarge, LNC 2, TP 32",
        "Length": "1024 tokens",
        "Region": "us-east-2",
        "Thinking": "on, the model's default",
        "Price": "35.7608 USD per hour (as of 2026-05-21, capacity-block in us-east-2; no price of "
        "on-demand in us-east-2 is given)",
    }


@pytest.mark.parametrize(
    ("told", "settings"),
    [
        ({"enable_thinking": False}, {"Thinking": "off"}),
        ({"enable_thinking": True}, {"Thinking": "on"}),
        # Only false keeps Qwen3's template from it.
        ({"enable_thinking": "false"}, {"Thinking": "on"}),
        ({"a": 1}, {"Thinking": "on, the model's default", "Chat template": '{"a": 1}'}),
    ],
)
def test_what_the_chat_template_is_told_is_sent_and_said(
    variation: Callable[[dict[str, Any]], Experiment], told: Any, settings: dict[str, str]
) -> None:
    written = benchmark_config(variation({"benchmark.chat_template_kwargs": told}), "bucket")
    assert written.load.sampling == {"temperature": 0.0, "chat_template_kwargs": told}
    said = {key: written.settings.get(key) for key in ("Thinking", "Chat template")}
    assert {key: value for key, value in said.items() if value} == settings


def test_a_model_that_does_not_think_is_not_said_to(
    variation: Callable[[dict[str, Any]], Experiment],
) -> None:
    assert "Thinking" not in benchmark_config(variation(EAGLE), "bucket").settings


def test_a_ladder_on_prompt_sets_is_passed_on(of_matrix: Callable[[str], Synthesised]) -> None:
    written = _config(of_matrix(LADDER))
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


def test_a_concurrency_gets_at_least_a_full_wave(
    variation: Callable[[dict[str, Any]], Experiment],
) -> None:
    ladder = [{"concurrency": 2}, {"concurrency": 6}, {"concurrency": 8, "requests": 20}]
    changes = {"benchmark.concurrency": None, "benchmark.load": ladder, "benchmark.requests": 4}
    points = benchmark_config(variation(changes), "bucket").load.points
    assert [point.requests for point in points] == [4, 6, 20]


def test_results_go_into_the_experiments_bucket(synthesised: Synthesised) -> None:
    assert _config(synthesised)["bucket"] == f"article-models-{ACCOUNT}-us-east-2"


def test_configuration_is_the_samples_load(synthesised: Synthesised) -> None:
    told = _config(synthesised)["load"]
    assert told["mean_input_tokens"] == 64
    assert told["mean_output_tokens"] == 600
    assert told["points"] == [{"concurrency": 4, "requests": 4}]
    assert told["timeout_seconds"] == 1200
    assert told["sampling"] == {"temperature": 0.0}


def test_cost_names_its_denominator(synthesised: Synthesised) -> None:
    cost = _config(synthesised)["cost"]
    assert cost["share"] == 0.5
    assert cost["denominator"] == "8 of 16 devices of one trn2.48xlarge"
    assert cost["as_of"] == "2026-05-21"


def test_a_service_on_a_whole_node_is_charged_a_whole_node(side_by_side: Synthesised) -> None:
    serving, instance = side_by_side.experiment.serving, side_by_side.experiment.capacity.instance
    assert _config(side_by_side)["cost"]["share"] == serving.devices / instance.devices


def _config(synthesised: Synthesised) -> dict[str, Any]:
    data = synthesised.object("ConfigMap", "qwen-llmperf")["data"]
    written: dict[str, Any] = json.loads(data["config.json"])
    return written


def test_the_price_is_named_as_what_it_is(synthesised: Synthesised) -> None:
    """The node is bought on demand, and no such price was seen."""
    written = _config(synthesised)
    words = "capacity-block in us-east-2; no price of on-demand in us-east-2 is given"
    assert written["cost"]["price_of"] == words
    assert words in written["settings"]["Price"]
    dashboards = json.dumps(synthesised.template("observability"))
    assert words in dashboards
