"""The embedded AWS, and what the CDK CLI deploys to it."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from charts.names import service_accounts
from rehearsal.aws.cdk import Cdk
from rehearsal.aws.client import Aws, embedded_aws, environment
from rehearsal.errors import RehearsalError
from rehearsal.process.errors import ProcessError
from rehearsal.rehearse import stacks
from tests.rehearsal.conftest import REGION
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


def test_each_experiment_is_deployed(each: Synthesised, deployed: Aws, tmp_path: Path) -> None:
    experiment = each.experiment
    aws = replace(deployed, region=experiment.aws.region)
    standing = () if experiment.apart else experiment.speculations
    assert Cdk(ROOT, each.directory, tmp_path).left_out(aws, stacks(experiment)) == {
        # Two of the nodes, and one for each service that speculates.
        "AWS::CloudWatch::Alarm": 4 + len(standing),
        "AWS::S3::BucketPolicy": 1,
        "AWS::SNS::TopicPolicy": 1,
    }
    roles = [role["RoleName"] for role in aws.client("iam").list_roles()["Roles"]]
    its_own = [role for role in roles if role.startswith(f"{experiment.name}-model-store-")]
    assert len(its_own) == len(service_accounts(experiment))
    dashboards = aws.client("cloudwatch").list_dashboards(DashboardNamePrefix=f"{experiment.name}-")
    many = len(experiment.benchmark.test_cases) > 40
    assert {entry["DashboardName"] for entry in dashboards["DashboardEntries"]} == {
        f"{experiment.name}-{name}"
        for name in ("comparison", "nodes", *(["comparison-2"] if many else []))
    }
    topic = f"arn:aws:sns:{aws.region}:{aws.account}:{experiment.name}-alarms"
    found = aws.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [(one["Protocol"], one["Endpoint"]) for one in found] == [
        ("email", email) for email in experiment.alerts.emails
    ]


def test_the_bucket_is_deployed(deployed: Aws) -> None:
    s3 = deployed.client("s3")
    # moto's CloudFormation gives a bucket its name, its encryption and its tags, and no more.
    encryption = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]
    (rule,) = encryption["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_what_is_not_there_is_said(deployed: Aws, synthesised: Synthesised, tmp_path: Path) -> None:
    (stack, _) = stacks(synthesised.experiment)
    template = synthesised.template("model-store")
    template["Resources"]["Another"] = {"Type": "AWS::S3::Bucket"}
    (tmp_path / f"{stack}.template.json").write_text(json.dumps(template))
    with pytest.raises(RehearsalError, match=r"^deployed, but missing: AWS::S3::Bucket$"):
        Cdk(ROOT, tmp_path, tmp_path).left_out(deployed, [stack])


def test_a_stack_that_does_not_exist_is_one_line(
    deployed: Aws, synthesised: Synthesised, tmp_path: Path
) -> None:
    cdk = Cdk(ROOT, synthesised.directory, tmp_path)
    with pytest.raises(ProcessError, match=r"^ended with status 1: No stacks match.*nobody"):
        cdk.deploy(deployed, ["nobody"])
