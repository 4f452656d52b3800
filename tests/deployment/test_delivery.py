"""Making the roles of workflows, and comparing with what is deployed, with a CLI that only echoes.

What the roles may do: ``tests/stacks/test_delivery.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deployment import delivery
from deployment.errors import DeploymentError
from deployment.place import Place

Make = Callable[..., Place]
SECTION = {"delivery": {"repository": "us@12/here@34"}}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a ``cdk`` on the PATH that notes its arguments and prints a text."""

    def make(text: str) -> Path:
        folder, noted = tmp_path / "bin", tmp_path / "noted"
        folder.mkdir()
        (folder / "text").write_text(text)
        script = folder / "cdk"
        script.write_text(f'#!/bin/sh\necho "$@" > {noted}\ncat {folder}/text\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return noted

    return make


def test_it_is_off_unless_the_file_asks_for_it(at: Make, cli: Callable[[str], Path]) -> None:
    noted = cli("")
    with pytest.raises(DeploymentError, match="has no section delivery"):
        delivery.make(at("off"), yes=True, remove=False)
    assert not noted.exists()


def test_the_roles_are_deployed_alone(
    at: Make, cli: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    place, noted = at("on", SECTION), cli("")
    assert delivery.make(place, yes=True, remove=False) == 0
    assert "deploy on-delivery --require-approval never" in noted.read_text()
    assert "--context delivery=true" in noted.read_text()
    said = capfd.readouterr().out
    assert "https://github.com/us/here/settings" in said
    assert "AWS_REGION=us-east-2" in said
    assert delivery.make(place, yes=True, remove=True) == 0
    assert "destroy on-delivery --force" in noted.read_text()


def test_a_comment_cannot_end_its_own_fence(
    at: Make, cli: Callable[[str], Path], tmp_path: Path
) -> None:
    noted = cli("Stack a\n```\n[~] AWS::S3::Bucket\n")
    markdown = tmp_path / "changes.md"
    assert delivery.compare(at("compared"), str(markdown)) == 0
    assert noted.read_text().startswith("diff --method template --no-color --ci ")
    lines = markdown.read_text().splitlines()
    assert [line for line in lines if line.startswith("````")] == ["````", "````"]
    assert "Against what is deployed of experiment compared in us-east-2" in lines[0]


def test_a_long_comparison_is_cut(at: Make, cli: Callable[[str], Path], tmp_path: Path) -> None:
    cli("[~] something\n" * 10_000)
    markdown = tmp_path / "changes.md"
    assert delivery.compare(at("long"), str(markdown)) == 0
    assert len(markdown.read_text()) < 21_000
    assert "... the log has all of it" in markdown.read_text()
