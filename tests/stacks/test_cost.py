"""What `make cost` counts is what the stacks make."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from experiment.cost.prices import VOLUMES, CostGroup, most_nodes, parts
from tests.synthesis import Synthesised

GROUPS: Final = {
    "SystemNodes": (CostGroup.CLUSTER, "SystemNodeTemplate"),
    "CompileNodes": (CostGroup.COMPILE, "CompileNodes"),
    "Nodes": (CostGroup.TRAINIUM, "LaunchTemplate"),
}
"""How the logical ids begin of each node group, and of its launch template."""


def counted(synthesised: Synthesised) -> Counter[str]:
    """How many there are of what AWS bills by the hour, by the name that costs give it."""
    counts: Counter[str] = Counter()
    for part in parts(synthesised.experiment):
        counts[part.name] += part.count
    return counts


def of_type(synthesised: Synthesised, type_: str) -> list[dict[str, Any]]:
    return [resource["Properties"] for _, resource in synthesised.resources(type_)]


def test_what_stands_always_is_counted(each: Synthesised) -> None:
    counts = counted(each)
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
        # Of system nodes, so many stand; of the others at most so many.
        assert (
            nodes[cost_group] == sizes["MinSize" if cost_group is CostGroup.CLUSTER else "MaxSize"]
        )
        data = _launch(each, template)
        (instance,) = group["Properties"].get("InstanceTypes", [data.get("InstanceType")])
        assert instances[cost_group] == instance
        (disk,) = (mapping["Ebs"] for mapping in data["BlockDeviceMappings"])
        volume = VOLUMES[cost_group]
        assert disk["VolumeType"] == "gp3"
        assert (disk["VolumeSize"], disk.get("Iops", 3000), disk.get("Throughput", 125)) == (
            volume.gib,
            volume.iops,
            volume.mibps,
        )
        assert disk["DeleteOnTermination"] is True  # or it is paid for when its node has gone
        groups += 1
    assert groups == sum(count > 0 for count in nodes.values())


def _launch(synthesised: Synthesised, begin: str) -> dict[str, Any]:
    (launch_template,) = (
        template["Properties"]["LaunchTemplateData"]
        for logical_id, template in synthesised.resources("AWS::EC2::LaunchTemplate")
        if logical_id.startswith(begin)
    )
    return dict(launch_template)


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
