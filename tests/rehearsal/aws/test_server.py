"""moto still lacks what is mended here, and the mends work."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from rehearsal.aws.client import Aws
from tests.rehearsal.account.stacks import change, said, status

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


def listed(cloudwatch: Any) -> list[str]:
    """The metrics of a namespace, after two values of each of two metrics."""
    for variant in ("Base", "SD", "Base", "SD"):
        dimensions = [{"Name": "Variant", "Value": variant}, {"Name": "TestCase", "Value": "a"}]
        datum = {"MetricName": "TTFT", "Dimensions": dimensions, "Value": 1.0}
        cloudwatch.put_metric_data(Namespace="Listed", MetricData=[datum])
    found = cloudwatch.list_metrics(Namespace="Listed")["Metrics"]
    return sorted(d["Value"] for m in found for d in m["Dimensions"] if d["Name"] == "Variant")


def test_moto_lists_a_metric_once_for_each_value(unmended: Any) -> None:
    assert listed(unmended("cloudwatch")) == ["Base", "Base", "SD", "SD"]


def test_a_metric_is_listed_once(aws: Aws) -> None:
    assert listed(aws.client("cloudwatch")) == ["Base", "SD"]


def test_moto_cannot_tag_a_key_of_cloudformation(unmended: Any) -> None:
    with pytest.raises(KeyError, match="TagKey"):
        unmended("cloudformation").create_stack(StackName="keys", TemplateBody=json.dumps(KEY))


def test_moto_cannot_subscribe_for_cloudformation(unmended: Any) -> None:
    with pytest.warns(UserWarning, match="AWS::SNS::Subscription but it's not supported"):
        unmended("cloudformation").create_stack(
            StackName="topics", TemplateBody=json.dumps(SUBSCRIPTION)
        )
    assert unmended("sns").list_subscriptions()["Subscriptions"] == []


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

    change(aws, stack, "CREATE", {"Resources": {"Bucket": bucket}}, ImportExistingResources=asked)
    if taken_back:
        (made,) = stacks.describe_stack_resources(StackName=stack)["StackResources"]
        assert made["PhysicalResourceId"] == "left"
    else:
        assert status(aws, stack) == "ROLLBACK_COMPLETE"
        assert any("BucketAlreadyExists" in why for _, _, why in said(aws, stack))
