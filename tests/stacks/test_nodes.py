"""The cluster, its nodes, and that `make cost` counts what the stacks make."""

import re
from collections import Counter
from importlib.metadata import distributions
from typing import Any, Final

import pytest
from aws_cdk.assertions import Template
from syrupy.assertion import SnapshotAssertion

from charts.preparation import compile_pod
from experiment.cost.prices import VOLUMES, CostGroup, most_nodes, parts
from experiment.runtimes import RUNTIMES, Runtime
from experiment.schema import CompileNode, Purchase
from experiment.variants import variants
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from stacks.nodes import VOLUME_GIB
from stacks.trainium import TrainiumStack
from tests.experiment.files import ABSENT
from tests.matrix import FIRST_START, RESERVATION
from tests.snapshots import TemplateSnapshot
from tests.stacks.templates import node_group, outputs
from tests.stacks.test_neuron_node_group import imported
from tests.synthesis import Of, Synthesised, Vary

RELEASES: Final = {"1.35.6-20260625": "2.28", "1.35.6-20260714": "2.29", "1.35.8-20261023": "2.31"}
"""The Neuron driver of AMI releases: aws-neuronx-dkms in CHANGELOG.md of awslabs/amazon-eks-ami."""
DRIVERS: Final = {"vllm-0.9.1-nxdi": "2.28", "vllm-0.16-nxdi": "2.29", "vllm-neuron": "2.31"}
"""The driver that suits each runtime's library (docs/assumptions.md, A20)."""


def test_add_ons_and_libraries_follow_the_cluster_s_version(synthesised: Synthesised) -> None:
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", v) for v in VERSIONS.values())
    assert VERSIONS["kube-proxy"].startswith(f"v{KUBERNETES_VERSION}.")
    ((_, cluster),) = synthesised.resources("AWS::EKS::Cluster")
    assert cluster["Properties"]["Version"] == KUBERNETES_VERSION
    minor = KUBERNETES_VERSION.rpartition(".")[2]
    installed = {distribution.name for distribution in distributions()}
    assert {f"aws-cdk.lambda-layer-kubectl-v{minor}", f"cdk8s-plus-{minor}"} <= installed


def test_nodes_follow_the_cluster_s_version(each: Synthesised) -> None:
    for _, resource in each.resources("AWS::EKS::Nodegroup"):
        group = resource["Properties"]
        version = group.get("Version") or group["ReleaseVersion"].rpartition(".")[0]
        assert version == KUBERNETES_VERSION


@pytest.mark.parametrize("purchase", Purchase)
def test_capacity_is_bought_as_the_experiment_says(
    purchase: Purchase, variation: Vary, snapshot: SnapshotAssertion
) -> None:
    """A Capacity Block accepts no placement group, and a reservation only its own."""
    stack, cluster = imported()
    (zone,) = cluster.vpc.availability_zones
    is_reserved = purchase in (Purchase.RESERVATION, Purchase.CAPACITY_BLOCK)
    changes = {
        "aws.region": zone[:-1],
        "aws.availability_zones": [zone, f"{zone[:-1]}b"],
        "capacity.availability_zone": zone,
        "capacity.purchase": purchase,
        "capacity.reservation_id": RESERVATION if is_reserved else ABSENT,
    }
    template = Template.from_stack(TrainiumStack(stack, variation(changes), None, cluster))
    kinds = ("AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate")
    found = (template.find_resources(kind).items() for kind in kinds)
    group, launch = (
        next(each["Properties"] for name, each in of_kind if name.startswith("Trainium"))
        for of_kind in found
    )
    keys = ("CapacityReservationSpecification", "InstanceMarketOptions", "Placement")
    data = launch["LaunchTemplateData"]
    bought = {"CapacityType": group["CapacityType"]} | {key: data.get(key) for key in keys}
    assert bought == snapshot(extension_class=TemplateSnapshot)


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_the_ami_is_of_the_clusters_kubernetes_and_has_the_driver(runtime: Runtime) -> None:
    assert re.fullmatch(rf"{re.escape(KUBERNETES_VERSION)}\.\d+-\d{{8}}", runtime.ami_release)
    assert RELEASES[runtime.ami_release] == DRIVERS[runtime.name]


def test_a_new_group_has_no_nodes_and_no_deploy_changes_its_size(
    each: Synthesised, synthesised: Synthesised
) -> None:
    """Neither a file nor the CLI, which remembers parameters, changes what goes out with sizes."""
    assert each.template("trainium")["Parameters"].keys() == {"BootstrapVersion"}
    labels = ["trainium"]
    if each.experiment.compile_node is CompileNode.CPU:
        labels.append("compile")
    for label in labels:
        group, article = node_group(each, label), node_group(synthesised, label)
        assert group["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0, "MaxSize": 1}
        # The rest changes by a call without sizes, or makes a new group.
        version = {"LaunchTemplate", "ReleaseVersion", "Version", "Tags"}
        new = {"CapacityType", "Subnets"}
        kept = group.keys() - version - new - {"ClusterName"}
        # Which have the experiment's name: another one is another stack.
        kept -= {"Labels", "Taints"}
        assert {key: group[key] for key in kept} == {key: article[key] for key in kept}


def test_compile_nodes_exist_only_where_cpus_compile(of_matrix: Of) -> None:
    assert "CompileNodeGroup" not in outputs(of_matrix(FIRST_START), "trainium")


def test_their_disk_holds_what_a_compile_may_fill(synthesised: Synthesised) -> None:
    (mapping,) = _template(synthesised, "compile")["BlockDeviceMappings"]
    assert mapping["Ebs"]["VolumeSize"] == VOLUME_GIB
    (baseline, _) = variants(synthesised.experiment)
    limits = [
        str(volume.empty_dir.size_limit.value)
        for volume in compile_pod(baseline).volumes or ()
        if volume.empty_dir and volume.empty_dir.size_limit
    ]
    images = 40
    assert sum(int(limit.removesuffix("Gi")) for limit in limits) + images <= 0.9 * VOLUME_GIB
    # As amazon-eks-ami asks for images that are pulled in parts (nodeadm/doc/examples.md).
    assert mapping["Ebs"]["Throughput"] >= 600


def _template(synthesised: Synthesised, label: str) -> dict[str, Any]:
    reference = node_group(synthesised, label)["LaunchTemplate"]["Id"]["Ref"]
    resource = synthesised.template("trainium")["Resources"][reference]
    return dict(resource["Properties"]["LaunchTemplateData"])


GROUPS: Final = {
    "SystemNodes": (CostGroup.CLUSTER, "SystemNodeTemplate"),
    "CompileNodes": (CostGroup.COMPILE, "CompileNodes"),
    "Trainium": (CostGroup.TRAINIUM, "Trainium"),
}
"""How the logical ids begin of each node group, and of its launch template."""


def of_type(synthesised: Synthesised, type_: str) -> list[dict[str, Any]]:
    return [resource["Properties"] for _, resource in synthesised.resources(type_)]


def test_what_stands_always_is_counted(each: Synthesised) -> None:
    counts: Counter[str] = Counter()
    for part in parts(each.experiment):
        counts[part.name] += part.count
    gateways = len(of_type(each, "AWS::EC2::NatGateway"))
    assert (counts["NAT gateway"], counts["its address"]) == (gateways, gateways)
    interfaces = [
        len(endpoint["SubnetIds"])  # each is billed once in each zone
        for endpoint in of_type(each, "AWS::EC2::VPCEndpoint")
        if endpoint["VpcEndpointType"] == "Interface"
    ]
    assert counts["interface endpoints"] == sum(interfaces)
    assert counts["EKS control plane"] == len(of_type(each, "AWS::EKS::Cluster"))
    assert counts["keys"] == len(of_type(each, "AWS::KMS::Key"))


def test_each_node_group_is_counted_with_its_instances_and_volumes(each: Synthesised) -> None:
    nodes = most_nodes(each.experiment)
    instances = {part.group: part.kind for part in parts(each.experiment) if " nodes" in part.name}
    groups = 0
    for logical_id, group in each.resources("AWS::EKS::Nodegroup"):
        begin = next(begin for begin in GROUPS if logical_id.startswith(begin))
        cost_group, template = GROUPS[begin]
        sizes = group["Properties"]["ScalingConfig"]
        # Of system nodes, so many stand.
        assert nodes[cost_group] == sizes["MinSize"] or cost_group is not CostGroup.CLUSTER
        (data,) = (
            launch["Properties"]["LaunchTemplateData"]
            for name, launch in each.resources("AWS::EC2::LaunchTemplate")
            if name.startswith(template)
        )
        (instance,) = group["Properties"].get("InstanceTypes", [data.get("InstanceType")])
        assert instances[cost_group] == instance
        (disk,) = (mapping["Ebs"] for mapping in data["BlockDeviceMappings"])
        volume = VOLUMES[cost_group]
        assert disk["VolumeType"] == "gp3"
        speed = disk.get("Iops", 3000), disk.get("Throughput", 125)
        assert (disk["VolumeSize"], *speed) == (volume.gib, volume.iops, volume.mibps)
        assert disk["DeleteOnTermination"] is True  # or it is paid for when its node has gone
        groups += 1
    assert groups == sum(count > 0 for count in nodes.values())


def test_nothing_else_is_billed_by_the_hour(each: Synthesised) -> None:
    """Types of which each resource costs something an hour, whatever becomes of it."""
    dear = (
        *("AWS::EC2::Instance", "AWS::EC2::EIP", "AWS::EC2::NatGateway", "AWS::EC2::Volume"),
        *("AWS::ElasticLoadBalancing", "AWS::RDS", "AWS::Elasti", "AWS::OpenSearch", "AWS::FSx"),
        *("AWS::EFS", "AWS::EC2::TransitGateway", "AWS::EC2::VPNGateway", "AWS::AutoScaling"),
        *("AWS::Kinesis", "AWS::MSK", "AWS::APS", "AWS::EMR"),
    )
    billed = Counter(r["Type"] for _, r in each.resources() if r["Type"].startswith(dear))
    assert billed == {"AWS::EC2::NatGateway": 1, "AWS::EC2::EIP": 1}
