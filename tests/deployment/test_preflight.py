"""Preflight: faults planted in an embedded account, one at a time; each is found, with a remedy."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from deployment import preflight
from deployment.account import Deployment
from deployment.cluster import ADDRESS_VARIABLE
from deployment.preflight import Finding, Status, checks, software
from deployment.preflight.table import CHECKS
from experiment import load
from rehearsal.aws.client import environment
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from tests.aws.client import Aws
from tests.conftest import edited
from tests.deployment import account
from tests.deployment.conftest import REGION, At
from tests.synthesis import ROOT

READS: Final = ("Describe", "Get", "List", "Head")
BOOTSTRAP: Final = "/cdk-bootstrap/hnb659fds/version"
BLOCK: Final = "cr-0123456789abcdef0"
OTHERS: Final = "arn:aws:iam::111111111111:role/others"
MANIFEST: Final = '{"mediaType": "application/vnd.oci.image.manifest.v1+json"}'
REFUSED, WARNING = Status.REFUSED, Status.WARNING

Says = tuple[Status, str, str, str]
"""Status, subject, and words of the text and of the remedy."""


@pytest.fixture(scope="module")
def clients() -> dict[tuple[str, str], Any]:
    """Shared by the deployments of all tests: to make them takes longer than to ask."""
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
    """Makes deployments in which nothing is wrong, but for the fields given."""
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

    def make(changes: dict[str, Any] | None = None, name: str = "mine") -> Deployment:
        made = at(name, usual | (changes or {}))
        return Deployment(made.experiment, made.file, made.account, clients)

    yield make
    aws.forget_facts()
    aws.deny()


def problems(aws: Aws, deployment: Deployment, also: str = "") -> list[Finding]:
    """What is not ok. Nothing but reading calls may have been made, and ``also``."""
    aws.forget_calls()
    findings = checks(deployment)
    made = {call for call in aws.calls() if not call.partition(":")[2].startswith(READS)}
    assert made <= {also}
    return [finding for finding in findings if finding.status is not Status.OK]


def is_found(aws: Aws, deployment: Deployment, says: Says, also: str = "") -> None:
    """The only problem is this."""
    (problem,) = problems(aws, deployment, also)
    status, subject, text, remedy = says
    assert (problem.status, problem.subject) == (status, subject)
    assert text in problem.text
    assert problem.remedy and remedy in problem.remedy  # noqa: PT018 (each has one, and "" is in all)


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


SPOT: Final = {"capacity.purchase": "spot", "capacity.price.purchase": "spot"}
BOUGHT: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": BLOCK,
    "capacity.price.purchase": "capacity-block",
}
LONG_AGO: Final = (datetime.date.today() - datetime.timedelta(days=61)).isoformat()
QUOTAS: Final = {"L-2C3B7624": 192, "L-1216C47A": 512}
OTHER_OFFERS: Final = {
    name: ["us-east-2a", "us-east-2c"] for name in ("m7i.xlarge", "r7i.24xlarge")
}
ADDONS: Final = {name: [version] for name, version in VERSIONS.items()}


def trn2(*zones: str) -> dict[str, Any]:
    return {"offerings": OTHER_OFFERS | {"trn2.48xlarge": [*zones]}}


@pytest.mark.parametrize(
    ("changes", "facts", "says"),
    [
        (
            {},
            {"quotas": {"L-1216C47A": 512}},
            (
                REFUSED,
                "quota, Trainium vCPUs",
                "192 needed, 0 in use",
                "L-2C3B7624 --desired-value 192",
            ),
        ),
        (SPOT, {}, (REFUSED, "quota, Trainium vCPUs", "192 needed", "--quota-code L-6B0D517C")),
        (
            {},
            {"quotas": QUOTAS | {"L-1216C47A": 32}},
            (REFUSED, "quota, CPU nodes' vCPUs", "204 needed", "L-1216C47A --desired-value 204"),
        ),
        (
            {},
            {"quotas": QUOTAS | {"L-1216C47A": 120}},
            (WARNING, "quota, CPU nodes' vCPUs", "room for 1 of 2", "--desired-value 204"),
        ),
        (
            {},
            {"quotas": QUOTAS | {"L-F678F1CE": 0}},
            (REFUSED, "quota, VPCs", "1 needed", "--quota-code L-F678F1CE"),
        ),
        (
            {},
            {"quotas": QUOTAS | {"L-0263D0A3": 0}},
            (REFUSED, "quota, addresses", "1 needed", "--quota-code L-0263D0A3"),
        ),
        (
            {},
            {"quotas": QUOTAS | {"L-1194D53C": 0}},
            (REFUSED, "quota, clusters", "1 needed", "--quota-code L-1194D53C"),
        ),
        (
            {"aws.availability_zones": ["us-east-2c", "us-east-2f"]},
            {},
            (REFUSED, "zones", "us-east-2f: no such zone", "us-east-2a, us-east-2b, us-east-2c"),
        ),
        (
            {},
            trn2("us-east-2b"),
            (
                REFUSED,
                "trn2.48xlarge",
                "not offered in us-east-2c",
                "has it in us-east-2b: set aws",
            ),
        ),
        (
            {},
            trn2(),
            (REFUSED, "trn2.48xlarge", "not offered in us-east-2c", "in no zone: set aws.region"),
        ),
        (
            {"benchmark.image": "ghcr.io/mine/bench:1"},
            {},
            (WARNING, "image", "not in ECR", "docker manifest inspect ghcr.io/mine/bench:1"),
        ),
        (
            {"capacity.price.as_of": LONG_AGO},
            {},
            (WARNING, "price", "61 days ago", "read the price of on-demand in us-east-2 again"),
        ),
        (
            {"capacity.price.purchase": "capacity-block"},
            {},
            (WARNING, "price", "is that of", "set capacity.price"),
        ),
        ({"alerts.emails": []}, {}, (WARNING, "alarms", "alerts.emails is empty", "name an")),
        (
            {},
            {"addons": ADDONS | {"coredns": ["v9.9.9"]}},
            (REFUSED, "add-ons", f"coredns {VERSIONS['coredns']}", "make addons"),
        ),
        (
            {},
            {"cluster_versions": {KUBERNETES_VERSION: "2026-01-01"}},
            (WARNING, "Kubernetes", "left standard support", "stacks/cluster.py"),
        ),
        (
            {},
            {"cluster_versions": {}},
            (REFUSED, "Kubernetes", "does not offer", "stacks/cluster.py"),
        ),
    ],
)
def test_a_fault_is_found_with_its_remedy(
    aws: Aws, sound: At, changes: dict[str, Any], facts: dict[str, Any], says: Says
) -> None:
    deployment = sound(changes)
    aws.know(**facts)
    is_found(aws, deployment, says)


@pytest.mark.parametrize(
    "changes", [{}, {"compiling": {"node": "trainium"}}], ids=["article", "compiles on Trainium"]
)
def test_a_sound_account_has_no_problem(aws: Aws, sound: At, changes: dict[str, Any]) -> None:
    cpus = 12 if changes else 512  # those for compiles are not needed where Trainium compiles
    aws.know(quotas=QUOTAS | {"L-1216C47A": cpus})
    assert problems(aws, sound(changes)) == []


def test_a_bootstrap_that_is_missing_or_too_old(aws: Aws, sound: At) -> None:
    deployment, subject = sound(), f"bootstrap {REGION}"
    ssm, remedy = deployment.client("ssm"), f"make bootstrap EXPERIMENT={deployment.file}"
    ssm.delete_parameter(Name=BOOTSTRAP)
    is_found(aws, deployment, (REFUSED, subject, "not prepared", remedy))
    ssm.put_parameter(Name=BOOTSTRAP, Value="5", Type="String")
    is_found(aws, deployment, (REFUSED, subject, "version 5; the stacks need 6", remedy))


def test_the_region_of_the_budget_must_be_bootstrapped_too(sound: At) -> None:
    elsewhere = {
        "aws.region": "ap-south-2",
        "aws.availability_zones": ["ap-south-2a", "ap-south-2b"],
        "capacity.availability_zone": "ap-south-2b",
        "capacity.price.region": "ap-south-2",
    }
    subjects = {finding.subject for finding in checks(sound(elsewhere))}
    assert {"bootstrap ap-south-2", "bootstrap us-east-1"} <= subjects


def test_what_others_run_counts_and_what_is_its_own_does_not(aws: Aws, sound: At) -> None:
    deployment = sound()
    ec2 = deployment.client("ec2")
    tags = [{"Key": "eks:cluster-name", "Value": deployment.name}]
    started = ec2.run_instances(
        ImageId="ami-12c6146b",
        InstanceType="trn1.32xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    instances = [instance["InstanceId"] for instance in started["Instances"]]
    try:
        assert problems(aws, deployment) == []
        ec2.delete_tags(Resources=instances, Tags=tags)
        text = "192 needed, 128 in use by others, 192 allowed"
        subject = "quota, Trainium vCPUs"
        is_found(aws, deployment, (REFUSED, subject, text, "--desired-value 320"))
    finally:
        ec2.terminate_instances(InstanceIds=instances)


@pytest.mark.parametrize(
    ("changes", "status", "text", "remedy"),
    [
        ({"CapacityReservationId": "cr-1"}, REFUSED, "there is none in this account", "set cap"),
        (
            {"AvailabilityZone": "us-east-2b"},
            REFUSED,
            "capacity.availability_zone is us-east-2b, the file has us-east-2c",
            "set capacity.availability_zone",
        ),
        (
            {"ReservationType": "default"},
            REFUSED,
            "capacity.purchase is default, the file has capacity-block",
            "set capacity.purchase",
        ),
        ({"State": "payment-failed"}, REFUSED, "payment-failed", "buy another"),
        ({"hours": 0.5}, REFUSED, "ends at ", "buy another"),
        (
            {"AvailableInstanceCount": 0},
            REFUSED,
            "0 of 1 instances are free, 1 are wanted",
            "end the instances that use it",
        ),
        (
            {"State": "scheduled", "AvailableInstanceCount": 0},
            WARNING,
            "scheduled, 1 x trn2.48xlarge in us-east-2c, from ",
            "nodes come when it is active",
        ),
        (
            {"hours": 2 + 40 / 60},
            WARNING,
            "active, 1 x trn2.48xlarge in us-east-2c, 2.0 hours left",
            "the guard leaves them 4 hours",
        ),
    ],
)
def test_a_capacity_block_that_does_not_fit(
    aws: Aws, sound: At, changes: dict[str, Any], status: Status, text: str, remedy: str
) -> None:
    aws.know(reservations=[capacity_block(**changes)], quotas={"L-1216C47A": 512})
    is_found(aws, sound(BOUGHT), (status, BLOCK, text, remedy))


def test_a_capacity_block_that_fits(aws: Aws, sound: At) -> None:
    aws.know(reservations=[capacity_block()], quotas={"L-1216C47A": 512})
    assert problems(aws, sound(BOUGHT)) == []


def test_names_of_somebody_else(aws: Aws, sound: At) -> None:
    deployment, name = sound(name="theirs"), "theirs-observability"
    template = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}'
    aws.client("cloudformation").create_stack(StackName=name, TemplateBody=template)
    is_found(aws, deployment, (REFUSED, f"stack {name}", "somebody else's", "another name"))

    taken = sound(name="taken")
    account.cluster(aws, taken)
    subjects = {each.subject: each for each in problems(aws, taken, "sts:AssumeRole")}
    assert subjects["cluster"].status is REFUSED
    assert subjects["cluster"].remedy == "give the experiment another name"
    # It does not answer either.
    assert subjects["Kubernetes API"].status is WARNING
    assert "\n" not in subjects["Kubernetes API"].text
    assert "Reach a private API" in subjects["Kubernetes API"].remedy


def test_a_bucket_of_another_account(aws: Aws, sound: At) -> None:
    deployment = sound(name="bucketed")
    theirs = boto3.client("sts", REGION).assume_role(RoleArn=OTHERS, RoleSessionName="others")
    keys = [theirs["Credentials"][k] for k in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    boto3.Session(*keys, region_name=REGION).client("s3").create_bucket(
        Bucket=f"bucketed-models-{aws.account}-{REGION}",
        CreateBucketConfiguration={"LocationConstraint": REGION},
    )
    aws.deny("s3:HeadBucket")  # as S3 answers; moto lets everyone look
    is_found(aws, deployment, (REFUSED, "bucket", "belongs to another account", "another name"))


def test_a_bucket_that_an_earlier_deploy_left_is_no_problem(aws: Aws, sound: At) -> None:
    deployment = sound(name="again")
    account.put(aws, deployment, "any")
    assert problems(aws, deployment) == []
    texts = {finding.subject: finding.text for finding in checks(deployment)}
    assert texts["bucket"].endswith(" stayed of an earlier deploy; the next one takes it back")
    aws.deny("s3:HeadBucket")
    is_found(aws, deployment, (WARNING, "bucket", "may not call s3:ListBucket", "s3:ListBucket"))


def test_no_docker_to_build_the_image(
    aws: Aws, sound: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, docker = sound({"benchmark.image": None}, name="built"), tmp_path / "docker"
    monkeypatch.setenv("CDK_DOCKER", str(docker))
    is_found(aws, deployment, (REFUSED, "image", "is not installed", "set benchmark.image"))
    docker.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
    docker.chmod(0o755)
    is_found(aws, deployment, (REFUSED, "image", "Cannot connect to the Docker", "start it"))
    account.stack(aws, deployment, "serving")
    is_found(aws, deployment, (WARNING, "image", "only if spectap/ changed", "start it"))
    docker.write_text("#!/bin/sh\necho 29.1.2\n")
    assert problems(aws, deployment) == []


@pytest.mark.parametrize("missing", ["nothing:1", f"bench@sha256:{'0' * 64}"])
def test_an_image_that_is_not_there(aws: Aws, sound: At, image: str, missing: str) -> None:
    name = f"{image.partition('/')[0]}/{missing}"
    deployment = sound({"benchmark.image": name})
    is_found(aws, deployment, (REFUSED, "image", f"{name} does not exist", "push it"))


@pytest.mark.parametrize(
    ("allowed", "address", "status", "remedy"),
    [
        ((), None, WARNING, "or set aws.api_access: [your address]"),
        ((), "203.0.113.7", WARNING, "or set aws.api_access: [203.0.113.7/32]"),
        (("203.0.113.0/24",), "203.0.113.7", Status.OK, ""),
        (("203.0.113.0/24",), "198.51.100.1", WARNING, "add 198.51.100.1/32"),
        (("203.0.113.0/24",), None, WARNING, "https://checkip.amazonaws.com"),
    ],
)
def test_who_will_reach_the_api(
    allowed: tuple[str, ...],
    address: str | None,
    status: Status,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    (check,) = (check for check in CHECKS if check.subject == "Kubernetes API")
    asked = dataclasses.replace(check, ask=lambda _: [software.access(allowed, lambda: address)])
    article = load(ROOT / "experiments" / "article.yaml")
    (finding,) = asked.findings(Deployment(article, "article.yaml", "123456789012"))
    assert finding.status is status
    assert remedy in finding.remedy


def test_a_gated_model(aws: Aws, sound: At) -> None:
    deployment = sound()
    gated = load(ROOT / "experiments" / "eagle3-nxdi.yaml").models
    changed = deployment.experiment.model_copy(update={"models": gated})
    deployment = dataclasses.replace(deployment, experiment=changed)
    is_found(aws, deployment, (WARNING, "gated models", "the download fails", "Gated models"))


def test_a_call_that_is_denied_is_a_row_and_no_crash(aws: Aws, sound: At) -> None:
    denied = {
        "quota, Trainium vCPUs": "servicequotas:GetServiceQuota",
        "instance types": "ec2:DescribeInstanceTypeOfferings",
        "stacks": "cloudformation:DescribeStacks",
        "bootstrap": "ssm:GetParameter",
        "image": "ecr:DescribeImages",
    }
    deployment = sound()
    aws.deny(*(action.replace("servicequotas", "service-quotas") for action in denied.values()))
    found = {each.subject: each for each in problems(aws, deployment)}
    assert {each.status for each in found.values()} == {WARNING}
    for subject, action in denied.items():
        assert found[subject].text == f"not known: these credentials may not call {action}"
        assert found[subject].remedy == f"allow {action}, which only reads"


def test_the_command_prints_each_check_and_fails_where_one_refuses(
    aws: Aws, sound: At, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = sound()
    assert preflight.run(deployment.file) == 0
    printed = capsys.readouterr()
    first, *rows, last = printed.out.splitlines()
    assert (first, printed.err) == (f"{deployment.headline}: nothing is created", "")
    assert {row.split()[0] for row in rows} == {"ok"}
    assert last == f"{len(rows)} ok, 0 warnings, 0 refused; nothing was created"
    aws.know(**trn2())
    assert preflight.run(deployment.file) == 1
    rows = capsys.readouterr().out.splitlines()
    number = next(number for number, row in enumerate(rows) if row.startswith("refused"))
    assert rows[number].split()[1] == "trn2.48xlarge"
    assert rows[number + 1].strip().startswith("-> us-east-2 has it in no zone")


def test_without_credentials_it_says_what_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = edited(tmp_path, {"capacity.price.as_of": "2026-01-01"})
    for name, value in environment("http://127.0.0.1:9", REGION).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert preflight.run(str(file)) == 1
    rows = capsys.readouterr().out.splitlines()
    assert " ".join(rows[1].split()).startswith("refused credentials AWS: no credentials; set AWS")
    assert any(row.startswith("warning  price ") for row in rows)
