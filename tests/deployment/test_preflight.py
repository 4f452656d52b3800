"""Preflight: faults planted in an embedded account, one at a time; each is found, with a remedy."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from deployment.cluster import ADDRESS_VARIABLE, ADMINISTRATOR_OUTPUT
from deployment.place import Place
from deployment.preflight import Finding, Status, checks, kubernetes_api
from experiment import load
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from tests.aws.client import Aws
from tests.deployment.conftest import REGION
from tests.synthesis import ROOT

READS: Final = ("Describe", "Get", "List", "Head")
BOOTSTRAP: Final = "/cdk-bootstrap/hnb659fds/version"
ELSEWHERE: Final = "ap-south-2"
BLOCK: Final = "cr-0123456789abcdef0"
OTHERS: Final = "arn:aws:iam::111111111111:role/others"

MANIFEST: Final = '{"mediaType": "application/vnd.oci.image.manifest.v1+json"}'

At = Callable[..., Place]


@pytest.fixture(scope="module")
def clients() -> dict[tuple[str, str], Any]:
    """Shared by the places of all tests: to make them takes longer than to ask."""
    return {}


@pytest.fixture(scope="module")
def image(aws: Aws) -> str:
    """A benchmark image in ECR."""
    aws.client("ecr").create_repository(repositoryName="bench")
    aws.client("ecr").put_image(repositoryName="bench", imageManifest=MANIFEST, imageTag="1")
    return f"{aws.account}.dkr.ecr.{REGION}.amazonaws.com/bench:1"


@pytest.fixture
def sound(
    aws: Aws,
    at: At,
    clients: dict[tuple[str, str], Any],
    image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[At]:
    """Makes places in which nothing is wrong, but for the fields given."""
    usual = {
        "aws.api_access": ["203.0.113.0/24"],
        "alerts.emails": ["team@example.com"],
        "benchmark.image": image,
        "capacity.price.purchase": "on-demand",
        "capacity.price.as_of": datetime.date.today().isoformat(),
    }
    monkeypatch.setenv("PATH", f"{ROOT}/node_modules/.bin:/usr/bin:/bin")
    monkeypatch.setenv(ADDRESS_VARIABLE, "https://127.0.0.1:9")
    for region in (REGION, "us-east-1"):
        boto3.client("ssm", region).put_parameter(
            Name=BOOTSTRAP, Value="30", Type="String", Overwrite=True
        )
    aws.know(addons={name: [version] for name, version in VERSIONS.items()})

    def make(changes: dict[str, Any] | None = None, name: str = "mine") -> Place:
        found = at(name, usual | (changes or {}))
        return Place(found.experiment, found.file, found.account, clients)

    yield make
    aws.forget_facts()
    aws.deny()


def problems(aws: Aws, place: Place, *, also: frozenset[str] = frozenset()) -> list[Finding]:
    """What is not ok. Nothing but reading calls may have been made, and those of ``also``."""
    aws.forget_calls()
    found = checks(place)
    made = set(aws.calls())
    assert made
    assert {its for its in made if not its.partition(":")[2].startswith(READS)} <= also
    return [its for its in found if its.status is not Status.OK]


def the_problem(aws: Aws, place: Place) -> Finding:
    (found,) = problems(aws, place)
    assert found.remedy
    return found


def capacity_block(**changes: Any) -> dict[str, Any]:
    """As EC2 describes one; ``hours`` are until its end."""
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(hours=changes.pop("hours", 48))
    return {
        "CapacityReservationId": BLOCK,
        "ReservationType": "capacity-block",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-east-2c",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 1,
        "State": "active",
        "StartDate": (now - datetime.timedelta(hours=1)).isoformat(),
        "EndDate": end.isoformat(),
    } | changes


BOUGHT: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": BLOCK,
    "capacity.price.purchase": "capacity-block",
}


def test_a_sound_account_has_no_problem(aws: Aws, sound: At) -> None:
    assert problems(aws, sound()) == []


def test_a_region_that_is_not_bootstrapped(aws: Aws, sound: At) -> None:
    place = sound()
    place.client("ssm").delete_parameter(Name=BOOTSTRAP)
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (Status.REFUSED, f"bootstrap {REGION}")
    assert found.remedy == f"make bootstrap EXPERIMENT={place.file}"


def test_a_bootstrap_that_is_too_old(aws: Aws, sound: At) -> None:
    place = sound()
    place.client("ssm").put_parameter(Name=BOOTSTRAP, Value="5", Type="String", Overwrite=True)
    found = the_problem(aws, place)
    assert (found.status, found.found) == (Status.REFUSED, "version 5; the stacks need 6")


def test_the_region_of_the_budget_must_be_bootstrapped_too(aws: Aws, sound: At) -> None:
    place = sound(
        {
            "aws.region": ELSEWHERE,
            "aws.availability_zones": [f"{ELSEWHERE}a", f"{ELSEWHERE}b"],
            "capacity.availability_zone": f"{ELSEWHERE}b",
            "capacity.price.region": ELSEWHERE,
        }
    )
    subjects = {its.subject for its in checks(place)}
    assert {f"bootstrap {ELSEWHERE}", "bootstrap us-east-1"} <= subjects


def test_a_quota_that_was_never_raised(aws: Aws, sound: At) -> None:
    aws.know(quotas={"L-1216C47A": 512})
    found = the_problem(aws, sound())
    assert (found.status, found.subject) == (Status.REFUSED, "quota, Trainium")
    assert found.found.startswith("192 vCPUs needed, 0 in use by others, 0 allowed")
    assert "--quota-code L-2C3B7624 --desired-value 192" in found.remedy


def test_spot_has_a_quota_of_its_own(aws: Aws, sound: At) -> None:
    place = sound({"capacity.purchase": "spot", "capacity.price.purchase": "spot"})
    found = the_problem(aws, place)
    assert "--quota-code L-6B0D517C --desired-value 192" in found.remedy


def test_what_others_run_counts_and_what_is_its_own_does_not(aws: Aws, sound: At) -> None:
    place = sound()
    ec2 = place.client("ec2")
    tags = [{"Key": "eks:cluster-name", "Value": place.name}]
    started = ec2.run_instances(
        ImageId="ami-12c6146b",
        InstanceType="trn1.32xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    instances = [its["InstanceId"] for its in started["Instances"]]
    try:
        assert problems(aws, place) == []
        ec2.delete_tags(Resources=instances, Tags=tags)
        found = the_problem(aws, place)
    finally:
        ec2.terminate_instances(InstanceIds=instances)
    assert found.found.startswith("192 vCPUs needed, 128 in use by others, 192 allowed")
    assert "--desired-value 320" in found.remedy


@pytest.mark.parametrize(
    ("allowed", "status", "said"),
    [
        (32, Status.REFUSED, "204 vCPUs needed, 0 in use by others, 32 allowed"),
        (120, Status.WARNING, "room for 1 of 2 compile nodes"),
    ],
)
def test_too_few_cpus(aws: Aws, sound: At, allowed: int, status: Status, said: str) -> None:
    aws.know(quotas={"L-2C3B7624": 192, "L-1216C47A": allowed})
    found = the_problem(aws, sound())
    assert (found.status, found.subject) == (status, "quota, CPU nodes")
    assert found.found.startswith(said)
    assert "--quota-code L-1216C47A --desired-value 204" in found.remedy


def test_cpus_for_compiles_are_not_needed_where_trainium_compiles(aws: Aws, sound: At) -> None:
    aws.know(quotas={"L-2C3B7624": 192, "L-1216C47A": 12})
    assert problems(aws, sound({"compiling": {"node": "trainium"}})) == []


@pytest.mark.parametrize(
    ("code", "subject"),
    [
        ("L-F678F1CE", "quota, VPCs"),
        ("L-0263D0A3", "quota, addresses"),
        ("L-1194D53C", "quota, clusters"),
    ],
)
def test_no_room_for_one_more(aws: Aws, sound: At, code: str, subject: str) -> None:
    aws.know(quotas={"L-2C3B7624": 192, "L-1216C47A": 512, code: 0})
    found = the_problem(aws, sound())
    assert (found.status, found.subject) == (Status.REFUSED, subject)
    assert f"--quota-code {code}" in found.remedy


def test_a_zone_that_the_account_has_not(aws: Aws, sound: At) -> None:
    place = sound({"aws.availability_zones": ["us-east-2c", "us-east-2f"]})
    found = the_problem(aws, place)
    assert (found.status, found.found) == (Status.REFUSED, "us-east-2f: no such zone")
    assert "us-east-2a, us-east-2b, us-east-2c" in found.remedy


@pytest.mark.parametrize(
    ("zones", "remedy"),
    [
        (["us-east-2b"], "us-east-2 has it in us-east-2b: set aws.availability_zones"),
        ([], "us-east-2 has it in no zone: set aws.region"),
    ],
)
def test_a_zone_without_the_instance_type(
    aws: Aws, sound: At, zones: list[str], remedy: str
) -> None:
    others = {name: ["us-east-2a", "us-east-2c"] for name in ("m7i.xlarge", "r7i.24xlarge")}
    place = sound()
    aws.know(offerings=others | {"trn2.48xlarge": zones})
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (Status.REFUSED, "trn2.48xlarge")
    assert found.found == "not offered in us-east-2c"
    assert found.remedy.startswith(remedy)


def test_a_capacity_block_that_fits(aws: Aws, sound: At) -> None:
    aws.know(reservations=[capacity_block()], quotas={"L-1216C47A": 512})
    assert problems(aws, sound(BOUGHT)) == []


@pytest.mark.parametrize(
    ("changes", "status", "said", "remedy"),
    [
        (
            {"CapacityReservationId": "cr-1"},
            Status.REFUSED,
            "there is none in this account",
            "set capacity.reservation_id",
        ),
        (
            {"AvailabilityZone": "us-east-2b"},
            Status.REFUSED,
            "capacity.availability_zone is us-east-2b, the file has us-east-2c",
            "set capacity.availability_zone",
        ),
        (
            {"ReservationType": "default"},
            Status.REFUSED,
            "capacity.purchase is default, the file has capacity-block",
            "set capacity.purchase",
        ),
        ({"State": "expired"}, Status.REFUSED, "expired", "buy another"),
        ({"State": "payment-failed"}, Status.REFUSED, "payment-failed", "buy another"),
        ({"hours": 0.5}, Status.REFUSED, "ends at ", "buy another"),
        (
            {"AvailableInstanceCount": 0},
            Status.REFUSED,
            "0 of 1 instances are free, 1 are wanted",
            "end the instances that use it",
        ),
        (
            {"State": "scheduled", "AvailableInstanceCount": 0},
            Status.WARNING,
            "scheduled, 1 x trn2.48xlarge in us-east-2c, from ",
            "nodes come when it is active",
        ),
        (
            {"hours": 2 + 40 / 60},
            Status.WARNING,
            "active, 1 x trn2.48xlarge in us-east-2c, 2.0 hours left",
            "the guard leaves them 4 hours",
        ),
    ],
)
def test_a_capacity_block_that_does_not_fit(
    aws: Aws, sound: At, changes: dict[str, Any], status: Status, said: str, remedy: str
) -> None:
    aws.know(reservations=[capacity_block(**changes)], quotas={"L-1216C47A": 512})
    found = the_problem(aws, sound(BOUGHT))
    assert (found.status, found.subject) == (status, BLOCK)
    assert found.found.startswith(said)
    assert found.remedy.startswith(remedy) or remedy in found.remedy


def test_a_stack_of_somebody_else(aws: Aws, sound: At) -> None:
    place = sound(name="theirs")
    _stack(place, "theirs-observability", tags={})
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (Status.REFUSED, "stack theirs-observability")
    assert found.remedy == "give the experiment another name"


def test_a_cluster_of_somebody_else(aws: Aws, sound: At) -> None:
    place = sound(name="taken", changes={})
    _cluster(place, tags={})
    found = [its for its in problems(aws, place) if its.subject == "cluster"]
    assert [its.status for its in found] == [Status.REFUSED]
    assert found[0].remedy == "give the experiment another name"


def test_a_bucket_of_another_account(aws: Aws, sound: At) -> None:
    place = sound(name="bucketed")
    theirs = boto3.client("sts", REGION).assume_role(RoleArn=OTHERS, RoleSessionName="others")
    its = theirs["Credentials"]
    other = boto3.client(
        "s3",
        REGION,
        aws_access_key_id=its["AccessKeyId"],
        aws_secret_access_key=its["SecretAccessKey"],
        aws_session_token=its["SessionToken"],
    )
    other.create_bucket(
        Bucket=f"bucketed-models-{aws.account}-{REGION}",
        CreateBucketConfiguration={"LocationConstraint": REGION},
    )
    aws.deny("s3:HeadBucket")  # as S3 answers; moto lets everyone look
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (Status.REFUSED, "bucket")
    assert found.found.endswith("belongs to another account")


def test_what_an_earlier_deploy_left_is_no_problem(aws: Aws, sound: At) -> None:
    place = sound(name="again")
    bucket = f"again-models-{aws.account}-{REGION}"
    place.client("s3").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    place.client("logs").create_log_group(logGroupName="/aws/eks/again/cluster")
    assert problems(aws, place) == []
    said = {its.subject: its.found for its in checks(place)}
    assert said["bucket"] == f"{bucket} stayed of an earlier deploy; the next one takes it back"
    assert said["log groups"].startswith("/aws/eks/again/cluster stayed")


def test_no_docker_to_build_the_image(
    aws: Aws, sound: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = sound({"benchmark.image": None})
    monkeypatch.setenv("CDK_DOCKER", str(tmp_path / "no-docker"))
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (Status.REFUSED, "image")
    assert "is not installed" in found.found
    assert found.remedy == "start it, or set benchmark.image to a ready one"

    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("CDK_DOCKER", str(docker))
    assert "Cannot connect to the Docker daemon" in the_problem(aws, place).found

    docker.write_text("#!/bin/sh\necho 29.1.2\n")
    assert problems(aws, place) == []


def test_docker_is_hardly_needed_once_the_services_stand(
    aws: Aws, sound: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = sound({"benchmark.image": None}, name="served")
    monkeypatch.setenv("CDK_DOCKER", "/no/docker")
    _stack(place, "served-serving")
    assert the_problem(aws, place).status is Status.WARNING


@pytest.mark.parametrize("missing", ["nothing:1", f"bench@sha256:{'0' * 64}"])
def test_an_image_that_is_not_there(aws: Aws, sound: At, image: str, missing: str) -> None:
    name = f"{image.partition('/')[0]}/{missing}"
    found = the_problem(aws, sound({"benchmark.image": name}))
    assert (found.status, found.found) == (Status.REFUSED, f"{name} is not there")


def test_an_image_of_another_registry_is_not_known(aws: Aws, sound: At) -> None:
    found = the_problem(aws, sound({"benchmark.image": "ghcr.io/mine/bench:1"}))
    assert found.status is Status.WARNING
    assert found.remedy == "docker manifest inspect ghcr.io/mine/bench:1"


@pytest.mark.parametrize(
    ("allowed", "address", "status", "remedy"),
    [
        ((), None, Status.WARNING, "or set aws.api_access: [your address]"),
        ((), "203.0.113.7", Status.WARNING, "or set aws.api_access: [203.0.113.7/32]"),
        (("203.0.113.0/24",), "203.0.113.7", Status.OK, ""),
        (("203.0.113.0/24",), "198.51.100.1", Status.WARNING, "add 198.51.100.1/32"),
        (("203.0.113.0/24",), None, Status.WARNING, "https://checkip.amazonaws.com"),
    ],
)
def test_who_will_reach_the_api(
    allowed: tuple[str, ...], address: str | None, status: Status, remedy: str
) -> None:
    found = kubernetes_api.access(allowed, lambda: address)
    assert found.status is status
    assert remedy in found.remedy


def test_a_cluster_that_does_not_answer(aws: Aws, sound: At) -> None:
    place = sound(name="silent")
    _cluster(place, tags={"Experiment": "silent"})
    _stack(place, "silent-cluster", outputs={ADMINISTRATOR_OUTPUT: OTHERS})
    (found,) = problems(aws, place, also=frozenset({"sts:AssumeRole"}))
    assert (found.status, found.subject) == (Status.WARNING, "Kubernetes API")
    assert "\n" not in found.found
    assert "Reach a private API" in found.remedy


def test_a_price_of_long_ago(aws: Aws, sound: At) -> None:
    read = datetime.date.today() - datetime.timedelta(days=61)
    found = the_problem(aws, sound({"capacity.price.as_of": read.isoformat()}))
    assert (found.status, found.subject) == (Status.WARNING, "price")
    assert "61 days ago" in found.found


def test_a_price_of_something_else(aws: Aws, sound: At) -> None:
    found = the_problem(aws, sound({"capacity.price.purchase": "capacity-block"}))
    assert found.status is Status.WARNING
    assert found.remedy == "read the price of on-demand in us-east-2, and set capacity.price"


def test_alarms_that_reach_nobody(aws: Aws, sound: At) -> None:
    found = the_problem(aws, sound({"alerts.emails": []}))
    assert (found.status, found.subject) == (Status.WARNING, "alarms")
    assert "alerts.emails is empty" in found.found


def test_a_gated_model(aws: Aws, sound: At) -> None:
    place = sound()
    gated = load(ROOT / "experiments" / "eagle3-nxdi.yaml").models
    changed = place.experiment.model_copy(update={"models": gated})
    found = the_problem(aws, dataclasses.replace(place, experiment=changed))
    assert (found.status, found.subject) == (Status.WARNING, "gated models")
    assert "Gated models" in found.remedy


def test_an_addon_that_is_not_offered(aws: Aws, sound: At) -> None:
    place = sound()
    aws.know(addons={name: [its] for name, its in VERSIONS.items()} | {"coredns": ["v9.9.9"]})
    found = the_problem(aws, place)
    assert (found.status, found.found) == (
        Status.REFUSED,
        f"not offered: coredns {VERSIONS['coredns']}",
    )
    assert "make addons" in found.remedy


@pytest.mark.parametrize(
    ("versions", "status"),
    [({KUBERNETES_VERSION: "2026-01-01"}, Status.WARNING), ({}, Status.REFUSED)],
)
def test_a_kubernetes_out_of_support(
    aws: Aws, sound: At, versions: dict[str, str], status: Status
) -> None:
    place = sound()
    aws.know(cluster_versions=versions)
    found = the_problem(aws, place)
    assert (found.status, found.subject) == (status, "Kubernetes")
    assert "stacks/cluster.py" in found.remedy


def test_a_call_that_is_denied_is_a_row_and_no_crash(aws: Aws, sound: At) -> None:
    denied = {
        "quota, Trainium": "service-quotas:GetServiceQuota",
        "instance types": "ec2:DescribeInstanceTypeOfferings",
        "Kubernetes": "eks:DescribeClusterVersions",
        "stacks": "cloudformation:DescribeStacks",
        "bootstrap": "ssm:GetParameter",
        "log groups": "logs:DescribeLogGroups",
        "image": "ecr:DescribeImages",
    }
    place = sound()
    aws.deny(*denied.values())
    found = {its.subject: its for its in problems(aws, place)}
    assert {its.status for its in found.values()} == {Status.WARNING}
    for subject, action in denied.items():
        action = {"service-quotas:GetServiceQuota": "servicequotas:GetServiceQuota"}.get(
            action, action
        )
        assert found[subject].found == f"not known: these credentials may not call {action}"
        assert found[subject].remedy == f"allow {action}, which only reads"


def test_a_bucket_that_may_not_be_looked_at(aws: Aws, sound: At) -> None:
    place = sound(name="unseen")
    place.client("s3").create_bucket(
        Bucket=f"unseen-models-{aws.account}-{REGION}",
        CreateBucketConfiguration={"LocationConstraint": REGION},
    )
    aws.deny("s3:HeadBucket")
    assert "s3:ListBucket" in the_problem(aws, place).found
    aws.deny("s3:HeadBucket", "s3:ListBuckets")
    assert "s3:ListAllMyBuckets" in the_problem(aws, place).found


def _stack(
    place: Place,
    name: str,
    *,
    tags: dict[str, str] | None = None,
    outputs: dict[str, str] | None = None,
) -> None:
    tags = {"Experiment": place.name} if tags is None else tags
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {key: {"Value": value} for key, value in (outputs or {}).items()},
    }
    place.client("cloudformation").create_stack(
        StackName=name,
        TemplateBody=json.dumps(template),
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )


def _cluster(place: Place, *, tags: dict[str, str]) -> None:
    place.client("eks").create_cluster(
        name=place.name,
        roleArn=f"arn:aws:iam::{place.account}:role/cluster",
        resourcesVpcConfig={"subnetIds": []},
        tags=tags,
    )
