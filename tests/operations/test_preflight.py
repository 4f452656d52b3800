"""Preflight: faults planted in an account, one at a time; each is found, with a remedy."""

import dataclasses
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

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
QUOTA: Final = "refused quota, "
TRN2: Final = "refused trn2.48xlarge: not offered in "
SCHEDULED: Final[dict[str, Any]] = {"State": "scheduled", "AvailableInstanceCount": 0}
ENDED: Final = {KUBERNETES_VERSION: "2026-01-01"}
VERSION: Final = VERSIONS["coredns"]


def granted(vcpus: float) -> dict[str, Any]:
    return {"quotas": QUOTAS | {"L-1216C47A": vcpus}}


def reserved(hours: float = 48, **changes: Any) -> dict[str, Any]:
    """A Capacity Block, and no quota of Trainium nodes, which it does not need."""
    return {"reservations": [capacity_block(hours, **changes)], "quotas": {"L-1216C47A": 512}}


FAULTS: Final[list[tuple[dict[str, Any], dict[str, Any], str, str]]] = [
    ({}, {"quotas": {"L-1216C47A": 512}}, f"{QUOTA}Trainium vCPUs: 192 needed, 0", "7624 "),
    (SPOT, {}, f"{QUOTA}Trainium vCPUs: 192 needed", "--quota-code L-6B0D517C"),
    ({}, granted(32), f"{QUOTA}CPU nodes' vCPUs: 204 needed", "7A --desired-value 204"),
    ({}, granted(120), "warning quota, CPU nodes' vCPUs: room for 1 of 2", "204"),
    ({}, {"offerings": {"trn2.48xlarge": [f"{REGION}b"]}}, f"{TRN2}{REGION}c", f"in {REGION}b: "),
    ({}, {"offerings": {"trn2.48xlarge": []}}, f"{TRN2}{REGION}c", "in no zone: set aws.region"),
    (
        {},
        {"offerings": {"r7i.24xlarge": [f"{REGION}a"]}},
        f"refused r7i.24xlarge: not offered in {REGION}c",
        f"set aws.cpu_zones: [{REGION}a]",
    ),
    (
        {},
        {"offerings": {"m7i.xlarge": [f"{REGION}b"]}},
        f"refused m7i.xlarge: not offered in {REGION}a, {REGION}c",
        f"{REGION} has it in {REGION}b: set aws.availability_zones",
    ),
    (
        {"aws.cpu_zones": [f"{REGION}a"]},
        {"offerings": {"r7i.24xlarge": [f"{REGION}c"]}},
        f"refused r7i.24xlarge: not offered in {REGION}a",
        f"set aws.cpu_zones: [{REGION}c]",
    ),
    ({"benchmark.image": ABSENT}, {}, "refused image: the first deploy builds", "start docker, or"),
    ({"benchmark.image": "ghcr.io/mine/bench:1"}, {}, "warning image: ", "nodes would wait"),
    ({"benchmark.image": f"{ECR}/bench:2"}, {}, "refused image: ", "push it"),
    ({"capacity.price.as_of": LONG_AGO}, {}, "warning price: ", f"of on-demand in {REGION} again"),
    ({"capacity.price.purchase": "capacity-block"}, {}, "warning price: ", "set capacity.price"),
    (EAGLE, {}, "warning gated models: meta-llama/", "Gated models"),
    ({"alerts.emails": []}, {}, "warning alarms: alerts.emails is empty", "name an address"),
    ({}, {"addons": ADDONS | {"coredns": ["v9"]}}, f"coredns {VERSION} (v9 is)", "set stacks/add"),
    ({}, {"cluster_versions": ENDED}, "warning Kubernetes: ", "stacks/cluster.py"),
    ({}, {"cluster_versions": {}}, "refused Kubernetes: EKS does not offer", "stacks/cluster.py"),
    ({}, {"bootstrap": None}, f"refused bootstrap {REGION}: the region is not prep", "mine.yaml"),
    ({}, {"bootstrap": "5"}, f"refused bootstrap {REGION}: version 5; the sta", "make bootstrap"),
    (BOUGHT, reserved(CapacityReservationId="cr-1"), f"refused {BLOCK}: there is none", "set cap"),
    (
        BOUGHT,
        reserved(AvailabilityZone=f"{REGION}b", ReservationType="default"),
        "capacity.purchase is default, the file has capacity-block; capacity.av",
        "set capacity.purchase, capacity.availability_zone",
    ),
    (BOUGHT, reserved(State="payment-failed"), f"refused {BLOCK}: payment-failed", "buy another"),
    (BOUGHT, reserved(0.5), f"refused {BLOCK}: ends at ", "buy another"),
    (BOUGHT, reserved(AvailableInstanceCount=0), f"{BLOCK}: 0 of 1 instances are free", "end the"),
    (BOUGHT, reserved(**SCHEDULED), f"warning {BLOCK}: scheduled, 1 x trn2", "nodes come"),
    (BOUGHT, reserved(2 + 40 / 60), "hours left until EKS", "the guard leaves them 4 hours"),
]


@pytest.mark.parametrize(("changes", "facts", "words", "remedy"), FAULTS)
def test_a_fault_is_found_with_its_remedy(
    aws: FakeAws,
    sound: Make,
    changes: dict[str, Any],
    facts: dict[str, Any],
    words: str,
    remedy: str,
) -> None:
    aws.facts = dataclasses.replace(aws.facts, **facts)
    is_found(aws, sound(changes), words, remedy)


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


def test_the_state_of_a_stack(aws: FakeAws, sound: Make) -> None:
    deployment = sound()
    for state, status, words in (
        ("REVIEW_IN_PROGRESS", Status.OK, "1 of 7 exist"),
        ("ROLLBACK_COMPLETE", WARNING, "a deploy deletes it and makes it anew"),
        ("UPDATE_ROLLBACK_FAILED", REFUSED, "cdk rollback"),
        ("UPDATE_IN_PROGRESS", REFUSED, "wait until it is done"),
        ("DELETE_IN_PROGRESS", REFUSED, "wait until the destroy has ended, then begin"),
        ("DELETE_FAILED", REFUSED, "make destroy EXPERIMENT="),
    ):
        aws.cloudformation.add("network", state)
        (finding,) = account.stacks(deployment)
        assert finding.status is status
        assert words in f"{finding.text}; {finding.remedy}"


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
