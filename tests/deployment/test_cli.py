"""What the CDK CLI is asked to do. A script in its place notes its arguments and prints a text.

What the roles of workflows may do: ``tests/stacks/test_delivery.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from deployment import delivery, lifecycle
from deployment.account import Deployment, DeploymentError
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.conftest import At

SECTION: Final = {"delivery": {"repository": "us@12/here@34"}}


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


def test_a_deploy_leaves_the_number_of_nodes_alone_only_while_there_are_some(
    aws: Aws, at: At, cli: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The CLI goes on with what it was told last, so it is told each time."""
    noted = cli("")
    block = {
        "capacity.purchase": "capacity-block",
        "capacity.reservation_id": "cr-0123456789abcdef0",
    }
    deployment = at("sized", block)

    def sizes(expected: int) -> list[str]:
        assert lifecycle.deploy(deployment, [], yes=True) == 0
        # A change of such nodes fails.
        assert ("Capacity Block are running" in capsys.readouterr().out) is bool(expected)
        words = noted.read_text().splitlines()
        return [value for word, value in pairwise(words) if word == "--parameters"]

    none = ["sized-trainium:KeepTrainiumNodes=false", "sized-trainium:KeepCompileNodes=false"]
    assert sizes(0) == none
    account.groups(aws, deployment)
    assert sizes(0) == none
    account.scale(aws, deployment, 1)
    assert sizes(1) == ["sized-trainium:KeepTrainiumNodes=true", none[1]]
    account.scale(aws, deployment, 0)
    assert sizes(0) == none


def test_delivery_is_off_unless_the_file_asks_for_it(at: At, cli: Callable[[str], Path]) -> None:
    noted = cli("")
    with pytest.raises(DeploymentError, match="has no section delivery"):
        delivery.make(at("off"), yes=True, remove=False)
    assert not noted.exists()


def test_the_roles_are_deployed_alone(
    at: At, cli: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    deployment, noted = at("on", SECTION), cli("")
    assert delivery.make(deployment, yes=True, remove=False) == 0
    words = noted.read_text().replace("\n", " ")
    assert words.startswith("deploy on-delivery --require-approval never")
    assert "--context delivery=true" in words
    printed = capfd.readouterr().out
    assert "https://github.com/us/here/settings" in printed
    assert "AWS_REGION=us-east-2" in printed
    assert delivery.make(deployment, yes=True, remove=True) == 0
    assert noted.read_text().startswith("destroy\non-delivery\n--force")


def compared(deployment: Deployment, folder: Path) -> str:
    """The comment for a pull request."""
    markdown = folder / "changes.md"
    assert delivery.compare(deployment, str(markdown)) == 0
    return markdown.read_text()


def test_a_comment_is_cut_and_cannot_end_its_own_fence(
    at: At, cli: Callable[[str], Path], tmp_path: Path
) -> None:
    noted = cli("Stack a\n```\n[~] AWS::S3::Bucket\n")
    lines = compared(at("compared"), tmp_path).splitlines()
    assert noted.read_text().startswith("diff\n--method\ntemplate\n--no-color\n--ci\n")
    assert [line for line in lines if line.startswith("````")] == ["````", "````"]
    assert "Against what is deployed of experiment compared in us-east-2" in lines[0]
    cli("[~] something\n" * 10_000)
    comment = compared(at("long"), tmp_path)
    assert len(comment) < 21_000
    assert "... the log has all of it" in comment
