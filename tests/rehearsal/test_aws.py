"""The embedded AWS, and what the CDK CLI deploys to it."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rehearsal.aws import Aws, embedded_aws, environment
from rehearsal.cdk import Cdk
from rehearsal.errors import RehearsalError
from tests.rehearsal.conftest import REGION, Deployed
from tests.synthesis import ROOT, Synthesised

BUCKET = "article-models-123456789012-us-east-2"


def is_served(aws: Aws) -> bool:
    address = urlsplit(aws.url)
    try:
        socket.create_connection((address.hostname or "", address.port or 0), 1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_it_is_there_while_it_is_needed(tmp_path: Path) -> None:
    with embedded_aws(REGION, tmp_path / "aws.log") as aws:
        assert aws.account == "123456789012"
        assert is_served(aws)
    assert not is_served(aws)


def test_a_failure_within_ends_it(tmp_path: Path) -> None:
    def fail() -> None:
        raise RehearsalError("something is wrong")

    with pytest.raises(RehearsalError), embedded_aws(REGION, tmp_path / "aws.log") as aws:
        fail()
    assert not is_served(aws)


def test_nothing_of_the_machine_s_own_aws_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "the real thing")
    handed_on = environment("http://localhost:1", REGION)
    assert "the real thing" not in handed_on.values()
    assert handed_on["AWS_ENDPOINT_URL"] == "http://localhost:1"
    assert handed_on["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"


def test_the_bucket_is_deployed(deployed: Deployed) -> None:
    s3 = deployed.aws.client("s3")
    # moto's CloudFormation gives a bucket its name, its encryption and its tags, and no more.
    encryption = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]
    (rule,) = encryption["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_the_roles_the_dashboards_and_the_topic_are_deployed(deployed: Deployed) -> None:
    roles = deployed.aws.client("iam").list_roles()["Roles"]
    assert sum(role["RoleName"].startswith("article-model-store-") for role in roles) == 4
    dashboards = deployed.aws.client("cloudwatch").list_dashboards()["DashboardEntries"]
    assert [entry["DashboardName"] for entry in dashboards] == [
        "article-comparison",
        "article-nodes",
    ]
    (topic,) = deployed.aws.client("sns").list_topics()["Topics"]
    assert topic["TopicArn"].endswith(":article-alarms")


def test_what_moto_cannot_make_is_said(deployed: Deployed) -> None:
    assert deployed.left_out == {
        "AWS::CloudWatch::Alarm": 3,
        "AWS::S3::BucketPolicy": 1,
        "AWS::SNS::TopicPolicy": 1,
    }


def test_a_stack_that_does_not_exist_is_one_line(
    deployed: Deployed, synthesised: Synthesised, tmp_path: Path
) -> None:
    cdk = Cdk(ROOT, synthesised.directory, tmp_path)
    with pytest.raises(RehearsalError, match=r"^ended with status 1: No stacks match.*nobody"):
        cdk.deploy(deployed.aws, ["nobody"])
