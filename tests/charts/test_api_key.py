"""Services that ask for a key: how it gets to them and their clients, and to nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.charts.test_scripts import SCRIPTS
from tests.synthesis import Synthesised, containers

SECRET = "article/api-key"
KEY = "sesame-and-a-little-more"


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


def test_no_manifest_has_a_key(each: Synthesised) -> None:
    """The scripts speak of the variable; no pod is given it."""
    for _, pod in each.pods():
        for container in containers(pod):
            names = {variable["name"] for variable in container.get("env", [])}
            assert not names & {"VLLM_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"}
            assert "--api-key" not in container.get("command", [])
    assert list(each.objects("Secret")) == []


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


def run(
    environment: dict[str, str], script: str, *words: str, status: int | None = 0
) -> subprocess.CompletedProcess[str]:
    completed = subprocess.run(
        ["bash", str(SCRIPTS / script), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert status is None or completed.returncode == status, completed.stderr
    return completed
