"""Commands as a person calls them, where no account answers, and the add-ons that EKS offers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from rehearsal.aws.client import environment
from stacks.addons import VERSIONS
from tests.synthesis import ROOT

REGION: Final = "us-east-2"


def deployment(
    *arguments: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command where no AWS answers."""
    return subprocess.run(
        [sys.executable, "-m", "deployment", *arguments],
        cwd=ROOT,
        env=environment("http://127.0.0.1:9", REGION) | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


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
