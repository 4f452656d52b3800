"""``python -m deployment preflight`` as a person calls it."""

from __future__ import annotations

import contextlib
import datetime
import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from deployment.__main__ import main
from deployment.cluster import ADDRESS_VARIABLE
from deployment.preflight.finding import ok, refused
from deployment.preflight.table import lines
from rehearsal.aws.client import environment
from stacks.addons import VERSIONS
from tests.aws.client import Aws
from tests.conftest import edited
from tests.deployment.conftest import REGION
from tests.synthesis import ROOT

SOUND: Final = {
    "aws.api_access": ["203.0.113.0/24"],
    "alerts.emails": ["team@example.com"],
    "capacity.price.purchase": "on-demand",
    "capacity.price.as_of": datetime.date.today().isoformat(),
}


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A Docker that answers."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 29.1.2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def granted(aws: Aws) -> Aws:
    """Bootstrapped, and with the pinned add-ons on offer."""
    aws.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
    )
    aws.know(addons={name: [version] for name, version in VERSIONS.items()})
    return aws


def preflight(
    file: Path, where: Mapping[str, str], **variables: str
) -> subprocess.CompletedProcess[str]:
    """In this process, whose calls the embedded AWS notes."""
    path = f"{Path(sys.executable).parent}:{ROOT}/node_modules/.bin:{where['PATH']}"
    usual = {"PATH": path, ADDRESS_VARIABLE: "https://127.0.0.1:9", "COLUMNS": "80"}
    command = ["preflight", "--experiment", str(file)]
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        for name, value in (dict(where) | usual | variables).items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["deployment", *command])
        status = main()
    return subprocess.CompletedProcess(command, status, output.getvalue(), errors.getvalue())


def test_a_sound_account_ends_with_success(granted: Aws, docker: Path, tmp_path: Path) -> None:
    file = edited(tmp_path, SOUND)
    granted.forget_calls()
    done = preflight(file, granted.environment, CDK_DOCKER=str(docker))
    assert (done.returncode, done.stderr) == (0, "")
    first, *rows, last = done.stdout.splitlines()
    assert first == (
        f"experiment article ({file}), account {granted.account}, {REGION}: nothing is created"
    )
    assert last == "24 ok, 0 warnings, 0 refused; nothing was created"
    assert {row.split()[0] for row in rows if not row.startswith(" ")} == {"ok"}
    assert {call.partition(":")[2][:3] for call in granted.calls()} <= {"Des", "Get", "Lis", "Hea"}


def test_refusals_fail_the_command(granted: Aws, docker: Path, tmp_path: Path) -> None:
    granted.know(offerings={name: ["us-east-2a"] for name in ("trn2.48xlarge", "m7i.xlarge")})
    try:
        done = preflight(edited(tmp_path, SOUND), granted.environment, CDK_DOCKER=str(docker))
    finally:
        granted.know(offerings={})
    assert (done.returncode, done.stderr) == (1, "")
    _, *rows, last = done.stdout.splitlines()
    assert last == "22 ok, 0 warnings, 2 refused; nothing was created"
    assert [row.split()[:2] for row in rows if row.startswith("refused")] == [
        ["refused", "trn2.48xlarge"],
        ["refused", "r7i.24xlarge"],
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_terminal(columns: int) -> None:
    words = " ".join(["word"] * 40)
    command = "aws ec2 describe-capacity-reservations --region us-east-2"
    rows = [*lines([ok("short", words), refused("a longer one", words, command)], columns)]
    assert columns - 5 < max(map(len, rows)) <= columns
    assert {row.index("word") for row in rows if "word" in row} == {len("refused  a longer one  ")}
    # No option is torn from its dashes, so that it can be copied.
    assert " ".join(" ".join(rows).split()).endswith(f"-> {command}")


def test_without_credentials_it_says_what_it_can(tmp_path: Path) -> None:
    file = edited(tmp_path, {"capacity.price.as_of": "2026-01-01"})
    nowhere = environment("http://127.0.0.1:9", REGION)
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    done = preflight(file, nowhere, COLUMNS="200", **none)
    assert (done.returncode, done.stderr) == (1, "")
    rows = done.stdout.splitlines()
    assert rows[1].startswith("refused  credentials   AWS: no credentials; set AWS_PROFILE")
    assert any(row.startswith("warning  price ") for row in rows)


def test_a_file_that_is_refused_is_refused_here_too(tmp_path: Path, aws: Aws) -> None:
    changes: dict[str, Any] = {"capacity.purchase": "capacity-block"}
    done = preflight(edited(tmp_path, changes), aws.environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert "capacity.reservation_id = null: is required" in done.stderr
