"""Preflight: faults planted in an account, one at a time; each is found, with a remedy."""

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

from charts.names import zones
from operations import lifecycle, preflight
from operations.account import Deployment, DeploymentError
from operations.cluster import ADDRESS_VARIABLE
from operations.preflight import Finding, Status, account, checks, software
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from tests.experiment.files import ABSENT, EAGLE
from tests.operations.conftest import at, with_cluster
from tests.operations.fake_aws import ACCOUNT, REGION, FakeAws
from tests.run_make import ROOT
from tests.snapshots import TextSnapshot, filled

READS: Final = ("Describe", "Get", "List", "Head")
BLOCK: Final = "cr-0123456789abcdef0"
ECR: Final = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
REFUSED, WARNING = Status.REFUSED, Status.WARNING

Make = Callable[..., Deployment]
USUAL: Final = {
    "aws.api_access": ["203.0.113.0/24"],
    "alerts.emails": ["team@example.com"],
    "benchmark.image": f"{ECR}/bench:1",
    "capacity.price.purchase": "on-demand",
    "capacity.price.as_of": datetime.date.today().isoformat(),
}


@pytest.fixture
def sound(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes deployments in which nothing is wrong, but for the fields given."""
    assert aws.facts.bootstrap
    monkeypatch.setenv("PATH", f"{ROOT}/node_modules/.bin:/usr/bin:/bin")
    monkeypatch.setenv(ADDRESS_VARIABLE, "https://127.0.0.1:9")

    def make(changes: dict[str, Any] | None = None) -> Deployment:
        return at(USUAL | (changes or {}))

    return make


def problems(aws: FakeAws, deployment: Deployment) -> list[Finding]:
    """What is not ok. Nothing but reading calls may have been made."""
    findings = checks(deployment)
    assert {call for call in aws.calls if not call.partition(":")[2].startswith(READS)} == set()
    return [finding for finding in findings if finding.status is not Status.OK]


def told(finding: Finding) -> Iterator[str]:
    """What a table has of it, but for times, in short lines."""
    row = f"{finding.status} {finding.subject}: {finding.text}"
    for text in (row, *([f"-> {finding.remedy}"] if finding.remedy else [])):
        undated = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "DATE", text)
        yield filled(re.sub(r"[\d.]+ (hours left|days ago)", r"N \1", undated), "  ")


def is_found(aws: FakeAws, deployment: Deployment, words: str, remedy: str) -> None:
    """The only problem is this, with its status, subject and text, and with a remedy."""
    (problem,) = problems(aws, deployment)
    assert words in f"{problem.status} {problem.subject}: {problem.text}"
    assert remedy in problem.remedy


def capacity_block(hours: float = 48, **changes: Any) -> dict[str, Any]:
    """As EC2 describes one; ``hours`` are until its end."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "CapacityReservationId": BLOCK,
        "ReservationType": "capacity-block",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": f"{REGION}c",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 1,
        "State": "active",
        "StartDate": now - datetime.timedelta(hours=1),
        "EndDate": now + datetime.timedelta(hours=hours),
    } | changes


SPOT: Final = {"capacity.purchase": "spot", "capacity.price.purchase": "spot"}
BOUGHT: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": BLOCK,
    "capacity.price.purchase": "capacity-block",
}
LONG_AGO: Final = (datetime.date.today() - datetime.timedelta(days=61)).isoformat()
QUOTAS: Final = {"L-2C3B7624": 192.0, "L-1216C47A": 512.0}
ADDONS: Final = {name: [version] for name, version in VERSIONS.items()}


def granted(vcpus: float) -> dict[str, Any]:
    return {"quotas": QUOTAS | {"L-1216C47A": vcpus}}


def offered(instance: str, *zones: str) -> dict[str, Any]:
    return {"offerings": {instance: [f"{REGION}{zone}" for zone in zones]}}


def reserved(hours: float = 48, **changes: Any) -> dict[str, Any]:
    """A Capacity Block, and no quota of Trainium nodes, which it does not need."""
    return {"reservations": [capacity_block(hours, **changes)], "quotas": {"L-1216C47A": 512}}


FAULTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "no quota": ({}, {"quotas": {"L-1216C47A": 512}}),
    "no quota of spot": (SPOT, {}),
    "no CPU nodes": ({}, granted(32)),
    "one CPU node": ({}, granted(120)),
    "Trainium elsewhere": ({}, offered("trn2.48xlarge", "b")),
    "no Trainium": ({}, offered("trn2.48xlarge")),
    "compile nodes in one zone": ({}, offered("r7i.24xlarge", "a")),
    "system nodes elsewhere": ({}, offered("m7i.xlarge", "b")),
    "compile nodes elsewhere": ({"aws.cpu_zones": [f"{REGION}a"]}, offered("r7i.24xlarge", "c")),
    "no docker": ({"benchmark.image": ABSENT}, {}),
    "foreign image": ({"benchmark.image": "ghcr.io/mine/bench:1"}, {}),
    "no such image": ({"benchmark.image": f"{ECR}/bench:2"}, {}),
    "old price": ({"capacity.price.as_of": LONG_AGO}, {}),
    "price of another purchase": ({"capacity.price.purchase": "capacity-block"}, {}),
    "gated models": (EAGLE, {}),
    "alarms for nobody": ({"alerts.emails": []}, {}),
    "old add-on": ({}, {"addons": ADDONS | {"coredns": ["v9"]}}),
    "old Kubernetes": ({}, {"cluster_versions": {KUBERNETES_VERSION: "2026-01-01"}}),
    "no such Kubernetes": ({}, {"cluster_versions": {}}),
    "no bootstrap": ({}, {"bootstrap": None}),
    "old bootstrap": ({}, {"bootstrap": "5"}),
    "no such reservation": (BOUGHT, reserved(CapacityReservationId="cr-1")),
    "another reservation": (
        BOUGHT,
        reserved(AvailabilityZone=f"{REGION}b", ReservationType="default"),
    ),
    "unpaid block": (BOUGHT, reserved(State="payment-failed")),
    "block that ends": (BOUGHT, reserved(0.5)),
    "block in use": (BOUGHT, reserved(AvailableInstanceCount=0)),
    "block to come": (BOUGHT, reserved(State="scheduled", AvailableInstanceCount=0)),
    "short block": (BOUGHT, reserved(2.75)),
}


def test_faults_are_found_with_their_remedies(
    aws: FakeAws, sound: Make, snapshot: SnapshotAssertion
) -> None:
    """One at a time: each is the only problem."""
    sound_facts, lines = aws.facts, list[str]()
    for name, (changes, facts) in FAULTS.items():
        aws.facts = dataclasses.replace(sound_facts, **facts)
        (problem,) = problems(aws, sound(changes))
        lines += [name, *told(problem)]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, {}),
        # CPUs for compiles are not needed where Trainium compiles.
        ({"compiling": {"node": "trainium"}}, {"quotas": QUOTAS | {"L-1216C47A": 12.0}}),
        (BOUGHT, reserved()),
        (
            {"aws.cpu_zones": [f"{REGION}a"]},
            {"offerings": {"m7i.xlarge": [f"{REGION}a"], "r7i.24xlarge": [f"{REGION}a"]}},
        ),
    ],
)
def test_a_sound_account_has_no_problem(
    aws: FakeAws, sound: Make, changes: dict[str, Any], facts: dict[str, Any]
) -> None:
    aws.facts = dataclasses.replace(aws.facts, **facts)
    assert problems(aws, sound(changes)) == []


def test_docker_builds_the_first_image(
    aws: FakeAws, sound: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\ntest "$1" = info\n')
    program.chmod(0o755)
    unnamed = sound({"benchmark.image": ABSENT})
    with monkeypatch.context() as patch:
        patch.setenv("CDK_DOCKER", str(program))
        assert problems(aws, unnamed) == []
        program.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n")
        is_found(aws, unnamed, "refused image: ", "start")
        # One that was built before is not built again.
        aws.cloudformation.add("serving")
        is_found(aws, unnamed, "warning image: ", "start")


def test_the_region_of_the_budget_must_be_bootstrapped_too(sound: Make) -> None:
    zones: dict[str, Any] = {"aws.availability_zones": ["ap-south-2a", "ap-south-2b"]}
    zones |= {"capacity.availability_zone": "ap-south-2b"}
    subjects = {each.subject for each in checks(sound({"aws.region": "ap-south-2"} | zones))}
    assert {"bootstrap ap-south-2", "bootstrap us-east-1"} <= subjects


def test_what_others_run_counts_and_what_is_its_own_does_not(aws: FakeAws, sound: Make) -> None:
    instance = {"InstanceType": "trn1.32xlarge"}
    tags = [{"Key": "Experiment", "Value": "article"}]
    aws.facts.instances = [instance | {"Tags": tags}]
    assert problems(aws, sound()) == []
    aws.facts.instances = [instance]
    text = "192 needed, 128 in use by others, 192 allowed"
    is_found(aws, sound(), f"refused quota, Trainium vCPUs: {text}", "--desired-value 320")


def test_the_state_of_a_stack(aws: FakeAws, sound: Make, snapshot: SnapshotAssertion) -> None:
    deployment, lines = sound(), list[str]()
    for state in (
        *("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"),
        *("UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "DELETE_FAILED"),
    ):
        aws.cloudformation.add("network", state)
        lines += [state, *(line for row in account.stacks(deployment) for line in told(row))]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def test_names_of_somebody_else_and_an_api_out_of_reach(aws: FakeAws, sound: Make) -> None:
    aws.cloudformation.add("observability", owner="another")
    with_cluster(aws)
    by_subject = {each.subject: each for each in problems(aws, sound())}
    stack, api = by_subject["stack article-observability"], by_subject["Kubernetes API"]
    assert (stack.status, stack.remedy) == (REFUSED, "give the experiment another name")
    assert api.status is WARNING
    assert "\n" not in api.text
    assert "Reach a private API" in api.remedy


def test_zones_stay_while_stacks_stand(aws: FakeAws, sound: Make) -> None:
    standing = zones(sound().experiment)
    aws.cloudformation.add("network", outputs={"Zones": standing})
    assert problems(aws, sound()) == []
    zone = {"capacity.availability_zone": f"{REGION}b"}
    moved = sound(zone | {"aws.availability_zones": [f"{REGION}b", f"{REGION}c"]})
    is_found(aws, moved, f"{REGION}b of {REGION}b, {REGION}c: must be {standing}, ", "destroy")
    with pytest.raises(
        DeploymentError, match=f"availability_zones = {REGION}b of {REGION}b, {REGION}c: must be"
    ):
        lifecycle.deploy(moved, [], yes=True)


def test_the_bootstrap_has_the_qualifier_of_the_context(
    aws: FakeAws, sound: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.facts.qualifier = "mine"
    is_found(aws, sound(), f"refused bootstrap {REGION}: ", "make bootstrap")
    context = {"@aws-cdk/core:bootstrapQualifier": "mine"}
    (tmp_path / "cdk.json").write_text(json.dumps({"context": context}))
    monkeypatch.setattr(account, "ROOT", tmp_path)
    assert problems(aws, sound()) == []


def test_who_will_reach_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    block = ("203.0.113.0/24",)

    def access(allowed: tuple[str, ...], address: str | None) -> Finding:
        return software.access(allowed, lambda: address)

    assert access(block, "203.0.113.7").status is Status.OK
    for finding, remedy in (
        (access((), "203.0.113.7"), "add 203.0.113.7/32 to aws.api_access"),
        (access(block, "198.51.100.1"), "add 198.51.100.1/32"),
        (access(block, None), "add your address"),
    ):
        assert finding.status is WARNING
        assert remedy in finding.remedy


def test_a_call_that_is_denied_is_a_row_and_no_crash(aws: FakeAws, sound: Make) -> None:
    denied = {
        "quota, Trainium vCPUs": "servicequotas:GetServiceQuota",
        "instance types": "ec2:DescribeInstanceTypeOfferings",
        "stacks": "cloudformation:DescribeStacks",
    }
    aws.denied = {action.replace("servicequotas", "service-quotas") for action in denied.values()}
    rows = {each.subject: each for each in problems(aws, sound())}
    assert {each.status for each in rows.values()} == {WARNING}
    for subject, action in denied.items():
        assert rows[subject].text == f"not known: these credentials may not call {action}"


def test_without_credentials_it_says_what_it_can(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert preflight.run(str(ROOT / "experiments" / "article.yaml")) == 1
    rows = capsys.readouterr().out.splitlines()
    assert " ".join(rows[1].split()).startswith("refused credentials AWS: no credentials; set AWS")
    assert rows[2].strip().startswith("-> sign in")
    assert any(row.startswith("warning  price ") for row in rows)
    assert rows[-1].endswith(" 1 refused; nothing was created")
