"""An existing cluster and an existing VPC: what preflight finds, and that a destroy leaves both."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest

from deployment import guard, lifecycle, preflight, removal
from deployment.account import Deployment
from deployment.nodes import Kind
from deployment.preflight import Status, existing, software
from stacks.cluster import CLUSTER_OUTPUT, KUBERNETES_VERSION
from tests.deployment.api import Objects
from tests.deployment.conftest import at
from tests.deployment.fake_aws import ACCOUNT, MINUTE, FakeAws
from tests.deployment.operators import STACKS, add_cluster, write_assembly
from tests.deployment.test_preflight import READS
from tests.experiment.files import ABSENT
from tests.matrix import IN_A_CLUSTER, MATRIX

CLUSTER: Final = "Shared_1"
CHANGES: Final = MATRIX[IN_A_CLUSTER]
VPC, SUBNETS, GROUP = (
    CHANGES[f"aws.{field}"] for field in ("vpc", "subnets", "cluster_security_group")
)
NAMED: Final = {"aws.administrator_role": f"arn:aws:iam::{ACCOUNT}:role/platform/admins"}
NAT: Final = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}
S3: Final = {"DestinationPrefixListId": "pl-1", "GatewayId": "vpce-1", "State": "active"}
PUBLIC: Final = NAT | {"GatewayId": "igw-1"}
MAIN: Final = [{"Main": True}]
OWN: Final = {"SubnetId": SUBNETS[0]}
DESCRIBED: Final[dict[str, Any]] = {
    "version": KUBERNETES_VERSION,
    "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
    "resourcesVpcConfig": {
        "vpcId": VPC,
        "clusterSecurityGroupId": GROUP,
        "endpointPublicAccess": False,
        "publicAccessCidrs": ["0.0.0.0/0"],
    },
}


@pytest.fixture
def shared(aws: FakeAws) -> FakeAws:
    """An account with a sound cluster in a sound VPC, and nothing of the experiment."""
    aws.facts.subnets = [
        {"SubnetId": id, "AvailabilityZone": zone}
        for id, zone in zip(SUBNETS, ("us-east-2a", "us-east-2c"), strict=True)
    ]
    aws.facts.route_tables = [{"Associations": MAIN, "Routes": [NAT, S3]}]
    add_cluster(aws, CLUSTER, aws.cloudformation.add("elsewhere"))
    aws.facts.clusters[CLUSTER] |= copy.deepcopy(DESCRIBED)
    aws.facts.installed = {name: {} for name in (*existing.NEEDED, *existing.WANTED)}
    aws.facts.installed["vpc-cni"] = {
        "configurationValues": '{"enableNetworkPolicy": "true"}',
        "podIdentityAssociations": ["arn"],
    }
    return aws


def guest(changes: dict[str, Any] | None = None) -> Deployment:
    return at(CHANGES | NAMED | (changes or {}))


def rows(deployment: Deployment) -> list[str]:
    checks = ("VPC", "cluster", "cluster's add-ons", "pods of others")
    table = {name: preflight.ACCOUNT_CHECKS[name] for name in checks}
    return [
        f"{row.status} {row.subject}: {row.text} -> {row.remedy}"
        for row in preflight.checks(deployment, table)
    ]


def test_a_sound_cluster_is_taken(shared: FakeAws, api: Objects) -> None:
    listed = rows(guest())
    assert len(listed) == 5
    assert all(row.startswith(f"{Status.OK} ") for row in listed), listed
    # And what is asked of a new one is not asked.
    table = {**preflight.ACCOUNT_CHECKS}
    del table["Kubernetes API"]
    subjects = {row.subject for row in preflight.checks(guest(), table)}
    assert not subjects & {"Kubernetes", "add-ons", "m7i.xlarge"}


def test_before_a_deploy_gives_access_what_is_inside_is_not_known(shared: FakeAws) -> None:
    unknown = rows(at(CHANGES))[-1]
    assert unknown.startswith("warning pods of others: not known")
    (api,) = software.kubernetes_api(at(CHANGES))
    assert "publicAccessCidrs of the cluster: empty" in api.text


def network(**changes: Any) -> dict[str, Any]:
    return {"resourcesVpcConfig": DESCRIBED["resourcesVpcConfig"] | changes}


ELSEWHERE: Final = "refused cluster: is not where the file says"
FAULTS: Final[list[tuple[Callable[[Any], None], str, str]]] = [
    (lambda f: f.subnets.pop(), f"{SUBNETS[1]}: is in no zone of {VPC}", "describe-subnets"),
    (
        lambda f: f.subnets[0].update(AvailabilityZone="us-east-2b"),
        f"refused subnet {SUBNETS[0]}: is in us-east-2b, not in us-east-2a",
        "set aws.subnets",
    ),
    (lambda f: f.route_tables[0].update(Routes=[S3]), "refused subnet", "NAT gateway"),
    (
        lambda f: f.route_tables.append({"Associations": [OWN], "Routes": [PUBLIC, S3]}),
        f"refused subnet {SUBNETS[0]}: has no private way out",
        "NAT gateway",
    ),
    (lambda f: f.route_tables[0].update(Routes=[NAT]), "warning subnet", "gateway endpoint"),
    (lambda f: f.route_tables.clear(), "refused subnet", "NAT gateway"),
    (lambda f: f.vpc_lacks.add("enableDnsHostnames"), "is off", "--enable-dns-hostnames"),
    (lambda f: f.clusters.clear(), f"refused cluster: there is no {CLUSTER}", "list-clusters"),
    (lambda f: f.clusters[CLUSTER].update(version="1.33"), "has Kubernetes 1.33", "are for 1."),
    (lambda f: f.clusters[CLUSTER].update(network(vpcId="vpc-1")), ELSEWHERE, "vpc: vpc-1"),
    (
        lambda f: f.clusters[CLUSTER].update(network(clusterSecurityGroupId="sg-1")),
        ELSEWHERE,
        "cluster_security_group: sg-1",
    ),
    (
        lambda f: f.clusters[CLUSTER].update(accessConfig={"authenticationMode": "CONFIG_MAP"}),
        "takes no access entries",
        "authenticationMode=API_AND_CONFIG_MAP",
    ),
    (lambda f: f.installed.pop("eks-pod-identity-agent"), "refused cluster's add", "create-addon"),
    (lambda f: f.installed.pop("eks-node-monitoring-agent"), "warning cluster's", "create-addon"),
    (lambda f: f.installed["vpc-cni"].clear(), "network policies do not hold", "enableNetwork"),
    (lambda f: f.installed["vpc-cni"].clear(), "refused cluster's add-ons: vpc-cni has", "--pod-"),
    (
        lambda f: f.installed["aws-mountpoint-s3-csi-driver"].update(addonVersion="v1.15.0"),
        "refused cluster's add-ons: version 1",
        "v2",
    ),
]


@pytest.mark.parametrize(("plant", "words", "remedy"), FAULTS)
def test_a_fault_is_found_before_a_deploy(
    shared: FakeAws, api: Objects, plant: Callable[[Any], None], words: str, remedy: str
) -> None:
    shared.facts = dataclasses.replace(shared.facts)
    plant(shared.facts)
    assert any(words in row and remedy in row.partition(" -> ")[2] for row in rows(guest()))


def test_others_in_the_cluster_are_named(shared: FakeAws, api: Objects) -> None:
    hook: dict[str, Any] = {"admissionReviewVersions": ["v1"], "clientConfig": {}, "name": "a.b.c"}
    hook["sideEffects"] = "None"
    pods, every = ({"resources": [kind]} for kind in ("pods", "services"))
    api.lists["validatingwebhookconfigurations"] = [
        {"metadata": {"name": name}, "webhooks": [hook | {"rules": [rule]}]}
        for name, rule in (("kyverno", pods), ("vpc-resource-hook", pods), ("istio", every))
    ]
    api.lists["daemonsets"] = [
        {
            "metadata": {"name": name},
            "spec": {
                "selector": {},
                "template": {"spec": {"containers": [{"name": "a"}], "tolerations": [taint]}},
            },
        }
        for name, taint in (
            ("neuron-device-plugin", {"key": "aws.amazon.com/neuron"}),
            ("neuron-dra-driver-kubelet-plugin", {"operator": "Exists"}),
            ("neuron-device-plugin-elsewhere", {"key": "other"}),
        )
    ]
    found = [row for row in rows(guest()) if "pods of others" in row]
    assert [row.partition(" may ")[0] for row in found[2:]] == ["warning pods of others: kyverno"]
    assert found[0].startswith("refused pods of others: neuron-device-plugin hands out")
    assert found[1].startswith("refused pods of others: a Neuron DRA driver is there")


OWN_CLUSTER: Final = dict.fromkeys(
    ("aws.cluster", "aws.cluster_security_group", "aws.administrator_role"), ABSENT
)
OWN_VPC: Final = OWN_CLUSTER | {"aws.vpc": ABSENT, "aws.subnets": ABSENT}


@pytest.mark.parametrize(
    ("changes", "cluster", "networks", "is_moved"),
    [
        pytest.param({}, CLUSTER, 0, False, id="as deployed, in a cluster of others"),
        pytest.param({}, "guest", 0, True, id="its own cluster before"),
        pytest.param(OWN_CLUSTER, None, 1, True, id="its own VPC before, and no cluster yet"),
        pytest.param(OWN_CLUSTER, None, 0, False, id="nothing before"),
        pytest.param(OWN_CLUSTER, "guest", 0, False, id="as deployed, in a VPC of others"),
        pytest.param(OWN_CLUSTER, "guest", 1, True, id="its own VPC before"),
        pytest.param(
            OWN_CLUSTER | {"aws.vpc": "vpc-0b0b0b0b0b0b0b0b0"}, "guest", 0, True, id="another VPC"
        ),
        pytest.param(OWN_VPC, "guest", 0, True, id="a VPC of others before"),
        pytest.param(OWN_VPC, "guest", 1, False, id="as deployed, in its own VPC"),
    ],
)
def test_stacks_are_not_moved(
    shared: FakeAws,
    api: Objects,
    changes: dict[str, Any],
    cluster: str | None,
    networks: int,
    is_moved: bool,
) -> None:
    shared.cloudformation._experiment = "guest"
    if cluster:
        add_cluster(shared, "guest", shared.cloudformation.add("cluster"))
        shared.facts.clusters["guest"] |= copy.deepcopy(DESCRIBED)
        shared.cloudformation.stacks["guest-cluster"].outputs[CLUSTER_OUTPUT] = cluster
    if networks:
        shared.cloudformation.add("network")
    moved = "refused cluster: the stacks stand in another"
    assert any(row.startswith(moved) for row in rows(guest(changes))) is is_moved


def test_commands_mean_the_cluster_and_destroy_touches_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws, deployment = FakeAws("guest"), at(CHANGES)
    labels = [label for label in STACKS if label != "network"]
    words: list[str] = []

    def cdk(arguments: Any, **_: Any) -> CompletedProcess[str]:
        words.extend(arguments)
        return CompletedProcess((), 0)

    aws.take_the_place(monkeypatch)
    monkeypatch.setattr(lifecycle, "ASSEMBLY", tmp_path)
    monkeypatch.setattr(lifecycle, "run", cdk)
    write_assembly(tmp_path, deployment.experiment, labels, [])
    for label in labels:
        aws.cloudformation.add(label)
    aws.cloudformation.deploy({"trainium": 1, "compile": 1})
    aws.clock.advance(5 * MINUTE)
    guard.start(deployment, Kind.TRAINIUM, 1)
    assert removal.destroy(deployment, yes=True, keep="none", name="guest") == 0

    requests = [*zip(aws.calls, aws.requests, strict=True)]
    of_eks = [request for call, request in requests if call.startswith("eks:")]
    assert {r.get("clusterName", r.get("name")) for r in of_eks} == {CLUSTER}
    changing = {call for call in aws.calls if not call.partition(":")[2].startswith(READS)}
    of_scaling = {
        "autoscaling:PutScheduledUpdateGroupAction",
        "autoscaling:UpdateAutoScalingGroup",
    }
    assert changing == {"eks:UpdateNodegroupConfig", *of_scaling}
    changed = {r["AutoScalingGroupName"] for c, r in requests if c in of_scaling}
    assert changed == {"eks-trainium-1", "eks-compile-1"}
    assert {word for word in words if word.startswith("guest-")} == {f"guest-{x}" for x in labels}
    assert not any(CLUSTER in word or VPC in word for word in words)
