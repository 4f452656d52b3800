"""The embedded AWS notes what it is asked, denies what it shall, and knows facts of the account."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from rehearsal.aws.client import Aws, embedded_aws

REGION = "us-east-2"
BLOCK = {
    "CapacityReservationId": "cr-1",
    "ReservationType": "capacity-block",
    "AvailableInstanceCount": 1,
    "EndDate": "2026-12-01T11:30:00+00:00",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@pytest.fixture
def aws(running: Aws) -> Iterator[Aws]:
    """Nothing is denied yet, and the facts are the usual ones."""
    running.forget_calls()
    yield running
    running.forget_facts()
    running.deny()


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_calls_of_every_protocol_are_noted_in_order(aws: Aws, tmp_path: Path) -> None:
    aws.client("ec2").describe_vpcs()
    aws.client("eks").list_clusters()
    aws.client("ssm").describe_parameters()
    aws.client("sns").create_topic(Name="noted")
    store = aws.client("s3")
    store.create_bucket(Bucket="noted", CreateBucketConfiguration={"LocationConstraint": REGION})
    (tmp_path / "file").write_bytes(b"x" * (2 << 20))
    store.upload_file(str(tmp_path / "file"), "noted", "a/b")
    aws.client("cloudwatch").list_metrics()
    assert aws.calls() == [
        "ec2:DescribeVpcs",
        "eks:ListClusters",
        "ssm:DescribeParameters",
        "sns:CreateTopic",
        "s3:CreateBucket",
        "s3:PutObject",
        "cloudwatch:ListMetrics",
    ]
    assert aws.calls(aws.environment["AWS_ACCESS_KEY_ID"]) == aws.calls()
    assert aws.calls("somebody else's") == []
    assert store.get_object(Bucket="noted", Key="a/b")["ContentLength"] == 2 << 20
    aws.forget_calls()
    assert aws.calls() == []


def test_a_denied_call_has_no_effect_and_says_what_is_missing(aws: Aws) -> None:
    aws.deny("sns:CreateTopic", "ec2:DescribeVpcs", "eks:ListClusters")
    with pytest.raises(ClientError, match="not authorized to perform: sns:CreateTopic") as denied:
        aws.client("sns").create_topic(Name="denied")
    with pytest.raises(ClientError, match="not authorized to perform: eks:ListClusters"):
        aws.client("eks").list_clusters()
    with pytest.raises(ClientError) as of_ec2:
        aws.client("ec2").describe_vpcs()
    assert (code(denied), code(of_ec2)) == ("AccessDeniedException", "UnauthorizedOperation")
    topics = aws.client("sns").list_topics()["Topics"]
    assert not [its for its in topics if its["TopicArn"].endswith(":denied")]
    aws.deny()
    aws.client("ec2").describe_vpcs()


def test_a_quota_is_what_was_granted_or_there_is_none(aws: Aws) -> None:
    quotas = aws.client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-2C3B7624"}
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 192
    aws.know(quotas={"L-2C3B7624": 384})
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 384
    aws.know(quotas={})
    with pytest.raises(ClientError) as missing:
        quotas.get_service_quota(**asked)
    assert code(missing) == "NoSuchResourceException"
    assert quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"] == 0


def test_a_reservation_is_found_by_its_id(aws: Aws) -> None:
    aws.know(reservations=[BLOCK])
    ec2 = aws.client("ec2")
    (found,) = ec2.describe_capacity_reservations(CapacityReservationIds=["cr-1"])[
        "CapacityReservations"
    ]
    end = datetime.datetime(2026, 12, 1, 11, 30, tzinfo=datetime.UTC)
    assert (found["EndDate"], found["AvailableInstanceCount"]) == (end, 1)
    with pytest.raises(ClientError) as missing:
        ec2.describe_capacity_reservations(CapacityReservationIds=["cr-2"])
    assert code(missing) == "InvalidCapacityReservationId.NotFound"


def test_versions_have_an_end_of_support_and_addons_a_default(aws: Aws) -> None:
    eks = aws.client("eks")
    aws.know(cluster_versions={"1.35": "2020-01-01", "1.99": "2099-01-01"})
    found = eks.describe_cluster_versions(clusterVersions=["1.35"])["clusterVersions"]
    assert [(its["clusterVersion"], its["versionStatus"]) for its in found] == [
        ("1.35", "EXTENDED_SUPPORT")
    ]
    aws.know(addons={"coredns": ["v2", "v1"], "vpc-cni": ["v3"]})
    (addon,) = eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.35")["addons"]
    assert [its["addonVersion"] for its in addon["addonVersions"]] == ["v2", "v1"]


def test_instance_types_are_offered_as_moto_has_them_or_as_it_is_told(aws: Aws) -> None:
    def zones() -> list[str]:
        found = aws.client("ec2").describe_instance_type_offerings(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": ["m7i.xlarge"]}],
        )
        return sorted(its["Location"] for its in found["InstanceTypeOfferings"])

    assert zones() == ["us-east-2a", "us-east-2b", "us-east-2c"]
    aws.know(offerings={"m7i.xlarge": ["us-east-2b"], "c7i.xlarge": ["us-east-2a"]})
    assert zones() == ["us-east-2b"]
