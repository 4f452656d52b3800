"""An existing cluster and an existing VPC: what preflight finds, and that a destroy leaves both."""

import copy
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

from operations import guard, lifecycle, preflight, removal
from operations.account import Deployment, DeploymentError
from operations.nodes import Kind
from operations.preflight import Finding, Status, existing_cluster, software
from stacks.cluster import CLUSTER_OUTPUT, KUBERNETES_VERSION
from stacks.trainium import DRIVER_OUTPUT
from tests.experiment.files import ABSENT, REGION
from tests.matrix import IN_A_CLUSTER, MATRIX
from tests.operations.api import Objects
from tests.operations.conftest import at
from tests.operations.fake_aws import ACCOUNT, MINUTE, FakeAws
from tests.operations.operators import STACKS, add_cluster, write_assembly
from tests.operations.test_preflight import READS, told
from tests.snapshots import TextSnapshot

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
    "computeConfig": {"enabled": False},
    "kubernetesNetworkConfig": {"ipFamily": "ipv4"},
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
        for id, zone in zip(SUBNETS, (f"{REGION}a", f"{REGION}c"), strict=True)
    ]
    aws.facts.route_tables = [{"Associations": MAIN, "Routes": [NAT, S3]}]
    add_cluster(aws, CLUSTER, aws.cloudformation.add("elsewhere"))
    aws.facts.clusters[CLUSTER] |= copy.deepcopy(DESCRIBED)
    names = (*existing_cluster.NEEDED, *existing_cluster.WANTED, *existing_cluster.NETWORKING)
    aws.facts.installed = {name: {} for name in names}
    policies = '{"enableNetworkPolicy": "true"}'
    aws.facts.installed["vpc-cni"] = {"configurationValues": policies}
    aws.facts.identities["a-1"] = "kube-system", "aws-node"
    return aws


DRIVER_IMAGE: Final = "public.ecr.aws/neuron/neuron-dra-driver:1.2.0"


def daemon_set(name: str, image: str = DRIVER_IMAGE, **pod: Any) -> dict[str, Any]:
    """One that tolerates the taint of Trainium nodes, and goes to none but Trainium nodes."""
    types = ["trn1.32xlarge", "trn2.48xlarge"]
    expressions = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
        {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["auto"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    usual = {
        "containers": [{"name": "a", "image": image}],
        "tolerations": [{"key": "aws.amazon.com/neuron", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {}, "template": {"spec": usual | pod}},
    }


DRIVER: Final = daemon_set("neuron-dra-driver-kubelet-plugin")


@pytest.fixture
def driven(api: Objects) -> Objects:
    """The API of a cluster with Neuron's DRA driver, as its chart makes it."""
    api.lists["daemonsets"] = [DRIVER]
    api.lists["deviceclasses"] = [{"metadata": {"name": "neuron.aws.com"}, "spec": {}}]
    return api


def guest(changes: dict[str, Any] | None = None) -> Deployment:
    return at(CHANGES | NAMED | (changes or {}))


OF_THE_CLUSTER: Final = (
    *("VPC", "cluster", "cluster's add-ons", "cluster's network"),
    *("autoscalers", "Neuron devices", "pods of others"),
)


def findings(deployment: Deployment) -> list[Finding]:
    table = {name: preflight.CHECKS[name] for name in OF_THE_CLUSTER}
    return [*preflight.checks(deployment, table)]


def rows(deployment: Deployment) -> list[str]:
    listed = findings(deployment)
    return [f"{row.status} {row.subject}: {row.text} -> {row.remedy}" for row in listed]


def test_a_sound_cluster_is_taken(shared: FakeAws, driven: Objects) -> None:
    listed = rows(guest())
    assert len(listed) == 8
    assert all(row.startswith(f"{Status.OK} ") for row in listed), listed
    # And what is asked of a new one is not asked.
    table = {**preflight.CHECKS}
    del table["Kubernetes API"]
    subjects = {row.subject for row in preflight.checks(guest(), table)}
    assert not subjects & {"Kubernetes", "add-ons", "m7i.xlarge"}


def test_before_a_deploy_gives_access_what_is_inside_is_not_known(shared: FakeAws) -> None:
    unknown = [row for row in rows(at(CHANGES)) if ", before a deploy gives access -> " in row]
    assert [row.partition(": not known")[0] for row in unknown] == [
        f"warning {subject}" for subject in OF_THE_CLUSTER[-3:]
    ]
    (api,) = software.kubernetes_api(at(CHANGES))
    assert "publicAccessCidrs of the cluster: empty" in api.text


def network(**changes: Any) -> dict[str, Any]:
    return {"resourcesVpcConfig": DESCRIBED["resourcesVpcConfig"] | changes}


Plant = Callable[[Any], object]


def without(addon: str) -> Plant:
    return lambda facts: facts.installed.pop(addon)


FAULTS: Final[dict[str, Plant]] = {
    "no such subnet": lambda f: f.subnets.pop(),
    "subnet in another zone": lambda f: f.subnets[0].update(AvailabilityZone=f"{REGION}b"),
    "no way out": lambda f: f.route_tables[0].update(Routes=[S3]),
    "public subnet": lambda f: f.route_tables.append({"Associations": [OWN], "Routes": [PUBLIC]}),
    "no gateway endpoint": lambda f: f.route_tables[0].update(Routes=[NAT]),
    "no route table": lambda f: f.route_tables.clear(),
    "no host names": lambda f: f.vpc_lacks.add("enableDnsHostnames"),
    "no such cluster": lambda f: f.clusters.clear(),
    "another version": lambda f: f.clusters[CLUSTER].update(version="1.33"),
    "another VPC": lambda f: f.clusters[CLUSTER].update(network(vpcId="vpc-1")),
    "another group": lambda f: f.clusters[CLUSTER].update(network(clusterSecurityGroupId="sg-1")),
    "no access entries": lambda f: f.clusters[CLUSTER].update(
        accessConfig={"authenticationMode": "CONFIG_MAP"}
    ),
    "Auto Mode": lambda f: f.clusters[CLUSTER].update(computeConfig={"enabled": True}),
    "IPv6": lambda f: f.clusters[CLUSTER].update(kubernetesNetworkConfig={"ipFamily": "ipv6"}),
    "no network policies": lambda f: f.installed["vpc-cni"].clear(),
    "no role of the CNI": lambda f: f.identities.clear(),
    "old driver": lambda f: f.installed["aws-mountpoint-s3-csi-driver"].update(
        addonVersion="v1.15.0"
    ),
    **{
        f"no {addon}": without(addon)
        for addon in (
            *existing_cluster.NEEDED,
            *existing_cluster.WANTED,
            *existing_cluster.NETWORKING,
        )
    },
}


def test_faults_are_found_before_a_deploy(
    shared: FakeAws, api: Objects, snapshot: SnapshotAssertion
) -> None:
    """What they add to a sound cluster's rows."""
    sound, before, lines = shared.facts, {*findings(guest())}, list[str]()
    for name, plant in FAULTS.items():
        shared.facts = copy.deepcopy(sound)
        plant(shared.facts)
        added = [row for row in findings(guest()) if row not in before]
        assert added
        lines += [name, *(line for row in added for line in told(row))]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def of(subject: str, deployment: Deployment) -> list[str]:
    """Lines of the rows on one subject."""
    listed = (row for row in findings(deployment) if row.subject == subject)
    return [line for row in listed for line in told(row)]


def workload(name: str, *command: str, image: str = "any", **spec: Any) -> dict[str, Any]:
    """A DaemonSet or Deployment as a list of them has it."""
    pod = {"containers": [{"name": "a", "image": image, "args": [*command]}], **spec}
    metadata = {"name": name, "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"selector": {}, "template": {"spec": pod}}}


def of_network(deployment: Deployment) -> list[str]:
    return [row for row in rows(deployment) if " cluster's network: " in row]


def test_a_network_without_add_ons_is_the_clusters_own_or_none(
    shared: FakeAws, api: Objects
) -> None:
    """As clusters of the CLI have it: AWS's programs in kube-system, and no add-on."""
    for addon in existing_cluster.NETWORKING:
        del shared.facts.installed[addon]
    shared.facts.identities.clear()
    assert [row.partition(",")[0] for row in of_network(guest())] == [
        f"refused cluster's network: no add-on {addon}" for addon in existing_cluster.NETWORKING
    ]
    # Before a deploy gives access nobody knows, and nodes would stand for nothing.
    unknown = of_network(at(CHANGES))
    assert len(unknown) == 3
    assert all("set aws.administrator_role" in row for row in unknown)

    api.lists["daemonsets"] = [workload("aws-node"), workload("kube-proxy")]
    api.lists["deployments"] = [workload("coredns")]
    bare, is_open = of_network(guest())
    assert bare.startswith("refused cluster's network: vpc-cni has the rights of its nodes")
    assert "create-pod-identity-association" in bare
    assert is_open.startswith("warning cluster's network: network policies do not hold")

    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/cni"}
    api.lists["serviceaccounts"] = [{"metadata": {"name": "aws-node", "annotations": role}}]
    api.lists["daemonsets"][0] = workload("aws-node", "--enable-network-policy=true")
    (sound,) = of_network(guest())
    assert sound.startswith("ok ")
    del api.lists["serviceaccounts"]
    shared.facts.identities["a-1"] = "kube-system", "aws-node"
    assert of_network(guest()) == [sound]


DISCOVERY: Final = "--node-group-auto-discovery=asg:tag="
ENABLED: Final = "k8s.io/cluster-autoscaler/enabled"
SCALER: Final = "cluster-autoscaler:v1.35.0"
OF_EKS: Final = f"{DISCOVERY.replace('=', ' ', 1)}eks:nodegroup-name"
OWNED: Final = f"{ENABLED}=true,k8s.io/cluster-autoscaler/{CLUSTER}=owned"
SCALERS: Final = (
    *((SCALER, f"{DISCOVERY}{tags}") for tags in (ENABLED, OWNED, f"{ENABLED},team")),
    ("mirror/scaler:1", f"./cluster-autoscaler {OF_EKS}"),
    (SCALER, "--nodes=1:10:team"),
    ("karpenter/controller:1.8.0", ""),
    ("web:1", ""),
)


def test_who_else_starts_nodes(shared: FakeAws, api: Objects, snapshot: SnapshotAssertion) -> None:
    lines = list[str]()
    for image, option in SCALERS:
        api.lists["deployments"] = [workload("scaler", *option.split(), image=image)]
        lines += [f"{image} {option}".strip(), *of("autoscalers", guest())]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def test_others_in_the_cluster_are_named(shared: FakeAws, api: Objects) -> None:
    hook: dict[str, Any] = {"admissionReviewVersions": ["v1"], "clientConfig": {}, "name": "a.b.c"}
    hook["sideEffects"] = "None"
    pods, every = ({"resources": [kind]} for kind in ("pods", "services"))
    api.lists["validatingwebhookconfigurations"] = [
        {"metadata": {"name": name}, "webhooks": [hook | {"rules": [rule]}]}
        for name, rule in (("kyverno", pods), ("vpc-resource-hook", pods), ("istio", every))
    ]
    found = [row for row in rows(guest()) if "pods of others" in row]
    assert [row.partition(" may ")[0] for row in found] == ["warning pods of others: kyverno"]


def of_devices(deployment: Deployment) -> list[str]:
    return [row for row in rows(deployment) if " Neuron devices: " in row]


def test_a_device_plugin_keeps_off_the_nodes(shared: FakeAws, driven: Objects) -> None:
    driven.lists["daemonsets"] += [
        daemon_set("neuron-device-plugin-elsewhere", tolerations=[{"key": "other"}])
    ]
    assert [row.partition(" ")[0] for row in of_devices(guest())] == ["ok"]
    driven.lists["daemonsets"] += [daemon_set("neuron-device-plugin")]
    (row,) = of_devices(guest())
    assert row.startswith("refused Neuron devices: neuron-device-plugin hands out")


def driver(image: str = DRIVER_IMAGE, **pod: Any) -> dict[str, Any]:
    return daemon_set(DRIVER["metadata"]["name"], image, **pod)


TOLERATES: Final = {"key": "aws.amazon.com/neuron", "value": "present"}
DRIVERS: Final = {
    "none": [],
    "for other taints": [driver(tolerations=[{"key": "a", "operator": "Exists"}])],
    "for another's nodes": [driver(tolerations=[TOLERATES])],
    "in a pool": [driver(nodeSelector={"pool": "theirs"})],
    "of another version": [driver("mirror:5000/neuron-dra-driver:1.0.1")],
    "sound": [DRIVER],
}


def test_a_driver_that_is_there_serves_our_nodes(
    shared: FakeAws, driven: Objects, snapshot: SnapshotAssertion
) -> None:
    lines = list[str]()
    for name, driven.lists["daemonsets"] in DRIVERS.items():
        lines += [name, *of("Neuron devices", guest())]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def test_the_file_says_whose_the_driver_is(shared: FakeAws, driven: Objects) -> None:
    made = {"aws.dra_driver": ABSENT}
    classes, driven.lists["deviceclasses"] = driven.lists["deviceclasses"], []
    assert any("device class neuron.aws.com is there" in row for row in rows(guest()))
    driven.lists["deviceclasses"] = classes
    assert any("set aws.dra_driver: there" in row for row in rows(guest(made)))
    shared.cloudformation._experiment = "guest"
    shared.cloudformation.add("trainium")
    shared.cloudformation.stacks["guest-trainium"].outputs[DRIVER_OUTPUT] = "1.10.0"
    assert not any("dra_driver" in row for row in rows(guest(made)))
    assert any("a deploy would remove it" in row for row in rows(guest()))


OWN_CLUSTER: Final = dict.fromkeys(
    ("aws.cluster", "aws.cluster_security_group", "aws.administrator_role", "aws.dra_driver"),
    ABSENT,
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
    monkeypatch.setattr(lifecycle, "assembly", lambda _: tmp_path)
    monkeypatch.setattr(lifecycle, "run", cdk)
    write_assembly(tmp_path, deployment.experiment, labels, [])
    for label in labels:
        aws.cloudformation.add(label)
    aws.cloudformation.deploy({"trainium": 1, "compile": 1})
    aws.clock.advance(5 * MINUTE)
    guard.start(deployment, Kind.TRAINIUM, 1)
    # While another experiment uses the driver that this one has made, nothing goes.
    aws.facts.clusters[CLUSTER] = {}
    spaces = "kube-system", "speculative-decoding-guest", "speculative-decoding"
    aws.facts.identities = {space: (space, "any") for space in spaces}
    outputs = aws.cloudformation.stacks["guest-trainium"].outputs
    outputs[DRIVER_OUTPUT] = "1.10.0"
    with pytest.raises(DeploymentError, match=r"namespaces speculative-decoding use .* destroy"):
        removal.destroy(deployment, yes=True, keep="none", name="guest")
    assert words[0] == "synth"
    assert "destroy" not in words
    del outputs[DRIVER_OUTPUT]
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
