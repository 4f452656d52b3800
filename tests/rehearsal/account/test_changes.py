"""What a pull request would change in the account, by the real CLI and without the right to act."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployment import delivery
from deployment.account import Deployment
from rehearsal.aws.client import Aws
from tests.conftest import edited

FORBIDDEN = (
    *("sts:AssumeRole", "s3:PutObject", "s3:GetBucketLocation", "s3:ListObjectsV2"),
    *("cloudformation:CreateChangeSet", "cloudformation:DeleteStack"),
)
"""What the role of pull requests may not do."""


def test_changes_come_from_templates_alone(
    account: Aws, place: Deployment, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = edited(tmp_path, {"aws.api_access": ["203.0.113.0/24"]})
    changed = Deployment(place.experiment, str(file), account.account)
    cloudformation = account.client("cloudformation")
    before = cloudformation.describe_stacks()["Stacks"]
    account.deny(*FORBIDDEN)
    account.forget_calls()
    try:
        assert delivery.compare(changed, str(tmp_path / "changes.md")) == 0
    finally:
        account.deny()
    said = capfd.readouterr().out
    calls = account.calls()
    assert {each for each in calls if each in FORBIDDEN} <= {"sts:AssumeRole"}
    assert "[+] Added: .PublicAccessCidrs" in said
    for stack in ("serving", "observability", "budget"):
        assert f"Stack {place.name}-{stack} " in said
    assert (tmp_path / "changes.md").is_file()
    assert cloudformation.describe_stacks()["Stacks"] == before
