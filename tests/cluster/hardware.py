"""The nodes of the stacks: their labels, taints and number, from the synthesised node groups."""

from __future__ import annotations

from typing import Any

from rehearsal.cluster import hardware
from rehearsal.cluster.api import Manifest
from tests.synthesis import Synthesised


def trainium_node(synthesised: Synthesised, number: int = 0) -> Manifest:
    """A node of the Trainium group."""
    experiment = synthesised.experiment
    instance = experiment.capacity.instance
    return _node(
        f"trainium-{number}",
        instance.name,
        experiment.capacity.availability_zone,
        _node_group(synthesised, "trainium"),
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


def _node_group(synthesised: Synthesised, stack: str) -> dict[str, Any]:
    resources = synthesised.template(stack)["Resources"].values()
    (group,) = (r for r in resources if r["Type"] == "AWS::EKS::Nodegroup")
    properties: dict[str, Any] = group["Properties"]
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
