"""The rehearsal runs what the pod runs, and lists every difference."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rehearsal.errors import RehearsalError
from rehearsal.golden.endpoints import GoldenEndpoints
from rehearsal.pod.as_process import BenchmarkProcess, Place, as_process
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import Pod, entry_point, read_indexed_job, read_pod
from spectap.config import Config, Variant
from spectap.load_points import Load
from tests.synthesis import ROOT, Synthesised

ENDPOINTS = {"Base": "http://127.0.0.1:1/v1", "SD": "http://127.0.0.1:2/v1"}
CONFIG = "/etc/benchmark/config.json"


@pytest.fixture(scope="module")
def pod(synthesised: Synthesised) -> Pod:
    return read_pod(synthesised.directory.parent / "dist", "qwen-llmperf")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    mounts = {path: tmp_path / path.strip("/") for path in ("/etc/benchmark", "/results", "/tmp")}
    environment = {"AWS_ENDPOINT_URL": "http://localhost:3", "PATH": "/bin", "SECRET": "x"}
    return Place(
        run_id="rehearsal-1",
        account="123456789012",
        endpoints=ENDPOINTS,
        mounts=mounts,
        environment=environment,
        caps=GoldenEndpoints.caps,
        stand_in=GoldenEndpoints.name,
    )


def adapted(pod: Pod, place: Place) -> BenchmarkProcess:
    return as_process(pod, ["python", "-m", "spectap"], place)


def test_the_process_names_the_load_points_that_it_lacks(pod: Pod, place: Place) -> None:
    assert adapted(pod, place).left_out == ()
    content = json.loads(pod.files[CONFIG])
    content["load"]["points"] = [{"concurrency": one, "requests": 40} for one in (1, 4, 16, 32)]
    ladder = replace(pod, files={CONFIG: json.dumps(content).encode()})
    found = adapted(ladder, replace(place, caps=Caps(concurrency=4)))
    assert found.left_out == ("concurrency-16", "concurrency-32")


def write(directory: Path, *objects: dict[str, Any]) -> Path:
    with (directory / "0000-test.k8s.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump_all(objects, file)
    return directory


def a_pod(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", "volumeMounts": []} | container]}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec | {"volumes": []}}


def test_the_pod_is_read_as_it_is(pod: Pod) -> None:
    assert pod.command is None
    assert pod.arguments == ("run",)
    assert pod.environment["BENCHMARK_CONFIG"] == CONFIG
    assert pod.fields == {"RUN_ID": "metadata.uid"}
    assert set(pod.mounts) == {"/etc/benchmark", "/results", "/tmp", "/dev/shm"}
    assert json.loads(pod.files[CONFIG])["experiment"] == "article"


def test_the_image_has_an_entry_point() -> None:
    assert entry_point(ROOT / "spectap" / "Dockerfile") == ("python", "-m", "spectap")


def test_no_entry_point(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(RehearsalError, match="no ENTRYPOINT in exec form"):
        entry_point(tmp_path / "Dockerfile")


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([], "no Pod p"),
        ([a_pod(envFrom=[])], "envFrom is not understood"),
        ([a_pod(env=[{"name": "A", "valueFrom": {"secretKeyRef": {}}}])], "A has a source that"),
    ],
)
def test_what_is_not_understood_is_not_passed_over(
    tmp_path: Path, objects: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(RehearsalError, match=problem):
        read_pod(write(tmp_path, *objects), "p")


def test_the_command_is_the_pod_s(pod: Pod, place: Place) -> None:
    assert adapted(pod, place).command == (sys.executable, "-m", "spectap", "run")


def test_the_environment_is_the_pod_s_and_the_way_to_aws(pod: Pod, place: Place) -> None:
    assert adapted(pod, place).environment == {
        "AWS_ENDPOINT_URL": "http://localhost:3",
        "PATH": "/bin",
        "HOME": str(place.mounts["/tmp"]),
        "USER": "nonroot",
        "BENCHMARK_CONFIG": str(place.mounts["/etc/benchmark"] / "config.json"),
        "RESULTS_DIR": str(place.mounts["/results"]),
        "RUN_ID": "rehearsal-1",
    }


def test_the_configuration_differs_in_what_is_said_and_nothing_else(pod: Pod, place: Place) -> None:
    benchmark = adapted(pod, place)
    ((path, text),) = benchmark.files.items()
    assert path == place.mounts["/etc/benchmark"] / "config.json"
    before = Config.model_validate_json(pod.files[CONFIG])
    after = Config.model_validate_json(text)
    assert after.endpoints == ENDPOINTS
    assert after.bucket == benchmark.bucket
    assert after.stand_in == GoldenEndpoints.name
    capped = before.load.model_dump() | {"rounds": 4, "mean_output_tokens": 120}
    assert after.load == Load.model_validate(capped)
    variants = tuple(
        changed.model_copy(update={"endpoint": variant.endpoint})
        for changed, variant in zip(after.variants, before.variants, strict=True)
    )
    assert after.stopper is None
    changed = {"variants": variants, "load": before.load, "stand_in": None}
    changed |= {"stopper": before.stopper}
    assert after.model_copy(update=changed | {"bucket": before.bucket}) == before


def test_prompts_come_from_the_bootstrap_s_bucket_of_its_account(pod: Pod, place: Place) -> None:
    told = json.loads(pod.files[CONFIG]) | {"prompts_bucket": "cdk-assets-${AWS_ACCOUNT_ID}"}
    benchmark = adapted(replace(pod, files={CONFIG: json.dumps(told).encode()}), place)
    (text,) = benchmark.files.values()
    assert json.loads(text)["prompts_bucket"] == f"cdk-assets-{place.account}"


def test_the_drafts_of_a_step_are_upstreams_where_upstream_serves(pod: Pod, place: Place) -> None:
    told = Config.model_validate_json(pod.files[CONFIG])
    of_chart = [variant.drafts_per_step for variant in told.variants]
    assert of_chart == [None, 6]
    for whole_window, expected in ((False, of_chart), (True, [None, 7])):
        benchmark = adapted(pod, replace(place, drafts_whole_window=whole_window))
        (text,) = benchmark.files.values()
        here = Config.model_validate_json(text)
        assert [variant.drafts_per_step for variant in here.variants] == expected
        said = "variants.SD.drafts_per_step: 7 in place of 6" in "\n".join(benchmark.differences)
        assert said is whole_window


def test_a_variable_in_place_of_the_pods_is_said(pod: Pod, place: Place) -> None:
    ours = replace(pod, environment={**pod.environment, "START_SECONDS": "2700"})
    told = {"START_SECONDS": "10", "JOB_COMPLETION_INDEX": "3"}
    benchmark = adapted(ours, replace(place, variables=told))
    assert told.items() <= benchmark.environment.items()
    said = [line for line in benchmark.differences if line.partition(":")[0] in told]
    assert said == ["START_SECONDS: 10 in place of 2700"]


def test_a_run_id_that_the_manifest_has_itself(pod: Pod, place: Place) -> None:
    ours = replace(pod, fields={}, environment={**pod.environment, "RUN_ID": "six-0123abcd"})
    benchmark = adapted(ours, place)
    assert benchmark.environment["RUN_ID"] == "rehearsal-1"
    assert "RUN_ID: rehearsal-1 in place of six-0123abcd" in benchmark.differences
    with pytest.raises(RehearsalError, match=r"^the pod has no RUN_ID$"):
        adapted(replace(pod, fields={}), place)


def test_a_variant_without_an_endpoint_is_one_line(pod: Pod, place: Place) -> None:
    one = {"Base": ENDPOINTS["Base"]}
    with pytest.raises(RehearsalError, match=r"^no endpoint stands in for the variant SD$"):
        adapted(pod, replace(place, endpoints=one))


def test_variants_of_the_rehearsals_own_stand_beside_the_pods(pod: Pod, place: Place) -> None:
    own = Variant(name="own", endpoint="http://127.0.0.1:4/v1", baseline="Base", mode="ngram")
    benchmark = adapted(pod, replace(place, beside=(own,)))
    ((_, text),) = benchmark.files.items()
    base, speculative, third = Config.model_validate_json(text).variants
    assert [base.name, speculative.name] == ["Base", "SD"]
    assert third == own
    assert (
        "variants.own: added, at http://127.0.0.1:4/v1, mode ngram, which the pod does not measure"
        in benchmark.differences
    )


def test_the_account_is_filled_in(pod: Pod, place: Place) -> None:
    text = pod.files[CONFIG].replace(b"111122223333", b"${AWS_ACCOUNT_ID}")
    assert (
        adapted(replace(pod, files={CONFIG: text}), place).bucket
        == "article-models-123456789012-us-east-2"
    )


def test_every_difference_is_said(pod: Pod, place: Place) -> None:
    said = "\n".join(adapted(pod, place).differences)
    for expected in (
        "RUN_ID: rehearsal-1 in place of metadata.uid",
        f"folder: {place.mounts['/results']} in place of /results",
        "AWS: http://localhost:3 in place of AWS",
        "variants.SD.endpoint: http://127.0.0.1:2/v1 in place of http://qwen-sd-vllm.",
        "load.mean_output_tokens: 120 in place of 600",
        "load.rounds: 4 rounds in place of 6 rounds",
    ):
        assert expected in said


def test_a_load_that_is_smaller_already_stays(pod: Pod, place: Place) -> None:
    config = json.loads(pod.files[CONFIG])
    config["load"]["rounds"] = 1
    benchmark = adapted(replace(pod, files={CONFIG: json.dumps(config).encode()}), place)
    (text,) = benchmark.files.values()
    assert json.loads(text)["load"]["rounds"] == 1
    assert not any(difference.startswith("load.rounds") for difference in benchmark.differences)


def a_job(*, mode: str = "Indexed", sidecars: int = 1) -> dict[str, Any]:
    mounts = [{"name": "config", "mountPath": "/etc/benchmark"}]
    server = {"name": "vllm", "restartPolicy": "Always", "volumeMounts": mounts}
    template = a_pod(args=["index"], volumeMounts=mounts)["spec"] | {
        "initContainers": [
            {"name": "fetch", "envFrom": [], "volumeMounts": []},
            *([server | {"env": [{"name": "A", "value": "1"}]}] * sidecars),
        ],
        "volumes": [{"name": "config", "configMap": {"name": "m"}}],
    }
    spec = {"completionMode": mode, "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 3}
    job = spec | {"template": {"spec": template}}
    return {"kind": "Job", "metadata": {"name": "j"}, "spec": job}


def test_statuses_that_fail_an_index_at_once_are_those_of_what_ends(tmp_path: Path) -> None:
    def rule(action: str, container: str, *values: int) -> dict[str, Any]:
        codes = {"containerName": container, "operator": "In", "values": [*values]}
        return {"action": action, "onExitCodes": codes}

    job = a_job()
    assert read_indexed_job(write(tmp_path, job, INDEXES)).final == frozenset()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    job["spec"]["podFailurePolicy"] = {
        "rules": [
            rule("Ignore", container["name"], 75),
            rule("FailIndex", "fetch", 70),
            rule("FailIndex", container["name"], 69, 71),
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]
    }
    assert read_indexed_job(write(tmp_path, job, INDEXES)).final == {69, 71}


INDEXES = {
    "kind": "ConfigMap",
    "metadata": {"name": "m"},
    "data": {
        **{"0.variant": "Base\n", "1.variant": "k3\n", "1.folder": "k3-0a1b2c3d\n"},
        "1.serve": "vllm\nserve\na b\n",
    },
}


def test_a_job_of_indexes_is_read_with_its_sidecar(tmp_path: Path) -> None:
    other = {"kind": "Job", "metadata": {"name": "compile"}, "spec": {"template": {}}}
    job = read_indexed_job(write(tmp_path, a_job(), INDEXES, other))
    assert (job.indexes, job.parallelism, job.retries) == (2, 2, 3)
    assert job.pod.arguments == ("index",)
    assert [job.variant_of(index) for index in (0, 1)] == ["Base", "k3"]
    assert job.folder_of(1) == "k3-0a1b2c3d"
    server = job.server_of(1)
    assert server.command == ("vllm", "serve", "a b")
    assert server.environment == {"A": "1"}
    with pytest.raises(RehearsalError, match=r"no ConfigMap of the Job has 0\.serve$"):
        job.server_of(0)


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([a_job(mode="NonIndexed"), INDEXES], "0 Indexed Jobs, where one is expected"),
        ([a_job(sidecars=0), INDEXES], "the Job j has 0 sidecars, not one"),
    ],
)
def test_a_job_of_another_kind(tmp_path: Path, objects: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(RehearsalError, match=problem):
        read_indexed_job(write(tmp_path, *objects))
