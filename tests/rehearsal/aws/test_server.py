"""What moto lacks, it lacks still; what stands in for it works."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from rehearsal.aws.client import Aws

NOW = datetime.now(UTC).replace(second=0, microsecond=0)
KEY = {
    "Resources": {
        "Key": {
            "Type": "AWS::KMS::Key",
            "Properties": {
                "KeyPolicy": {"Version": "2012-10-17", "Statement": []},
                "Tags": [{"Key": "Experiment", "Value": "article"}],
            },
        }
    }
}

SUBSCRIPTION = {
    "Resources": {
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "email",
                "Endpoint": "team@example.com",
            },
        },
    }
}


def put(cloudwatch: Any, name: str, values: list[float], namespace: str = "Qwen/LLMPerf") -> None:
    datum = {
        "MetricName": name,
        "Dimensions": [{"Name": "Variant", "Value": "SD"}],
        "Timestamp": NOW,
        "Values": values,
        "Counts": [2.0] * len(values),
    }
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=[datum])


def query(identifier: str, name: str, stat: str) -> dict[str, Any]:
    metric = {
        "Namespace": "Qwen/LLMPerf",
        "MetricName": name,
        "Dimensions": [{"Name": "Variant", "Value": "SD"}],
    }
    return {"Id": identifier, "MetricStat": {"Metric": metric, "Period": 60, "Stat": stat}}


def ask(cloudwatch: Any, *queries: dict[str, Any]) -> dict[str, list[float]]:
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=queries, StartTime=NOW, EndTime=NOW + timedelta(minutes=1)
    )
    return {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}


@pytest.fixture
def unmended(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    with mock_aws():
        yield lambda service: boto3.client(service, region_name="us-east-2")


def test_moto_knows_no_percentiles_no_mathematics_and_no_namespaces(unmended: Any) -> None:
    cloudwatch = unmended("cloudwatch")
    put(cloudwatch, "A", [1.0], namespace="Other")
    assert ask(cloudwatch, query("a", "A", "Average")) == {"a": [1]}
    mathematics = {"Id": "e", "Expression": "a / a"}
    assert ask(cloudwatch, query("a", "A", "Average"), mathematics)["e"] == []
    with pytest.raises(TypeError):
        ask(cloudwatch, query("a", "A", "p50"))


def test_moto_cannot_tag_a_key_of_cloudformation(unmended: Any) -> None:
    with pytest.raises(KeyError, match="TagKey"):
        unmended("cloudformation").create_stack(StackName="keys", TemplateBody=json.dumps(KEY))


def test_moto_cannot_subscribe_for_cloudformation(unmended: Any) -> None:
    with pytest.warns(UserWarning, match="AWS::SNS::Subscription but it's not supported"):
        unmended("cloudformation").create_stack(
            StackName="topics", TemplateBody=json.dumps(SUBSCRIPTION)
        )
    assert unmended("sns").list_subscriptions()["Subscriptions"] == []


def test_percentiles_mathematics_and_namespaces(aws: Aws) -> None:
    cloudwatch = aws.client("cloudwatch")
    put(cloudwatch, "A", [1.0, 2.0, 9.0])
    put(cloudwatch, "B", [4.0])
    put(cloudwatch, "B", [1000.0], namespace="Other")
    found = ask(
        cloudwatch,
        query("a", "A", "p50"),
        query("b", "B", "Sum"),
        {"Id": "e", "Expression": "b / a"},
    )
    assert found == {"a": [2], "b": [8], "e": [4]}


def test_what_cloudwatch_refuses_is_refused(aws: Aws) -> None:
    with pytest.raises(ClientError, match="no query has the id nobody"):
        ask(aws.client("cloudwatch"), {"Id": "e", "Expression": "1 / nobody"})


def test_a_key_of_cloudformation_has_its_tags(deployed: Aws) -> None:
    stacks, keys = deployed.client("cloudformation"), deployed.client("kms")
    stacks.create_stack(StackName="keys", TemplateBody=json.dumps(KEY))
    made = stacks.describe_stack_resources(StackName="keys")["StackResources"]
    tags = keys.list_resource_tags(KeyId=made[0]["PhysicalResourceId"])["Tags"]
    assert tags == [{"TagKey": "Experiment", "TagValue": "article"}]


@pytest.mark.parametrize(
    ("asked", "policy", "name", "taken_back"),
    [
        (True, "Retain", "left", True),
        (False, "Retain", "left", False),
        (True, "Delete", "left", False),
        (True, "Retain", {"Fn::Join": ["", ["le", "ft"]]}, False),
    ],
)
def test_a_bucket_is_taken_back_by_cloudformations_rules(
    aws: Aws, asked: bool, policy: str, name: Any, taken_back: bool
) -> None:
    store, stacks = aws.client("s3"), aws.client("cloudformation")
    where = {"LocationConstraint": aws.region}
    with contextlib.suppress(store.exceptions.BucketAlreadyOwnedByYou):
        store.create_bucket(Bucket="left", CreateBucketConfiguration=where)
    bucket = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": policy,
        "Properties": {"BucketName": name},
    }
    stack = f"stack-{asked}-{policy}-{isinstance(name, str)}"

    def deploy() -> None:
        stacks.create_change_set(
            StackName=stack,
            ChangeSetName="changes",
            ChangeSetType="CREATE",
            ImportExistingResources=asked,
            TemplateBody=json.dumps({"Resources": {"Bucket": bucket}}),
        )
        stacks.execute_change_set(StackName=stack, ChangeSetName="changes")

    if taken_back:
        deploy()
        (made,) = stacks.describe_stack_resources(StackName=stack)["StackResources"]
        assert made["PhysicalResourceId"] == "left"
    else:
        with pytest.raises(ClientError, match="BucketAlreadyExists"):
            deploy()
