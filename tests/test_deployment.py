"""Commands as a person calls them, where no account answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from rehearsal.aws.client import environment
from tests.made import ROOT, make

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


@pytest.mark.parametrize(
    "command",
    ["bootstrap", "deploy", "destroy", "status", "logs", "results", "delivery", "changes"],
)
def test_make_wants_the_experiment_named(command: str) -> None:
    result = make(ROOT, {}, command, *(["EXPERIMENT="] if command == "deploy" else []))
    assert result.returncode != 0
    assert f"EXPERIMENT is needed: make {command} EXPERIMENT=" in result.stderr


@pytest.mark.parametrize(
    ("variables", "line_begin"),
    [
        ({}, 'AWS: Could not connect to the endpoint URL: "http://127.0.0.1:9/"'),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "AWS: no credentials; set "),
    ],
)
def test_an_account_that_cannot_be_asked_is_one_line(
    variables: dict[str, str], line_begin: str
) -> None:
    result = deployment("destroy", "--experiment", "experiments/article.yaml", variables=variables)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(line_begin)
