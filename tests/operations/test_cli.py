"""What the CDK CLI is asked to do. A script in its place notes its arguments and prints a text.

What the roles of workflows may do: ``tests/stacks/test_delivery.py``.
"""

import base64
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec
from urllib.parse import parse_qsl, urlsplit

import pytest

from operations import __main__ as commands
from operations import lifecycle
from operations.account import Deployment, DeploymentError
from operations.cluster import token as cluster_token
from tests.experiment.files import REGION
from tests.operations.conftest import at, called
from tests.operations.fake_aws import FakeAws


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Has the CLI print a text; returns the file of its arguments, one a line."""

    def make(text: str = "") -> Path:
        noted = tmp_path / "noted"
        (tmp_path / "text").write_text(text)
        script = tmp_path / "cdk"
        script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {noted}\ncat {tmp_path}/text\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return noted

    return make


def test_each_command_passes_its_function_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        called("--help", "")
    names = re.findall(r"^    ([a-z]+)", capsys.readouterr().out, re.MULTILINE)
    assert len(names) > 10
    import_module = importlib.import_module
    specified = SimpleNamespace(
        import_module=lambda name: create_autospec(import_module(name), spec_set=True)
    )
    monkeypatch.setattr(commands, "importlib", specified)
    monkeypatch.setattr(Deployment, "of", lambda file: at({}))
    for name in names:
        called(name, "experiments/article.yaml")


def test_the_roles_of_workflows_are_deployed_alone(
    cli: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    noted = cli("")
    with pytest.raises(DeploymentError, match="has no section delivery"):
        lifecycle.make_delivery(at({}), yes=True, remove=False)
    assert not noted.exists()
    deployment = at({"delivery": {"repository": "us@12/here@34"}})
    assert lifecycle.make_delivery(deployment, yes=True, remove=False) == 0
    words = noted.read_text().replace("\n", " ")
    assert words.startswith("deploy article-delivery --require-approval never")
    assert "--context delivery=true" in words
    assert "https://github.com/us/here/settings" in capfd.readouterr().out
    assert lifecycle.make_delivery(deployment, yes=True, remove=True) == 0
    assert noted.read_text().startswith("destroy\narticle-delivery\n--force")


def test_what_differs_from_what_is_deployed_is_cut_to_fit_a_comment(
    cli: Callable[[str], Path], tmp_path: Path
) -> None:
    noted, file = cli("Stack a\n```\n" + "[~] AWS::S3::Bucket\n" * 10_000), tmp_path / "a.json"
    assert lifecycle.compare(at({}), str(file)) == 0
    assert noted.read_text().startswith("diff\n--method\ntemplate\n--no-color\n--ci\n")
    written = json.loads(file.read_text())
    assert (written["experiment"], written["region"]) == ("article", REGION)
    assert written["text"].startswith("Stack a\n```\n")
    assert len(written["text"]) < 21_000
    assert written["text"].endswith("... the log has all of it")


def test_a_token_says_who_asks_for_which_cluster(aws: FakeAws) -> None:
    token = cluster_token(at({}), "arn:aws:iam::123456789012:role/administrator")
    prefix, _, encoded = token.partition(".")
    assert (prefix, aws.calls) == ("k8s-aws-v1", ["sts:AssumeRole"])
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = dict(parse_qsl(url.query))
    assert url.hostname == f"sts.{REGION}.amazonaws.com"
    assert (query["Action"], query["X-Amz-Expires"]) == ("GetCallerIdentity", "60")
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert query["X-Amz-Credential"].startswith("ASIA")
