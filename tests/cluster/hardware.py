"""The nodes of the stacks: their labels, taints and number, from the synthesised node groups."""

from __future__ import annotations

from typing import Any

from charts.names import COMPILE_NODES, NODE_GROUP_LABEL, TRAINIUM_NODES
from experiment.hardware import COMPILE_INSTANCE
from rehearsal.cluster import hardware
from rehearsal.cluster.api import Manifest
from stacks.compile_nodes import VOLUME_GIB
from tests.synthesis import Synthesised


def trainium_node(synthesised: Synthesised, number: int = 0) -> Manifest:
    """A node of the Trainium group."""
    experiment = synthesised.experiment
    instance = experiment.capacity.instance
    return _node(
        f"trainium-{number}",
        instance.name,
        experiment.capacity.availability_zone,
        _node_group(synthesised, "trainium", TRAINIUM_NODES),
        hardware.allocatable(instance.vcpus, instance.memory_gib, disk_gib=6800, pods=247),
    )


def system_nodes(synthesised: Synthesised) -> list[Manifest]:
    """The CPU nodes, m7i.xlarge, that the cluster stack asks for."""
    group = _node_group(synthesised, "cluster")
    zones = synthesised.experiment.aws.availability_zones
    allocatable = hardware.allocatable(4, 16, disk_gib=100, pods=58)
    return [
        _node(f"system-{i}", "m7i.xlarge", zones[i % len(zones)], group, allocatable)
        for i in range(group["ScalingConfig"]["MinSize"])
    ]


def compile_nodes(synthesised: Synthesised) -> list[Manifest]:
    """As many as the group of CPU nodes for compiles may have."""
    group = _node_group(synthesised, "trainium", COMPILE_NODES)
    (zone, *_) = synthesised.experiment.aws.availability_zones
    instance = COMPILE_INSTANCE
    allocatable = hardware.allocatable(
        instance.vcpus, instance.memory_gib, disk_gib=VOLUME_GIB, pods=737
    )
    return [
        _node(f"compile-{i}", instance.name, zone, group, allocatable)
        for i in range(group["ScalingConfig"]["MaxSize"])
    ]


def _node_group(synthesised: Synthesised, stack: str, label: str | None = None) -> dict[str, Any]:
    (group,) = (
        resource["Properties"]
        for resource in synthesised.template(stack)["Resources"].values()
        if resource["Type"] == "AWS::EKS::Nodegroup"
        and resource["Properties"].get("Labels", {}).get(NODE_GROUP_LABEL) == label
    )
    properties: dict[str, Any] = group
    return properties


def _node(
    name: str, instance: str, zone: str, group: dict[str, Any], allocatable: dict[str, str]
) -> Manifest:
    taints = [
        {"key": taint["Key"], "value": taint["Value"], "effect": taint["Effect"]}
        for taint in group.get("Taints", [])
    ]
    labels = group.get("Labels", {})
    return hardware.node(name, instance, zone, allocatable, labels=labels, taints=taints)
