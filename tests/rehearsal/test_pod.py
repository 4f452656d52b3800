"""The rehearsal runs what the pod runs, asks for less, and lists every difference."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from experiment import Experiment
from operations.console import Console
from rehearsal import RehearsalError
from rehearsal.as_process import BenchmarkProcess, as_process, differences
from rehearsal.aws import Aws
from rehearsal.endpoints import GOLDEN
from rehearsal.manifest import Pod, read_pod
from rehearsal.setting import Caps, Layout, Server, Servers, Setting
from spectap.inputs.config import Config, PromptSource, TestCase, read
from spectap.inputs.load_points import LoadPoint
from tests.experiment.files import REGION
from tests.synthesis import ROOT

ENDPOINTS: Final = {"Base": "http://127.0.0.1:1/v1", "SD": "http://127.0.0.1:2/v1"}
SERVERS: Final = Servers({name: Server(url, (), {}) for name, url in ENDPOINTS.items()}, ())
EARLIER_RUN: Final = ROOT / "packages" / "spectap" / "tests" / "earlier_run"
CONFIG: Final = "/etc/benchmark/config.json"


@pytest.fixture(scope="module")
def pod(manifests: Path) -> Pod:
    return read_pod(manifests, "Pod", "qwen-llmperf")


@pytest.fixture
def setting(article: Experiment, tmp_path: Path) -> Setting:
    environment = {"AWS_ENDPOINT_URL": "http://localhost:3", "PATH": "/bin", "SECRET": "x"}
    aws = Aws("http://localhost:3", REGION, "123456789012", environment)
    (tmp_path / "packages").symlink_to(ROOT / "packages")
    return Setting(article, "rehearsal-1", Layout(tmp_path), aws, GOLDEN, Console(1))


def config_of(benchmark: BenchmarkProcess) -> Config:
    (text,) = benchmark.files.values()
    return Config.model_validate_json(text)


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        (None, "no Pod p"),
        ({"envFrom": []}, "envFrom is not understood"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}, "A has a source that"),
    ],
)
def test_what_is_not_understood_is_not_passed_over(
    tmp_path: Path, container: dict[str, Any] | None, problem: str
) -> None:
    metadata = {"name": "p", "labels": {"app": "p" if container else "another"}}
    spec = {"containers": [{"name": "c", "volumeMounts": []} | (container or {})], "volumes": []}
    manifest = {"kind": "Pod", "metadata": metadata, "spec": spec}
    (tmp_path / "0000-test.k8s.yaml").write_text(json.dumps(manifest))
    with pytest.raises(RehearsalError, match=problem):
        read_pod(tmp_path, "Pod", "p")


def test_command_and_environment_are_the_pod_s_with_the_way_to_aws(
    pod: Pod, setting: Setting
) -> None:
    assert pod.command is None
    benchmark = as_process(pod, setting, SERVERS)
    assert benchmark.command == (sys.executable, "-m", "spectap", "run")
    assert benchmark.environment == {
        "AWS_ENDPOINT_URL": "http://localhost:3",
        "PATH": "/bin",
        "HOME": str(setting.layout.mounts["/tmp"]),
        "USER": "nonroot",
        "BENCHMARK_CONFIG": str(setting.layout.mounts["/etc/benchmark"] / "config.json"),
        "RESULTS_DIR": str(setting.layout.mounts["/results"]),
        "RUN_ID": "rehearsal-1",
    }


def test_the_configuration_differs_in_what_is_listed_and_nothing_else(
    pod: Pod, setting: Setting
) -> None:
    benchmark = as_process(pod, setting, SERVERS)
    mounts = setting.layout.mounts
    assert [*benchmark.files] == [mounts["/etc/benchmark"] / "config.json"]
    before, after = Config.model_validate_json(pod.files[CONFIG]), config_of(benchmark)
    assert after.endpoints == ENDPOINTS
    assert {
        "RUN_ID: rehearsal-1 in place of metadata.uid",
        "AWS: http://localhost:3 in place of AWS",
        f"folder: {mounts['/results']} in place of /results",
        f"stopper: None in place of {before.stopper}",
        f"stand_in: {GOLDEN.name} in place of None",
        "load.mean_output_tokens: 120 in place of 600",
        "load.rounds.at_most: 4 in place of 6",
        f"variants.SD.endpoint: {ENDPOINTS['SD']} in place of {before.endpoints['SD']}",
    } <= {*benchmark.differences}
    # What is listed is derived from both; nothing else but these differs.
    variants = tuple(
        changed.model_copy(update={"endpoint": variant.endpoint})
        for changed, variant in zip(after.variants, before.variants, strict=True)
    )
    same = {"variants": variants, "load": before.load, "stand_in": None, "stopper": before.stopper}
    assert after.model_copy(update=same | {"bucket": before.bucket}) == before


def test_buckets_are_of_the_embedded_account_and_drafts_and_load_of_who_serves(
    pod: Pod, setting: Setting
) -> None:
    load = json.loads(pod.files[CONFIG])["load"]
    load["points"] = [{"concurrency": count, "requests": 40} for count in (1, 4, 16, 32)]
    changes = {"prompts_bucket": "a-${AWS_ACCOUNT_ID}", "load": load}
    content = json.loads(pod.files[CONFIG]) | changes
    pod = replace(pod, files={CONFIG: json.dumps(content).encode()})
    served = replace(GOLDEN, drafts_whole_window=True, caps=Caps(concurrency=4))
    benchmark = as_process(pod, replace(setting, endpoints=served), SERVERS)
    config = config_of(benchmark)
    assert config.bucket == f"article-models-123456789012-{REGION}"
    assert config.prompts_bucket == "a-123456789012"
    assert [variant.drafts_per_step for variant in config.variants] == [None, 7]
    assert "variants.SD.drafts_per_step: 7 in place of 6" in benchmark.differences


def of_pod(*points: tuple[str, float, int]) -> Config:
    """With load points, each a kind, its value, and requests."""
    config = read(EARLIER_RUN / "config.json")
    case = TestCase(name="set", prompts=PromptSource(set="humaneval", limit=40))
    load = {
        "points": tuple(
            LoadPoint.model_validate({kind: x, "requests": count}) for kind, x, count in points
        ),
        "mean_output_tokens": 600,
        "spread_minutes": 50,
    }
    return config.model_copy(
        update={"load": config.load.model_copy(update=load), "test_cases": (case,)}
    )


@pytest.mark.parametrize(
    ("concurrencies", "expected"),
    [
        # A concurrency that is too high is left out.
        ([1, 16, 4], {"concurrency-1": 20, "concurrency-4": 20}),
        # Where all are, the first is lowered.
        ([16, 8, 32], {"concurrency-4": 20}),
    ],
)
def test_load_points(concurrencies: list[int], expected: dict[str, int]) -> None:
    points = (("concurrency", count, 20) for count in concurrencies)
    capped = Caps(concurrency=4).applied(of_pod(*points))
    assert {point.name: point.requests for point in capped.load.points} == expected


def test_every_difference_is_listed() -> None:
    caps = Caps(rounds=1, output_tokens=100, prompts=12, concurrency=4, rate_seconds=2)
    closed = (("concurrency", 1, 4), ("concurrency", 16, 16))
    config = of_pod(*closed, ("rate", 0.2, 12), ("rate", 5, 300))
    assert sorted(differences(config, caps.applied(config))) == [
        "load.mean_output_tokens: 100 in place of 600",
        "load.points.concurrency-16: left out",
        "load.points.rate-0.2.requests: 1 in place of 12",
        "load.points.rate-5.requests: 10 in place of 300",
        f"load.rounds.at_least: 1 in place of {config.load.rounds.at_least}",
        f"load.rounds.at_most: 1 in place of {config.load.rounds.at_most}",
        "load.spread_minutes: 0 in place of 50",
        "test_cases.set.prompts.limit: 12 in place of 40",
    ]
