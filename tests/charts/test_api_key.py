"""Services that ask for a key: how it gets to them and their clients, and to nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.charts.conftest import BUCKET
from tests.charts.first_starts import GRAPHS, MODEL, Pod
from tests.charts.test_scripts import SCRIPTS
from tests.matrix import KEYED, SWEEP, THREE_VARIANTS
from tests.synthesis import Synthesised, containers

SECRET = "article/api-key"
KEY = "sesame-and-a-little-more"


@pytest.fixture(params=KEYED)
def keyed(request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """Each experiment of the matrix whose services ask for a key."""
    return of_matrix(request.param)


@pytest.fixture
def secret(environment: dict[str, str]) -> Iterator[str]:
    """The name of a secret in the embedded Secrets Manager."""
    reach = {
        "endpoint_url": environment["AWS_ENDPOINT_URL"],
        "region_name": environment["AWS_REGION"],
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
    }
    manager = boto3.client("secretsmanager", **reach)
    manager.create_secret(Name=SECRET, SecretString=KEY)
    yield SECRET
    manager.delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)


def of_servers(synthesised: Synthesised) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The pods that serve, each with its container of vLLM."""
    for _, pod in synthesised.pods():
        for container in containers(pod):
            if container["name"] == "vllm":
                yield pod, container


def test_a_server_is_started_with_the_key_of_a_file_in_memory(keyed: Synthesised) -> None:
    found = list(of_servers(keyed))
    assert found
    for pod, vllm in found:
        _, fetch, *_ = pod["initContainers"]
        secret, file = fetch["args"]
        assert fetch["name"] == "fetch-key"
        assert secret == f"{keyed.experiment.name}/api-key"
        assert vllm["command"][:3] == ["/bin/bash", "/scripts/with-key.sh", file]
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "key"]
        assert volume["emptyDir"]["medium"] == "Memory"
        mounts = {m["mountPath"]: m for m in vllm["volumeMounts"] if m["name"] == "key"}
        assert mounts == {os.path.dirname(file): mounts["/key"]}
        assert mounts["/key"]["readOnly"] is True


def test_without_a_key_nothing_of_it_is_there(synthesised: Synthesised) -> None:
    assert list(synthesised.resources("AWS::SecretsManager::Secret")) == []
    for pod, vllm in of_servers(synthesised):
        assert vllm["command"][:2] == ["vllm", "serve"]
        assert "key" not in {volume["name"] for volume in pod["volumes"]}


def test_no_manifest_has_a_key(each: Synthesised) -> None:
    """The scripts speak of the variable; no pod is given it."""
    for _, pod in each.pods():
        for container in containers(pod):
            names = {variable["name"] for variable in container.get("env", [])}
            assert not names & {"VLLM_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"}
            assert "--api-key" not in container.get("command", [])
    assert list(each.objects("Secret")) == []


def test_clients_know_the_secret_by_name(of_matrix: Callable[[str], Synthesised]) -> None:
    standing, swept = of_matrix(THREE_VARIANTS), of_matrix(SWEEP)
    for synthesised, name in ((standing, "qwen-llmperf"), (swept, "qwen-sweep")):
        told = json.loads(synthesised.object("ConfigMap", name)["data"]["config.json"])
        assert told["api_key_secret"] == f"{synthesised.experiment.name}/api-key"
    pod = standing.object("Job", "qwen-lmeval")["spec"]["template"]["spec"]
    (quality,) = pod["containers"]
    variables = {v["name"]: v.get("value") for v in quality["env"]}
    assert variables["API_KEY_SECRET"] == "three-variants/api-key"


def test_the_key_gets_from_the_secret_into_the_servers_environment(
    secret: str, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "key"
    fetched = run(environment, "fetch-key.sh", secret, str(file))
    assert KEY not in fetched.stdout + fetched.stderr
    assert file.stat().st_mode & 0o077 == 0
    show = "import json, os, sys; print(json.dumps([os.environ['VLLM_API_KEY'], sys.argv[1:]]))"
    served = run(environment, "with-key.sh", str(file), sys.executable, "-c", show, "--port", "1")
    assert json.loads(served.stdout) == [KEY, ["--port", "1"]]


def test_a_server_without_its_key_does_not_start(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"AWS_MAX_ATTEMPTS": "1"}
    fetched = run(environment, "fetch-key.sh", "no/such", str(tmp_path / "key"), status=None)
    assert fetched.returncode != 0
    assert "ResourceNotFoundException" in fetched.stderr
    served = run(environment, "with-key.sh", str(tmp_path / "none"), "echo", "on", status=None)
    assert served.returncode != 0
    assert served.stdout == ""


def test_what_keeps_the_cache_of_a_first_start_sends_the_key(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    store.put_object(Bucket=BUCKET, Key="models/one/_COMPLETE", Body=b"")
    (tmp_path / "key").write_text(f"{KEY}\n")
    keyed = environment | {"VLLM_API_KEY": KEY, "KEY_FILE": str(tmp_path / "key")}
    with Pod("first", tmp_path, keyed) as pod:
        assert pod.fetch("compiled/one/", "models/one/").wait(60) == 0
        pod.compiles("graph")
        pod.serve("graph")
        keeper = pod.keep("compiled/one/", MODEL)
        assert keeper.stdout is not None
        lines = iter(keeper.stdout.readline, "")
        assert any("s3://models/compiled/one/ is complete" in line for line in lines)
    names = {entry["Key"] for entry in store.list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert f"compiled/one/{GRAPHS}/graph/.compilation_complete" in names


def run(
    environment: dict[str, str], script: str, *words: str, status: int | None = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", str(SCRIPTS / script), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert status is None or done.returncode == status, done.stderr
    return done
