"""Deploying and destroying: the commands as a person calls them, against an embedded AWS.

Of an experiment's stacks those are deployed that moto can make.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from rehearsal.aws.client import Aws, embedded_aws, environment
from stacks.addons import VERSIONS
from tests.conftest import edited
from tests.synthesis import ROOT

REGION: Final = "us-east-2"
STANDING: Final = "standing-model-store"
REMEMBERING: Final = """#!/usr/bin/env bash
# The CDK CLI, which does not synthesise again what it has: test_app.py shows that nothing changes.
set -euo pipefail
for word; do
  case $word in
    experiment=*) file=${word#experiment=} ;;
    account=*) account=${word#account=} ;;
  esac
done
[[ $1 == synth || $1 == deploy ]] || exec "$CDK" "$@"
known=$(dirname "$0")/$(sha256sum <"$file" | cut -c1-64)-$account
if [[ ! -e $known ]]; then
  "$CDK" "$@"
  cp -r cdk.out "$known"
elif [[ $1 == synth ]]; then
  rm -rf cdk.out && cp -r "$known" cdk.out
else
  exec "$CDK" "$@" --app "$known"
fi
"""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Bootstrapped, and with a stack of the experiment ``standing``."""
    logs = tmp_path_factory.mktemp("deployment")
    with embedded_aws(REGION, logs / "aws.log") as found:
        aws = replace(found, environment=remembering(found.environment, logs / "bin"))
        done = deployment("bootstrap", "--experiment", "experiments/article.yaml", aws=aws)
        assert done.returncode == 0, done.stderr
        aws.client("cloudformation").create_stack(
            StackName=STANDING,
            TemplateBody=json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}),
            Tags=[{"Key": "Experiment", "Value": "standing"}],
        )
        yield aws


def remembering(environment: Mapping[str, str], tools: Path) -> dict[str, str]:
    """``environment`` with the CLI above."""
    tools.mkdir()
    (tools / "cdk").write_text(REMEMBERING)
    (tools / "cdk").chmod(0o755)
    programs = f"{Path(sys.executable).parent}:{ROOT}/node_modules/.bin"
    return {
        **environment,
        "PATH": f"{tools}:{programs}:{environment['PATH']}",
        "CDK": f"{ROOT}/node_modules/.bin/cdk",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }


def deployment(
    *arguments: str,
    aws: Aws | None = None,
    variables: Mapping[str, str] | None = None,
    typed: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command; with ``typed``, on a terminal on which this is typed."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, f"{typed}\n".encode())
        return run(*arguments, aws=aws, variables=variables, terminal=terminal if typed else None)
    finally:
        os.close(keyboard)
        os.close(terminal)


def run(
    *arguments: str,
    aws: Aws | None,
    variables: Mapping[str, str] | None,
    terminal: int | None,
) -> subprocess.CompletedProcess[str]:
    where = dict(aws.environment if aws else environment("http://127.0.0.1:9", REGION))
    return subprocess.run(
        [sys.executable, "-m", "deployment", *arguments],
        cwd=ROOT,
        env=where | dict(variables or {}),
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        capture_output=True,
        text=True,
        check=False,
    )


def standing(aws: Aws) -> set[str]:
    stacks = aws.client("cloudformation").describe_stacks()["Stacks"]
    return {s["StackName"] for s in stacks if s["StackName"] != "CDKToolkit"}


def test_destroying_what_is_not_there_fails_and_touches_nothing(aws: Aws, tmp_path: Path) -> None:
    before = standing(aws)
    assert STANDING in before
    file = edited(tmp_path, {"name": "forgotten"})
    done = deployment("destroy", "--yes", "--experiment", str(file), aws=aws)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"nothing of experiment forgotten is in account {aws.account}, {REGION}: nothing was "
        "deleted. There are stacks of: standing"
    )
    assert standing(aws) == before


def test_a_destroyed_experiment_can_be_deployed_again(aws: Aws, tmp_path: Path) -> None:
    file = edited(tmp_path, {"name": "again"})
    bucket = f"again-models-{aws.account}-{REGION}"
    deploy = ("deploy", "again-model-store", "--yes", "--experiment", str(file))
    first = deployment(*deploy, aws=aws)
    assert first.returncode == 0, first.stderr
    assert f"experiment again ({file}), account {aws.account}, {REGION}: deploying" in first.stdout
    store = aws.client("s3")
    store.put_object(Bucket=bucket, Key="compiled/key/model.pt", Body=b"hours of compiling")

    destroyed = deployment("destroy", "--yes", "--experiment", str(file), aws=aws)
    assert destroyed.returncode == 0, destroyed.stderr
    said = destroyed.stdout
    assert "again-model-store    us-east-2  will be deleted (CREATE_COMPLETE)" in said
    assert "again-network        us-east-2  not there" in said
    cost = "less than 0.1 GiB, 0.00 USD a month"
    assert f"{bucket} ({cost}) stays; make deploy takes it back" in said
    assert "again-model-store" not in standing(aws)
    assert STANDING in standing(aws)

    second = deployment(*deploy, aws=aws)
    assert second.returncode == 0, second.stderr
    kept = store.get_object(Bucket=bucket, Key="compiled/key/model.pt")["Body"].read()
    assert kept == b"hours of compiling"


def test_without_a_terminal_nothing_is_deleted_unasked(aws: Aws, tmp_path: Path) -> None:
    file = edited(tmp_path, {"name": "standing"})
    done = deployment("destroy", "--experiment", str(file), aws=aws)
    assert done.returncode == 1
    assert done.stderr == "there is no terminal to ask on; YES=1 deletes without asking\n"
    assert STANDING in standing(aws)


def test_everything_goes_only_with_the_name_typed(aws: Aws, tmp_path: Path) -> None:
    file = str(edited(tmp_path, {"name": "gone"}))
    bucket = f"gone-models-{aws.account}-{REGION}"
    store = aws.client("s3")
    done = deployment("deploy", "gone-model-store", "--yes", "--experiment", file, aws=aws)
    assert done.returncode == 0, done.stderr
    for body in (b"first", b"second"):
        store.put_object(Bucket=bucket, Key="models/x", Body=body)

    destroy = ("destroy", "--experiment", file)
    done = deployment(*destroy, aws=aws, typed="n")
    assert done.returncode == 1
    assert "Delete these stacks (y/n)?" in done.stdout
    assert "nothing was deleted" in done.stdout
    all_of_it = (*destroy, "--keep", "none")
    done = deployment(*all_of_it, aws=aws, typed="y")
    assert done.returncode == 1
    cost = "less than 0.1 GiB, 0.00 USD a month"
    assert f"{bucket} ({cost}) will be deleted for good" in done.stdout
    for given, said in (
        (("--yes",), "KEEP=none wants NAME=gone as well as YES=1"),
        (("--yes", "--name", "again"), "NAME = 'again': the experiment is gone"),
    ):
        done = deployment(*all_of_it, *given, aws=aws)
        assert done.returncode == 1
        assert said in done.stderr
    assert "gone-model-store" in standing(aws)

    done = deployment(*destroy, aws=aws, typed="y")
    assert done.returncode == 0, done.stderr
    assert "gone-model-store" not in standing(aws)
    assert store.list_object_versions(Bucket=bucket)["Versions"]

    # What an earlier destroy has left can still be removed.
    done = deployment(*all_of_it, aws=aws, typed="gone")
    assert done.returncode == 0, done.stderr
    assert f"{bucket} is deleted" in done.stdout
    assert bucket not in {each["Name"] for each in store.list_buckets()["Buckets"]}
    done = deployment(*all_of_it, "--yes", "--name", "gone", aws=aws)
    assert done.returncode == 1
    assert "nothing of experiment gone is in account" in done.stderr


@pytest.mark.parametrize("experiment", [None, ""])
@pytest.mark.parametrize(
    "command",
    ["bootstrap", "deploy", "destroy", "status", "logs", "results", "delivery", "changes"],
)
def test_make_wants_the_experiment_named(command: str, experiment: str | None) -> None:
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    outside.pop("EXPERIMENT", None)
    named = [] if experiment is None else [f"EXPERIMENT={experiment}"]
    done = subprocess.run(
        ["make", command, *named],
        cwd=ROOT,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"EXPERIMENT is needed: make {command} EXPERIMENT=" in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, 'AWS: Could not connect to the endpoint URL: "http://127.0.0.1:9/"'),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "AWS: no credentials; set "),
    ],
)
def test_an_account_that_cannot_be_asked_is_one_line(variables: dict[str, str], said: str) -> None:
    done = deployment("destroy", "--experiment", "experiments/article.yaml", variables=variables)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)


class Offers(BaseHTTPRequestHandler):
    """EKS's DescribeAddonVersions, one version a page."""

    versions: dict[str, list[str]] = {}

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        assert asked["kubernetesVersion"] == ["1.35"]
        versions = self.versions[asked["addonName"][0]]
        page = int(asked.get("nextToken", ["0"])[0])
        answer: dict[str, Any] = {"addons": [{"addonVersions": [_version(versions[page])]}]}
        if page + 1 < len(versions):
            answer["nextToken"] = str(page + 1)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not to the terminal."""


def _version(version: str) -> dict[str, Any]:
    default = version in VERSIONS.values()
    compatibility = {"clusterVersion": "1.35", "platformVersions": ["*"], "defaultVersion": default}
    return {"addonVersion": version, "compatibilities": [compatibility]}


@pytest.fixture
def offers() -> Iterator[str]:
    """EKS offers what is pinned, and of vpc-cni something newer."""
    Offers.versions = {name: [version] for name, version in VERSIONS.items()}
    Offers.versions["vpc-cni"] += ["v1.9.9-eksbuild.9", "v1.100.0-eksbuild.1"]
    server = HTTPServer(("127.0.0.1", 0), Offers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def addons(url: str) -> subprocess.CompletedProcess[str]:
    return deployment(
        "addons", "--experiment", "experiments/article.yaml", variables={"AWS_ENDPOINT_URL": url}
    )


def test_newer_add_ons_are_named(offers: str) -> None:
    done = addons(offers)
    assert done.returncode == 0, done.stderr
    pinned = VERSIONS["vpc-cni"]
    assert f"vpc-cni: {pinned}, newer: v1.100.0-eksbuild.1; the default is {pinned}" in done.stdout
    assert f"coredns: {VERSIONS['coredns']}, nothing newer" in done.stdout


def test_a_pinned_add_on_that_eks_does_not_offer_is_an_error(offers: str) -> None:
    Offers.versions["coredns"] = ["v1.99.0-eksbuild.1"]
    done = addons(offers)
    assert done.returncode == 1
    said = f"coredns: {VERSIONS['coredns']} is not offered; v1.99.0-eksbuild.1 is"
    assert said in done.stdout
